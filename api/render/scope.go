// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capt-provider/capt/api/terraform"
)

// toNamespacedScope changes a spec to the spec of a namespaced Workspace. References must be in its namespace, and their field namespace is
// removed. Fields of the cluster scope are converted or removed.
func toNamespacedScope(spec *terraform.WorkspaceSpec, namespace string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, ref := range spec.References(path) {
		if *ref.Namespace != "" && *ref.Namespace != namespace {
			errs = append(errs, otherNamespaceError(ref, namespace))
		}
		*ref.Namespace = ""
	}
	if spec.DeletionPolicy == terraform.DeletionOrphan {
		spec.ManagementPolicies = withoutDelete(spec.ManagementPolicies)
	}
	spec.DeletionPolicy = ""
	spec.PublishConnectionDetailsTo = nil
	if spec.ProviderConfigRef != nil {
		spec.ProviderConfigRef.Policy = nil
		if spec.ProviderConfigRef.Kind == "" {
			spec.ProviderConfigRef.Kind = DefaultProviderConfigKind
		}
	}
	return errs
}

// toClusterScope changes a spec to the spec of a cluster-scoped Workspace. Such a Workspace can read any namespace, so references must be
// in the namespace of the WorkspaceTemplateApply, or in the namespace of the template if they have no placeholders. References that an
// adopted Workspace already has are accepted.
func toClusterScope(spec *terraform.WorkspaceSpec, in Input, path *field.Path) field.ErrorList {
	literal := map[string]string{}
	for _, ref := range in.Template.Spec.Template.Spec.DeepCopy().References(path) {
		if *ref.Namespace == in.Template.Namespace {
			literal[ref.Path.String()] = ref.Object
		}
	}
	if in.Apply.Spec.WriteConnectionSecretToRef != nil {
		// The WorkspaceTemplateApply overrides the template.
		delete(literal, path.Child("writeConnectionSecretToRef").String())
	}
	var errs field.ErrorList
	for _, ref := range spec.References(path) {
		object, isLiteral := literal[ref.Path.String()]
		switch *ref.Namespace {
		case "":
			*ref.Namespace = in.Apply.Namespace
		case in.Apply.Namespace:
		default:
			ofTemplate := *ref.Namespace == in.Template.Namespace && isLiteral && object == ref.Object
			if !ofTemplate && !isRecorded(ref, in.Recorded) {
				errs = append(errs, otherNamespaceError(ref, in.Apply.Namespace))
			}
		}
	}
	if spec.ProviderConfigRef != nil {
		spec.ProviderConfigRef.Kind = ""
	}
	return errs
}

// isRecorded reports whether the adopted Workspace already has the same reference.
func isRecorded(ref terraform.Reference, recorded *terraform.WorkspaceSpec) bool {
	return recorded != nil && slices.ContainsFunc(recorded.References(nil), func(has terraform.Reference) bool {
		return has.Kind == ref.Kind && has.Connection == ref.Connection && has.Object == ref.Object && *has.Namespace == *ref.Namespace
	})
}

// validateFluxSource applies the rule for references to the source of a Flux module, Kind::namespace/name.
func validateFluxSource(spec *terraform.WorkspaceSpec, in Input, path *field.Path) field.ErrorList {
	if spec.ForProvider.Source != terraform.SourceFlux {
		return nil
	}
	_, object, _ := strings.Cut(spec.ForProvider.Module, "::")
	namespace, name, found := strings.Cut(object, "/")
	literal := spec.ForProvider.Module == in.Template.Spec.Template.Spec.ForProvider.Module && namespace == in.Template.Namespace
	recorded := in.Recorded != nil && in.Recorded.ForProvider.Source == terraform.SourceFlux && in.Recorded.ForProvider.Module == spec.ForProvider.Module
	if recorded || found && !strings.Contains(name, "/") && (namespace == in.Apply.Namespace || literal) {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("forProvider", "module"), fmt.Sprintf(
		"must be Kind::%s/name, a source in the namespace of the WorkspaceTemplateApply, or a literal source in the namespace of the template", in.Apply.Namespace))}
}

// otherNamespaceError returns the error for a reference to a namespace that is not allowed.
func otherNamespaceError(ref terraform.Reference, namespace string) *field.Error {
	return field.Forbidden(ref.Path.Child("namespace"), fmt.Sprintf(
		"must be %q, the namespace of the WorkspaceTemplateApply. Remove the field", namespace))
}

// withoutDelete removes Delete from managementPolicies, which retains the cloud resources of a deleted Workspace in the namespaced scope.
func withoutDelete(actions []terraform.ManagementAction) []terraform.ManagementAction {
	if len(actions) == 0 || slices.Contains(actions, terraform.ManageAll) {
		return []terraform.ManagementAction{"Observe", "Create", "Update", "LateInitialize"}
	}
	return slices.DeleteFunc(slices.Clone(actions), func(action terraform.ManagementAction) bool {
		return action == terraform.ManageDelete
	})
}
