// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/render"
)

// phase is a part of the life of a WorkspaceTemplateApply.
type phase struct {
	name string
	// skippable says that a life can do without it.
	skippable bool
	// begin is what the user does.
	begin func(w *world)
	// end is nil when everything is as it should be in the end.
	end func(ctx context.Context, w *world) error
}

// The phases.
var (
	creation = phase{"create", false, func(w *world) {
		w.apply(template(w.scope))
		w.apply(workspaceTemplateApply("10.0.0.0/16"))
	}, func(ctx context.Context, w *world) error { return w.ready(ctx, "10.0.0.0/16") }}

	// adoption is what captctl does, with a Workspace and a WorkspaceTemplateApply that CAPT v0.3 left.
	adoption = phase{"adopt", false, func(w *world) {
		w.apply(template(w.scope))
		w.apply(adopted("10.0.0.0/16", w.leaveWorkspace("10.0.0.0/16")))
	}, func(ctx context.Context, w *world) error { return w.ready(ctx, "10.0.0.0/16") }}

	change = phase{"update", true, func(w *world) {
		w.apply(workspaceTemplateApply("10.1.0.0/16"))
	}, func(ctx context.Context, w *world) error { return w.ready(ctx, "10.1.0.0/16") }}

	deletion = phase{"delete", false, func(w *world) {
		w.remove(&infrav1.WorkspaceTemplateApply{}, applyName)
		w.remove(&infrav1.WorkspaceTemplate{}, templateName)
	}, func(ctx context.Context, w *world) error { return w.gone(ctx) }}
)

// ready is nil when the WorkspaceTemplateApply is, with what Terraform made of its variable, and the template is at rest.
func (w *world) ready(ctx context.Context, cidr string) error {
	apply, template := &infrav1.WorkspaceTemplateApply{}, &infrav1.WorkspaceTemplate{}
	if err := w.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: applyName}, apply); err != nil {
		return err
	}
	if err := w.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: templateName}, template); err != nil {
		return err
	}
	readiness := meta.FindStatusCondition(apply.Status.Conditions, infrav1.ReadyCondition)
	switch {
	case apply.Status.ObservedGeneration != apply.Generation:
		return fmt.Errorf("generation %d was not observed yet", apply.Generation)
	case readiness == nil || readiness.Status != metav1.ConditionTrue:
		return fmt.Errorf("not ready: %v", readiness)
	case apply.Status.Outputs["cidr"] != cidr:
		return fmt.Errorf("outputs are %v", apply.Status.Outputs)
	case template.Status.ObservedGeneration != template.Generation || template.Status.Users == nil || *template.Status.Users != 1:
		return fmt.Errorf("the template was not looked at yet: %v", template.Status)
	}
	return nil
}

// gone is nil when nothing is left.
func (w *world) gone(ctx context.Context) error {
	if err := w.absent(ctx, &infrav1.WorkspaceTemplateApply{}, applyName); err != nil {
		return err
	}
	return w.absent(ctx, &infrav1.WorkspaceTemplate{}, templateName)
}

// leaveWorkspace makes the Workspace that CAPT v0.3 would have made, and waits until Terraform is done with it.
func (w *world) leaveWorkspace(cidr string) types.UID {
	w.Helper()
	template := &infrav1.WorkspaceTemplate{}
	require.NoError(w, w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: templateName}, template))
	apply := &infrav1.WorkspaceTemplateApply{Spec: infrav1.WorkspaceTemplateApplySpec{Variables: map[string]string{"cidr": cidr}}}
	apply.Namespace, apply.Name = w.namespace, applyName
	rendered, errs := render.Workspace(render.Input{Apply: apply, Template: template, Name: legacyWorkspace})
	require.Empty(w, errs)
	object := rendered.Object.DeepCopy()
	object.SetAnnotations(nil)
	require.NoError(w, w.Create(w.Context(), object, client.FieldOwner("manager")))
	w.await("Terraform makes what CAPT v0.3 wanted", func(ctx context.Context) error {
		if err := w.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
		for _, condition := range conditions {
			if c := condition.(map[string]any); c["type"] == "Ready" && c["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v: %w", conditions, err)
	})
	return object.GetUID()
}
