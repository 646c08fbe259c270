// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

// shared is an API server with every fixture, upgraded. The tests only read.
var shared *world

// world has every fixture, as it was made under the older definitions.
type world struct {
	*legacy.World
	objects map[string]*legacy.Objects
	// untouched is what captctl read before the upgrade.
	untouched *migrate.Snapshot
}

func TestMain(m *testing.M) { os.Exit(fixture.Suite{Start: start}.Run(m)) }

func start(ctx context.Context, _ string, keep func(*sandbox.Sandbox)) error {
	w, err := legacy.Start(ctx, sandbox.Options{Log: os.Stderr})
	if err != nil {
		return err
	}
	keep(w.Sandbox)
	shared = &world{World: w, objects: map[string]*legacy.Objects{}}
	return shared.build(ctx)
}

// build makes every fixture under the older definitions, and upgrades.
func (w *world) build(ctx context.Context) error {
	group, groupContext := errgroup.WithContext(ctx)
	results := make(chan *legacy.Objects, len(legacy.Named()))
	for name, fixture := range legacy.Named() {
		group.Go(func() error {
			objects, err := w.Create(groupContext, fixture, legacy.NamesOf(name))
			if err != nil {
				return fmt.Errorf("fixture %s: %w", name, err)
			}
			results <- objects
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	close(results)
	for objects := range results {
		w.objects[objects.Namespace] = objects
	}
	captctl, err := w.Client(sandbox.Captctl)
	if err != nil {
		return err
	}
	if w.untouched, err = migrate.Read(ctx, captctl, "", time.Now()); err != nil {
		return fmt.Errorf("reading the untouched fleet: %w", err)
	}
	if err := w.Upgrade(ctx, legacy.WebhooksOnly); err == nil {
		return fmt.Errorf("objects of %s went with their definition", legacy.OlderTemplate)
	}
	if _, err := w.TakeTemplates(ctx); err != nil {
		return err
	}
	return w.Upgrade(ctx, legacy.WebhooksOnly)
}
