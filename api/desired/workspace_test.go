// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/test/builder"
)

// The policies reject the deletion of an object with an owner, and its owner would create it again.
func TestTheAdviceAboutAConflictCanBeFollowed(t *testing.T) {
	owned := []builder.Option{builder.OwnedBy(builder.CAPTCluster("net")), builder.WithLabel(clusterv1.ClusterNameLabel, "demo")}
	profile := []builder.Option{builder.OwnedBy(builder.CAPTControlPlane("plane")), builder.WithVariables(map[string]string{naming.ProfileVariable: "jobs"})}
	recorded := builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.WorkspaceRef = &infrav1.WorkspaceReference{UID: "1"} })
	live := builder.Workspace("x", builder.AtRest)
	older := Workspace{Name: "x", OlderClaim: "WorkspaceTemplateApply y"}
	by := func(ownership render.Ownership) Workspace {
		return Workspace{Name: "x", Live: live, Ownership: ownership}
	}
	foreign, undecided, replaced := by(render.Foreign), by(render.Undecided), by(render.Replaced)
	lost := Workspace{Name: "x", Findings: Findings{StateUnknown: true}}
	for name, row := range map[string]struct {
		workspace Workspace
		options   []builder.Option
		want      string
	}{
		"older":                {older, nil, "CAPT continues when that no longer exists. Otherwise delete this object, or recreate it under another name"},
		"older, owned":         {older, owned, "Otherwise delete Cluster demo, and create it with a CAPTCluster of another name"},
		"foreign":              {foreign, nil, "CAPT continues when it no longer exists. Otherwise delete this object, or recreate it under another name"},
		"foreign, owned":       {foreign, owned, "Otherwise delete Cluster demo, and create it with a CAPTCluster of another name"},
		"foreign, a profile":   {foreign, profile, "Otherwise rename Fargate profile jobs in spec.fargateProfiles of CAPTControlPlane plane"},
		"foreign, applied":     {foreign, append(owned, recorded), "CAPT continues when it no longer exists, with the Terraform state of before"},
		"undecided":            {undecided, nil, ". Otherwise delete this object, or recreate it under another name"},
		"undecided, owned":     {undecided, owned, ". Otherwise delete Cluster demo, and create it with a CAPTCluster of another name"},
		"unknown state":        {lost, nil, "or recreate this object without spec.workspaceName if none of its resources are left"},
		"unknown state, owned": {lost, owned, `or delete this object, with its annotation capt.cluster.x-k8s.io/allow-delete set to "true", and CAPTCluster net creates it without spec.workspaceName, if none of its resources are left`},
		"replaced":             {replaced, append(owned, recorded), "Restore the original Workspace with its annotations, or delete this one if it has another Terraform state"},
	} {
		w := row.workspace
		w.Apply = builder.WorkspaceTemplateApply("x", row.options...)
		conflict := w.Conflict()
		if assert.NotNil(t, conflict, name) {
			assert.Contains(t, conflict.Message, row.want, name)
		}
	}
}

// Its owner would revert a correction of the WorkspaceTemplateApply.
func TestAVariableIsCorrectedInTheObjectThatHasIt(t *testing.T) {
	invalid := field.ErrorList{field.TypeInvalid(field.NewPath("spec", "variables").Key("zones"), field.OmitValueType{}, "is not valid for the module: list required. Correct the value")}
	for want, options := range map[string][]builder.Option{
		"Correct the value": nil,
		"Correct the value. CAPTCluster net writes the variables of this object: set those of users in its spec.vpc.template.variables": {builder.OwnedBy(builder.CAPTCluster("net"))},
		"Correct the value. CAPTControlPlane plane writes the variables of this object: set those of users in its spec.variables":       {builder.OwnedBy(builder.CAPTControlPlane("plane"))},
	} {
		w := Workspace{Apply: builder.WorkspaceTemplateApply("x", options...), Template: builder.WorkspaceTemplate("vpc"), Revision: "r", RenderErrors: invalid}
		assert.Equal(t, "WorkspaceTemplate default/vpc: spec.variables[zones]: Invalid value: is not valid for the module: list required. "+want, w.NotRendered().Message)
	}
}

// With another state, Terraform creates everything a second time, and a deletion would destroy only that.
func TestAnotherStateOfTheWorkspaceIsAConflict(t *testing.T) {
	recorded := func(state, uid string) builder.Option {
		return builder.With(func(a *infrav1.WorkspaceTemplateApply) {
			a.UID, a.Annotations = "1", map[string]string{naming.ExternalNameAnnotation: state, naming.ExternalNameUIDAnnotation: uid}
		})
	}
	live := builder.Workspace("x", builder.AtRest)
	live.SetAnnotations(map[string]string{render.ExternalNameAnnotation: "other"})
	for name, row := range map[string]struct {
		option    builder.Option
		ownership render.Ownership
		conflict  bool
	}{
		"changed":                {recorded("first", "1"), render.Owned, true},
		"accepted":               {recorded("other", "1"), render.Owned, false},
		"recorded before a move": {recorded("first", "2"), render.Owned, false},
		"not recorded":           {recorded("", "1"), render.Owned, false},
		"of another object":      {recorded("first", "1"), render.Foreign, false},
	} {
		w := Workspace{Name: "x", Live: live, Ownership: row.ownership, Apply: builder.WorkspaceTemplateApply("x", row.option)}
		blocked := w.OtherState()
		assert.Equal(t, row.conflict, blocked != nil, name)
		if row.conflict {
			assert.Equal(t, blocked, w.Conflict())
			assert.Contains(t, blocked.Message, "kubectl annotate --overwrite -n default workspaces.tf.m.upbound.io x crossplane.io/external-name=first")
			assert.Contains(t, blocked.Message, "capt.cluster.x-k8s.io/external-name=other")
		}
	}
	live.SetAnnotations(nil) // The provider sets it.
	assert.Nil(t, (&Workspace{Name: "x", Live: live, Ownership: render.Owned, Apply: builder.WorkspaceTemplateApply("x", recorded("first", "1"))}).OtherState())
}
