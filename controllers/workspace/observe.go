// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/runs"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
)

// Conditions, reasons and the finalizer of provider-terraform.
const (
	conditionReady  = "Ready"
	conditionSynced = terraform.ConditionSynced
	reasonPaused    = terraform.ReasonPaused
	finalizer       = "finalizer.managedresource.crossplane.io"
)

const (
	initializingMessage = "waiting for provider-terraform to run terraform init and plan"
	unreportedMessage   = "Terraform has found existing resources. provider-terraform reports their state at its next poll, 10 minutes later by default (flag --poll). captctl run does not wait for it"
)

// ReconcileTimeout is for how long the provider may not report on a new Workspace, a change or a deletion before this is reported.
const ReconcileTimeout = 2 * time.Minute

// hashLength is how many hexadecimal digits a hash has.
const hashLength = 12

// Observation is the state of the work of Terraform on a Workspace.
type Observation struct {
	// UpToDate is true when Terraform has applied the Workspace as rendered, and no drift was found since.
	UpToDate bool
	// Failed is true when Terraform or the provider reports an error, of that class.
	Failed bool
	Class  failure.Class
	// Applied is true when Terraform has applied the Workspace at least once.
	Applied bool
	// Reason and Message of the state, without secrets.
	Reason, Message string
	// Outputs that may be published: strings as they are, others as JSON.
	Outputs map[string]string
	// Unreported is true if the provider has not reported on a change or a deletion for long.
	Unreported bool
	// RequeueAfter is when the observation changes without an event; zero if it does not.
	RequeueAfter time.Duration
}

// ObserveInput is the input of Observe in addition to the Workspace.
type ObserveInput struct {
	// UnreconciledFor is for how long this process has seen what Live.Unreported identifies. Clocks of machines differ, so
	// the age of the Workspace is not used.
	UnreconciledFor time.Duration
	// Differs is true when the Workspace has not been updated to what was rendered.
	Differs bool
	// LastUpdate is the last change of the Workspace that status records.
	LastUpdate *infrav1.WorkspaceUpdate
	// Published are the names of the outputs that may be shown.
	Published []string
	// LastReason is the reason of the last observation.
	LastReason string
	// AllActions is true if what was rendered does not limit what the provider may do.
	AllActions bool
	// ConnectionSecret is its metadata if the Workspace waits for its deletion, else nil.
	ConnectionSecret *metav1.PartialObjectMetadata
	// Failure is the error of the Workspace, from Client.Explain; the zero value when there is none.
	Failure failure.Report
}

// Observe returns the state of a Workspace.
func Observe(live *Live, in ObserveInput) Observation {
	o := Observation{Outputs: outputs(&live.typed, in.Published)}
	ready, synced, name := live.condition(conditionReady), live.condition(conditionSynced), live.GetName()
	o.Applied = live.applied()

	switch {
	case synced != nil && synced.Reason == reasonPaused: // Deletion is paused, too.
		o.Reason, o.Message = live.whyPaused()
	case live.mayNotWrite(in.AllActions): // The provider reports success without applying anything.
		o.Reason = infrav1.WorkspacePausedReason
		o.Message = fmt.Sprintf("another client has set spec.managementPolicies of Workspace %s to %v, so Terraform does not apply what the template has. Remove the field", name, live.typed.Spec.ManagementPolicies)
	case live.Deleting():
		o.Reason, o.Message = infrav1.WorkspaceDeletingReason, "Workspace "+name+" is being deleted: Terraform destroys its resources"
		o.setUnreported(live, in)
		if live.DestroyFailed() {
			o.setFailure(in.Failure)
		}
	case live.failed() && isCurrent(live, synced):
		o.setFailure(in.Failure)
	case isTrue(ready) && isTrue(synced) && !in.Differs && live.statusIsCurrent(in.LastUpdate):
		o.UpToDate = true
		o.Reason, o.Message = infrav1.UpToDateReason, ""
	default:
		o.setProgress(live, in, ready, synced)
		o.setUnreported(live, in)
	}
	return o
}

func (l *Live) isPaused() bool { return l.GetAnnotations()[terraform.PausedAnnotation] == "true" }

