// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
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

// initialising is what is said before the provider shows that it applies.
const initialising = "waiting for provider-terraform to initialise and plan"

// claimPatience is how long a new Workspace may be without any sign of the provider before that is told.
const claimPatience = 2 * time.Minute

// hashLength is how many hexadecimal digits a hash has.
const hashLength = 12

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
	// Watched is for how long this process has seen the Workspace without a sign of the provider. The clocks of machines
	// differ, so its age does not count.
	Watched time.Duration
	// Differs says that the Workspace is not yet as it was rendered.
	Differs bool
	// LastUpdate is the last change of the Workspace as status has it; nil when nobody noted one.
	LastUpdate *infrav1.WorkspaceUpdate
	// Published are the names of the outputs that may be shown.
	Published []string
	// Told is the error that the Workspace shows, as Client.Tell put it into words; the zero value when there is none.
	Told failure.Told
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
			o.fail(in.Told)
		}
	case live.failed() && current(live, synced):
		o.fail(in.Told)
	case isTrue(ready) && isTrue(synced) && !in.Differs && live.reported(in.LastUpdate):
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

// ErrorHash is a hash of the error that the Workspace shows, of whatever generation; empty when it shows none.
func (l *Live) ErrorHash() string {
	if !l.failed() {
		return ""
	}
	return hash([]byte(l.condition(conditionSynced).Message))
}

func hash(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data))[:hashLength] }

// failed tells whether the Workspace shows an error, of whatever generation.
func (l *Live) failed() bool {
	synced := l.condition(conditionSynced)
	return synced != nil && synced.Status == metav1.ConditionFalse && synced.Reason != reasonPaused
}

// current tells whether an error is about the Workspace as it is now. That of another generation may be mended already.
// Before v1 the provider does not tell, and fails again without a change of what it shows: then an error counts.
func current(live *Live, synced *metav1.Condition) bool {
	return synced.ObservedGeneration == 0 || synced.ObservedGeneration == live.object.GetGeneration()
}

// reported tells whether what the provider shows is about the Workspace as it is now. Ready stays True while an update is being
// applied, so it says nothing by itself. provider-terraform v1 puts the generation on Synced. Before, an update that went well
// moves neither condition; but its status is refused when it has not read the last change, so that any status that was written
// since is about it.
func (l *Live) reported(last *infrav1.WorkspaceUpdate) bool {
	generation := l.object.GetGeneration()
	if synced := l.condition(conditionSynced); synced != nil && synced.ObservedGeneration != 0 {
		return synced.ObservedGeneration == generation
	}
	if generation <= 1 {
		return true // Nothing was changed since it was made.
	}
	if last != nil && last.Generation == generation {
		return last.StatusHash == "" || last.StatusHash != l.statusHash()
	}
	// Somebody else changed it, or nobody could note the change. Both times have whole seconds: what happened in the second of
	// the change may have happened before it. The API server does not count fields that are only taken away, so this can be
	// late by a look of the provider, every ten minutes.
	changed := lastChange(l)
	return changed.IsZero() || lastStatus(l).After(changed)
}

// Update tells what the Workspace is, for status to remember after a change.
func (l *Live) Update() *infrav1.WorkspaceUpdate {
	return &infrav1.WorkspaceUpdate{Generation: l.object.GetGeneration(), StatusHash: l.statusHash()}
}

// Seen is what to remember of the last change: once the provider has seen it, it has, whatever it shows later. Nothing needs
// to be remembered where the provider tells by itself.
func (l *Live) Seen(last *infrav1.WorkspaceUpdate) *infrav1.WorkspaceUpdate {
	synced := l.condition(conditionSynced)
	switch {
	case !l.reported(last):
		return last
	case synced == nil || synced.ObservedGeneration != 0 || l.object.GetGeneration() <= 1:
		return nil
	}
	return &infrav1.WorkspaceUpdate{Generation: l.object.GetGeneration()}
}

// statusHash is a hash of all that the provider shows.
func (l *Live) statusHash() string {
	data, err := json.Marshal(l.object.Object["status"])
	if err != nil {
		return "" // What came as JSON can be encoded as JSON.
	}
	return hash(data)
}

