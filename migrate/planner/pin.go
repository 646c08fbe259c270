// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/consumption"
	"github.com/capt-provider/capt/api/validation/templates"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// pin finds a WorkspaceTemplate that reproduces the live Workspace of an owner, and proves that with the render gate.
func (f *fleet) pin(o *owner) *obstacle {
	looks, err := f.looks(o)
	if err != nil {
		return pinFailed(o, err.Error())
	}
	applies := make([]*infrav1.WorkspaceTemplateApply, len(looks))
	for i := range looks {
		applies[i] = looks[i].apply
	}
	live, _ := o.live.Object["spec"].(map[string]any)
	old := f.templates[o.apply.TemplateKey()]
	spec, errs := render.Pin(live, o.live.GetName(), old, applies...)
	if len(errs) > 0 {
		return pinFailed(o, errs.ToAggregate().Error())
	}
	template, err := pinnedTemplate(o, spec, old)
	if err != nil {
		return pinFailed(o, err.Error())
	}
	if errs := refused(o, template, old); len(errs) > 0 {
		return pinFailed(o, errs.ToAggregate().Error())
	}
	key := client.ObjectKeyFromObject(template)
	if f.edited(template) {
		return &obstacle{reason: ReasonPinFailed, message: fmt.Sprintf(
			"WorkspaceTemplate %s, which an earlier plan created to reproduce Workspace %s, was edited. Delete it, or keep the edit under another name, and plan again%s", key, o.live.GetName(), orSkip)}
	}
	f.templates[key] = template
	for _, apply := range applies {
		apply.Spec.TemplateRef = infrav1.WorkspaceTemplateReference{Name: key.Name, Namespace: key.Namespace}
		differences, err := f.rendered(apply, o.live)
		if err != nil {
			return pinFailed(o, err.Error())
		}
		if len(differences) > 0 {
			found := pinFailed(o, strings.Join(fieldsOf(differences), ", ")+" is not taken from the template")
			found.differences = differences
			return found
		}
	}
	o.pinned = template
	return nil
}

// edited reports whether the template that an earlier plan created exists and is not as created.
func (f *fleet) edited(created *infrav1.WorkspaceTemplate) bool {
	there := f.templates[client.ObjectKeyFromObject(created)]
	if there == nil {
		return false
	}
	live, err := runtime.DefaultUnstructuredConverter.ToUnstructured(there)
	if err != nil {
		return true
	}
	spec := plan.Field{Path: "/spec", After: encode(created.Spec)}
	state, err := spec.State(live)
	return err != nil || state != plan.Applied
}

func pinFailed(o *owner, why string) *obstacle {
	return &obstacle{reason: ReasonPinFailed, message: fmt.Sprintf(
		"a WorkspaceTemplate cannot reproduce Workspace %s: %s. Change that field of owner or WorkspaceTemplateApply while no manager runs, and plan again%s", o.live.GetName(), why, orSkip)}
}

// refused is why admission would refuse the template, or the reference of a control plane to it.
func refused(o *owner, template, old *infrav1.WorkspaceTemplate) field.ErrorList {
	errs := templates.WorkspaceTemplate(template).Errors
	if o.plane == nil {
		return errs
	}
	fields := consumption.ControlPlaneFields(o.plane)
	var before field.ErrorList
	if old != nil {
		before, _ = consumption.Unconsumed(old, fields)
	}
	after, _ := consumption.Unconsumed(template, fields)
	return append(errs, slices.DeleteFunc(after, func(e *field.Error) bool {
		return slices.ContainsFunc(before, func(b *field.Error) bool { return b.Field == e.Field })
	})...)
}

// pinnedTemplate is for one owner alone. It is where the old template is, so that references to objects of that namespace stay
// permitted; its name depends on its content.
func pinnedTemplate(o *owner, spec *terraform.WorkspaceSpec, old *infrav1.WorkspaceTemplate) (*infrav1.WorkspaceTemplate, error) {
	template := &infrav1.WorkspaceTemplate{
		TypeMeta: metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: kindTemplate},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.apply.Namespace, Labels: map[string]string{naming.PinnedLabel: "true"},
			Annotations: map[string]string{naming.PinnedForAnnotation: o.Object.String()},
		},
	}
	template.Spec.WorkspaceScope = terraform.ScopeNamespaced
	if o.live.GetNamespace() == "" {
		template.Spec.WorkspaceScope = terraform.ScopeCluster
	}
	if old != nil {
		template.Namespace, template.Spec.PublishOutputs = old.Namespace, old.Spec.PublishOutputs
		template.Spec.Template.Metadata = old.Spec.Template.Metadata
	}
	if template.Namespace != o.apply.Namespace {
		template.Spec.AllowedNamespaces = infrav1.AllowedNamespaces{Names: []string{o.apply.Namespace}}
	}
	template.Spec.Template.Metadata.Description = fmt.Sprintf("Reproduces Workspace %s, as it was when %s was adopted", o.live.GetName(), o.Object)
	template.Spec.Template.Spec = *spec
	content, err := json.Marshal(template.Spec)
	template.Name = naming.PinnedTemplate(o.apply.Name, string(content))
	return template, err
}

// pinSteps create the template. One that an earlier plan created, and its rollback left, is found by the executor.
func (o *owner) pinSteps() ([]plan.Step, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o.pinned)
	if err != nil {
		return nil, fmt.Errorf("encoding WorkspaceTemplate %s: %w", o.pinned.Name, err)
	}
	delete(object, "status")
	why := fmt.Sprintf("reproduces Workspace %s, for %s alone, as decided; a rollback leaves it, unused", o.live.GetName(), o.Object)
	return []plan.Step{{Object: migrate.Ref(kindTemplate, o.pinned), Why: why, Create: object}}, nil
}

// pinnedRef refers to the template that an owner is pinned to.
func (o *owner) pinnedRef() infrav1.WorkspaceTemplateReference {
	return infrav1.WorkspaceTemplateReference{Name: o.pinned.Name, Namespace: o.pinned.Namespace}
}

// whyPinned is why a reference to a template is replaced.
const whyPinned = "this template reproduces the Workspace, as decided"

// pinOwner points the owner to the template that it is pinned to.
func (o *owner) pinOwner(c *change) {
	switch {
	case o.pinned == nil:
	case o.plane != nil:
		c.set("/spec/workspaceTemplateRef", o.plane.Spec.WorkspaceTemplateRef, o.pinnedRef(), whyPinned)
	default:
		c.set("/spec/vpc/template/ref", o.network.Spec.VPC.Template.Ref, o.pinnedRef(), whyPinned)
	}
}
