// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/cmd/captctl/cluster"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

const (
	// refresh is how often --watch draws at least: estimates move without a change.
	refresh = 5 * time.Second
	// readInterval is how long --watch waits between two reads: while a fleet changes, each read would find the next change.
	readInterval = time.Second
)

// watched are the kinds that all commands of the package read, and more.
func watched(namespace string, more ...schema.GroupVersionKind) cluster.Watched {
	return cluster.Watched{Namespace: namespace, Kinds: append([]schema.GroupVersionKind{
		clusterv1.GroupVersion.WithKind("Cluster"), infrav1.GroupVersion.WithKind("CAPTCluster"), infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"),
		controlplanev1.GroupVersion.WithKind("CAPTControlPlane"),
	}, more...)}
}

// spaced sends signals on, each at least readInterval after the one before.
func spaced(ctx context.Context, c clock.Clock, changed <-chan struct{}) <-chan struct{} {
	due := make(chan struct{})
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.After(readInterval):
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			select {
			case <-ctx.Done():
				return
			case due <- struct{}{}:
			}
		}
	}()
	return due
}

// show reads and prints. With --watch it reads when an object has changed, and prints when that, or the time, changes what is printed.
func show[T any](ctx context.Context, c *common, reader client.WithWatch, watched cluster.Watched, read func(context.Context) (T, error), draw func(*output.Printer, T) error) error {
	found, err := read(ctx)
	if err != nil || !c.watch {
		if err == nil {
			err = draw(c.Printer(c.output.Format()), found)
		}
		return err
	}
	ticker := c.Clock.NewTicker(refresh)
	defer ticker.Stop()
	changed := spaced(ctx, c.Clock, cluster.Changes(ctx, reader, refresh, watched))
	for last := ""; ; {
		var text bytes.Buffer
		if err := draw(c.Printer(c.output.Format()).To(&text), found); err != nil {
			return err
		}
		if text.String() != last {
			last = text.String()
			if err := c.Redraw(c.output.Format(), func(to *output.Printer) error { return draw(to, found) }); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil // That is how watching ends.
		case <-ticker.C():
		case <-changed:
			next, err := read(ctx)
			if err != nil { // The API server may restart. What was read last is still shown.
				fmt.Fprintf(c.ErrOut, "Warning: %v\n", err)
				continue
			}
			found = next
		}
	}
}
