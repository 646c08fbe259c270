// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// An object with a conflict has not recorded the name of its Workspace.
func TestAnObjectWithoutARecordedWorkspaceIsFoundByTheNameThatItWouldGet(t *testing.T) {
	key := types.NamespacedName{Namespace: builder.Namespace, Name: "demo-apply"}
	env := newEnvironment(t, builder.WorkspaceTemplateApply(key.Name), builder.WorkspaceTemplateApply("other"))
	workspace := func(name string, options ...builder.Option) client.Object {
		return builder.Workspace(name, builder.AtRest, options...)
	}
	wide := builder.InClusterScope()
	for name, row := range map[string]struct {
		requests []ctrl.Request
		found    bool
	}{
		"namespaced":                       {env.reconciler.ofWorkspace(t.Context(), workspace("demo")), true},
		"namespaced, of another namespace": {env.reconciler.ofWorkspace(t.Context(), workspace("demo", builder.WithNamespace("elsewhere"))), false},
		"cluster-wide":                     {env.reconciler.ofWorkspace(t.Context(), workspace(naming.Workspace(terraform.ScopeCluster, key), wide)), true},
		"cluster-wide, of CAPT v0.3":       {env.reconciler.ofWorkspace(t.Context(), workspace("demo", wide)), true},
		"an object with its Workspace":     {env.reconciler.relatedApplies(t.Context(), builder.WorkspaceTemplateApply("demo", builder.WithWorkspaceName("demo"))), true},
		"an object of another namespace with a cluster-wide Workspace": {env.reconciler.relatedApplies(t.Context(), builder.WorkspaceTemplateApply("x", builder.WithNamespace("elsewhere"),
			builder.WithWorkspaceName("demo"), builder.WithRecordedWorkspace(workspace("demo", wide)))), true},
		"an object of another namespace": {env.reconciler.relatedApplies(t.Context(), builder.WorkspaceTemplateApply("demo", builder.WithNamespace("elsewhere"), builder.WithWorkspaceName("demo"))), false},
	} {
		if row.found {
			assert.Equal(t, []ctrl.Request{request("demo-apply")}, row.requests, name)
		} else {
			assert.Empty(t, row.requests, name)
		}
	}
}
