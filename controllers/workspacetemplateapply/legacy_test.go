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

package workspacetemplateapply

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// What the older CAPT left in a cluster is neither doubled nor forgotten before somebody adopts it.

// legacyStatus is what the older CAPT noted.
func legacyStatus(workspace string) builder.Option {
	return builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.WorkspaceName, apply.Status.Applied = workspace, ptr.To(true)
	})
}

// legacyWorld has a template in the cluster scope, as v1beta1 is converted, and a Workspace of the older CAPT's.
func legacyWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	return newWorld(t, append(objects,
		builder.WorkspaceTemplate("vpc", builder.WithScope(terraform.ScopeCluster)),
		builder.Workspace("demo", builder.AtRest, builder.InClusterScope()))...)
}

func TestWhatAnOlderCAPTMadeIsNotMadeAgain(t *testing.T) {
	finalizer := builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)
	for name, row := range map[string]struct {
		options []builder.Option
		noted   string
	}{
		"as it was left":                     {[]builder.Option{finalizer, legacyStatus("demo")}, "demo"},
		"status lost":                        {[]builder.Option{finalizer}, ""},
		"finalizer lost":                     {[]builder.Option{legacyStatus("demo")}, "demo"},
		"both lost, as it comes back by Git": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := legacyWorld(t, builder.WorkspaceTemplateApply("demo-apply", row.options...))
			before := w.get("demo-apply")
			w.mustReconcile("demo-apply")
			assert.Equal(t, []string{"patch status"}, w.writes)
			assert.Equal(t, "False AdoptionRequired: an older CAPT made Workspace demo for this object, and nobody has adopted it yet; "+
				"nothing is written or deleted. Adopt it with captctl migrate, or set spec.workspaceName to demo", w.ready("demo-apply"))
			after := w.get("demo-apply")
			assert.Equal(t, before.Finalizers, after.Finalizers)
			assert.Equal(t, row.noted, after.Status.WorkspaceName, "it is evidence")
			w.mustReconcile("demo-apply")
			assert.Empty(t, w.writes)
		})
	}
}

func TestWhatAnOlderCAPTMadeIsNotForgottenByDeletion(t *testing.T) {
	w := legacyWorld(t, builder.WorkspaceTemplateApply("demo-apply",
		builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer), legacyStatus("demo")))
	require.NoError(t, w.client.Delete(context.Background(), w.get("demo-apply")))
	w.mustReconcile("demo-apply")
	assert.Equal(t, []string{"patch status"}, w.writes)
	assert.Contains(t, w.ready("demo-apply"), "set spec.deletionPolicy to Retain to leave what the Workspace made")

	apply := w.get("demo-apply")
	apply.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain
	require.NoError(t, w.client.Update(context.Background(), apply))
	w.mustReconcile("demo-apply")
	assert.Error(t, w.client.Get(context.Background(), client.ObjectKeyFromObject(apply), apply), "it is released")
}

func TestAWorkspaceOfAnOlderCAPTIsNobodyElsesHindrance(t *testing.T) {
	other := builder.WithNamespace("other")
	w := legacyWorld(t,
		builder.WorkspaceTemplateApply("demo-apply", builder.WithWorkspaceName("demo"), other), // It was adopted there.
		builder.WorkspaceTemplateApply("demo-apply"))
	w.mustReconcile("demo-apply")
	assert.Contains(t, w.writes, "apply Workspace")
}
