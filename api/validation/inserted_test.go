// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

// Variables that CAPT sets later are literals in the meantime.
func TestValuesThatChangeTheStructureOfAModuleAreRefusedAtAdmission(t *testing.T) {
	const text = "variable \"x\" {}\nlocals {\n  a = ${owner}\n  b = ${kubernetes_version}\n  c = \"${region}\"\n}\n"
	template := builder.WorkspaceTemplate("vpc", builder.WithModule(text))
	for value, refused := range map[string]bool{"1": false, "-1": false, "true": false, "demo": true, "var.x": true, "1, 2": true, "": true} {
		findings := validation.ValidateVariableValues(template, map[string]string{"owner": value, "region": "eu-west-1"}, variablesPath.Key)
		if !refused {
			assert.Empty(t, findings, value)
			continue
		}
		assertRefused(t, findings.Errors, finding{"spec.variables[owner]", field.ErrorTypeInvalid, `the values of its variables ("owner") would change the structure of the module`})
	}
}

func TestFieldsThatAreInsertedIntoAModule(t *testing.T) {
	tagged := func(value controlplanev1.TagValue) builder.Option {
		return builder.With(func(c *controlplanev1.CAPTControlPlane) {
			c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"size": value}
		})
	}
	inserted := builder.WithParameters(func(params *terraform.WorkspaceParameters) { params.Module += "locals { size = ${tags_size} }\n" })
	for value, refused := range map[controlplanev1.TagValue][]finding{
		"3": nil, "var.x": {{"spec.additionalTags[size]", field.ErrorTypeInvalid, `("tags_size") would change the structure of the module`}},
	} {
		object := builder.CAPTControlPlane("demo", tagged(value))
		expect(t, refused)(validation.ValidateCAPTControlPlane(t.Context(), newFakeReader(passing(inserted), object), object))
	}
	named := func(name string) builder.Option {
		return builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.Name = name })
	}
	template := builder.WorkspaceTemplate("vpc", builder.WithModule("locals {\n  a = \"${cluster_name}${region}\"\n  b = ${vpc_name}\n}\n"))
	object := builder.CAPTCluster("demo", named("main"))
	expect(t, []finding{{"spec.vpc.template.name", field.ErrorTypeInvalid, `("vpc_name") would change the structure of the module`}})(
		validation.ValidateCAPTCluster(t.Context(), newFakeReader(template, object), object))
}
