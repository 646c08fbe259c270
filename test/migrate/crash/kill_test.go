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

package crash_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/journal"
	"github.com/capt-provider/capt/test/crash/proxy"
)

// disturb lets something happen to the command at some calls or all, and each time demands the same end.
func (s *story) disturb(moments ...proxy.Moment) {
	s.Helper()
	count, unwritten := map[proxy.Moment]int{}, 0
	for i, f := range fates(s.calls, moments...) {
		what := fmt.Sprintf("%s %s", f.Moment, f.call)
		if !s.meet(f) {
			s.Logf("%s: not reached", what)
			continue
		}
		count[f.Moment]++
		if everything && i%proven != 0 && maps.Equal(s.begin, shared.now(s.T)) {
			unwritten++ // It is where it began, and so is whoever goes on.
			continue
		}
		if f.Moment != proxy.Lost {
			s.goOn(i)
		}
		s.requireEnd(what)
	}
	s.Logf("%v of %d calls; after %d of them, nothing was written yet", count, len(s.calls), unwritten)
	require.NotEmpty(s, count)
}

// proven is of how many kills before which nothing was written one is gone on from, too.
const proven = 9

// goOn goes on where a run was killed: from the same machine, or from another. What is there after a call is what is there before
// the next one, so that with everything both are done.
func (s *story) goOn(i int) {
	s.Helper()
	if i%2 == 0 {
		s.must(s.again(s)...)
		return
	}
	s.elsewhere()
	s.must(s.away(s)...)
}

// tries is how often a machine may be too slow for a short lease.
const tries = 5

// meet puts everything back, and lets the command meet its fate. What is timed need not come.
func (s *story) meet(f fate) bool {
	s.Helper()
	for range tries {
		shared.putBack(s.T, s.before)
		s.begin = shared.now(s.T)
		s.elsewhere()
		arguments := s.first(s)
		if f.Moment == proxy.Lost && s.command != "" { // Nobody waits for the lease.
			arguments = append(arguments, "--lease-duration", "3s")
		}
		err := s.disturbed(f.call, f.Moment, arguments...)
		switch {
		case err == nil:
			return true
		case errors.Is(err, errNotReached) && f.timed():
			return false
		case !errors.Is(err, errNotReached):
			require.NoError(s, err, "%s %s", f.Moment, f.call)
		}
		s.Logf("%s %s: %v", f.Moment, f.call, err)
	}
	require.Fail(s, "never reached", "%s %s", f.Moment, f.call)
	return false
}

func TestNothingComesOfKillingApply(t *testing.T) {
	s := begin(t)
	s.disturb(proxy.Before, proxy.After)
	s.disturb(proxy.Lost)
	requireHarmless(t)
}

func TestNothingComesOfKillingRollback(t *testing.T) {
	applied := begin(t)
	before := readable(t)
	s := applied.then(t, journal.Rollback, briefly((*story).rollback), (*story).rollback)
	for name, object := range readable(t) {
		require.JSONEq(t, before[name], object, name)
	}
	if everything {
		s.disturb(proxy.Before, proxy.After)
	} else {
		s.disturb(proxy.After)
	}
	s.disturb(proxy.Lost)
	requireHarmless(t)
}

func TestNothingComesOfKillingFinalize(t *testing.T) {
	s := begin(t).then(t, "", (*story).finalize, (*story).finalize)
	s.disturb(proxy.Before, proxy.After)
	s.disturb(proxy.Lost)
	requireHarmless(t)
}

// readable are all objects as people read them, without what every write changes.
func readable(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	kinds := []schema.GroupVersionKind{clusterv1.GroupVersion.WithKind("Cluster")}
	for _, kind := range migrate.Kinds() {
		kinds = append(kinds, kind.GroupVersionKind)
	}
	for _, kind := range kinds {
		require.NoError(t, migrate.Each(t.Context(), shared.Admin, kind, "", func(object *unstructured.Unstructured) error {
			object.SetResourceVersion("")
			object.SetManagedFields(nil)
			object.SetGeneration(0)
			text, err := json.Marshal(object.Object)
			found[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] = string(text)
			return err
		}))
	}
	return found
}
