// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// Otherwise, an upgrade of CAPT would be a new revision of every template.
func TestSubstitutionIsPartOfARevisionIfItChangesWorkspaces(t *testing.T) {
	modes := []infrav1.Substitution{"", infrav1.SubstitutionAll, infrav1.SubstitutionFields}
	for name, row := range map[string]struct {
		module, value string
		same          map[infrav1.Substitution]bool // as without the field
	}{
		"no placeholder":               {"locals {}", "x", map[infrav1.Substitution]bool{"": true, infrav1.SubstitutionAll: true, infrav1.SubstitutionFields: true}},
		"no placeholder in the module": {"locals {}", "${x}", map[infrav1.Substitution]bool{"": true, infrav1.SubstitutionAll: true}},
		"a placeholder in the module":  {`locals { a = "${x}" }`, "${x}", map[infrav1.Substitution]bool{"": true, infrav1.SubstitutionAll: true}},
		"an escape":                    {"locals {}", "$${x}", map[infrav1.Substitution]bool{"": true}},
	} {
		template := builder.WorkspaceTemplate("vpc", builder.WithModule(row.module), builder.WithParameters(func(p *terraform.WorkspaceParameters) {
			p.Vars = []terraform.Var{{Key: "a", Value: row.value}}
		}))
		without := HashOf(template)
		for _, mode := range modes {
			template.Spec.Substitution = mode
			assert.Equal(t, row.same[mode], HashOf(template) == without, "%s, %s", name, mode)
			revision := Revision{Hash: HashOf(template), Content: contentOf(template), Number: 1}
			stored, err := revision.Object(template)
			require.NoError(t, err)
			assert.Contains(t, string(stored.Data.Raw), row.value)
			for _, current := range modes {
				edited := template.DeepCopy()
				edited.Spec.Substitution = current
				assert.Equal(t, revision.Hash, HashOf(revision.At(edited)), "%s: %s at %s", name, current, mode)
			}
		}
	}
}

// A write without the field keeps the field, so a template cannot get a content back that it had without it.
func TestATemplateReturnsToAContentFromBeforeTheField(t *testing.T) {
	earlier := builder.WorkspaceTemplate("vpc", builder.WithModule(`locals { a = "${x}" }`))
	revision := Revision{Hash: HashOf(earlier), Content: contentOf(earlier), Number: 1}
	edited := builder.WorkspaceTemplate("vpc", builder.WithModule(`variable "x" {}`))
	edited.Spec.Substitution = infrav1.SubstitutionFields
	at := revision.At(edited)
	assert.Equal(t, infrav1.SubstitutionAll, at.Spec.Substitution)
	assert.Equal(t, revision.Hash, HashOf(at))
}
