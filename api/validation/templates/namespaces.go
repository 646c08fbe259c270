// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// reference is a place in a template that names an object in a namespace.
type reference struct {
	namespace, object string
	path              *field.Path
	// replaceable is true when a user can put another reference in its place.
	replaceable bool
	// anyScope is true when the template's own namespace is allowed in both scopes, not in the cluster scope alone.
	anyScope bool
}

// references lists every place of a template that names a namespace.
func references(spec *terraform.WorkspaceSpec, path *field.Path) []reference {
	var refs []reference
	for _, ref := range spec.References(path) {
		refs = append(refs, reference{namespace: *ref.Namespace, object: ref.Object, path: ref.Path.Child("namespace"), replaceable: ref.Connection})
	}
	if spec.ForProvider.Source == terraform.SourceFlux {
		_, address, _ := strings.Cut(spec.ForProvider.Module, "::")
		if namespace, object, found := strings.Cut(address, "/"); found {
			refs = append(refs, reference{namespace: namespace, object: object, path: path.Child("forProvider", "module"), anyScope: true})
		}
	}
	return refs
}

// namespaces checks the references of a template to other objects. A reference stays within the namespace of the user; in
// the cluster scope, one that the template makes literally may also be in the template's own. So a reference to another
// namespace works for the users there at most, and is refused when there can be none.
func namespaces(template *infrav1.WorkspaceTemplate, path *field.Path) validation.Findings {
	var findings validation.Findings
	shared := template.Spec.AllowedNamespaces.IsDefined()
	for _, ref := range references(&template.Spec.Template.Spec, path) {
		own := ref.namespace == template.Namespace
		switch {
		case ref.namespace == "", terraform.Placeholder.MatchString(ref.namespace):
		case own && (!shared || ownAllowed(template, ref)):
		case ref.replaceable:
			findings.Warn(ref.path, "only works for WorkspaceTemplateApplies in namespace %s and for those with their own writeConnectionSecretToRef. Remove the namespace", ref.namespace)
		case own, mayUse(template, ref.namespace):
			findings.Warn(ref.path, "only works for WorkspaceTemplateApplies in namespace %s. Remove the namespace, or set it with a variable", ref.namespace)
		default:
			findings.Refuse(validation.Forbidden(ref.path, "refers to namespace %s, which the template does not allow: a reference is limited to the namespace of the WorkspaceTemplateApply%s. Remove the namespace, or add it to spec.allowedNamespaces",
				ref.namespace, orOwn(template, ref)))
		}
	}
	return findings
}

// ownAllowed reports whether users in other namespaces get what the template refers to in its own. The reference must be
// literal: with a variable in it, users could read whatever they want there.
func ownAllowed(template *infrav1.WorkspaceTemplate, ref reference) bool {
	return (ref.anyScope || template.Spec.WorkspaceScope == terraform.ScopeCluster) && !terraform.Placeholder.MatchString(ref.object)
}

func orOwn(template *infrav1.WorkspaceTemplate, ref reference) string {
	if ref.anyScope || template.Spec.WorkspaceScope == terraform.ScopeCluster {
		return ", or to that of the template"
	}
	return ""
}

// mayUse reports whether the template could be used from a namespace. Labels of a namespace can change, so that a selector
// could select any.
func mayUse(template *infrav1.WorkspaceTemplate, namespace string) bool {
	allowed := template.Spec.AllowedNamespaces
	return allowed.IsDefined() && (slices.Contains(allowed.Names, namespace) || slices.Contains(allowed.Names, "*") || allowed.Selector != nil)
}