// PlannedLast reports whether the last run of the provider was a plan without changes: it leaves a checksum, which an apply removes. The one of a run that was
// requested shows neither.
func (l *Live) PlannedLast() bool {
	checksum := l.typed.Status.AtProvider.Checksum
	return checksum != "" && !runs.IsRequested(checksum)
}

// mayNotWrite reports whether managementPolicies exclude that the provider creates or updates, although what was rendered allows all actions.
func (l *Live) mayNotWrite(allActions bool) bool {
	policies := l.typed.Spec.ManagementPolicies
	writes := slices.Contains(policies, "Create") && slices.Contains(policies, "Update")
	return allActions && !l.Deleting() && len(policies) > 0 && !slices.Contains(policies, terraform.ManageAll) && !writes
}

// RunsWithoutState reports whether the next run of the provider would create again what the last one has created, and could not save.
func (l *Live) RunsWithoutState(report failure.Report) bool {
	return report.Unsaved && !l.Deleting() && !l.isPaused()
}

// DestroyFailed reports whether the last attempt to destroy the resources failed. Until it returns, the error of the last apply stays.
func (l *Live) DestroyFailed() bool {
	return l.Deleting() && l.failed() && !isApplyError(l.condition(conditionSynced))
}

func (l *Live) whyPaused() (reason, message string) {
	if !l.isPaused() || l.GetAnnotations()[naming.StateNotSavedAnnotation] != "true" {
		return infrav1.WorkspacePausedReason, "Workspace " + l.GetName() + " is paused, so Terraform does not run. Remove its annotation " + terraform.PausedAnnotation + ", or its empty spec.managementPolicies"
	}
	return infrav1.StateNotSavedReason, stateNotSaved(l)
}

func stateNotSaved(live *Live) string {
	resource := "workspaces." + live.GroupVersionKind().Group
	if live.GetNamespace() != "" {
		resource = "-n " + live.GetNamespace() + " " + resource
	}
	todo := "so each further run would create them again: CAPT has paused Workspace %[1]s. Import or delete these resources, and correct the backend: a state above 1 MiB needs the s3 backend"
	if live.Deleting() {
		todo = "so Terraform does not destroy them with Workspace %[1]s, which CAPT has paused. Import or delete these resources; correct the backend if the destroy needs it"
	}
	return fmt.Sprintf("Terraform has created resources and could not save its state, "+todo+" (docs/recovery.md, A state that cannot be saved). Then: kubectl annotate %[2]s %[1]s %[3]s- %[4]s-",
		live.GetName(), resource, terraform.PausedAnnotation, naming.StateNotSavedAnnotation)
}

func (l *Live) condition(conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(l.typed.Status.Conditions, conditionType)
}

// ErrorHash is a hash of the error of the Workspace, of any generation; empty when it has none.
func (l *Live) ErrorHash() string {
	if !l.failed() {
		return ""
	}
	return hash([]byte(l.condition(conditionSynced).Message))
}

func hash(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data))[:hashLength] }

// failed reports whether the Workspace has an error, of any generation.
func (l *Live) failed() bool { return l.typed.Failure() != nil }

// isCurrent reports whether an error is of the current generation. provider-terraform before v1 does not report the generation, and a repeated
// error does not change the condition. So without a generation, an error counts as current.
func isCurrent(live *Live, synced *metav1.Condition) bool {
	return synced.ObservedGeneration == 0 || synced.ObservedGeneration == live.GetGeneration()
}

func (o *Observation) setProgress(live *Live, in ObserveInput, ready, synced *metav1.Condition) {
	o.Reason = infrav1.ProvisioningReason
	switch {
	case in.Differs:
		o.Message = "Workspace " + live.GetName() + " has not been updated to the current template and variables yet"
	case !live.reconciled():
		o.setUnreconciled(live, in.UnreconciledFor)
	case live.FoundResources() && live.statusIsCurrent(in.LastUpdate):
		o.Message = unreportedMessage
	case isTrue(ready) && live.statusIsCurrent(in.LastUpdate):
		o.Message = "Terraform is applying a change"
	case isTrue(ready), live.FoundResources():
		o.Message = "the change of Workspace " + live.GetName() + atTime(lastChange(live)) + " is pending or in progress: provider-terraform has not reported on it yet"
		o.Message += live.earlierChange(synced)
		if synced != nil && synced.ObservedGeneration == 0 {
			o.Message += ". Before v1, it does not report a change that needs no apply. If this persists, set the annotation crossplane.io/paused=true on the Workspace, and remove it when its condition Synced is False"
		}
	case live.createdNothing(in):
		o.Reason = infrav1.NothingCreatedReason
		o.Message = "Terraform has applied the module of Workspace " + live.GetName() + ", but the module has created no resource and returned no output. provider-terraform takes the Workspace for one that does not exist, and " +
			"applies it again and again. Add an output that is not null to the module of the WorkspaceTemplate, or correct the variables"
	case live.Started(time.Time{}).IsZero():
		o.Message = initializingMessage
	default:
		o.Message = "waiting for Terraform to apply the module for the first time" + live.earlierContent()
	}
}

