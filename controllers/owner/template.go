// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/consumption"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
)

// TemplateFacts are what an owner knows about the WorkspaceTemplate that it refers to.
type TemplateFacts struct {
	Key types.NamespacedName
	// Template is nil when there is none that the owner may use.
	Template *infrav1.WorkspaceTemplate
	// Unreadable is why the template could not be read.
	Unreadable error
	// Restricted is true when fields of the owner restrict access.
	Restricted bool
	// Restricting are those of them that have no effect with the template, Others are other fields that have none.
	Restricting, Others field.ErrorList
}

// ObserveTemplate reads the template that an object of a namespace refers to, and compares its fields with it.
func ObserveTemplate(ctx context.Context, lookup workspacetemplate.Lookup, key types.NamespacedName, namespace string, fields []consumption.TypedField) TemplateFacts {
	f := TemplateFacts{Key: key, Restricted: consumption.RestrictsAccess(fields)}
	if f.Template, f.Unreadable = lookup.Permitted(ctx, key, namespace); f.Template != nil {
		f.Restricting, f.Others = consumption.Unconsumed(f.Template, fields)
	}
	return f
}

// InUse reports whether an owner uses the template already: it has a WorkspaceTemplateApply with it or, without one, was built.
func (f *TemplateFacts) InUse(apply *infrav1.WorkspaceTemplateApply, built bool) bool {
	if apply == nil {
		return built
	}
	return apply.TemplateKey() == f.Key
}

// TemplateInterval is how often to look at a template that blocks and cannot be watched.
const TemplateInterval = time.Minute

// Unwatched reports whether no watch reports when an object of a namespace may use the template: that depends on the labels of the
// namespace, or the template is outside of what the manager watches.
func (f *TemplateFacts) Unwatched(namespace string) bool {
	return f.Key.Namespace != namespace || f.Unreadable != nil
}

// Blocks says why a template is not taken into use; nil when it may be. It does not concern objects that use the template
// already.
func (f *TemplateFacts) Blocks(conditionType string) *engine.Condition {
	var condition engine.Condition
	switch {
	case f.Template != nil && !f.Template.DeletionTimestamp.IsZero():
		condition = engine.False(conditionType, infrav1.TemplateDeletingReason, validation.TemplateLeaves(f.Key))
	case len(f.Restricting) > 0:
		condition = engine.False(conditionType, infrav1.FieldNotConsumedReason, "nothing is created: "+sentences(f.Restricting))
	case f.Restricted && f.Unreadable != nil:
		condition = engine.False(conditionType, infrav1.LookupFailedReason, fmt.Sprintf(
			"spec restricts access to the API server, and WorkspaceTemplate %s cannot be read: %v. Nothing is created; CAPT tries again", f.Key, f.Unreadable))
	case f.Restricted && f.Template == nil:
		condition = engine.False(conditionType, infrav1.TemplateNotFoundReason, fmt.Sprintf(
			"WorkspaceTemplate %s does not exist, or does not allow this namespace, and spec restricts access to the API server: nothing is created before it is known that the template does so. Create it, or add the namespace to its spec.allowedNamespaces", f.Key))
	default:
		return nil
	}
	return &condition
}

// Report sets the condition that lists the fields without effect, and removes it when there are none.
func Report(object engine.Object, templates ...*TemplateFacts) {
	var found field.ErrorList
	reason := infrav1.FieldsWithoutEffectReason
	for _, f := range templates {
		if f.Unreadable != nil {
			return // What was known stays.
		}
		found = append(append(found, f.Restricting...), f.Others...)
		if len(f.Restricting) > 0 {
			reason = infrav1.FieldNotConsumedReason
		}
	}
	if len(found) == 0 {
		conditions.Delete(object, infrav1.FieldsConsumedCondition)
		return
	}
	engine.Set(object, engine.False(infrav1.FieldsConsumedCondition, reason, sentences(found)))
}

// sentences are errors without their values.
func sentences(errs field.ErrorList) string {
	told := make([]string, len(errs))
	for i, e := range errs {
		told[i] = e.Field + ": " + e.Detail
	}
	return strings.Join(told, "; ")
}
