// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package render renders a WorkspaceTemplate with variables to a Workspace. Its functions are pure and deterministic. docs/templates.md
// describes the rules.
package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/api/validation/templates"
)

// Names that Crossplane and provider-terraform define.
const (
	// ExternalNameAnnotation is the annotation for the name of the Terraform workspace, which determines the state.
	ExternalNameAnnotation = "crossplane.io/external-name"
	// DefaultProviderConfigKind is the default kind of the ProviderConfig of a namespaced Workspace.
	DefaultProviderConfigKind = "ClusterProviderConfig"
)

// Input has everything that determines a rendered Workspace.
type Input struct {
	Apply    *infrav1.WorkspaceTemplateApply
	Template *infrav1.WorkspaceTemplate
	// Name of the Workspace, from the spec of the WorkspaceTemplateApply.
	Name string
	// ExternalName is the recorded state of the Workspace. Empty means a new Workspace, whose state name is derived from namespace and name
	// of Apply. It must not come from a field that users can write: they could name the state of another namespace.
	ExternalName string
	// Recorded is the spec of the recorded Workspace, if there is one. CAPT v0.3 allowed references to other namespaces; those that the
	// Workspace already has are accepted.
	Recorded *terraform.WorkspaceSpec
	// StatePrefix is the manager's --state-prefix. It is part of the name of new states only.
	StatePrefix string
}

// Rendered is the desired Workspace.
type Rendered struct {
	// Object has only the fields that CAPT owns, for server-side apply.
	Object *unstructured.Unstructured
	// Revision is a hash of its spec (terraform.Revision).
	Revision string
}

// Workspace renders a Workspace. The paths of errors are fields of the WorkspaceTemplate.
func Workspace(in Input) (*Rendered, field.ErrorList) {
	path := field.NewPath("spec", "template", "spec")
	variables := make(map[string]string, len(in.Apply.Spec.Variables)+1)
	maps.Copy(variables, in.Apply.Spec.Variables)
	variables[workspaceNameVariable] = in.Name

	spec, errs := substituteSpec(&in.Template.Spec.Template.Spec, variables, path)
	if len(errs) > 0 {
		return nil, errs
	}
	if ref := in.Apply.Spec.WriteConnectionSecretToRef; ref != nil {
		spec.WriteConnectionSecretToRef = ref.DeepCopy()
	}
	scope := in.Template.Spec.WorkspaceScope
	if scope == terraform.ScopeCluster {
		errs = toClusterScope(spec, in, path)
	} else {
		errs = toNamespacedScope(spec, in.Apply.Namespace, path)
	}
	errs = append(errs, validateFluxSource(spec, in, path)...)
	errs = append(errs, modules.ValidateModule(spec.ForProvider, path.Child("forProvider"))...)
	errs = append(errs, templates.ValidateParameters(spec.ForProvider, path.Child("forProvider"))...)
	if len(errs) > 0 {
		return nil, errs
	}
	return assemble(spec, scope, in)
}

// assemble returns the Workspace for a rendered spec.
func assemble(spec *terraform.WorkspaceSpec, scope terraform.Scope, in Input) (*Rendered, field.ErrorList) {
	content, err := toMap(spec)
	if err != nil {
		return nil, field.ErrorList{field.InternalError(field.NewPath("spec", "template", "spec"), err)}
	}
	revision, err := terraform.Revision(content)
	if err != nil {
		return nil, field.ErrorList{field.InternalError(field.NewPath("spec", "template", "spec"), err)}
	}
	key := types.NamespacedName{Namespace: in.Apply.Namespace, Name: in.Apply.Name}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	object.SetGroupVersionKind(scope.GroupVersionKind())
	object.SetName(in.Name)
	if scope != terraform.ScopeCluster {
		object.SetNamespace(in.Apply.Namespace)
	}
	object.SetAnnotations(map[string]string{
		ExternalNameAnnotation: cmp.Or(in.ExternalName, naming.PrefixedExternalName(in.StatePrefix, key)),
		naming.ClaimAnnotation: naming.Claim(key),
	})
	return &Rendered{Object: object, Revision: revision}, nil
}

// toMap returns a spec as unstructured content. In lists it sets the defaults of the CRD: lists of the Workspace are atomic, so without
// them the live and the rendered list would always differ.
func toMap(spec *terraform.WorkspaceSpec) (map[string]any, error) {
	for i := range spec.ForProvider.VarFiles {
		if spec.ForProvider.VarFiles[i].Format == "" {
			spec.ForProvider.VarFiles[i].Format = terraform.FormatHCL
		}
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encoding the spec of the Workspace: %w", err)
	}
	content := map[string]any{}
	// utiljson decodes whole numbers as int64, as in objects of the API server: a float64 would always differ.
	return content, utiljson.Unmarshal(data, &content)
}