// endOfRun is when a run ends that does not end by itself.
const endOfRun = "provider-terraform ends it after its --timeout, by default 20 minutes"

// earlierContent is the part of a message about a first apply that began before the last change of the Workspace, which does not reach it; empty without.
func (l *Live) earlierContent() string {
	began, ended := l.timeIn(terraform.CreatePendingAnnotation), l.timeIn(createSucceeded)
	if changed := lastChange(l); began.IsZero() || !began.After(ended) || !changed.After(began) {
		return ""
	}
	return ". It runs" + strings.Replace(atTime(began), "at", "since", 1) + " with the content before the change" + atTime(lastChange(l)) + ", which waits for the end of this run: " + endOfRun
}

// earlierChange is the part of a message about a change that follows one that the provider has not reported on either; empty without.
func (l *Live) earlierChange(synced *metav1.Condition) string {
	if synced == nil || synced.ObservedGeneration == 0 || l.GetGeneration()-synced.ObservedGeneration <= 1 {
		return ""
	}
	return ". If Terraform still runs with the content before, the change waits for the end of that run: " + endOfRun
}

// timeIn returns the time in an annotation; zero if it is missing or invalid.
func (l *Live) timeIn(annotation string) time.Time {
	at, _ := time.Parse(time.RFC3339, l.GetAnnotations()[annotation])
	return at
}

// FoundResources reports whether the provider has found existing resources and not reported them yet. It loses the result of its first observation
// when it adds its finalizer, and observes again after its poll interval.
func (l *Live) FoundResources() bool {
	return l.condition(conditionReady) == nil && isTrue(l.condition(conditionSynced))
}

func (l *Live) applied() bool { return isTrue(l.condition(conditionReady)) || l.FoundResources() }

func atTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " at " + t.UTC().Format(time.RFC3339)
}

// reconciled reports whether the provider has reconciled the Workspace at least once.
func (l *Live) reconciled() bool {
	return l.condition(conditionReady) != nil || l.condition(conditionSynced) != nil || slices.Contains(l.GetFinalizers(), finalizer)
}

// Unreported identifies what the provider has not reported on: a new Workspace, a change, or its deletion; empty if it has. last is as for InProgress.
func (l *Live) Unreported(last *infrav1.WorkspaceUpdate) string {
	synced := l.condition(conditionSynced)
	switch uid := string(l.GetUID()); {
	case synced != nil && synced.Reason == reasonPaused:
	case l.Deleting() && slices.Contains(l.GetFinalizers(), finalizer) && !l.DestroyFailed():
		return uid + "/deletion"
	case l.Deleting():
	case !l.reconciled():
		return uid
	case !l.statusIsCurrent(last):
		return fmt.Sprintf("%s/%d", uid, l.GetGeneration())
	}
	return ""
}

// IsNew reports whether the provider has not reconciled a Workspace at all, and it is not being deleted.
func (l *Live) IsNew() bool { return !l.reconciled() && !l.Deleting() }

// setUnreported reports a change or a deletion that the provider has not reported on for long. The provider reports neither before Terraform has ended.
func (o *Observation) setUnreported(live *Live, in ObserveInput) {
	waiting, pending := live.WaitingForFinalizers(in.ConnectionSecret), in.Differs || !live.reconciled()
	switch {
	case waiting != "":
		o.Message = waiting
		return
	case !live.Deleting() && pending, live.Unreported(in.LastUpdate) == "":
		return
	}
	if left := ReconcileTimeout - in.UnreconciledFor; left > 0 {
		o.RequeueAfter = left
		return
	}
	what, at := "the change of Workspace "+live.GetName(), lastChange(live)
	if live.Deleting() {
		what, at = "the deletion of Workspace "+live.GetName(), live.DeletedAt()
	} else {
		o.Reason = infrav1.NotReportedReason
	}
	o.Unreported = true
	o.Message = fmt.Sprintf("provider-terraform has not reported on %s%s for more than %s. It does not do so before Terraform has ended. If the provider does not run, start it. %s", what, atTime(at), duration.HumanDuration(ReconcileTimeout), busy) + live.earlierContent()
}

