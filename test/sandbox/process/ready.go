// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// pollInterval is how often readiness is asked for. Starting a sandbox asks several components one after the other, so
// a long interval would be felt; a shorter one would fill their logs with failed health checks.
const pollInterval = 100 * time.Millisecond

// WaitReady returns when a GET of the URL answers 200. A process that ends while it is waited for is reported at once,
// with its log, and not as a timeout.
func WaitReady(ctx context.Context, client *http.Client, url string, p *Process) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		last := Probe(ctx, client, url)
		if last == nil {
			return nil
		}
		select {
		case <-p.Done():
			return p.Err()
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return fmt.Errorf("waiting for %s: %w", p.Name(), context.Cause(ctx))
			}
			return fmt.Errorf("%s did not become ready: %w (%w); the end of its log:\n%s", p.Name(), last, context.Cause(ctx),
				indent(Tail(p.spec.Log, 20)))
		case <-ticker.C:
		}
	}
}

// Probe asks once.
func Probe(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, response.Status)
	}
	return nil
}
