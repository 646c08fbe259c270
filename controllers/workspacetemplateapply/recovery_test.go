// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// The recovery of a control plane starts again when what the failed run used has changed.
func TestFailureInputsChangeWithASecretThatTheFailedRunUsed(t *testing.T) {
	reads := builder.WithParameters(func(params *terraform.WorkspaceParameters) {
		params.VarFiles = []terraform.VarFile{{Source: "SecretKey", SecretKeyRef: &terraform.KeyReference{Name: "account", Key: "k"}}}
	})
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc", reads), builder.WorkspaceTemplateApply("demo-vpc"),
		builder.SecretWith("account", map[string]string{"k": "1"}))
	inputs := func(row builder.Row) string {
		env.provide("demo-vpc", row)
		env.mustReconcile("demo-vpc")
		return env.get("demo-vpc").Status.FailureInputs
	}
	env.mustReconcile("demo-vpc")
	first := inputs(builder.FirstApplyFailed)
	assert.NotEmpty(t, first)
	assert.Equal(t, first, inputs(builder.FirstApplyFailed))
	env.update(builder.SecretWith("account", map[string]string{"k": "2"}))
	assert.NotEqual(t, first, inputs(builder.FirstApplyFailed))
	assert.Empty(t, inputs(builder.AtRest))
}

// provider-terraform before v1 does not report the generation.
func TestTheLastUpdateIsRecordedUntilTheProviderHasObservedIt(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	env.rest("demo-vpc")
	env.provide("demo-vpc", builder.AtRest, builder.OfV0(), builder.WithGeneration(2))
	env.template(builder.WithModule("# new"))
	for range 2 {
		env.mustReconcile("demo-vpc")
		last := env.get("demo-vpc").Status.LastUpdate
		require.NotNil(t, last)
		assert.Equal(t, int64(2), last.Generation)
		assert.NotEmpty(t, last.StatusHash)
		assert.Contains(t, env.ready("demo-vpc"), "False Provisioning")
	}
	env.provide("demo-vpc", builder.AtRest, builder.OfV0(), builder.WithGeneration(2), builder.WithOutputs(map[string]any{"vpc_id": "vpc-1"}))
	env.mustReconcile("demo-vpc")
	assert.Equal(t, "True UpToDate: ", env.ready("demo-vpc"))
	assert.Equal(t, &infrav1.WorkspaceUpdate{Generation: 2}, env.get("demo-vpc").Status.LastUpdate)
}
