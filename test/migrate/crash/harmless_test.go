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
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/test/sandbox"
)

// requireHarmless proves that nothing that captctl ever sent could have done harm.
func requireHarmless(t *testing.T) {
	t.Helper()
	events, err := shared.Requests(sandbox.CaptctlUser)
	require.NoError(t, err)
	created, written := map[string]int{}, map[string]int{}
	for _, event := range events {
		what := event.Verb + " " + event.RequestURI
		require.NotContains(t, event.Verb, "delete", what)
		if strings.Contains(event.RequestURI, "dryRun=All") || slices.Contains([]string{"get", "list", "watch"}, event.Verb) {
			continue
		}
		resource := event.ObjectRef.Resource
		require.NotContains(t, []string{"workspaces", "providerconfigs", "secrets"}, resource, what)
		if event.Verb == "create" {
			created[resource]++
		} else {
			written[resource]++
		}
	}
	t.Logf("%d requests in all; created: %v; written: %v", len(events), created, written)
	delete(created, "selfsubjectaccessreviews") // Nobody stores them.
	for _, resource := range []string{"leases", "configmaps", "events"} {
		require.Positive(t, created[resource])
		delete(created, resource)
	}
	require.Empty(t, created)
}
