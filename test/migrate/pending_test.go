// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

// TestSafety11AnEditWhileTheControllersAreOffIsReported edits a template of an adopted cluster, and of one that awaits adoption, while the manager
// does not reconcile. What it will change, or would change, is reported before it does.
func TestSafety11AnEditWhileTheControllersAreOffIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sandbox.Options{})
	for _, name := range []string{"reference-set", "reference-empty-arbitrary-name"} {
		_, err := w.Create(t.Context(), legacy.Named()[name], legacy.NamesOf(name))
		require.NoError(t, err)
	}
	require.NoError(t, w.Upgrade(t.Context()))
	const adopted, awaiting = "reference-set/reference-set-demo", "reference-empty-arbitrary-name/reference-empty-arbitrary-name-demo"
	w.host.Plan()
	w.host.Run(migrate.Done, "apply", "plan.json", "--cluster="+adopted, "--yes")
	require.Empty(t, w.host.Status()[adopted].PendingChange)

	require.NoError(t, w.StartControllers(t.Context(), legacy.WebhooksOnly))
	var templates infrav1.WorkspaceTemplateList
	require.NoError(t, w.Admin.List(t.Context(), &templates))
	for i := range templates.Items {
		edited := &templates.Items[i]
		before := client.MergeFrom(edited.DeepCopy())
		edited.Spec.Template.Spec.ForProvider.Module += "\n# edited\n"
		require.NoError(t, w.Admin.Patch(t.Context(), edited, before))
	}
	untouched := w.untouched()
	require.NotEmpty(t, w.host.Status()[adopted].PendingChange)
	w.host.Start("status", "--detailed-exitcode").Ends(migrate.NeedsDecision)
	w.host.Start("plan").Ends(migrate.NeedsDecision)
	w.host.Start("apply", "plan.json", "--cluster="+awaiting, "--yes").Ends(migrate.Failed)
	untouched.require(t)
}
