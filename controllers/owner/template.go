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

// TemplateFacts are what an owner observed of the WorkspaceTemplate that it refers to.
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

// ObserveTemplate reads the template that an object in a namespace refers to, and checks which fields of the object have no effect with it.
func ObserveTemplate(ctx context.Context, lookup workspacetemplate.Lookup, key types.NamespacedName, namespace string, fields []consumption.TypedField) TemplateFacts {
	f := TemplateFacts{Key: key, Restricted: consumption.RestrictsAccess(fields)}
	if f.Template, f.Unreadable = lookup.Permitted(ctx, key, namespace); f.Template != nil {
		f.Restricting, f.Others = consumption.Unconsumed(f.Template, fields)
	}
	return f
}

// InUse reports whether an owner uses the template already: it has a WorkspaceTemplateApply with it or, without one, was created before.
func (f *TemplateFacts) InUse(apply *infrav1.WorkspaceTemplateApply, built bool) bool {
	if apply == nil {
		return built
	}
	return apply.TemplateKey() == f.Key
}

// TemplateInterval is how often to read a template that blocks an object and that no watch covers.
const TemplateInterval = time.Minute

// unwatched reports whether no watch reports that an object of a namespace may use the template: it depends on the labels of the
// namespace, or is outside of the namespaces that the manager watches.
func (f *TemplateFacts) unwatched(namespace string) bool {
	return f.Key.Namespace != namespace || f.Unreadable != nil
}

// AwaitsTemplate reports whether a template blocks the use by an object of a namespace, and no watch reports its end. rules are TemplateRules.
func AwaitsTemplate[F any](f *TemplateFacts, namespace string, facts F, rules []engine.Rule[F]) bool {
	return engine.FirstBlocking("", facts, rules) != nil && f.unwatched(namespace)
}

// TemplateRules block the use of a template by an owner that does not use it yet. get returns the template, nil when it is in use already.
func TemplateRules[F any](get func(F) *TemplateFacts) []engine.Rule[F] {
	rule := func(reason string, message func(*TemplateFacts) string) engine.Rule[F] {
		return engine.Rule[F]{Reason: reason, Message: func(facts F) string {
			if f := get(facts); f != nil {
				return message(f)
			}
			return ""
		}}
	}
	return []engine.Rule[F]{
		rule(infrav1.TemplateDeletingReason, (*TemplateFacts).deleting),
		rule(infrav1.FieldNotConsumedReason, (*TemplateFacts).restrictionIgnored),
		rule(infrav1.LookupFailedReason, (*TemplateFacts).restrictionUnchecked),
		rule(infrav1.TemplateNotFoundReason, (*TemplateFacts).restrictionUnknown),
	}
}

func (f *TemplateFacts) deleting() string {
	if f.Template == nil || f.Template.DeletionTimestamp.IsZero() {
		return ""
	}
	return validation.TemplateDeletingMessage(f.Key)
}

func (f *TemplateFacts) restrictionIgnored() string {
	if len(f.Restricting) == 0 {
		return ""
	}
	return "nothing is created: " + messages(f.Restricting)
}

func (f *TemplateFacts) restrictionUnchecked() string {
	if !f.Restricted || f.Unreadable == nil {
		return ""
	}
	return fmt.Sprintf("nothing is created: spec restricts access to the API server, and WorkspaceTemplate %s cannot be read: %v. CAPT retries", f.Key, f.Unreadable)
}

func (f *TemplateFacts) restrictionUnknown() string {
	if !f.Restricted || f.Template != nil || f.Unreadable != nil {
		return ""
	}
	return fmt.Sprintf("nothing is created: spec restricts access to the API server, and CAPT cannot check that WorkspaceTemplate %s applies the restriction: it does not exist, or does not allow this namespace. "+
		"Create it, or add the namespace to its spec.allowedNamespaces", f.Key)
}

// ReportTemplates sets the condition that lists the fields without effect, and removes it when there are none.
func ReportTemplates(object engine.Object, templates ...*TemplateFacts) {
	var found field.ErrorList
	reason := infrav1.FieldsWithoutEffectReason
	for _, f := range templates {
		if f.Unreadable != nil {
			return // The condition stays.
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
	engine.Set(object, engine.False(infrav1.FieldsConsumedCondition, reason, messages(found)))
}

// messages returns the fields and details of errors, without values.
func messages(errs field.ErrorList) string {
	list := make([]string, len(errs))
	for i, e := range errs {
		list[i] = e.Field + ": " + e.Detail
	}
	return strings.Join(list, "; ")
}
