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

package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/journal"
	"github.com/capt-provider/capt/migrate/lock"
)

// Rollback takes a plan back that was begun in this cluster: all of it, or the units that an object, KIND/NAMESPACE/NAME, belongs
// to. What is as it was before needs no write. What changed since is left as it is, and the outcome is Partly.
func Rollback(ctx context.Context, planID, object string, o Options) (*Result, error) {
	plan, err := journal.Store{Reader: o.reader(), Namespace: o.Namespace}.Plan(ctx, planID)
	if err != nil {
		return nil, err
	}
	r, err := newRun(plan, journal.Rollback, o)
	if err != nil {
		return nil, err
	}
	r.record.state.Object = object
	// One object that can not be taken back is no reason to leave the others.
	r.MaxFailures = len(plan.Storage) + len(forthOf(plan).all())
	chosen, err := choose(plan, object)
	if err != nil {
		return nil, err
	}
	r.left = chosen.left
	return (&rollback{run: r, selection: *chosen}).rollBack(ctx)
}

// rollback takes a plan back.
type rollback struct {
	*run
	selection
	// seen is what the live objects said before anything was taken back.
	seen *proof
}

func (b *rollback) rollBack(ctx context.Context) (*Result, error) {
	b.record.state.Steps.Total, b.record.state.Storage.Total = len(b.all()), len(b.items)
	for _, refuse := range []func(context.Context) error{b.sameCluster, b.finalized} {
		if err := refuse(ctx); err != nil {
			return nil, err
		}
	}
	previous, err := b.recorded(ctx)
	if err != nil {
		return nil, err
	}
	proof, err := prove(ctx, &b.Options, b.all())
	if err != nil {
		return nil, err
	}
	b.seen = proof
	if b.over(previous, proof) {
		state := &b.record.state
		state.Outcome, state.Steps.Already, state.Storage.Already = journal.Done, state.Steps.Total, state.Storage.Total
		return b.result(), nil
	}
	if err := b.olderManager(ctx, proof.due); err != nil {
		return nil, err
	}
	if b.DryRun {
		b.writes = lock.Fence(client.NewDryRunClient(b.Client), func() error { return nil })
		return b.end(ctx, b.phases(ctx))
	}
	var result *Result
	err = b.locked(ctx, func(ctx context.Context) error {
		result, err = b.takeBack(ctx)
		return err
	})
	return result, err
}

// over tells whether it was taken back, all that is asked for now.
func (b *rollback) over(previous *journal.State, p *proof) bool {
	same := previous.Object == "" || previous.Object == b.record.state.Object
	return same && previous.Command == journal.Rollback && previous.Outcome == journal.Done && len(p.due)+len(p.stale) == 0
}

func (b *rollback) takeBack(ctx context.Context) (*Result, error) {
	previous, err := b.recorded(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.begin(ctx, previous, journal.RollingBack); err != nil {
		return nil, err
	}
	return b.end(ctx, b.phases(ctx))
}

// phases: owners first, so that nothing refers to what no longer has a name; then grants; then owner references of an older
// version, of the objects that were taken back.
func (b *rollback) phases(ctx context.Context) error {
	if err := b.record.phase(ctx, journal.RollingBack, b.record.state.Steps.Total); err != nil {
		return err
	}
	kept := b.takeBackUnits(ctx)
	for _, grant := range b.grants {
		if ctx.Err() == nil && len(kept) == 0 { // What stays adopted needs its template.
			b.make(ctx, grant)
		}
	}
	items := slices.DeleteFunc(slices.Clone(b.items), func(item migrate.StorageItem) bool {
		return slices.ContainsFunc(kept, func(u unit) bool { return u.has(item.ObjectRef) })
	})
	if len(items) == 0 || ctx.Err() != nil {
		return ended(ctx)
	}
	return b.storage(ctx, journal.Restoring, items, func(ctx context.Context, rewriter Rewriter, item migrate.StorageItem) (bool, error) {
		return rewriter.Restore(ctx, item)
	})
}

// takeBackUnits tells which units were not taken back, or not all of them. What changed since comes first: nothing else of its unit
// is written then. An owner without its reference, of what stays adopted, would be worse than before.
func (b *rollback) takeBackUnits(ctx context.Context) (kept []unit) {
	var mutex sync.Mutex
	b.inParallel(ctx, len(b.units), func(i int) {
		changes := slices.Clone(b.units[i].changes)
		slices.SortStableFunc(changes, b.staleFirst)
		for _, c := range changes {
			if _, ok := b.make(ctx, c); !ok {
				mutex.Lock()
				defer mutex.Unlock()
				kept = append(kept, b.units[i])
				return
			}
		}
	})
	return kept
}

func (b *rollback) staleFirst(one, other *change) int {
	switch first, second := b.seen.verdicts[one] == stale, b.seen.verdicts[other] == stale; {
	case first == second:
		return 0
	case first:
		return -1
	}
	return 1
}

// finalized refuses once versions were taken out of what the definitions say is stored: there is no way back to the older CAPT.
func (b *rollback) finalized(ctx context.Context) error {
	for _, kind := range migrate.Kinds() {
		// Templates of control planes had another kind; their definition never knew the older version as stored.
		stored := func(item migrate.StorageItem) bool { return item.Kind == kind.Kind && item.Group == kind.Group }
		if kind.Kind == "CAPTControlPlaneTemplate" || !slices.ContainsFunc(b.plan.Storage, stored) {
			continue
		}
		definition := &unstructured.Unstructured{}
		definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		if err := b.Reader.Get(ctx, client.ObjectKey{Name: kind.Definition()}, definition); err != nil {
			return fmt.Errorf("reading CustomResourceDefinition %s: %w", kind.Definition(), err)
		}
		versions, _, err := unstructured.NestedStringSlice(definition.Object, "status", "storedVersions")
		if err != nil {
			return fmt.Errorf("reading CustomResourceDefinition %s: %w", kind.Definition(), err)
		}
		if !slices.Contains(versions, migrate.LegacyVersion) {
			return fmt.Errorf("the migration was finalized: %s is stored in %s only, and there is no way back; nothing was written",
				kind.Definition(), strings.Join(versions, ", "))
		}
	}
	return nil
}

// olderManager refuses to clear a reference while an older manager runs: it would build a second cluster.
func (b *rollback) olderManager(ctx context.Context, due []*change) error {
	clearing := slices.IndexFunc(due, (*change).clears)
	if clearing < 0 {
		return nil
	}
	if b.OlderManagerRuns == nil {
		return errors.New("nothing tells whether an older manager runs")
	}
	name, err := b.OlderManagerRuns(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("looking for an older manager: %w", err)
	case name != "":
		return migrate.NotPermitted.Errorf("%s runs, and would build a second cluster for %s once its reference is cleared: scale it to 0 first; nothing was written",
			name, due[clearing].object)
	}
	return nil
}
