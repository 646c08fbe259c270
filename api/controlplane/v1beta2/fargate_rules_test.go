// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
)

func of(t *testing.T, kind string) *schema.Schema {
	t.Helper()
	schemas, err := schema.New(crd.Definitions)
	require.NoError(t, err)
	found, err := schemas.Of(controlplanev1.GroupVersion.WithKind(kind))
	require.NoError(t, err)
	return found
}

func parse(t *testing.T, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	require.NoError(t, yaml.Unmarshal([]byte("spec: "+spec), &object.Object))
	object.SetGroupVersionKind(controlplanev1.GroupVersion.WithKind(kind))
	return object
}

func withProfile(more string) string {
	return `{version: "1.35", workspaceTemplateRef: {name: eks}, fargateProfiles: [{selectors: [{namespace: a}], workspaceTemplateRef: {name: f}, ` + more + `}]}`
}

func TestProfileNamesOfEKSItself(t *testing.T) {
	rules := of(t, "CAPTControlPlane")
	for name, refused := range map[string]bool{"eks-a": true, "eks": false, "eksa": false, "my-eks-a": false, "EKS-a": false} {
		errs := rules.Validate(t.Context(), parse(t, "CAPTControlPlane", withProfile("name: "+name)))
		if !refused {
			assert.Empty(t, errs)
			continue
		}
		require.Len(t, errs, 1)
		assert.Equal(t, "spec.fargateProfiles[0].name", errs[0].Field)
		assert.Contains(t, errs[0].Detail, "reserved by EKS")
	}
}

func TestTheWorkspaceTemplateApplyOfAProfileIsWrittenOnce(t *testing.T) {
	rules := of(t, "CAPTControlPlane")
	for name, row := range map[string]struct {
		old, now string
		refused  bool
	}{
		"set":                         {`name: a`, `name: a, workspaceTemplateApplyRef: {name: x}`, false},
		"left alone":                  {`name: a, workspaceTemplateApplyRef: {name: x}`, `name: a, workspaceTemplateApplyRef: {name: x}`, false},
		"changed":                     {`name: a, workspaceTemplateApplyRef: {name: x}`, `name: a, workspaceTemplateApplyRef: {name: other}`, true},
		"taken away":                  {`name: a, workspaceTemplateApplyRef: {name: x}`, `name: a`, true},
		"gone with the profile":       {`name: a, workspaceTemplateApplyRef: {name: x}`, `name: b`, false},
		"another profile has another": {`name: a, workspaceTemplateApplyRef: {name: x}`, `name: b, workspaceTemplateApplyRef: {name: other}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			errs := rules.ValidateUpdate(t.Context(), parse(t, "CAPTControlPlane", withProfile(row.now)), parse(t, "CAPTControlPlane", withProfile(row.old)))
			if !row.refused {
				assert.Empty(t, errs)
				return
			}
			require.Len(t, errs, 1)
			assert.Equal(t, "spec.fargateProfiles[0].workspaceTemplateApplyRef", errs[0].Field)
			assert.Contains(t, errs[0].Detail, "is immutable")
		})
	}
}

func TestATemplateHasNoWorkspaceTemplateApplyOfOneCluster(t *testing.T) {
	rules := of(t, "CAPTControlPlaneTemplate")
	template := func(profile string) *unstructured.Unstructured {
		return parse(t, "CAPTControlPlaneTemplate", `{template: {spec: {workspaceTemplateRef: {name: eks}, fargateProfiles: [{selectors: [{namespace: a}], workspaceTemplateRef: {name: f}, `+profile+`}]}}}`)
	}
	assert.Empty(t, rules.Validate(t.Context(), template(`name: a`)))
	errs := rules.Validate(t.Context(), template(`name: a, workspaceTemplateApplyRef: {name: x}`))
	require.Len(t, errs, 1)
	assert.Equal(t, "spec.template.spec.fargateProfiles", errs[0].Field)
	assert.Contains(t, errs[0].Detail, "refers to an object of one Cluster")
}
