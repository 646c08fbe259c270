// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/modules"
)

// TemplateFacts are what is known of the WorkspaceTemplate that an owner refers to.
type TemplateFacts struct {
	Key types.NamespacedName
	// Template is nil when it does not exist, or does not allow the namespace of the owner.
	Template *infrav1.WorkspaceTemplate
	// Unreadable is why the template could not be read.
	Unreadable error
	// Restricted is true when fields of the owner restrict access.
	Restricted bool
	// Restricting are the fields that restrict access and have no effect with the template; Others are the other fields without effect.
	Restricting, Others field.ErrorList
}

// Template returns the facts about a template, which is nil if the owner cannot use it, and which fields of the owner have no effect with it.
func Template(key types.NamespacedName, template *infrav1.WorkspaceTemplate, unreadable error, fields []validation.TypedField) TemplateFacts {
	f := TemplateFacts{Key: key, Template: template, Unreadable: unreadable, Restricted: slices.ContainsFunc(fields, func(f validation.TypedField) bool { return f.Restricts })}
	if template != nil {
		f.Restricting, f.Others = validation.FieldsWithoutEffect(template, fields)
	}
	return f
}

// inUse reports whether an owner uses the template already: it has a WorkspaceTemplateApply with it or, without one, was created before.
func (f *TemplateFacts) inUse(apply *infrav1.WorkspaceTemplateApply, built bool) bool {
	if apply == nil {
		return built
	}
	return apply.TemplateKey() == f.Key
}

// blocked blocks the use of a template by an owner that does not use it yet. The template is nil when it is in use already.
func (f *TemplateFacts) blocked() *Blocked {
	const restricts = "nothing is created: spec restricts access to the API server, and "
	switch {
	case f == nil:
		return nil
	case f.Template != nil && !f.Template.DeletionTimestamp.IsZero():
		return &Blocked{infrav1.TemplateDeletingReason, validation.TemplateDeletingMessage(f.Key)}
	case len(f.Restricting) > 0:
		return &Blocked{infrav1.FieldNotConsumedReason, "nothing is created: " + Messages(f.Restricting)}
	case f.Restricted && f.Unreadable != nil:
		return &Blocked{infrav1.LookupFailedReason, fmt.Sprintf(restricts+"WorkspaceTemplate %s cannot be read: %v. CAPT retries", f.Key, f.Unreadable)}
	case f.Restricted && f.Template == nil:
		return &Blocked{infrav1.TemplateNotFoundReason, fmt.Sprintf(restricts+"CAPT cannot check that WorkspaceTemplate %s applies the restriction: it does not exist, or does not allow this namespace. "+
			"Create it, or add the namespace to its spec.allowedNamespaces", f.Key)}
	}
	return nil
}

// MissingOutput is the message about an output that Terraform has not returned, or without a value, although it has applied the module of the template.
// returned is true if it is among the outputs.
func (f *TemplateFacts) MissingOutput(output, value string, returned bool) string {
	done := fmt.Sprintf("Terraform has applied WorkspaceTemplate %s, but ", f.Key)
	var declared bool
	if f.Template != nil {
		_, declared = modules.OutputsOf(f.Template)[output]
	}
	switch {
	case terraform.IsComposite(value):
		return done + fmt.Sprintf("output %q of its module is a list or an object, and must be a string. Correct the expression of the output", output)
	case strings.ContainsFunc(value, unicode.IsSpace):
		return done + fmt.Sprintf("output %q of its module has the value %q, with a space or a line break. Correct the expression of the output, for example with trimspace", output, value)
	case value != "":
		return done + fmt.Sprintf("output %q of its module has the value %q, which means that there is none. Correct the expression of the output", output, value)
	case returned:
		return done + fmt.Sprintf("output %q of its module is empty. Correct the expression of the output", output)
	case declared:
		return done + fmt.Sprintf("output %q of its module is null, or sensitive. Correct the expression of the output", output)
	}
	return done + fmt.Sprintf("its module has no output %q. Add the output to the module", output)
}

