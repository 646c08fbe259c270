// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"maps"
	pathpkg "path"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// fluxModule matches the address of a Flux source: Kind::namespace/name.
var fluxModule = regexp.MustCompile(`^[A-Za-z]+::[^:/]+/[^/]+$`)

// validateSource checks the address of a module that is not inline.
func validateSource(params terraform.WorkspaceParameters, path *field.Path) field.ErrorList {
	module := path.Child("module")
	switch params.Source {
	case terraform.SourceRemote:
		if strings.TrimSpace(params.Module) == "" {
			return field.ErrorList{field.Required(module, "set the address of the module, as terraform init -from-module accepts it")}
		}
	case terraform.SourceFlux:
		// With a placeholder, the address is checked when it is rendered.
		if !terraform.Placeholder.MatchString(params.Module) && !fluxModule.MatchString(params.Module) {
			return field.ErrorList{field.Invalid(module, params.Module,
				"a Flux source has the form Kind::namespace/name, for example GitRepository::team/modules")}
		}
	case terraform.SourceInline:
	}
	return nil
}

// validateVarFiles checks that each file has the reference that its source requires: provider-terraform reads no other.
func validateVarFiles(params terraform.WorkspaceParameters, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range params.VarFiles {
		file := &params.VarFiles[i]
		switch {
		case file.Source == "ConfigMapKey" && file.ConfigMapKeyRef == nil:
			errs = append(errs, field.Required(path.Child("varFiles").Index(i).Child("configMapKeyRef"),
				"source ConfigMapKey requires the name and the key of a ConfigMap"))
		case file.Source == "SecretKey" && file.SecretKeyRef == nil:
			errs = append(errs, field.Required(path.Child("varFiles").Index(i).Child("secretKeyRef"),
				"source SecretKey requires the name and the key of a Secret"))
		}
	}
	return errs
}

// validateProviderConfigKind checks the kind of the ProviderConfig, which only references in the namespaced scope have. A missing reference
// is valid in both scopes: the provider uses the ProviderConfig with the name "default".
func validateProviderConfigKind(spec *infrav1.WorkspaceTemplateSpec, path *field.Path) field.ErrorList {
	ref := spec.Template.Spec.ProviderConfigRef
	if ref == nil || ref.Kind == "" || spec.WorkspaceScope == terraform.ScopeCluster || terraform.Placeholder.MatchString(ref.Kind) {
		return nil
	}
	supported := []string{"ClusterProviderConfig", "ProviderConfig"}
	if slices.Contains(supported, ref.Kind) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path.Child("providerConfigRef", "kind"), ref.Kind, supported)}
}

// validateAllowedNamespaces checks names and selector of spec.allowedNamespaces.
func validateAllowedNamespaces(allowed infrav1.AllowedNamespaces) field.ErrorList {
	if !allowed.IsDefined() {
		return nil
	}
	path := field.NewPath("spec", "allowedNamespaces")
	var errs field.ErrorList
	for i, name := range allowed.Names {
		if name != "*" && len(utilvalidation.IsDNS1123Label(name)) > 0 {
			errs = append(errs, field.Invalid(path.Child("names").Index(i), name,
				`is not a valid namespace name. Use a name, or "*" for all namespaces`))
		}
	}
	if allowed.Selector == nil {
		return errs
	}
	if _, err := metav1.LabelSelectorAsSelector(allowed.Selector); err != nil {
		errs = append(errs, validation.Invalid(path.Child("selector"), "is not a valid label selector: %v. Correct the selector", err))
	}
	return errs
}

// warnOfFieldsWithoutEffect warns of valid fields that have no effect.
func warnOfFieldsWithoutEffect(spec *infrav1.WorkspaceTemplateSpec, path *field.Path) validation.Findings {
	var findings validation.Findings
	params := spec.Template.Spec.ForProvider
	// The provider writes an inline module into the parent of the entrypoint directory.
	if params.Source == terraform.SourceInline && pathpkg.Clean(params.Entrypoint) != "." {
		findings.Warn(path.Child("forProvider", "entrypoint"), "has no effect: an inline module is a single file. Remove the field")
	}
	if spec.WorkspaceScope != terraform.ScopeCluster && spec.Template.Spec.PublishConnectionDetailsTo != nil {
		findings.Warn(path.Child("publishConnectionDetailsTo"), "has no effect in scope Namespaced. Use writeConnectionSecretToRef")
	}
	return findings
}

// warnOfUnknownFields warns of fields that CAPT does not know and copies to the Workspace unchanged. A misspelled field is otherwise
// detected only when the API server rejects the first Workspace.
func warnOfUnknownFields(spec *terraform.WorkspaceSpec, path *field.Path) validation.Findings {
	var findings validation.Findings
	for _, level := range []struct {
		unknown terraform.UnknownFields
		path    *field.Path
	}{{spec.Unknown, path}, {spec.ForProvider.Unknown, path.Child("forProvider")}} {
		for _, name := range slices.Sorted(maps.Keys(level.unknown)) {
			findings.Warn(level.path.Child(name), "unknown field, passed to the Workspace unchecked. Verify the spelling, and that the installed provider-terraform supports the field")
		}
	}
	return findings
}
