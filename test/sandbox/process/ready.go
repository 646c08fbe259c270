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

// pollInterval is the interval of health checks. Components start one after the other, so a longer interval would be
// noticeable; a shorter one would fill their logs with failed checks.
const pollInterval = 100 * time.Millisecond

// WaitReady returns when a GET of the URL returns 200. If the process ends meanwhile, it returns that error with the last log
// lines, without waiting for the timeout.
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
			return fmt.Errorf("%s did not become ready: %w (%w); last lines of its log:\n%s", p.Name(), last, context.Cause(ctx),
				indent(Tail(p.spec.Log, 20)))
		case <-ticker.C:
		}
	}
}

// Probe checks the health once.
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
		return fmt.Errorf("%s returned %s", url, response.Status)
	}
	return nil
}
