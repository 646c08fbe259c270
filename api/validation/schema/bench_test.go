// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
)

// everything is a spec that uses nearly every field of a CAPTControlPlane.
const everything = `{version: v1.35.0, region: eu-central-1, workspaceTemplateRef: {name: eks}, workspaceTemplateApplyRef: {name: a},
  variables: {a: b, c: d}, additionalTags: {team: a, stage: prod, cost: "17"}, controlPlaneEndpoint: {host: a.example.com, port: 443},
  endpointAccess: {public: Enabled, private: Enabled, publicCIDRs: [10.0.0.0/8, 192.0.2.0/24]}, kubeconfig: {source: Exec}, endpointProbe: Required,
  addons: [{name: coredns}, {name: vpc-cni, version: v1.20.0}, {name: kube-proxy}], timeouts: {controlPlaneSeconds: 1800},
  recovery: {maxRetries: 3, backoff: {initialSeconds: 10, maxSeconds: 20}, actions: [{type: Requeue}, {type: RecreateWorkspace, parameters: {allowDestroy: "true"}}]},
  fargateProfiles: [{name: a, selectors: [{namespace: a, labels: {a: b}}, {namespace: b}], workspaceTemplateRef: {name: fargate}},
    {name: b, selectors: [{namespace: c}], workspaceTemplateRef: {name: fargate}}]}`

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		_, err := schema.New(crd.Definitions)
		require.NoError(b, err)
	}
}

// BenchmarkFirstValidation is New and the compilation of the CEL rules of one kind.
func BenchmarkFirstValidation(b *testing.B) {
	for b.Loop() {
		require.Empty(b, of(b, controlPlane).Validate(b.Context(), object(b, controlPlane, everything)))
	}
}

func BenchmarkValidate(b *testing.B) {
	s, plane := of(b, controlPlane), object(b, controlPlane, everything)
	require.Empty(b, s.Validate(b.Context(), plane))
	for b.Loop() {
		s.Validate(b.Context(), plane)
	}
}

func BenchmarkValidateUpdate(b *testing.B) {
	s, old, plane := of(b, controlPlane), object(b, controlPlane, everything), object(b, controlPlane, everything)
	plane.Object["spec"].(map[string]any)["version"] = "v1.36.0"
	require.Empty(b, s.ValidateUpdate(b.Context(), plane, old))
	for b.Loop() {
		s.ValidateUpdate(b.Context(), plane, old)
	}
}
