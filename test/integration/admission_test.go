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

package integration_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// refuse creates an object, or applies a change of it, that the API server must refuse for a reason.
func (w *world) refuse(document string, parts ...string) {
	w.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(w, yaml.Unmarshal([]byte(document), object))
	object.SetNamespace(w.namespace)
	err := w.Create(w.Context(), object.DeepCopy(), client.DryRunAll)
	if apierrors.IsAlreadyExists(err) {
		err = w.Apply(w.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user"), client.DryRunAll)
	}
	require.True(w, apierrors.IsInvalid(err), "want a refusal, got %v", err)
	for _, part := range parts {
		require.ErrorContains(w, err, part)
	}
}

func captClusterWith(spec string) string {
	return "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: CAPTCluster\nmetadata: {name: bad}\nspec: " + spec
}

func controlPlaneWith(spec string) string {
	return "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: CAPTControlPlane\nmetadata: {name: bad}\nspec: " + spec
}

func TestSchemaRefusesWhatCanNeverBeRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, test := range map[string]struct {
		document string
		parts    []string
	}{
		"region":              {captClusterWith(`{region: Frankfurt, vpc: {existingID: vpc-1}}`), []string{"spec.region"}},
		"no VPC":              {captClusterWith(`{region: eu-central-1, vpc: {}}`), []string{"spec.vpc", "exactly one of existingID and template"}},
		"two VPCs":            {captClusterWith(`{region: eu-central-1, vpc: {existingID: vpc-1, template: {ref: {name: x}}}}`), []string{"spec.vpc", "exactly one"}},
		"VPC id":              {captClusterWith(`{region: eu-central-1, vpc: {existingID: subnet-1}}`), []string{"spec.vpc.existingID"}},
		"Secret and template": {captClusterWith(`{region: eu-central-1, vpc: {template: {ref: {name: x}}, connectionSecretRef: {name: s}}}`), []string{"spec.vpc.connectionSecretRef"}},
		"version":             {controlPlaneWith(`{version: latest, workspaceTemplateRef: {name: x}}`), []string{"spec.version"}},
		"no access":           {controlPlaneWith(`{version: "1.35", workspaceTemplateRef: {name: x}, endpointAccess: {public: false, private: false}}`), []string{"spec.endpointAccess", "at least one of public and private"}},
		"CIDR":                {controlPlaneWith(`{version: "1.35", workspaceTemplateRef: {name: x}, endpointAccess: {publicCIDRs: [10.0.0.1/99]}}`), []string{"publicCIDRs", "CIDR notation"}},
		"CIDRs and private":   {controlPlaneWith(`{version: "1.35", workspaceTemplateRef: {name: x}, endpointAccess: {public: false, private: true, publicCIDRs: [10.0.0.0/8]}}`), []string{"publicCIDRs"}},
		"reserved tag":        {controlPlaneWith(`{version: "1.35", workspaceTemplateRef: {name: x}, additionalTags: {"aws:x": v}}`), []string{"spec.additionalTags", "reserved by AWS"}},
		"add-on twice":        {controlPlaneWith(`{version: "1.35", workspaceTemplateRef: {name: x}, addons: [{name: coredns}, {name: coredns}]}`), []string{"spec.addons"}},
		"profile name":        {controlPlaneWith(`{version: "1.35", workspaceTemplateRef: {name: x}, fargateProfiles: [{name: "a b", selectors: [{namespace: a}], workspaceTemplateRef: {name: x}}]}`), []string{"spec.fargateProfiles[0].name"}},
		"no selector":         {controlPlaneWith(`{version: "1.35", workspaceTemplateRef: {name: x}, fargateProfiles: [{name: a, selectors: [], workspaceTemplateRef: {name: x}}]}`), []string{"spec.fargateProfiles[0].selectors"}},
		"six selectors":       {controlPlaneWith(`{version: "1.35", workspaceTemplateRef: {name: x}, fargateProfiles: [{name: a, workspaceTemplateRef: {name: x}, selectors: [{namespace: a}, {namespace: b}, {namespace: c}, {namespace: d}, {namespace: e}, {namespace: f}]}]}`), []string{"spec.fargateProfiles[0].selectors"}},
		"backoff":             {controlPlaneWith(`{version: "1.35", workspaceTemplateRef: {name: x}, recovery: {backoff: {initialSeconds: 60, maxSeconds: 30}}}`), []string{"spec.recovery.backoff", "must not exceed"}},
		"destroying recovery": {controlPlaneWith(`{version: "1.35", workspaceTemplateRef: {name: x}, recovery: {actions: [{type: RecreateWorkspace}]}}`), []string{"spec.recovery.actions[0]", "allowDestroy"}},
	} {
		t.Run(name, func(t *testing.T) {
			(&world{T: t, Client: w.Client, namespace: w.namespace}).refuse(test.document, test.parts...)
		})
	}
}

func TestWhatIsWrittenOnceStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	apply := "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: WorkspaceTemplateApply\nmetadata: {name: a}\nspec: {templateRef: {name: x}, workspaceName: %s}"
	w.apply(fmt.Sprintf(apply, "one"))
	w.refuse(fmt.Sprintf(apply, "two"), "spec.workspaceName", "immutable once set")
	cluster := captClusterWith(`{region: eu-central-1, vpc: {existingID: vpc-1}, workspaceTemplateApplyRef: {name: %s}}`)
	w.apply(fmt.Sprintf(cluster, "one"))
	w.refuse(fmt.Sprintf(cluster, "two"), "spec.workspaceTemplateApplyRef", "another VPC")
	w.refuse(captClusterWith(`{region: eu-west-1, vpc: {existingID: vpc-1}, workspaceTemplateApplyRef: {name: one}}`), "spec.region", "immutable")
	w.refuse(captClusterWith(`{region: eu-central-1, vpc: {existingID: vpc-2}, workspaceTemplateApplyRef: {name: one}}`), "spec.vpc.existingID", "immutable")
	w.refuse(captClusterWith(`{region: eu-central-1, vpc: {template: {ref: {name: x}}}, workspaceTemplateApplyRef: {name: one}}`), "spec.vpc", "can not change between")
	plane := controlPlaneWith(`{version: "1.35", workspaceTemplateRef: {name: x}, workspaceTemplateApplyRef: {name: %s}}`)
	w.apply(fmt.Sprintf(plane, "one"))
	w.refuse(fmt.Sprintf(plane, "two"), "spec.workspaceTemplateApplyRef", "another EKS cluster")
}
