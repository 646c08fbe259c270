// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation/applies"
	"github.com/capt-provider/capt/test/builder"
)

func applied(name string, options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	recorded := builder.WithRecordedWorkspace(builder.Workspace(name+"-w", builder.AtRest))
	return builder.WorkspaceTemplateApply(name, append([]builder.Option{builder.WithWorkspaceName(name + "-w"), recorded}, options...)...)
}

// What is retained would stand on what is destroyed.
func TestSafety05RetainIsRefusedOnTopOfWhatIsDestroyed(t *testing.T) {
	retain := builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain)
	vpc := applied("vpc", builder.OwnedBy(builder.CAPTCluster("demo")))
	roles := applied("roles", builder.WithDeletionPolicy(infrav1.DeletionPolicyDelete))
	on := func(names ...string) builder.Option {
		return builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			for _, name := range names {
				builder.WaitingForWorkspace(name+"-w", "")(apply)
			}
		})
	}
	allow := func(names string) builder.Option {
		return builder.WithAnnotation(naming.AllowReleaseFromAnnotation, names)
	}
	controlPlane := builder.OwnedBy(builder.CAPTControlPlane("eks"))
	for name, row := range map[string]struct {
		apply  *infrav1.WorkspaceTemplateApply
		others []*infrav1.WorkspaceTemplateApply
		names  string
	}{
		"both are destroyed":                  {applied("eks", on("vpc")), []*infrav1.WorkspaceTemplateApply{vpc}, ""},
		"retained on a VPC that is deleted":   {applied("eks", retain, on("vpc")), []*infrav1.WorkspaceTemplateApply{vpc}, "vpc"},
		"by the full name":                    {applied("eks", retain, builder.WaitingForWorkspace("vpc-w", builder.Namespace)), []*infrav1.WorkspaceTemplateApply{vpc}, "vpc"},
		"two, in whatever order":              {applied("eks", retain, on("vpc", "roles")), []*infrav1.WorkspaceTemplateApply{vpc, roles}, "roles, vpc"},
		"two, the other way round":            {applied("eks", retain, on("roles", "vpc")), []*infrav1.WorkspaceTemplateApply{roles, vpc}, "roles, vpc"},
		"one of the two is allowed":           {applied("eks", retain, on("vpc", "roles"), allow("roles")), []*infrav1.WorkspaceTemplateApply{vpc, roles}, "vpc"},
		"both are allowed":                    {applied("eks", retain, on("vpc", "roles"), allow("roles,vpc")), []*infrav1.WorkspaceTemplateApply{vpc, roles}, ""},
		"true allows nothing":                 {applied("eks", retain, on("vpc"), allow("true")), []*infrav1.WorkspaceTemplateApply{vpc}, "vpc"},
		"the VPC is retained, too":            {applied("eks", retain, on("net")), []*infrav1.WorkspaceTemplateApply{applied("net", retain)}, ""},
		"it stands on nothing":                {applied("eks", retain), []*infrav1.WorkspaceTemplateApply{vpc}, ""},
		"the VPC was never applied":           {applied("eks", retain, on("net")), []*infrav1.WorkspaceTemplateApply{builder.WorkspaceTemplateApply("net", builder.WithWorkspaceName("net-w"))}, ""},
		"of another namespace":                {applied("eks", retain, on("vpc")), []*infrav1.WorkspaceTemplateApply{applied("vpc", builder.WithNamespace("other"))}, ""},
		"never applied":                       {builder.WorkspaceTemplateApply("eks", retain, on("vpc")), []*infrav1.WorkspaceTemplateApply{vpc}, ""},
		"a helper that could not be rendered": {applied("eks-kubeconfig-apply", retain, on("vpc"), controlPlane), []*infrav1.WorkspaceTemplateApply{vpc}, ""},
		"named like a helper":                 {applied("eks-kubeconfig-apply", retain, on("vpc")), []*infrav1.WorkspaceTemplateApply{vpc}, "vpc"},
	} {
		t.Run(name, func(t *testing.T) {
			var others []infrav1.WorkspaceTemplateApply
			for _, other := range row.others {
				others = append(others, *other)
			}
			conflict := applies.RetainConflict(row.apply, others)
			if row.names == "" {
				assert.Empty(t, conflict)
				return
			}
			assert.Contains(t, conflict, "the deletion of WorkspaceTemplateApply "+row.names+" destroys resources that it depends on")
		})
	}
	conflict := applies.RetainConflict(applied("eks", retain, on("vpc", "roles")), []infrav1.WorkspaceTemplateApply{*vpc, *roles})
	assert.Contains(t, conflict, "Set spec.deletionPolicy of WorkspaceTemplateApply roles and spec.vpc.template.deletionPolicy of CAPTCluster demo to Retain, "+
		"or spec.deletionPolicy of WorkspaceTemplateApply eks to Delete")
	assert.Contains(t, conflict, "annotation "+naming.AllowReleaseFromAnnotation+" to roles,vpc")
}
