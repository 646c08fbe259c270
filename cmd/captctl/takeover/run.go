// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/states"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

// run creates the objects, and waits until all states are adopted.
func (a *adoption) run(ctx context.Context) error {
	if err := applyAll(ctx, a.client, a.objects()); err != nil {
		return err
	}
	if a.Cluster != nil && ptr.Deref(a.Cluster.Spec.Paused, false) {
		if err := patch(ctx, a.client, a.Cluster, map[string]any{"spec": map[string]any{"paused": false}}); err != nil {
			return err
		}
	}
	waiting, stop := context.WithTimeout(ctx, a.timeout)
	defer stop()
	if err := a.until(waiting, a.adopted); err != nil {
		return err
	}
	if a.imported != nil {
		if err := a.removeImports(waiting); err != nil {
			return err
		}
	}
	a.Printer().Text("", output.Good, a.title()+" is adopted")
	return nil
}

// patch sends a merge patch. It changes the object, whose UID and version must not matter.
func patch(ctx context.Context, to client.Client, object client.Object, content map[string]any) error {
	return patchAs(ctx, to, object, content, fieldManager)
}

func patchAs(ctx context.Context, to client.Client, object client.Object, content map[string]any, manager client.FieldOwner) error {
	data, err := json.Marshal(content)
	if err == nil {
		err = to.Patch(ctx, object, client.RawPatch(types.MergePatchType, data), manager)
	}
	return err
}

// until waits until a function returns true. Its error ends the wait, unless it is of a read: the API server may restart.
func (a *adoption) until(ctx context.Context, reached func(context.Context) (bool, error)) (failed error) {
	done := false
	check := func(ctx context.Context) (bool, error) {
		var outcome *migrate.OutcomeError
		var err error
		if done, err = reached(ctx); errors.As(err, &outcome) {
			done, failed, err = true, err, nil
		}
		return done, err
	}
	if _, err := check(ctx); err != nil {
		return err
	}
	if !done {
		if err := a.Follow(ctx, a.client, cli.Watched{Namespace: a.key.Namespace, Kinds: kinds()}, check); err != nil {
			return err
		}
	}
	switch {
	case failed != nil:
		return failed
	case !done && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return migrate.TimedOut.Errorf("%s: not adopted within %s. Run the command again to continue to wait", a.title(), a.timeout)
	}
	return ctx.Err()
}

// adopted reports whether all states are adopted. The error is what a user must correct.
func (a *adoption) adopted(ctx context.Context) (bool, error) {
	all := true
	for _, wanted := range a.Applies {
		apply, err := get(ctx, a.client, client.ObjectKeyFromObject(wanted), &infrav1.WorkspaceTemplateApply{})
		switch {
		case err != nil:
			return false, err
		case apply == nil:
			return false, decision("WorkspaceTemplateApply %s was deleted", client.ObjectKeyFromObject(wanted))
		case isNotProven(apply):
			return false, a.showPlan(apply)
		}
		ready := conditions.Get(apply, infrav1.ReadyCondition)
		switch {
		case ready == nil || ready.ObservedGeneration != apply.Generation:
			all = false
		case ready.Reason == infrav1.WorkspaceConflictReason:
			return false, decision("WorkspaceTemplateApply %s: %s", client.ObjectKeyFromObject(apply), ready.Message)
		case ready.Status != metav1.ConditionTrue || states.IsPending(apply):
			all = false
			a.show(apply.Name, a.waitsFor(ctx, apply, ready.Message))
		}
	}
	return all, nil
}

func isNotProven(apply *infrav1.WorkspaceTemplateApply) bool {
	plan := &apply.Status.Preview
	return states.IsPending(apply) && plan.Proof == apply.Annotations[naming.ProveAnnotation] && plan.Result != "" && !states.IsProvenBy(plan) && conditions.GetReason(apply, infrav1.ReadyCondition) == infrav1.NotProvenReason
}

// waitsFor is what an object waits for: its message, or the message of the owner that is to write it.
func (a *adoption) waitsFor(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, message string) string {
	var owner conditions.Getter = &controlplanev1.CAPTControlPlane{}
	if a.Cluster != nil && apply.Name == a.CAPTCluster.Spec.WorkspaceTemplateApplyRef.Name {
		owner = &infrav1.CAPTCluster{}
	}
	if !claim.AwaitsOwner(apply) || a.client.Get(ctx, a.key, owner.(client.Object)) != nil { //nolint:forcetypeassert // Both kinds are objects.
		return message
	}
	if conditions.IsTrue(owner, clusterv1.PausedCondition) {
		return ""
	}
	return conditions.GetMessage(owner, infrav1.ReadyCondition)
}

// show prints a line on standard error when it differs from the last one of that object.
func (a *adoption) show(name, text string) {
	if a.last == nil {
		a.last = map[string]string{}
	}
	if text != "" && a.last[name] != text {
		a.last[name] = text
		output.NewPrinter(a.ErrOut, output.Table, a.NoColor).Text("", output.Plain, name+": "+output.OneLine(text))
	}
}

// showPlan prints a plan that changes something, or why there is none, and returns the error.
func (a *adoption) showPlan(apply *infrav1.WorkspaceTemplateApply) error {
	plan := overview.RequestedPlan(apply, &apply.Status.Preview)
	p := a.Printer()
	p.Text("", output.Attention, fmt.Sprintf("WorkspaceTemplateApply %s is not adopted. Plan of Terraform state %s: %s", client.ObjectKeyFromObject(apply), apply.Spec.TerraformState.Name, plan.Summary))
	for _, line := range plan.Lines(output.AllResources) {
		p.Text("  ", output.Plain, line)
	}
	next := "Correct the variables (--var, or spec.variables of the CAPTControlPlane), the template or the state, and run the command again"
	if slices.ContainsFunc(ptr.Deref(apply.Status.Preview.Changes, infrav1.PlannedChanges{}).Counts, func(c infrav1.PlannedCount) bool { return c.Action == infrav1.PlanCreate }) {
		next = "If Terraform would create everything, the name of the state, or the backend of the ProviderConfig, is wrong. " + next
	}
	return decision("Terraform state %s is not adopted, and nothing was applied. %s. captctl adopt release removes the objects", apply.Spec.TerraformState.Name, next)
}
