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

package reapply_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// What a team has in Git does not change by itself when a fleet is adopted. Whatever brings it into the cluster again, each
// owner keeps its WorkspaceTemplateApply, and that its Workspace: a second one would be a second cluster in the cloud.
func TestOlderManifestsAppliedAgainMakeNothingASecondTime(t *testing.T) {
	w := newWorld(t, "reference-empty-hand-made-fixed-name", "hand-made-without-owner-reference", "templates-in-default",
		"helpers-present", "retained-vpc", "existing-vpc", "flux-managed", "argocd-managed")
	// Cluster API has long done its part in a real fleet. In this one it would begin in the middle of the adoption.
	require.NoError(t, w.StopComponent(t.Context(), sandbox.ClusterAPI))
	require.NoError(t, w.Upgrade(t.Context()))
	w.adopt()
	adopted := w.truth()
	require.NoError(t, w.StartComponent(t.Context(), sandbox.ClusterAPI))
	require.NoError(t, w.StartControllers(t.Context()))
	w.awaitSettled()
	require.Equal(t, adopted, w.truth(), "the manager writes nothing of it")

	for _, again := range []struct {
		name string
		args []string
	}{
		{"client-side apply", []string{"apply", "-f", "-"}},
		{"server-side apply", []string{"apply", "--server-side", "--force-conflicts", "--field-manager=kustomize-controller", "-f", "-"}},
		{"replace", []string{"replace", "-f", "-"}},
		{"client-side apply, of what was replaced", []string{"apply", "-f", "-"}},
	} {
		t.Run(again.name, func(t *testing.T) {
			moved := *w
			moved.T = t
			began := time.Now()
			moved.kubectl(w.git, again.args...)
			moved.awaitSettled()
			// Whatever the manager remembers, it would have to find out anew.
			require.NoError(t, w.Restart(t.Context(), sandbox.Manager))
			moved.awaitSettled()
			assert.Equal(t, adopted, moved.truth())

			events, err := w.AuditEvents(audit.Filter{User: sandbox.ManagerUser, Verbs: []string{"create", "delete"}, Since: began})
			require.NoError(t, err)
			for _, event := range events {
				assert.NotContains(t, []string{"workspaces", "workspacetemplateapplies"}, event.ObjectRef.Resource, event.RequestURI)
			}
			writes, err := w.AuditEvents(audit.Filter{Verbs: audit.Writes, Resource: "workspaces", Since: began})
			require.NoError(t, err)
			assert.Empty(t, writes, "Workspaces are written by nobody")
		})
	}
}
