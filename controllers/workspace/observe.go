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
	"github.com/capt-provider/capt/controllers/workspace/failure"
)

// Conditions, reasons and marks of provider-terraform.
const (
	conditionReady  = "Ready"
	conditionSynced = "Synced"
	reasonPaused    = "ReconcilePaused"
	finalizer       = "finalizer.managedresource.crossplane.io"
)

// claimPatience is how long a new Workspace may be without any sign of the provider before that is told.
const claimPatience = 2 * time.Minute

// Observation is what a Workspace says about Terraform's work, in CAPT's terms.
type Observation struct {
	// UpToDate is true when Terraform has applied the Workspace as it was rendered, and found nothing to change since.
	UpToDate bool
	// Failed is true when Terraform or the provider reports an error. Class then says of what kind it is.
	Failed bool
	Class  failure.Class
	// Applied is true when Terraform has applied anything at all.
	Applied bool
	// Reason and Message say why the Workspace is not up to date, or that it is. Neither holds a secret.
	Reason, Message string
	// Outputs that may be published: strings as they are, others as JSON.
	Outputs map[string]string
	// LookAgain is when the observation changes although nothing happens; zero if it does not.
	LookAgain time.Duration
}

// Circumstances are what an Observation depends on besides the Workspace.
type Circumstances struct {
	Now time.Time
	// Differs says that the Workspace is not yet as it was rendered.
	Differs bool
	// Published are the names of the outputs that may be shown.
	Published []string
	// Secrets are values that no message may hold.
	Secrets Secrets
}

// Observe turns a Workspace into an Observation.
func Observe(live *Live, in Circumstances) Observation {
	o := Observation{Outputs: outputs(&live.typed, in.Published)}
	ready, synced := live.condition(conditionReady), live.condition(conditionSynced)
	o.Applied = isTrue(ready)

	switch {
	case synced != nil && synced.Reason == reasonPaused: // Deletion is frozen, too.
		o.Reason = infrav1.WorkspacePausedReason
		o.Message = "the Workspace is paused, so Terraform does not run; remove its annotation crossplane.io/paused, or the empty managementPolicies"
	case live.Deleting():
		o.Reason, o.Message = infrav1.WorkspaceDeletingReason, "the Workspace was deleted, and Terraform destroys what it made"
		if live.failed() && !ofApply(synced) { // Until destroy returns, such an error is that of before.
			o.fail(synced, in.Secrets)
		}
	case live.failed() && current(live, synced):
		o.fail(synced, in.Secrets)
	case isTrue(ready) && isTrue(synced) && !in.Differs && seen(live, ready, synced):
		o.UpToDate = true
		o.Reason, o.Message = infrav1.UpToDateReason, ""
	default:
		o.progress(live, in, ready, synced)
	}
	return o
}

func (l *Live) condition(conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(l.typed.Status.Conditions, conditionType)
}

// failed tells whether the Workspace shows an error, of whatever generation.
func (l *Live) failed() bool {
	synced := l.condition(conditionSynced)
	return synced != nil && synced.Status == metav1.ConditionFalse && synced.Reason != reasonPaused
}

// current tells whether an error is about the Workspace as it is now. That of an earlier generation may be mended already.
func current(live *Live, synced *metav1.Condition) bool {
	return synced.ObservedGeneration == 0 || synced.ObservedGeneration >= live.object.GetGeneration()
}

// seen tells whether the provider's conditions are about the Workspace as it is now. Ready stays True while an update is
// being applied, so it says nothing by itself. provider-terraform v1 puts the generation on Synced. Before, an update that
// went well moves neither condition; but the provider drops status.atProvider.checksum when it has applied, so that it has
// written status since our last write, which the API server records. Its status is refused when it has not read that write.
func seen(live *Live, ready, synced *metav1.Condition) bool {
	if synced.ObservedGeneration != 0 {
		return synced.ObservedGeneration >= live.object.GetGeneration()
	}
	if live.object.GetGeneration() <= 1 {
		return true // Nothing was changed since it was made.
	}
	// Both times have whole seconds. What happened in the second of our write may have happened before it.
	wrote := lastWrite(live)
	return synced.LastTransitionTime.After(wrote) || ready.LastTransitionTime.After(wrote) || lastStatus(live).After(wrote)
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

// lastStatus is when the status of the Workspace last changed, which nobody but the provider writes.
func lastStatus(live *Live) (wrote time.Time) {
	for _, entry := range live.object.GetManagedFields() {
		if entry.Subresource == "status" && entry.Time != nil && entry.Time.After(wrote) {
			wrote = entry.Time.Time
		}
	}
	return wrote
}

// progress says how far the provider is, when nothing is wrong.
func (o *Observation) progress(live *Live, in Circumstances, ready, synced *metav1.Condition) {
	o.Reason = infrav1.ProvisioningReason
	claimed := ready != nil || synced != nil || slices.Contains(live.object.GetFinalizers(), finalizer)
	switch {
	case in.Differs:
		o.Message = "the Workspace is not yet written as it was rendered"
	case !claimed:
		o.unclaimed(live, in.Now)
	case isTrue(ready) && synced != nil && synced.ObservedGeneration == 0:
		o.Message = "Terraform applies a change. provider-terraform before v1 does not tell when there was nothing to apply: " +
			"should that be so, annotate the Workspace with crossplane.io/paused=true, and remove the annotation when Synced is False"
	case isTrue(ready):
		o.Message = "Terraform applies a change"
	default:
		o.Message = "Terraform applies the module for the first time"
	}
}

// unclaimed tells of a Workspace that shows no sign of the provider. It does not while it initialises and plans, so this is
// nothing to worry about at first.
func (o *Observation) unclaimed(live *Live, now time.Time) {
	created := live.object.GetCreationTimestamp().Time
	if created.IsZero() {
		created = now
	}
	if left := created.Add(claimPatience).Sub(now); left > 0 {
		o.Message, o.LookAgain = "waiting for provider-terraform to initialise and plan", left
		return
	}
	o.Reason = infrav1.WorkspaceUnclaimedReason
	o.Message = "made at " + created.UTC().Format(time.RFC3339) + " and not yet claimed by provider-terraform: look whether it runs and has " +
		"this kind of Workspace. It applies one Workspace at a time, so this one may also wait behind others: see its flag --max-reconcile-rate"
}

// fail tells of an error in CAPT's words.
func (o *Observation) fail(synced *metav1.Condition, secrets Secrets) {
	told := failure.Tell(synced.Message, secrets.Values, secrets.Unknown)
	o.Failed, o.Class, o.Reason, o.Message = true, told.Class, told.Reason, told.Message
}

// ofApply tells whether a condition is the error of an apply.
func ofApply(synced *metav1.Condition) bool {
	return strings.HasPrefix(synced.Message, "create failed") || strings.HasPrefix(synced.Message, "update failed")
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