// busy is why the provider may not work on a Workspace although it runs.
const busy = "It may be busy with other Workspaces: by default it applies one at a time (flag --max-reconcile-rate; the restart that raises it interrupts what runs). captctl describe lists what may run"

// setUnreconciled reports a Workspace without a sign of the provider. During terraform init and plan that is normal.
func (o *Observation) setUnreconciled(live *Live, unreconciledFor time.Duration) {
	if left := ReconcileTimeout - unreconciledFor; left > 0 {
		o.Message, o.RequeueAfter = initializingMessage, left
		return
	}
	o.Reason = infrav1.WorkspaceNotReconciledReason
	o.Message = "Workspace " + live.GetName() + " was created" + atTime(live.GetCreationTimestamp().Time) + ", and provider-terraform has not reconciled it yet. Check that provider-terraform runs and " +
		"serves this kind of Workspace. " + busy
}

func (o *Observation) setFailure(report failure.Report) {
	o.Failed, o.Class, o.Reason, o.Message = true, report.Class, report.Reason, report.Message
}

func isApplyError(synced *metav1.Condition) bool {
	return strings.HasPrefix(synced.Message, "create failed") || strings.HasPrefix(synced.Message, "update failed")
}

func isTrue(condition *metav1.Condition) bool {
	return condition != nil && condition.Status == metav1.ConditionTrue
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
		out[name] = outputText(value.Raw)
	}
	return out
}

// LostOutput reports whether another client has removed an output from the connection Secret. managedFields name the keys, so the values need not be read.
func (l *Live) LostOutput(secret *metav1.PartialObjectMetadata) bool {
	keys := map[string]any{}
	for _, entry := range secret.ManagedFields {
		var fields struct {
			Data map[string]any `json:"f:data"`
		}
		if entry.FieldsV1 != nil && json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil {
			maps.Copy(keys, fields.Data)
		}
	}
	for name, value := range l.typed.Status.AtProvider.Outputs {
		if _, has := keys["f:"+name]; !has && len(secret.ManagedFields) > 0 && len(value.Raw) > 0 && string(value.Raw) != "null" {
			return true
		}
	}
	return false
}

// outputText returns the value of a string output, and compact JSON for any other output, as in the connection Secret.
func outputText(raw []byte) string {
	var s string
	if err := json.Unmarshal(raw, &s); err == nil {
		return s
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return string(raw)
	}
	return compact.String()
}

// ReportsGeneration reports whether the provider reports which generation its status is of, as v1 does. Previews require that.
func (l *Live) ReportsGeneration() bool {
	synced := l.condition(conditionSynced)
	return synced != nil && synced.ObservedGeneration != 0
}

// statusIsCurrent reports whether the status is of the current generation. Ready cannot show this, because it stays True while an update is
// applied. provider-terraform v1 sets observedGeneration of Synced. Before v1, a successful update changes neither condition, but any status
// that was written after the change is about that change: the API server rejects a status write of a provider that has not read the change.
func (l *Live) statusIsCurrent(last *infrav1.WorkspaceUpdate) bool {
	generation := l.GetGeneration()
	if l.ReportsGeneration() {
		return l.condition(conditionSynced).ObservedGeneration == generation
	}
	if generation <= 1 {
		return true // Not changed since its creation.
	}
	if last != nil && last.Generation == generation {
		return last.StatusHash == "" || last.StatusHash != l.statusHash()
	}
	// Another client changed the Workspace, or the record is lost, so compare the times in managedFields. They have whole seconds: a status of
	// the same second may be older than the change. managedFields do not record removed fields, so this can be late by one poll interval of
	// the provider, ten minutes.
	changed := lastChange(l)
	return changed.IsZero() || l.typed.LastStatus().After(changed)
}

