// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"testing"

	"github.com/stretchr/testify/assert"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/builder"
)

func TestARecoveryActionIsCarriedOutOnce(t *testing.T) {
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	w.mustReconcile("demo-vpc")
	w.provide("demo-vpc", builder.FirstApplyFailed)
	w.mustReconcile("demo-vpc")
	request := func(value string) {
		w.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
			builder.WithAnnotation(naming.RecoveryAnnotation, value)(apply)
		})
	}
	request("Reapply/another/1")
	assert.Empty(t, w.mustReconcile("demo-vpc"), "it is for another Workspace")
	reapply := "Reapply/" + string(w.workspace("demo-vpc").GetUID()) + "/2"
	request(reapply)
	assert.Equal(t, []string{"patch"}, w.mustReconcile("demo-vpc"))
	assert.Equal(t, reapply, w.workspace("demo-vpc").GetAnnotations()[naming.RecoveryAnnotation])
	assert.Empty(t, w.mustReconcile("demo-vpc"))
	w.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		builder.WithAnnotation(naming.RecoveryAnnotation, "ClearInterruptedCreate/"+string(w.workspace("demo-vpc").GetUID())+"/3")(apply)
	})
	assert.Empty(t, w.mustReconcile("demo-vpc"), "the create was not interrupted")
}
