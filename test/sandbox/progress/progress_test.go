// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package progress_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capt-provider/capt/test/sandbox/progress"
)

func object(kind, name string, status map[string]any) *unstructured.Unstructured {
	for _, known := range progress.Kinds {
		if known.Kind == kind {
			o := &unstructured.Unstructured{Object: map[string]any{"status": status}}
			o.SetGroupVersionKind(known)
			o.SetNamespace("default")
			o.SetName(name)
			return o
		}
	}
	panic("no such kind: " + kind)
}

func condition(kind, status, reason, message string) map[string]any {
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": message}
}

func conditions(list ...any) []any { return list }

func TestTablePrintsOnlyChanges(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, kind := range progress.Kinds {
		scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"), &unstructured.UnstructuredList{})
	}
	plane := object("CAPTControlPlane", "demo", map[string]any{"phase": "Provisioning", "state": "ControlPlaneCreating",
		"conditions": conditions(condition("Available", "False", "Applying", "Terraform is\nat work"))})
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		object("Cluster", "demo", map[string]any{"phase": "Provisioned", "conditions": conditions(
			condition("Available", "True", "Available", ""),
			condition("RemoteConnectionProbe", "False", "ProbeFailed", "no answer"))}),
		plane,
		object("CAPTControlPlane", "fargate", map[string]any{"state": "Configuring", "conditions": conditions(
			condition("Available", "True", "Available", ""),
			condition("Ready", "False", "FargateProfileCreating", "Creating Fargate profile default"))}),
		object("WorkspaceTemplateApply", "demo-vpc", nil),
		object("CAPTCluster", "demo", map[string]any{"conditions": conditions(condition("Ready", "True", "Ready", ""))}),
	).Build()

	var out strings.Builder
	looks := 0
	table := progress.NewTable(c, &out)
	require.NoError(t, table.Until(t.Context(), func(objects []unstructured.Unstructured) bool {
		looks++
		switch looks {
		case 1:
			require.NoError(t, c.Delete(t.Context(), plane))
		case 2:
			require.Len(t, objects, 4)
			return true
		}
		return false
	}))

	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line)[1:], " "))
	}
	require.Equal(t, []string{
		"Cluster/demo Provisioned Ready RemoteConnectionProbe: ProbeFailed: no answer",
		"CAPTCluster/demo Ready",
		"CAPTControlPlane/demo ControlPlaneCreating Applying: Terraform is at work",
		"CAPTControlPlane/fargate Configuring Available FargateProfileCreating: Creating Fargate profile default",
		"WorkspaceTemplateApply/demo-vpc Waiting",
		"CAPTControlPlane/demo gone",
	}, lines)
}

func TestTableReturnsTheCauseOfACancellation(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(context.DeadlineExceeded)
	err := progress.NewTable(fake.NewFakeClient(), &strings.Builder{}).Until(ctx, func([]unstructured.Unstructured) bool { return false })
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
