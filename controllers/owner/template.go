// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
)

// ObserveTemplate reads the template that an object in a namespace refers to, and checks which fields of the object have no effect with it.
func ObserveTemplate(ctx context.Context, lookup workspacetemplate.Lookup, key types.NamespacedName, namespace string, fields []validation.TypedField) desired.TemplateFacts {
	template, unreadable := lookup.Permitted(ctx, key, namespace)
	return desired.Template(key, template, unreadable, fields)
}

// TemplateInterval is how often to read a template that blocks an object and that no watch covers.
const TemplateInterval = time.Minute

// AwaitsTemplate reports whether no watch reports that an object of a namespace, which a template blocks, may use it: that depends on the labels of
// the namespace, or the template is outside of the namespaces that the manager watches.
func AwaitsTemplate(f *desired.TemplateFacts, namespace string) bool {
	return f.Key.Namespace != namespace || f.Unreadable != nil
}

// ReportTemplates sets the condition that lists the fields without effect, and removes it when there are none.
func ReportTemplates(object engine.Object, templates ...*desired.TemplateFacts) {
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
	engine.Set(object, engine.False(infrav1.FieldsConsumedCondition, reason, desired.Messages(found)))
}
