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

// reference is a field of a template that refers to an object in a namespace.
type reference struct {
	namespace, object string
	path              *field.Path
	// replaceable is true when the WorkspaceTemplateApply can override the reference.
	replaceable bool
	// anyScope is true when the namespace of the template is allowed in both scopes, not only in the cluster scope.
	anyScope bool
}

// references lists all references of a template that may have a namespace.
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

// validateReferences checks the namespaces of references to other objects. A reference is limited to the namespace of the
// WorkspaceTemplateApply; in the cluster scope, one without placeholders may also be in the namespace of the template. So a reference to
// any other namespace works only for WorkspaceTemplateApplies in that namespace: it is a warning if the template allows that namespace, and
// an error if not.
func validateReferences(template *infrav1.WorkspaceTemplate, path *field.Path) validation.Findings {
	var findings validation.Findings
	shared := template.Spec.AllowedNamespaces.IsDefined()
	for _, ref := range references(&template.Spec.Template.Spec, path) {
		own := ref.namespace == template.Namespace
		switch {
		case ref.namespace == "", terraform.Placeholder.MatchString(ref.namespace):
		case own && (!shared || isOwnNamespaceAllowed(template, ref)):
		case ref.replaceable:
			findings.Warn(ref.path, "only works for WorkspaceTemplateApplies in namespace %s and for those with their own writeConnectionSecretToRef. Remove the namespace", ref.namespace)
		case own, mayUse(template, ref.namespace):
			findings.Warn(ref.path, "only works for WorkspaceTemplateApplies in namespace %s. Remove the namespace, or set it with a variable", ref.namespace)
		default:
			findings.Refuse(validation.Forbidden(ref.path, "refers to namespace %s, which the template does not allow: a reference is limited to the namespace of the WorkspaceTemplateApply%s. Remove the namespace, or add it to spec.allowedNamespaces",
				ref.namespace, ownNamespaceText(template, ref)))
		}
	}
	return findings
}

// isOwnNamespaceAllowed reports whether WorkspaceTemplateApplies in other namespaces may use a reference to the namespace of the template.
// Such a reference must not have a placeholder: with a variable, users could read any object in that namespace.
func isOwnNamespaceAllowed(template *infrav1.WorkspaceTemplate, ref reference) bool {
	return (ref.anyScope || template.Spec.WorkspaceScope == terraform.ScopeCluster) && !terraform.Placeholder.MatchString(ref.object)
}

// ownNamespaceText returns the part of a message for references that may also be in the namespace of the template; else empty.
func ownNamespaceText(template *infrav1.WorkspaceTemplate, ref reference) string {
	if ref.anyScope || template.Spec.WorkspaceScope == terraform.ScopeCluster {
		return ", or to the namespace of the template"
	}
	return ""
}

// mayUse reports whether a template can be used from a namespace, now or later: a selector may select any namespace, because labels can
// change.
func mayUse(template *infrav1.WorkspaceTemplate, namespace string) bool {
	allowed := template.Spec.AllowedNamespaces
	return allowed.IsDefined() && (slices.Contains(allowed.Names, namespace) || slices.Contains(allowed.Names, "*") || allowed.Selector != nil)
}
