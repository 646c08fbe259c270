// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
)

const legacyTemplate = `
spec:
  writeConnectionSecretToRef: {name: s, namespace: ns}
  template:
    metadata: {description: VPC, version: 1.0.0, tags: {}}
    spec:
      deletionPolicy: Delete
      managementPolicies: ['*']
      providerConfigRef: {name: aws, policy: {resolution: Required}}
      writeConnectionSecretToRef: {name: out, namespace: ns}
      publishConnectionDetailsTo: {name: p, configRef: {name: default}, metadata: {type: Opaque}}
      forProvider:
        source: Inline
        module: 'output "a" { value = "<&>" }'
        entrypoint: ''
        varmap: {a: {b: [1, null, "x"]}}
        vars: [{key: k, value: ''}]
        varFiles: [{source: SecretKey, secretKeyRef: {name: nn, namespace: m, key: k}, format: HCL}]
        env: [{name: E, value: ''}, {name: F, configMapKeyRef: {name: nn, namespace: m, key: k}}]
        initArgs: []
        enableTerraformCLILogging: false
status:
  workspaceName: w
  conditions: [{type: Ready, status: "True", reason: "", lastTransitionTime: "2026-01-02T03:04:05Z"}]
`

func TestWorkspacesOfALegacyTemplateAreClusterScoped(t *testing.T) {
	hub := workspaceTemplates.returns(t, legacyTemplate)
	assert.Equal(t, terraform.ScopeCluster, hub.Spec.WorkspaceScope)
	assert.Equal(t, "out", hub.Spec.Template.Spec.WriteConnectionSecretToRef.Name, "that of the template's own spec has no effect")
	assert.JSONEq(t, `{"a":{"b":[1,null,"x"]}}`, string(hub.Spec.Template.Spec.ForProvider.VarMap.Raw))
	assert.NotContains(t, preserved(hub), "output", "the module is not stored twice")
}

// CAPT stored and approved the hash of such templates before spec.substitution existed.
func TestALegacyTemplateIsRenderedAsBefore(t *testing.T) {
	for name, row := range map[string]struct {
		module, value string
		want          infrav1.Substitution
	}{
		"no placeholder":          {`output "a" { value = 1 }`, "${x}", ""},
		"a placeholder":           {`output "a" { value = "${x}" }`, "${x}", infrav1.SubstitutionAll},
		"a variable of a shell":   {`locals { a = "${x} $${HOME}" }`, "${x}", ""},
		"a dollar sign in a text": {`locals { a = "${x}" }`, "$${x}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			spoke := read[*infrav1beta1.WorkspaceTemplate](t, legacyTemplate)
			spoke.Spec.Template.Spec.ForProvider.Module = row.module
			spoke.Spec.Template.Spec.ForProvider.Vars[0].Value = row.value
			hub := workspaceTemplates.toHub(t, spoke)
			assert.Equal(t, row.want, hub.Spec.Substitution)
			before := hub.DeepCopy()
			before.Spec.Substitution = ""
			assert.Equal(t, rollout.HashOf(before), rollout.HashOf(hub))
		})
	}
}

func TestDefaultsOfV1Beta1DoNotReachATemplateOfV1Beta2(t *testing.T) {
	spoke := workspaceTemplates.keeps(t, `
spec:
  workspaceScope: Namespaced
  allowedNamespaces: {names: [a], selector: {matchLabels: {x: z}}}
  publishOutputs: [zone]
  template: {spec: {forProvider: {source: Flux, module: m, remotePullPolicy: Always, varFiles: [{source: SecretKey}]}}}
status: {revision: r, users: 2, observedGeneration: 1}
`)
	assert.Equal(t, "Delete", *spoke.Spec.Template.Spec.DeletionPolicy)
	assert.Equal(t, []string{"*"}, spoke.Spec.Template.Spec.ManagementPolicies)

	spoke.Labels = map[string]string{"new": "label"}
	hub := workspaceTemplates.toHub(t, spoke)
	assert.Empty(t, hub.Spec.Template.Spec.DeletionPolicy, "a write in v1beta1 adds nothing to the hub")
	assert.Nil(t, hub.Spec.Template.Spec.ProviderConfigRef)
	assert.Equal(t, terraform.ScopeNamespaced, hub.Spec.WorkspaceScope)
}

func TestRoundTripOfAWorkspaceTemplateApply(t *testing.T) {
	hub := workspaceTemplateApplies.returns(t, `
spec:
  templateRef: {name: t, namespace: default}
  variables: {a: ""}
  writeConnectionSecretToRef: {name: s, namespace: default}
  waitForSecrets: [{name: a, namespace: b}]
  waitForWorkspaces: [{name: w}, {name: v, namespace: ns}]
  retainWorkspaceOnDelete: true
status:
  applied: true
  workspaceName: w
  lastAppliedTime: "2026-01-02T03:04:05Z"
  conditions:
  - {type: Ready, status: "True", reason: Available, lastTransitionTime: "2026-01-02T03:04:05Z"}
  - {type: Synced, status: "True", reason: ReconcileSuccess, observedGeneration: 1, lastTransitionTime: "2026-01-02T03:04:05Z"}
`)
	assert.Empty(t, preserved(hub))
	assert.Equal(t, infrav1.DeletionPolicyRetain, hub.Spec.DeletionPolicy)
	assert.Equal(t, "w", hub.Status.WorkspaceName)
	assert.Empty(t, hub.Spec.WorkspaceName, "status does not decide what spec says")
}

func TestRetainWorkspaceOnDeleteIsConvertedToADeletionPolicy(t *testing.T) {
	for manifest, policy := range map[string]infrav1.DeletionPolicy{
		`{spec: {templateRef: {name: t}, retainWorkspaceOnDelete: true}}`:                                                            infrav1.DeletionPolicyRetain,
		`{spec: {templateRef: {name: t}, retainWorkspaceOnDelete: false, variables: {}, waitForSecrets: [], waitForWorkspaces: []}}`: infrav1.DeletionPolicyDelete,
		`{spec: {templateRef: {name: t}}}`: "",
	} {
		assert.Equal(t, policy, workspaceTemplateApplies.returns(t, manifest).Spec.DeletionPolicy)
	}
}

func TestV1Beta2FieldsOfAWorkspaceTemplateApplySurviveV1Beta1(t *testing.T) {
	spoke := workspaceTemplateApplies.keeps(t, `
spec:
  templateRef: {name: t}
  workspaceName: w
  waitForSecrets: [{name: a, keys: [k]}, {name: b, keys: [l]}]
status: {workspaceRef: {apiVersion: v, kind: Workspace, name: w, uid: u}, lastAppliedRevision: r, outputs: {a: b}}
`)
	spoke.Spec.WaitForSecrets = spoke.Spec.WaitForSecrets[1:]
	hub := workspaceTemplateApplies.toHub(t, spoke)
	assert.Equal(t, []infrav1.SecretDependency{{Name: "b", Keys: []string{"l"}}}, hub.Spec.WaitForSecrets)
	assert.Equal(t, "w", hub.Spec.WorkspaceName)
}

// With omitempty, an empty list is absent in JSON, so the stored object and the converted one would differ.
func TestInvalidConditionsAloneConvertToNoConditions(t *testing.T) {
	apply := read[*infrav1beta1.WorkspaceTemplateApply](t, `{status: {conditions: [{type: "<>", status: "True"}]}}`)
	hub := fresh[*infrav1.WorkspaceTemplateApply]()
	require.NoError(t, workspaceTemplateApplies.up(t.Context(), apply, hub))
	assert.Nil(t, hub.Status.Conditions)
}