// createPending is the annotation with which the provider notes, before it applies for the first time, when it begins.
const createPending = "crossplane.io/external-create-pending"

// Started is when Terraform began to apply the Workspace as it is now; zero if it has not begun. Of a Workspace that was applied
// before, only the time of its change is known. known is what was found earlier: the provider notes the time anew when it
// tries again, but the work is the same until somebody changes the Workspace.
func (l *Live) Started(known time.Time) time.Time {
	changed := lastChange(l)
	began, _ := time.Parse(time.RFC3339, l.object.GetAnnotations()[createPending]) // None, or none that can be read: not begun.
	switch {
	case !known.IsZero() && !known.Before(changed):
		return known
	case began.IsZero() && l.condition(conditionReady) == nil:
		return time.Time{}
	case began.After(changed):
		return began
	}
	return changed
}

// lastChange is when anybody last changed the spec of the Workspace; zero if nobody ever did.
func lastChange(live *Live) (changed time.Time) {
	return newest(live.object, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Subresource == "" && entry.FieldsV1 != nil && strings.Contains(string(entry.FieldsV1.GetRawBytes()), `"f:spec"`)
	})
}

// lastStatus is when the provider last changed what it shows.
func lastStatus(live *Live) time.Time {
	return newest(live.object, func(entry metav1.ManagedFieldsEntry) bool { return entry.Subresource == "status" })
}

// newest is when the latest of the writes that count was made; zero if there was none.
func newest(object metav1.Object, counts func(metav1.ManagedFieldsEntry) bool) (last time.Time) {
	for _, entry := range object.GetManagedFields() {
		if entry.Time != nil && entry.Time.After(last) && counts(entry) {
			last = entry.Time.Time
		}
	}
	return last
}

// progress says how far the provider is, when nothing is wrong.
func (o *Observation) progress(live *Live, in Circumstances, ready, synced *metav1.Condition) {
	o.Reason = infrav1.ProvisioningReason
	switch {
	case in.Differs:
		o.Message = "the Workspace is not yet written as it was rendered"
	case !live.claimed():
		o.unclaimed(live, in.Watched)
	case isTrue(ready) && live.reported(in.LastUpdate):
		o.Message = "Terraform applies a change"
	case isTrue(ready):
		o.Message = "the Workspace was changed" + at(lastChange(live)) + ", and provider-terraform has not reported on it yet: it applies the change, or has not come to it"
		if synced != nil && synced.ObservedGeneration == 0 {
			o.Message += ". Before v1 it does not report when there was nothing to apply: should that be so, annotate the Workspace with crossplane.io/paused=true, and remove the annotation when Synced is False"
		}
	case live.Started(time.Time{}).IsZero(): // Its finalizer comes a moment earlier, which is nothing to tell.
		o.Message = initialising
	default:
		o.Message = "Terraform applies the module for the first time"
	}
}

// at tells a time in words, if there is one.
func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " at " + t.UTC().Format(time.RFC3339)
}

// claimed tells whether the Workspace shows any sign of the provider.
func (l *Live) claimed() bool {
	return l.condition(conditionReady) != nil || l.condition(conditionSynced) != nil || slices.Contains(l.object.GetFinalizers(), finalizer)
}

// Unclaimed tells whether a Workspace is new, and shows no sign of the provider.
func (l *Live) Unclaimed() bool { return !l.claimed() && !l.Deleting() }

// unclaimed tells of a Workspace that shows no sign of the provider. It does not while it initialises and plans, so this is
// nothing to worry about at first.
func (o *Observation) unclaimed(live *Live, watched time.Duration) {
	if left := claimPatience - watched; left > 0 {
		o.Message, o.LookAgain = initialising, left
		return
	}
	o.Reason = infrav1.WorkspaceUnclaimedReason
	o.Message = "made" + at(live.object.GetCreationTimestamp().Time) + " and not yet claimed by provider-terraform: look whether it runs and has " +
		"this kind of Workspace. It applies one Workspace at a time, so this one may also wait behind others: see its flag --max-reconcile-rate"
}

// fail tells of an error in CAPT's words.
func (o *Observation) fail(told failure.Told) {
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
