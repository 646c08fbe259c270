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
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/journal"
)

// saveEvery is how old the journal in the cluster may be while steps are made.
const saveEvery = 10 * time.Second

// record counts what becomes of each change, and writes the journals. In a dry run it only counts.
type record struct {
	clock    clock.Clock
	progress migrate.Progress
	// store is nil when nothing may be written.
	store *journal.Store
	file  *journal.File

	mutex    sync.Mutex
	state    journal.State
	failures []Failure
}

func (r *record) entry(event journal.Event, ref migrate.ObjectRef, subresource string) journal.Entry {
	return journal.Entry{Time: r.clock.Now().UTC(), Event: event, Phase: r.state.Phase, Object: &ref, Subresource: subresource}
}

// intend writes down what is about to be written. Nothing is written that could not be written down.
func (r *record) intend(c *change, resourceVersion string) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	entry := r.entry(journal.StepIntended, c.object, c.subresource)
	entry.ResourceVersion, entry.Message = resourceVersion, c.why
	return r.file.Append(entry)
}

// settle counts what became of an object, and saves the state if it is old.
func (r *record) settle(ctx context.Context, counts *journal.Counts, ref migrate.ObjectRef, subresource, why string, wrote bool, err error) {
	r.progress.Add(1)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	entry := r.entry(journal.StepWritten, ref, subresource)
	switch {
	case err != nil:
		counts.Failed++
		r.failures = append(r.failures, Failure{Object: ref, Why: why, Error: err.Error()})
		entry.Event, entry.Message = journal.StepFailed, err.Error()
	case wrote:
		counts.Written++
	default:
		counts.Already++
		return
	}
	// What happened can be read from the object; a journal that lacks it is no harm.
	_ = r.file.Append(entry)
	if r.store != nil && r.clock.Since(r.state.Updated.Time) >= saveEvery {
		_ = r.save(ctx)
	}
}

// phase begins one of a number of objects.
func (r *record) phase(ctx context.Context, phase journal.Phase, total int) error {
	r.progress.Phase(string(phase), total)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.state.Phase = phase
	return r.save(ctx)
}

// save needs the mutex.
func (r *record) save(ctx context.Context) error {
	if r.store == nil {
		return nil
	}
	r.state.Updated = metav1.NewTime(r.clock.Now())
	return r.store.Save(ctx, &r.state)
}

func (r *record) failed() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.state.Steps.Failed + r.state.Storage.Failed
}

// end says how it ended.
func (r *record) end(ctx context.Context, outcome journal.Outcome, message string) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := metav1.NewTime(r.clock.Now())
	r.state.Phase, r.state.Outcome, r.state.Message, r.state.Finished = journal.Ended, outcome, message, &now
	if err := r.file.Append(journal.Entry{Time: now.UTC(), Event: journal.RunEnds, Command: r.state.Command, Message: message}); err != nil {
		return err
	}
	return r.save(ctx)
}
