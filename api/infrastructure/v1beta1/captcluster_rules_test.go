// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
)

const (
	either = "exactly one of existingVpcId and vpcTemplateRef must be set"
	retain = "retainVpcOnDelete is only used with vpcTemplateRef"
)

func captCluster(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	require.NoError(t, yaml.Unmarshal([]byte("spec: "+spec), &object.Object))
	object.SetGroupVersionKind(infrav1beta1.GroupVersion.WithKind("CAPTCluster"))
	return object
}

func rules(t *testing.T) *schema.Schema {
	t.Helper()
	schemas, err := schema.New(crd.Definitions)
	require.NoError(t, err)
	of, err := schemas.Of(infrav1beta1.GroupVersion.WithKind("CAPTCluster"))
	require.NoError(t, err)
	return of
}

func assertRefused(t *testing.T, want string, errs field.ErrorList) {
	t.Helper()
	if want == "" {
		assert.Empty(t, errs)
		return
	}
	require.Len(t, errs, 1)
	assert.Contains(t, errs[0].Error(), want)
}

func TestMistakesThatConversionWouldHide(t *testing.T) {
	of := rules(t)
	for name, row := range map[string]struct{ spec, refused string }{
		"a template":                            {`{region: r, vpcTemplateRef: {name: t}}`, ""},
		"an existing VPC":                       {`{region: r, existingVpcId: vpc-1}`, ""},
		"a template, and an empty id":           {`{region: r, vpcTemplateRef: {name: t}, existingVpcId: ""}`, ""},
		"what CAPT wrote":                       {`{region: r, vpcTemplateRef: {name: t}, workspaceTemplateApplyName: demo-vpc, retainVpcOnDelete: true}`, ""},
		"an existing VPC that is retained":      {`{region: r, existingVpcId: vpc-1, retainVpcOnDelete: true}`, retain},
		"an existing VPC that is not":           {`{region: r, existingVpcId: vpc-1, retainVpcOnDelete: false}`, ""},
		"both":                                  {`{region: r, existingVpcId: vpc-1, vpcTemplateRef: {name: t}}`, either},
		"both, one of them in use":              {`{region: r, existingVpcId: vpc-1, vpcTemplateRef: {name: t}, workspaceTemplateApplyName: demo-vpc}`, either},
		"neither":                               {`{region: r}`, either},
		"neither, and an empty id":              {`{region: r, existingVpcId: ""}`, either},
		"neither, but a WorkspaceTemplateApply": {`{region: r, workspaceTemplateApplyName: demo-vpc}`, either},
	} {
		t.Run(name, func(t *testing.T) { assertRefused(t, row.refused, of.Validate(t.Context(), captCluster(t, row.spec))) })
	}
}

func TestMistakesOfBeforeDoNotKeepAnObjectFromBeingChanged(t *testing.T) {
	of := rules(t)
	for name, row := range map[string]struct{ old, spec, refused string }{
		"both stay":            {`{region: r, existingVpcId: vpc-1, vpcTemplateRef: {name: t}}`, `{region: r, existingVpcId: vpc-1, vpcTemplateRef: {name: other}}`, ""},
		"both become one":      {`{region: r, existingVpcId: vpc-1, vpcTemplateRef: {name: t}}`, `{region: r, vpcTemplateRef: {name: t}}`, ""},
		"one becomes both":     {`{region: r, vpcTemplateRef: {name: t}}`, `{region: r, existingVpcId: vpc-1, vpcTemplateRef: {name: t}}`, either},
		"one becomes none":     {`{region: r, vpcTemplateRef: {name: t}}`, `{region: r}`, either},
		"none stays":           {`{region: r}`, `{region: r, workspaceTemplateApplyName: demo-vpc}`, ""},
		"retain stays":         {`{region: r, existingVpcId: vpc-1, retainVpcOnDelete: true}`, `{region: r, existingVpcId: vpc-1, retainVpcOnDelete: true, vpcConfig: {name: net}}`, ""},
		"retain comes later":   {`{region: r, existingVpcId: vpc-1}`, `{region: r, existingVpcId: vpc-1, retainVpcOnDelete: true}`, retain},
		"retain was something": {`{region: r, vpcTemplateRef: {name: t}, retainVpcOnDelete: true}`, `{region: r, existingVpcId: vpc-1, retainVpcOnDelete: true}`, retain},
	} {
		t.Run(name, func(t *testing.T) {
			assertRefused(t, row.refused, of.ValidateUpdate(t.Context(), captCluster(t, row.spec), captCluster(t, row.old)))
		})
	}
}
