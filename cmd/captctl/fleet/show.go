// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/cmd/captctl/cluster"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

// refresh is how often --watch draws at least: estimates move without a change.
const refresh = 5 * time.Second

// show reads and prints. With --watch it reads when an object has changed, and prints when that, or the time, changes what is printed.
func show[T any](ctx context.Context, c *common, reader client.WithWatch, read func(context.Context) (T, error), draw func(*output.Printer, T) error) error {
	found, err := read(ctx)
	if err != nil || !c.watch {
		if err == nil {
			err = draw(c.Printer(c.output.Format()), found)
		}
		return err
	}
	ticker := c.Clock.NewTicker(refresh)
	defer ticker.Stop()
	changed := cluster.Changes(ctx, reader, refresh)
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
