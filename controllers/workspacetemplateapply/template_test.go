// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"testing"

	"github.com/stretchr/testify/assert"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

func TestSafety13NoWorkspaceIsCreatedFromADeletedTemplate(t *testing.T) {
	held := builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer)
	w := newWorld(t, builder.WorkspaceTemplate("vpc", builder.Deleting(), held), builder.WorkspaceTemplateApply("demo-vpc"))
	w.mustReconcile("demo-vpc")
	assert.Nil(t, w.workspace("demo-vpc"))
	assert.Contains(t, w.ready("demo-vpc"), "False TemplateDeleting: WorkspaceTemplate default/vpc is being deleted and cannot be used by new objects")
	assert.Empty(t, w.mustReconcile("demo-vpc"))

	t.Run("its users go on", func(t *testing.T) {
		w := newWorld(t, builder.WorkspaceTemplate("vpc", held), builder.WorkspaceTemplateApply("demo-vpc"))
		w.mustReconcile("demo-vpc")
		w.provide("demo-vpc", builder.AtRest)
		w.remove(builder.WorkspaceTemplate("vpc"))
		w.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables = map[string]string{"cluster_name": "other"} })
		assert.Contains(t, w.mustReconcile("demo-vpc"), "apply Workspace")

		w.remove(w.workspace("demo-vpc"))
		gone := w.workspace("demo-vpc")
		if gone != nil {
			gone.SetFinalizers(nil)
			w.update(gone)
		}
		w.mustReconcile("demo-vpc")
		assert.NotNil(t, w.workspace("demo-vpc"), "a deleted Workspace is recreated")
	})
}

// A template that was stored before the rule: nothing is made from it, and what was made is reported and destroyed.
func TestSafety15DuplicateKeys(t *testing.T) {
	twice := builder.WithParameters(func(params *terraform.WorkspaceParameters) { params.Vars = append(params.Vars, params.Vars[0]) })
	const message = "False TemplateInvalid: WorkspaceTemplate default/vpc: spec.template.spec.forProvider.vars[1].key: Duplicate value"
	w := newWorld(t, builder.WorkspaceTemplate("vpc", twice), builder.WorkspaceTemplateApply("demo-vpc"))
	w.mustReconcile("demo-vpc")
	assert.Nil(t, w.workspace("demo-vpc"))
	assert.Contains(t, w.ready("demo-vpc"), message)

	w = newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	w.mustReconcile("demo-vpc")
	w.remove(builder.WorkspaceTemplate("vpc"))
	w.create(builder.WorkspaceTemplate("vpc", twice))
	w.provide("demo-vpc", builder.AtRest, builder.WithOutputs(map[string]any{"vpc_id": "vpc-1"}))
	w.mustReconcile("demo-vpc")
	assert.Contains(t, w.ready("demo-vpc"), message)
	assert.Equal(t, map[string]string{"vpc_id": "vpc-1"}, w.get("demo-vpc").Status.Outputs)
	assert.NotContains(t, w.Writes, "apply Workspace")

	w.remove(w.get("demo-vpc"))
	assert.Contains(t, w.mustReconcile("demo-vpc"), "delete Workspace")
}
