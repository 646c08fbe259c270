// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owners

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/modules"
)

// templateLookup looks up and checks the WorkspaceTemplate that a field refers to. The template is nil if it cannot be used.
type templateLookup func(ctx context.Context, ref infrav1.WorkspaceTemplateReference, path *field.Path) (*infrav1.WorkspaceTemplate, validation.Findings, error)

// lookupFrom returns the lookup for objects in a namespace.
func lookupFrom(reader validation.Reader, namespace string) templateLookup {
	return func(ctx context.Context, ref infrav1.WorkspaceTemplateReference, path *field.Path) (*infrav1.WorkspaceTemplate, validation.Findings, error) {
		return validation.TemplateReference(ctx, reader, ref, namespace, path)
	}
}

// lookupFromClass returns the lookup for ClusterClass templates in a namespace. It only warns: Cluster API creates objects from the
// template in the namespaces of Clusters, where the same reference may be valid, and is checked again.
func lookupFromClass(reader validation.Reader, namespace string) templateLookup {
	return func(ctx context.Context, ref infrav1.WorkspaceTemplateReference, path *field.Path) (*infrav1.WorkspaceTemplate, validation.Findings, error) {
		template, findings, err := validation.TemplateReference(ctx, reader, ref, namespace, path)
		findings.DowngradeToWarnings()
		return template, findings, err
	}
}

// validateTemplateUse checks the WorkspaceTemplate that an owner refers to, and the variables of the user. setByCAPT are the names of the
// variables that CAPT sets, which override variables of the user.
func validateTemplateUse(
	ctx context.Context, ref infrav1.WorkspaceTemplateReference, refPath *field.Path, variables map[string]string, variablesPath *field.Path, setByCAPT []string, lookUp templateLookup,
) (validation.Findings, error) {
	template, findings, err := lookUp(ctx, ref, refPath)
	if err != nil {
		return findings, err
	}
	findings.Refuse(modules.ValidateVariableNames(variables, variablesPath)...)
	effective := make(map[string]string, len(variables))
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		switch {
		case name == naming.ProfileVariable:
			findings.Refuse(validation.Forbidden(variablesPath.Key(name), "is reserved for Fargate profiles. Rename the variable"))
		case slices.Contains(setByCAPT, name):
			findings.Warn(variablesPath.Key(name), "has no effect: CAPT sets this variable. Remove it")
		case modules.VariableName.MatchString(name): // Other names are errors already, so no warning is added.
			effective[name] = variables[name]
		}
	}
	if template != nil {
		findings.Add(modules.ValidateVariableValues(template, effective, variablesPath))
		findings.Warnings = append(findings.Warnings, modules.UnusedVariableWarnings(template, effective, variablesPath, setByCAPT...)...)
	}
	return findings, nil
}