// Messages returns the fields and details of errors, without values.
func Messages(errs field.ErrorList) string {
	list := make([]string, len(errs))
	for i, e := range errs {
		list[i] = e.Field + ": " + e.Detail
	}
	return strings.Join(list, "; ")
}

// IsUpToDate reports whether Terraform has applied a WorkspaceTemplateApply, which may not exist, as it is now.
func IsUpToDate(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply != nil && apply.DeletionTimestamp.IsZero() && appliesSpec(apply)
}

func appliesSpec(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Status.ObservedGeneration == apply.Generation && meta.IsStatusConditionTrue(apply.Status.Conditions, infrav1.ReadyCondition)
}

// MissingWorkspace describes why a Workspace that a WorkspaceTemplateApply waits for is not up to date; empty when it is. Its own WorkspaceTemplateApplies,
// the providers, know the desired spec; unowned reports on a Workspace without one.
func MissingWorkspace(apply *infrav1.WorkspaceTemplateApply, dependency infrav1.WorkspaceDependency, providers []infrav1.WorkspaceTemplateApply,
	unowned func() (exists, upToDate bool, err error),
) (string, error) {
	for i := range providers {
		if appliesSpec(&providers[i]) {
			return "", nil
		}
	}
	exists := true
	if len(providers) == 0 {
		found, upToDate, err := unowned()
		if exists = found; upToDate || err != nil {
			return "", err
		}
	}
	switch namespace := apply.DependencyKey(dependency).Namespace; {
	case namespace != apply.Namespace: // Objects of other namespaces are not disclosed.
		return fmt.Sprintf("Workspace %s of namespace %s does not exist, or is not up to date", dependency.Name, namespace), nil
	case !exists:
		return fmt.Sprintf("Workspace %s does not exist", dependency.Name), nil
	}
	return fmt.Sprintf("Workspace %s is not up to date%s", dependency.Name, FailureCause(providers, apply)), nil
}

// FailureCause is the failure of the WorkspaceTemplateApply that provides a dependency; empty when it does not need a user. Progress is not
// part of it: each step would be a status write of all that wait.
func FailureCause(providers []infrav1.WorkspaceTemplateApply, waiting *infrav1.WorkspaceTemplateApply) string {
	const maxCause = 512 // In bytes, of one dependency in a message.
	for i := range providers {
		provider := &providers[i]
		ready := meta.FindStatusCondition(provider.Status.Conditions, infrav1.ReadyCondition)
		if provider.Name == waiting.Name || ready == nil || ready.Status == metav1.ConditionTrue || !reasons.IsProblem(ready.Reason) {
			continue
		}
		return fmt.Sprintf(": WorkspaceTemplateApply %s is not ready: %s", provider.Name, failure.Truncate(ready.Message, maxCause))
	}
	return ""
}

// ReadOwner reads an owner of an object of a namespace; nil if it does not exist. known is false if that cannot be known.
type ReadOwner func(namespace string, ref metav1.OwnerReference) (owner metav1.Object, known bool, err error)

// MissingOwner describes an owner of an object, or of its owners, that does not exist; empty when there is none.
func MissingOwner(object metav1.Object, read ReadOwner) (string, error) {
	const maxOwners = 4 // How many levels of owners are read. CAPT has three: WorkspaceTemplateApply, CAPTCluster, Cluster.
	return missingOwner(object, read, maxOwners)
}

func missingOwner(object metav1.Object, read ReadOwner, levels int) (string, error) {
	if levels == 0 {
		return "", nil
	}
	for _, ref := range object.GetOwnerReferences() {
		owner, known, err := read(object.GetNamespace(), ref)
		switch {
		case err != nil:
			return "", err
		case !known:
			continue
		case owner == nil || owner.GetUID() != ref.UID:
			return fmt.Sprintf("owner %s %s (UID %s) does not exist", ref.Kind, ref.Name, ref.UID), nil
		}
		if missing, err := missingOwner(owner, read, levels-1); missing != "" || err != nil {
			return missing, err
		}
	}
	return "", nil
}
