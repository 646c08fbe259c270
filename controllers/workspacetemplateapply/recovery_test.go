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
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	env.mustReconcile("demo-vpc")
	env.provide("demo-vpc", builder.FirstApplyFailed)
	env.mustReconcile("demo-vpc")
	request := func(value string) {
		env.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
			builder.WithAnnotation(naming.RecoveryAnnotation, value)(apply)
		})
	}
	request("Reapply/another/1")
	assert.Empty(t, env.mustReconcile("demo-vpc"), "it is for another Workspace")
	reapply := "Reapply/" + string(env.workspace("demo-vpc").GetUID()) + "/2"
	request(reapply)
	assert.Equal(t, []string{"patch"}, env.mustReconcile("demo-vpc"))
	assert.Equal(t, reapply, env.workspace("demo-vpc").GetAnnotations()[naming.RecoveryAnnotation])
	assert.Empty(t, env.mustReconcile("demo-vpc"))
	env.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		builder.WithAnnotation(naming.RecoveryAnnotation, "ClearInterruptedCreate/"+string(env.workspace("demo-vpc").GetUID())+"/3")(apply)
	})
	assert.Empty(t, env.mustReconcile("demo-vpc"), "the create was not interrupted")
}
