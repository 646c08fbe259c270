/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package workspace

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// Conditions, reasons and messages of provider-terraform.
const (
	conditionReady   = "Ready"
	conditionSynced  = "Synced"
	reasonPaused     = "ReconcilePaused"
	finalizer        = "finalizer.managedresource.crossplane.io"
	unknownOutcome   = "cannot determine creation result"
	terminating      = "because it is being terminated"
	initFailed       = "cannot initialize Terraform"
	maxMessageLength = 1024
)

// Observation is what a Workspace says about Terraform's work, in CAPT's terms.
type Observation struct {
	// UpToDate is true when Terraform has applied the Workspace as it was rendered, and found nothing to change since.
	UpToDate bool
	// Failed is true when Terraform or the provider reports an error.
	Failed bool
	// Applied is true when Terraform has applied anything at all.
	Applied bool
	// Reason and Message say why the Workspace is not up to date, or that it is. Neither holds a secret.
	Reason, Message string
	// Outputs that may be published: strings as they are, others as JSON.
	Outputs map[string]string
}

// Observe turns a Workspace into an Observation. differs says that the rendered Workspace was not accepted yet.
func Observe(live *Live, differs bool, published []string) Observation {
	o := Observation{Outputs: outputs(&live.typed, published)}
	ready := meta.FindStatusCondition(live.typed.Status.Conditions, conditionReady)
	synced := meta.FindStatusCondition(live.typed.Status.Conditions, conditionSynced)
	o.Applied = isTrue(ready)

	switch {
	case synced != nil && synced.Reason == reasonPaused: // Deletion is frozen, too.
		o.Reason = infrav1.WorkspacePausedReason
		o.Message = "the Workspace is paused, so Terraform does not run; remove its annotation crossplane.io/paused, or the empty managementPolicies"
	case live.Deleting():
		o.Reason, o.Message = infrav1.WorkspaceDeletingReason, "the Workspace was deleted, and Terraform destroys what it made"
		if !ofApply(synced) { // Until destroy returns, such an error is that of before.
			o.fail(synced)
		}
	case synced != nil && synced.Status == metav1.ConditionFalse && current(live, synced):
		o.fail(synced)
	case isTrue(ready) && isTrue(synced) && !differs && seen(live, ready, synced):
		o.UpToDate = true
		o.Reason, o.Message = infrav1.UpToDateReason, ""
	default:
		o.Reason, o.Message = infrav1.ProvisioningReason, progress(live, differs, ready, synced)
	}
	return o
}

// current tells whether an error is about the Workspace as it is now. That of an earlier generation may be mended already.
func current(live *Live, synced *metav1.Condition) bool {
	return synced.ObservedGeneration == 0 || synced.ObservedGeneration >= live.object.GetGeneration()
}

// seen tells whether the provider's conditions are about the Workspace as it is now. Ready stays True while an update is
// being applied, so it says nothing by itself. provider-terraform v1 puts the generation on Synced; before, a condition
// must have moved since our last write.
func seen(live *Live, ready, synced *metav1.Condition) bool {
	if synced.ObservedGeneration != 0 {
		return synced.ObservedGeneration >= live.object.GetGeneration()
	}
	wrote := lastWrite(live)
	return !synced.LastTransitionTime.Time.Before(wrote) || !ready.LastTransitionTime.Time.Before(wrote)
}

// lastWrite is when CAPT last changed the Workspace; zero if it never did.
func lastWrite(live *Live) (wrote time.Time) {
	for _, entry := range live.object.GetManagedFields() {
		if entry.Manager == naming.WorkspaceTemplateApplyFieldManager && entry.Time != nil {
			wrote = entry.Time.Time
		}
	}
	return wrote
}

func progress(live *Live, differs bool, ready, synced *metav1.Condition) string {
	switch {
	case differs:
		return "the Workspace is not yet written as it was rendered"
	case isTrue(ready):
		return "Terraform applies a change"
	case synced == nil && !slices.Contains(live.object.GetFinalizers(), finalizer):
		return "waiting for provider-terraform to initialise and plan"
	}
	return "Terraform applies the module for the first time"
}

// fail classifies the provider's error.
func (o *Observation) fail(synced *metav1.Condition) {
	if synced == nil || synced.Status != metav1.ConditionFalse {
		return
	}
	message := Readable(synced.Message)
	o.Failed = true
	switch {
	case strings.Contains(message, terminating):
		o.Reason = infrav1.NamespaceTerminatingReason
		message = "provider-terraform can not work in a namespace that is being deleted, so nothing is destroyed (crossplane-runtime issue 1150); destroy what the Terraform state lists by hand, then remove the finalizers of the Workspace. Next time delete the Cluster, and the namespace when the Cluster is gone. " + message
	case strings.Contains(message, unknownOutcome):
		o.Reason = infrav1.CreateInterruptedReason
		message = "the provider died while Terraform applied for the first time, and does not go on by itself; check what exists in AWS and in the state, then remove the annotation crossplane.io/external-create-pending from the Workspace. " + message
	case strings.HasPrefix(message, "connect failed") && strings.Contains(message, initFailed):
		o.Reason = infrav1.PlanFailedReason
		message = "Terraform could not initialise; correct the module in the WorkspaceTemplate, or the backend in the ProviderConfig: " + message
	case strings.HasPrefix(message, "connect failed"):
		o.Reason = infrav1.ProviderConfigFailedReason
		message = "create or correct the ProviderConfig that the WorkspaceTemplate names, and its credentials: " + message
	case strings.HasPrefix(message, "observe failed"):
		o.Reason = infrav1.PlanFailedReason
		message = "Terraform could not plan; correct the WorkspaceTemplate or the variables: " + message
	case strings.HasPrefix(message, "delete failed"):
		o.Reason = infrav1.DestroyFailedReason
		message = "Terraform could not destroy; it is tried again: " + message
	default:
		o.Reason = infrav1.ApplyFailedReason
		message = "Terraform could not apply; it is tried again, correct the WorkspaceTemplate or the variables if that does not help: " + message
	}
	o.Message = truncate(message)
}

// ofApply tells whether a condition is the error of an apply.
func ofApply(synced *metav1.Condition) bool {
	return synced != nil && (strings.HasPrefix(synced.Message, "create failed") || strings.HasPrefix(synced.Message, "update failed"))
}

// Readable is the part of a provider's error that people can read. Errors of Terraform end in a compressed copy of the
// whole output, which can hold secrets and is far too long for a condition.
func Readable(message string) string {
	for _, mark := range []string{"To see the full error run:", "echo \""} {
		if i := strings.Index(message, mark); i >= 0 {
			message = message[:i]
		}
	}
	return truncate(strings.TrimRight(strings.Join(strings.Fields(message), " "), " :"))
}

func truncate(message string) string {
	if len(message) <= maxMessageLength {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessageLength-len("…")], "") + "…"
}

func outputs(workspace *terraform.Workspace, published []string) map[string]string {
	var out map[string]string
	for _, name := range published {
		value, ok := workspace.Status.AtProvider.Outputs[name]
		if !ok {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = text(value.Raw)
	}
	return out
}

func isTrue(condition *metav1.Condition) bool {
	return condition != nil && condition.Status == metav1.ConditionTrue
}
