// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

func TestTheContentOfAPlanRequestIsCheckedAsThatOfItsTemplate(t *testing.T) {
	const vpc = "output \"vpc_id\" { value = 1 }\n"
	stored := builder.WorkspaceTemplate("vpc", builder.WithModule(vpc))
	for name, row := range map[string]struct {
		stored   *infrav1.WorkspaceTemplate
		planned  *infrav1.WorkspaceTemplate
		errors   []finding
		warnings []string
	}{
		"valid": {stored, builder.WorkspaceTemplate("vpc", builder.WithModule(vpc+"output \"a\" { value = 1 }")), nil, nil},
		"a module that cannot be parsed": {
			stored, builder.WorkspaceTemplate("vpc", builder.WithModule("output {")), []finding{{"spec.template.spec.template.spec.forProvider.module", field.ErrorTypeInvalid, "line 1"}}, nil,
		},
		"another scope": {stored, builder.WorkspaceTemplate("vpc", builder.WithModule(vpc), builder.WithScope(terraform.ScopeCluster)), []finding{{"spec.template.spec.workspaceScope", field.ErrorTypeForbidden, "is immutable"}}, nil},
		"an output that is lost": {
			stored, builder.WorkspaceTemplate("vpc", builder.WithModule("output \"a\" { value = 1 }")), nil, []string{"spec.template.spec.template.spec.forProvider.module: the module no longer has the output \"vpc_id\""},
		},
		"no template": {nil, builder.WorkspaceTemplate("vpc", builder.WithModule(vpc)), nil, []string{"spec.template.name: WorkspaceTemplate default/vpc does not exist"}},
	} {
		t.Run(name, func(t *testing.T) {
			var reader validation.Objects
			if row.stored != nil {
				reader = append(reader, row.stored)
			}
			findings, err := validation.Validate(t.Context(), reader, builder.PlanRequestFor("r", row.planned))
			require.NoError(t, err)
			assertRefused(t, findings.Errors, row.errors...)
			assertWarned(t, findings.Warnings, row.warnings...)
		})
	}
	findings, err := validation.Validate(t.Context(), validation.Objects{}, builder.PlanRequest("r", []string{"a"}))
	require.NoError(t, err)
	assert.Empty(t, findings)
}

// As an update of the template, a content without these fields keeps those that are stored.
func TestAPlannedContentKeepsWhatAnUpdateKeeps(t *testing.T) {
	stored := builder.WorkspaceTemplate("vpc", builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.Substitution, template.Spec.PassVariables = infrav1.SubstitutionAll, infrav1.PassNone
		template.Annotations = map[string]string{"a": "b"}
	}))
	edited := builder.WorkspaceTemplate("vpc", builder.WithModule("# 2"))
	planned := validation.PlannedTemplate(builder.PlanRequestFor("r", edited), stored)
	assert.Equal(t, infrav1.SubstitutionAll, planned.Spec.Substitution)
	assert.Equal(t, infrav1.PassNone, planned.Spec.PassVariables)
	assert.Equal(t, "# 2", planned.Spec.Template.Spec.ForProvider.Module)
	assert.Equal(t, stored.ObjectMeta, planned.ObjectMeta)
	assert.Equal(t, infrav1.SubstitutionFields, validation.PlannedTemplate(builder.PlanRequestFor("r", edited), nil).Spec.Substitution, "the default of a new one")
}