// UpdateRecord returns the record of a change of the Workspace, for the status of the WorkspaceTemplateApply.
func (l *Live) UpdateRecord() *infrav1.WorkspaceUpdate {
	return &infrav1.WorkspaceUpdate{Generation: l.GetGeneration(), StatusHash: l.statusHash()}
}

// RefreshRecord returns the record of the last change for the next reconcile. Once the provider has reported the change, the record keeps that
// result. It is nil if the provider reports the generation, which needs no record.
func (l *Live) RefreshRecord(last *infrav1.WorkspaceUpdate) *infrav1.WorkspaceUpdate {
	synced := l.condition(conditionSynced)
	switch {
	case !l.statusIsCurrent(last):
		return last
	case synced == nil || synced.ObservedGeneration != 0 || l.GetGeneration() <= 1:
		return nil
	}
	return &infrav1.WorkspaceUpdate{Generation: l.GetGeneration()}
}

func (l *Live) statusHash() string {
	data, err := json.Marshal(l.Unstructured.Object["status"])
	if err != nil {
		return "" // Cannot happen: it was decoded from JSON.
	}
	return hash(data)
}

// createSucceeded is the annotation in which the provider records when the first apply ended.
const createSucceeded = "crossplane.io/external-create-succeeded"

// createdNothing reports whether the provider creates a Workspace again that it has created already, because it has neither resources nor outputs. Between
// two attempts, the last observation decides.
func (l *Live) createdNothing(in ObserveInput) bool {
	if l.applied() || len(l.typed.Status.AtProvider.Outputs) > 0 || !isTrue(l.condition(conditionSynced)) || !l.statusIsCurrent(in.LastUpdate) {
		return false
	}
	began, ended := l.timeIn(terraform.CreatePendingAnnotation), l.timeIn(createSucceeded)
	return !ended.IsZero() && (began.After(ended) || in.LastReason == infrav1.NothingCreatedReason)
}

// Started returns when Terraform started to apply the current spec; zero if it has not. For a Workspace that was applied before, that is the
// time of its last change, because the provider does not record the start. known is the result of the last call: the provider updates the
// annotation at each retry, but the operation is the same until the Workspace changes.
func (l *Live) Started(known time.Time) time.Time {
	changed := lastChange(l)
	began := l.timeIn(terraform.CreatePendingAnnotation)
	switch {
	case l.FoundResources(): // The annotation is of before a move.
		return time.Time{}
	case !known.IsZero() && !known.Before(changed):
		return known
	case began.IsZero() && l.condition(conditionReady) == nil:
		return time.Time{}
	case began.After(changed):
		return began
	}
	return changed
}

// lastChange is when the spec of the Workspace was last changed; zero if unknown.
func lastChange(live *Live) (changed time.Time) {
	return terraform.LatestWrite(live.Unstructured, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Subresource == "" && entry.FieldsV1 != nil && strings.Contains(string(entry.FieldsV1.GetRawBytes()), `"f:spec"`)
	})
}

// InProgress reports whether Terraform is creating, changing or destroying the resources of a Workspace, or is about to. last is the change
// that status records; class is the class of the current error.
//
// A transient error does not end the operation: the provider retries, and AWS may continue. Any other error ends the operation although the
// provider retries, and so does any error before apply or destroy: otherwise a module that cannot be downloaded would block the queued
// Workspaces forever. A repair of drift is not detected.
func InProgress(live *Live, last *infrav1.WorkspaceUpdate, class failure.Class) bool {
	ready, synced := live.condition(conditionReady), live.condition(conditionSynced)
	switch {
	case synced != nil && synced.Reason == reasonPaused:
		return false
	case live.failed() && isCurrent(live, synced) && (!live.Deleting() || !isApplyError(synced)):
		return class.IsTransient() && !isPlanError(synced)
	}
	done := isTrue(ready) && isTrue(synced) || live.FoundResources()
	return live.Deleting() || !done || !live.statusIsCurrent(last)
}

// isPlanError reports whether a condition is an error before terraform apply or destroy.
func isPlanError(synced *metav1.Condition) bool {
	return strings.HasPrefix(synced.Message, "connect failed") || strings.HasPrefix(synced.Message, "observe failed")
}

// Live is a Workspace of the API server.
type Live struct {
	*unstructured.Unstructured
	typed terraform.Workspace
	// Rewritten is true for the response to a write that the API server stored with other values: a mutating webhook or policy changed it.
	Rewritten bool
}

