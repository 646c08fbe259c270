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

// referencesFrom returns the lookup for objects in a namespace.
func referencesFrom(reader validation.Reader, namespace string) templateLookup {
	return func(ctx context.Context, ref infrav1.WorkspaceTemplateReference, path *field.Path) (*infrav1.WorkspaceTemplate, validation.Findings, error) {
		return validation.TemplateReference(ctx, reader, ref, namespace, path)
	}
}

// referencesOfClass returns the lookup for ClusterClass templates in a namespace. It only warns: Cluster API creates objects from the
// template in the namespaces of Clusters, where the same reference may be valid, and is checked again.
func referencesOfClass(reader validation.Reader, namespace string) templateLookup {
	return func(ctx context.Context, ref infrav1.WorkspaceTemplateReference, path *field.Path) (*infrav1.WorkspaceTemplate, validation.Findings, error) {
		template, findings, err := validation.TemplateReference(ctx, reader, ref, namespace, path)
		for _, e := range findings.Errors {
			findings.Warn(path, "%s", e.Detail)
		}
		findings.Errors = nil
		return template, findings, err
	}
}

// templated checks the WorkspaceTemplate that an owner refers to, and the variables of the user. ours are the names of the variables that
// CAPT sets, which override those of the user.
func templated(
	ctx context.Context, ref infrav1.WorkspaceTemplateReference, refPath *field.Path, variables map[string]string, variablesPath *field.Path, ours []string, look templateLookup,
) (validation.Findings, error) {
	template, findings, err := look(ctx, ref, refPath)
	if err != nil {
		return findings, err
	}
	findings.Refuse(modules.Variables(variables, variablesPath)...)
	users := make(map[string]string, len(variables))
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		switch {
		case name == naming.ProfileVariable:
			findings.Refuse(validation.Forbidden(variablesPath.Key(name), "is reserved for Fargate profiles. Rename the variable"))
		case slices.Contains(ours, name):
			findings.Warn(variablesPath.Key(name), "has no effect: CAPT sets this variable. Remove it")
		case modules.VariableName.MatchString(name): // Other names are errors already, so no warning is added.
			users[name] = variables[name]
		}
	}
	if template != nil {
		findings.Add(modules.VariablesOfTemplate(template, users, variablesPath))
		findings.Warnings = append(findings.Warnings, modules.UnusedVariables(template, users, variablesPath, ours...)...)
	}
	return findings, nil
}
