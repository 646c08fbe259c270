/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package storage

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/storage/ownership"
)

// Counts are what became of objects.
type Counts struct {
	// Written are of today now; Unchanged were before; Gone do not exist any more.
	Written   int `json:"written"`
	Unchanged int `json:"unchanged"`
	Gone      int `json:"gone"`
}

// Run rewrites objects, a number of them at a time. progress is told of every object that is done, once. The first error ends
// it; what was begun is finished. The order in which objects are begun is that of items.
func (r *Rewriter) Run(ctx context.Context, items []migrate.StorageItem, workers int, progress migrate.Progress) (Counts, error) {
	return run(ctx, items, workers, progress, func(ctx context.Context, item migrate.StorageItem) (result, error) {
		return r.rewrite(ctx, item.ObjectRef, ownership.Next)
	})
}

func run(ctx context.Context, items []migrate.StorageItem, workers int, progress migrate.Progress,
	work func(context.Context, migrate.StorageItem) (result, error),
) (Counts, error) {
	var tally [gone + 1]atomic.Int64
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(max(workers, 1))
	for _, item := range items {
		if working.Err() != nil {
			break
		}
		group.Go(func() error {
			outcome, err := work(working, item)
			if err != nil {
				return err
			}
			tally[outcome].Add(1)
			progress.Add(1)
			return nil
		})
	}
	err := group.Wait()
	if err == nil {
		err = context.Cause(ctx) // Then not everything was begun.
	}
	return Counts{
		Written: int(tally[written].Load()), Unchanged: int(tally[unchanged].Load()), Gone: int(tally[gone].Load()),
	}, err
}