func newLive(object *unstructured.Unstructured) (*Live, error) {
	live := &Live{Unstructured: object}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &live.typed); err != nil {
		return nil, fmt.Errorf("decoding Workspace %s: %w", object.GetName(), err)
	}
	return live, nil
}

// HasResult reports whether Terraform has ended with another result than before.
func HasResult(before, after client.Object) bool {
	status := func(object client.Object, condition string) metav1.ConditionStatus {
		found, err := conditions.UnstructuredGet(object.(*unstructured.Unstructured), condition)
		if err != nil || found == nil {
			return ""
		}
		return found.Status
	}
	return status(before, conditionReady) != status(after, conditionReady) || status(before, conditionSynced) != status(after, conditionSynced)
}

// RecordedFor reports whether status of a WorkspaceTemplateApply, which users cannot write, records the UID of this Workspace.
func (l *Live) RecordedFor(apply *infrav1.WorkspaceTemplateApply) bool {
	return render.IsRecorded(l.Unstructured, apply)
}

// Spec of the Workspace. It must not be changed.
func (l *Live) Spec() *terraform.WorkspaceSpec { return &l.typed.Spec }

// Deleting reports whether the Workspace is being deleted.
func (l *Live) Deleting() bool { return !l.GetDeletionTimestamp().IsZero() }

// DeletedAt is when the Workspace was deleted; zero if it was not.
func (l *Live) DeletedAt() time.Time {
	if at := l.GetDeletionTimestamp(); at != nil {
		return at.Time
	}
	return time.Time{}
}

// WaitingForFinalizers is why the provider does not destroy the resources of the Workspace yet; empty if it does. In a foreground deletion, that can be a
// finalizer of the connection Secret, which may be nil.
func (l *Live) WaitingForFinalizers(secret *metav1.PartialObjectMetadata) string {
	own := terraform.WaitingForFinalizers(l, "workspaces."+l.GroupVersionKind().Group)
	if own != "" && secret != nil {
		if of := terraform.WaitingForFinalizers(secret, "secret"); of != "" {
			own = fmt.Sprintf("the garbage collector deletes its connection Secret %s first: %s", secret.Name, of)
		}
	}
	if own != "" {
		own = fmt.Sprintf("provider-terraform does not destroy Workspace %s yet: %s", l.GetName(), own)
	}
	return own
}

// InForegroundDeletion reports whether the Workspace waits for what it owns.
func (l *Live) InForegroundDeletion() bool {
	return l.Deleting() && slices.Contains(l.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// Owner reports whether the Workspace belongs to a WorkspaceTemplateApply. rendered is what its template renders to; it may be nil.
func (l *Live) Owner(apply *infrav1.WorkspaceTemplateApply, rendered *render.Rendered) render.Ownership {
	return render.OwnerOf(l.Unstructured, apply, rendered)
}

// OnlyObserves reports whether the provider can neither apply the Workspace nor destroy its resources.
func (l *Live) OnlyObserves() bool { return render.OnlyObserves(l.Unstructured) }

// Claimed reports whether this version of CAPT created the Workspace.
func (l *Live) Claimed() bool { return l.GetAnnotations()[naming.ClaimAnnotation] != "" }

// ClaimedBy reports whether the Workspace was created for a WorkspaceTemplateApply of that namespace and name.
func (l *Live) ClaimedBy(apply *infrav1.WorkspaceTemplateApply) bool {
	return render.IsClaimed(l.Unstructured, apply)
}

// ExternalName is the name of the state of the Workspace.
func (l *Live) ExternalName() string { return l.GetAnnotations()[render.ExternalNameAnnotation] }

// ProviderConfig of the Workspace.
func (l *Live) ProviderConfig() string { return render.ProviderConfigOf(l.Unstructured) }

// ClaimedElsewhere reports whether the Workspace was created for a WorkspaceTemplateApply of another namespace.
func (l *Live) ClaimedElsewhere(namespace string) bool {
	return l.Claimed() && !strings.HasPrefix(l.GetAnnotations()[naming.ClaimAnnotation], namespace+"/")
}

// Scope of the Workspace.
func (l *Live) Scope() terraform.Scope { return scopeOf(l.Unstructured) }
