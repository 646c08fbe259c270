// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// The policies reject the deletion of an object with an owner, and its owner would create it again.
func TestTheAdviceAboutAConflictCanBeFollowed(t *testing.T) {
	owned := []builder.Option{builder.OwnedBy(builder.CAPTCluster("net")), builder.WithLabel(clusterv1.ClusterNameLabel, "demo")}
	profile := []builder.Option{builder.OwnedBy(builder.CAPTControlPlane("plane")), builder.WithVariables(map[string]string{naming.ProfileVariable: "jobs"})}
	recorded := builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.WorkspaceRef = &infrav1.WorkspaceReference{UID: "1"} })
	live := newFixture(t).withWorkspace(builder.AtRest).Live
	older, foreign := &Facts{Name: "x", OlderClaim: "WorkspaceTemplateApply y"}, &Facts{Name: "x", Live: live}
	for name, row := range map[string]struct {
		message func(*infrav1.WorkspaceTemplateApply, *Facts) string
		facts   *Facts
		options []builder.Option
		want    string
	}{
		"older":                {olderClaimMessage, older, nil, "CAPT continues when that no longer exists. Otherwise delete this object, or recreate it under another name"},
		"older, owned":         {olderClaimMessage, older, owned, "Otherwise delete Cluster demo, and create it with a CAPTCluster of another name"},
		"foreign":              {foreignMessage, foreign, nil, "CAPT continues when it no longer exists. Otherwise delete this object, or recreate it under another name"},
		"foreign, owned":       {foreignMessage, foreign, owned, "Otherwise delete Cluster demo, and create it with a CAPTCluster of another name"},
		"foreign, a profile":   {foreignMessage, foreign, profile, "Otherwise rename Fargate profile jobs in spec.fargateProfiles of CAPTControlPlane plane"},
		"foreign, applied":     {foreignMessage, foreign, append(owned, recorded), "CAPT continues when it no longer exists, with the Terraform state of before"},
		"undecided":            {undecidedMessage, foreign, nil, ". Otherwise delete this object, or recreate it under another name"},
		"undecided, owned":     {undecidedMessage, foreign, owned, ". Otherwise delete Cluster demo, and create it with a CAPTCluster of another name"},
		"unknown state":        {stateUnknownMessage, older, nil, "or recreate this object without spec.workspaceName if none of its resources are left"},
		"unknown state, owned": {stateUnknownMessage, older, owned, `or delete this object, with its annotation capt.cluster.x-k8s.io/allow-delete set to "true", and CAPTCluster net creates it without spec.workspaceName, if none of its resources are left`},
		"replaced":             {replacedMessage, foreign, append(owned, recorded), "Restore the original Workspace with its annotations, or delete this one if it has another Terraform state"},
	} {
		assert.Contains(t, row.message(builder.WorkspaceTemplateApply("x", row.options...), row.facts), row.want, name)
	}
}

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
