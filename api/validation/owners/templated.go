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

// derived is the value of a variable that CAPT sets from a field.
type derived struct {
	value string
	path  *field.Path
	// document is true for JSON, which can never be inserted into the text of a module: the template is to be corrected, not the field.
	document bool
}

// variablesOf are the variables of an owner.
type variablesOf struct {
	// given are those of the user, in the field at path.
	given map[string]string
	path  *field.Path
	// setByCAPT are the names of those that CAPT sets, which override those of the user. derived are the values that come from other fields.
	setByCAPT []string
	derived   map[string]derived
}

// pathOf returns the field of a variable.
func (v variablesOf) pathOf(name string) *field.Path {
	if d, ok := v.derived[name]; ok {
		return d.path
	}
	return v.path.Key(name)
}

// validateTemplateUse checks the WorkspaceTemplate that an owner refers to, and the values of its variables.
func validateTemplateUse(ctx context.Context, ref infrav1.WorkspaceTemplateReference, refPath *field.Path, variables variablesOf, lookUp templateLookup) (validation.Findings, error) {
	template, findings, err := lookUp(ctx, ref, refPath)
	if err != nil {
		return findings, err
	}
	findings.Refuse(modules.ValidateVariableNames(variables.given, variables.path)...)
	effective := make(map[string]string, len(variables.given))
	for _, name := range slices.Sorted(maps.Keys(variables.given)) {
		switch {
		case name == naming.ProfileVariable:
			findings.Refuse(validation.Forbidden(variables.path.Key(name), "is reserved for Fargate profiles. Rename the variable"))
		case slices.Contains(variables.setByCAPT, name):
			findings.Warn(variables.path.Key(name), "has no effect: CAPT sets this variable. Remove it")
		case modules.VariableName.MatchString(name): // Other names are errors already, so no warning is added.
			effective[name] = variables.given[name]
		}
	}
	if template != nil {
		findings.Warnings = append(findings.Warnings, modules.UnusedVariableWarnings(template, effective, variables.path, variables.setByCAPT...)...)
		documents := map[string]string{}
		for name, d := range variables.derived {
			if d.document {
				documents[name] = d.value
			} else {
				effective[name] = d.value
			}
		}
		findings.Add(modules.ValidateVariableValues(template, effective, variables.pathOf))
		findings.AddWarnings(modules.ValidateVariableValues(template, documents, variables.pathOf).Errors)
	}
	return findings, nil
}
