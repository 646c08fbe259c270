// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func TestTemplatesOfCAPTClusters(t *testing.T) {
	template := func(options ...builder.Option) *infrav1.CAPTClusterTemplate {
		template := &infrav1.CAPTClusterTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: "class"}}
		template.Spec.Template.Spec = builder.CAPTCluster("demo", options...).Spec.CAPTClusterTemplateResourceSpec
		return template
	}
	labeled := template(builder.WithVariables(map[string]string{"a-b": ""}))
	labeled.Spec.Template.ObjectMeta.Labels = map[string]string{"a": "b"}
	bad := template(builder.WithVariables(map[string]string{"a-b": ""}))
	for name, row := range map[string]struct {
		old, object *infrav1.CAPTClusterTemplate
		want        []string
	}{
		"good":                    {nil, template(), nil},
		"bad":                     {nil, bad, []string{"spec.template.spec.vpc.template.variables[a-b]"}},
		"changed":                 {template(), template(builder.WithRegion("us-east-1")), []string{"spec.template.spec"}},
		"bad before, and labeled": {bad, labeled, nil},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.want, refusedFields(t, validated(t, captClusterTemplateRules(newWorld(t)), row.old, row.object)))
		})
	}
}

func TestTemplatesOfCAPTControlPlanes(t *testing.T) {
	template := func(options ...builder.Option) *controlplanev1.CAPTControlPlaneTemplate {
		template := &controlplanev1.CAPTControlPlaneTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: "class"}}
		template.Spec.Template.Spec = builder.CAPTControlPlane("demo", options...).Spec.CAPTControlPlaneTemplateResourceSpec
		return template
	}
	bad := template(builder.WithVariables(map[string]string{"a-b": ""}))
	for name, row := range map[string]struct {
		old, object *controlplanev1.CAPTControlPlaneTemplate
		want        []string
	}{
		"good":                   {nil, template(), nil},
		"bad":                    {nil, bad, []string{"spec.template.spec.variables[a-b]"}},
		"changed":                {template(), template(builder.WithRegion("us-east-1")), []string{"spec.template.spec"}},
		"changed from bad":       {bad, template(), []string{"spec.template.spec"}},
		"bad, and left as it is": {bad, bad, nil},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.want, refusedFields(t, validated(t, captControlPlaneTemplateRules(newWorld(t)), row.old, row.object)))
		})
	}
}
