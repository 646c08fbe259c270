// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

const hidden = "WorkspaceTemplate shared/vpc does not exist, or does not allow namespace team"

func TestReferencesToTemplates(t *testing.T) {
	own := builder.WorkspaceTemplate("vpc", builder.WithNamespace("team"))
	local, remote := infrav1.WorkspaceTemplateReference{Name: "vpc"}, infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: "shared"}
	for name, row := range map[string]struct {
		world    *fakeWorld
		ref      infrav1.WorkspaceTemplateReference
		found    bool
		errors   []finding
		warnings []string
	}{
		"in the own namespace": {world: newWorld(own), ref: local, found: true},
		"in the own namespace, which is named": {
			world: newWorld(own), ref: infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: "team"}, found: true},
		"not there yet": {world: newWorld(), ref: local,
			warnings: []string{"spec.templateRef: WorkspaceTemplate vpc does not exist yet"}},
		"one of the same name elsewhere is another one": {world: newWorld(shared(infrav1.AllowedNamespaces{})), ref: local, warnings: []string{"does not exist yet"}},
		"elsewhere, and allowed":                        {world: newWorld(shared(infrav1.AllowedNamespaces{Names: []string{"team"}})), ref: remote, found: true},
		"elsewhere, and allowed by labels":              {world: newWorld(shared(blue), namespace("team", map[string]string{"team": "blue"})), ref: remote, found: true},
		"elsewhere, and not allowed":                    {world: newWorld(shared(infrav1.AllowedNamespaces{})), ref: remote, errors: []finding{{"spec.templateRef", field.ErrorTypeForbidden, hidden}}},
		"elsewhere, and not allowed by labels": {world: newWorld(shared(blue), namespace("team", nil)), ref: remote,
			errors: []finding{{"spec.templateRef", field.ErrorTypeForbidden, hidden}}},
		"elsewhere, and not there": {world: newWorld(), ref: remote, warnings: []string{"spec.templateRef: " + hidden}},
	} {
		t.Run(name, func(t *testing.T) {
			template, findings, err := validation.TemplateReference(context.Background(), row.world, row.ref, "team", field.NewPath("spec", "templateRef"))
			require.NoError(t, err)
			assert.Equal(t, row.found, template != nil)
			assertRefused(t, findings.Errors, row.errors...)
			assertWarned(t, findings.Warnings, row.warnings...)
		})
	}
}
