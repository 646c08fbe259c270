// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/cmd/captctl/cluster"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

const (
	// refresh is how often --watch draws at least: estimates move without a change.
	refresh = 5 * time.Second
	// readInterval is how long --watch waits between two reads: while a fleet changes, each read would find the next change.
	readInterval = time.Second
)

// View are the options of commands that print what they read, once or whenever it changes.
type View struct {
	*Environment
	Output *output.Flag
	watch  bool
}

// NewView returns the options for the usual formats and more.
func NewView(environment *Environment, more ...output.Format) View {
	return View{Environment: environment, Output: output.NewFlag(more...)}
}

// AddFlags adds --watch and --output.
func (v *View) AddFlags(command *cobra.Command) {
	command.Flags().BoolVarP(&v.watch, "watch", "w", false, "Print the output again whenever it changes.")
	v.Output.Add(command)
}

// Validate checks the flags.
func (v *View) Validate() error { return v.Output.Validate() }

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

// Show reads and prints. With --watch it reads when an object has changed, and prints when that, or the time, changes what is printed.
func Show[T any](ctx context.Context, v *View, reader client.WithWatch, watched cluster.Watched, read func(context.Context) (T, error), draw func(*output.Printer, T) error) error {
	found, err := read(ctx)
	if err != nil || !v.watch {
		if err == nil {
			err = draw(v.Printer(v.Output.Format()), found)
		}
		return err
	}
	ticker := v.Clock.NewTicker(refresh)
	defer ticker.Stop()
	changed := spaced(ctx, v.Clock, cluster.Changes(ctx, reader, refresh, watched))
	for last := ""; ; {
		var text bytes.Buffer
		if err := draw(v.Printer(v.Output.Format()).To(&text), found); err != nil {
			return err
		}
		if text.String() != last {
			last = text.String()
			if err := v.Redraw(v.Output.Format(), func(to *output.Printer) error { return draw(to, found) }); err != nil {
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
				fmt.Fprintf(v.ErrOut, "Warning: %v\n", err)
				continue
			}
			found = next
		}
	}
}

// Follow calls a function when an object may have changed, until it returns that it is done, or the context is canceled. Its errors are warnings:
// the API server may restart.
func Follow(ctx context.Context, e *Environment, reader client.WithWatch, watched cluster.Watched, changed func(context.Context) (done bool, err error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	due := spaced(ctx, e.Clock, cluster.Changes(ctx, reader, refresh, watched))
	for {
		select {
		case <-ctx.Done():
			return nil // That is how following ends.
		case <-due:
			switch done, err := changed(ctx); {
			case done:
				return nil
			case err != nil && ctx.Err() == nil:
				fmt.Fprintf(e.ErrOut, "Warning: %v\n", err)
			}
		}
	}
}
