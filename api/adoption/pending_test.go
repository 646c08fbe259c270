// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package adoption_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func TestIsPending(t *testing.T) {
	owner := builder.CAPTControlPlane("demo")
	ofOlder := builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)
	ofMachine := builder.With(func(a *infrav1.WorkspaceTemplateApply) {
		a.OwnerReferences = []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.Group + "/v1beta1", Kind: "CaptMachine", Name: "demo", UID: "demo"}}
	})
	retain := builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain)
	required := []metav1.Condition{{Type: infrav1.AdoptionRequiredCondition, Status: metav1.ConditionTrue}}
	notRequired := []metav1.Condition{{Type: infrav1.AdoptionRequiredCondition, Status: metav1.ConditionFalse, ObservedGeneration: 1}}
	refused := []metav1.Condition{{Type: infrav1.AdoptionRequiredCondition, Status: metav1.ConditionUnknown, ObservedGeneration: 1}}
	legacy := []metav1.Condition{{Type: "VPCReady", Status: metav1.ConditionTrue}}
	network := func(change func(*infrav1.CAPTCluster), options ...builder.Option) metav1.Object {
		return builder.CAPTCluster("demo", append(options, builder.With(change))...)
	}
	controlPlane := func(change func(*controlplanev1.CAPTControlPlane), options ...builder.Option) metav1.Object {
		return builder.CAPTControlPlane("demo", append(options, builder.With(change))...)
	}

	for name, row := range map[string]struct {
		object metav1.Object
		want   bool
	}{
		"a new WorkspaceTemplateApply":                 {builder.WorkspaceTemplateApply("x"), false},
		"CAPT v0.3":                                    {builder.WorkspaceTemplateApply("x", ofOlder), true},
		"CAPT v0.3, being deleted":                     {builder.WorkspaceTemplateApply("x", builder.Deleting(), ofOlder), true},
		"CAPT v0.3, retained":                          {builder.WorkspaceTemplateApply("x", ofOlder, retain), true},
		"adopted":                                      {builder.WorkspaceTemplateApply("x", ofOlder, builder.WithWorkspaceName("x")), false},
		"a helper":                                     {builder.WorkspaceTemplateApply("demo-kubeconfig-apply", ofOlder, builder.OwnedBy(owner)), true},
		"a helper that is left alone":                  {builder.WorkspaceTemplateApply("demo-kubeconfig-apply", ofOlder, retain, builder.OwnedBy(owner)), false},
		"of a CaptMachine":                             {builder.WorkspaceTemplateApply("demo-machine", ofOlder, ofMachine), true},
		"of a CaptMachine, left alone":                 {builder.WorkspaceTemplateApply("demo-machine", ofOlder, ofMachine, retain), false},
		"the control plane's own, retained":            {builder.WorkspaceTemplateApply("demo-eks-controlplane-apply", ofOlder, retain, builder.OwnedBy(owner)), true},
		"a new CAPTCluster":                            {builder.CAPTCluster("demo"), false},
		"a CAPTCluster with AdoptionRequired":          {network(func(c *infrav1.CAPTCluster) { c.Status.Conditions = required }), true},
		"a CAPTCluster that does not ask":              {network(func(c *infrav1.CAPTCluster) { c.Status.Conditions = notRequired }), false},
		"a CAPTCluster with a refused request":         {network(func(c *infrav1.CAPTCluster) { c.Status.Conditions = refused }), true},
		"a CAPTCluster that was not looked at yet":     {network(func(c *infrav1.CAPTCluster) { c.Status.Conditions = legacy }, builder.WithApplyRef("x")), true},
		"one from Git beside a Workspace of CAPT v0.3": {builder.WorkspaceTemplateApply("x", builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.Conditions = required })), true},
		"a built CAPTCluster without a reference":      {network(func(c *infrav1.CAPTCluster) { c.Status.VPC.ID = "vpc-1" }), true},
		"a built CAPTCluster with a reference":         {network(func(c *infrav1.CAPTCluster) { c.Status.VPC.ID = "vpc-1" }, builder.WithApplyRef("x")), false},
		"a CAPTCluster with an existing VPC":           {network(func(c *infrav1.CAPTCluster) { c.Status.VPC.ID = "vpc-1" }, builder.WithExistingVPC("vpc-1")), false},
		"a new CAPTControlPlane":                       {owner, false},
		"a CAPTControlPlane with AdoptionRequired":     {controlPlane(func(c *controlplanev1.CAPTControlPlane) { c.Status.Conditions = required }), true},
		"a built CAPTControlPlane without a reference": {builder.CAPTControlPlane("demo", builder.WithEndpoint("demo.example.com", 443)), true},
		"a built CAPTControlPlane with a reference":    {builder.CAPTControlPlane("demo", builder.WithEndpoint("demo.example.com", 443), builder.WithApplyRef("x")), false},
		"a WorkspaceTemplate":                          {builder.WorkspaceTemplate("x"), false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, adoption.IsPending(row.object)) })
	}
}
