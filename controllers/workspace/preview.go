// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/controllers/engine"
)

// Parts of errors of Crossplane. With management policies off, it refuses a Workspace that may only observe, before it runs Terraform.
const (
	policiesOff = "non-default value but the feature is not enabled"
	notExisting = "external resource does not exist"
)

const (
	// lookInterval is how long to wait for the result of a requested plan before it is requested again.
	lookInterval = 30 * time.Second
	// settleTime is how long after a request a plan with changes must not become empty, if the preview had it before the request.
	settleTime = 10 * time.Second
	// connectTime is for how long the ProviderConfig must not be usable: after a restart, an API server refuses its use for up to half a minute.
	connectTime = time.Minute
)

// Previews lists the WorkspaceTemplateApplies of all previews in the cache, of a scope, that were not created before a time.
func (c *Client) Previews(ctx context.Context, scope terraform.Scope, since time.Time) (keys []types.NamespacedName, err error) {
	previews, err := listPreviews(ctx, c.Client, scope, client.UnsafeDisableDeepCopy)
	for i := range previews {
		if key, ok := ParsePreviewOf(&previews[i]); ok && !previews[i].GetCreationTimestamp().Time.Before(since) {
			keys = append(keys, key)
		}
	}
	return keys, err
}

func listPreviews(ctx context.Context, reader client.Reader, scope terraform.Scope, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	return list(ctx, reader, scope, append(options, client.HasLabels{naming.PreviewLabel})...)
}

func list(ctx context.Context, reader client.Reader, scope terraform.Scope, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(scope.GroupVersionKind())
	switch err := reader.List(ctx, list, options...); {
	case meta.IsNoMatchError(err), isNotServed(err):
		return nil, fmt.Errorf("%w: %s", ErrKindNotServed, scope.GroupVersionKind())
	case err != nil:
		return nil, fmt.Errorf("listing Workspaces: %w", err)
	}
	return list.Items, nil
}

// List lists the Workspaces of a scope; none if its kind is not installed. They must not be changed.
func (c *Client) List(ctx context.Context, reader client.Reader, scope terraform.Scope, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	if err := c.ensureWatched(ctx, scope); err != nil {
		if errors.Is(err, ErrKindNotServed) {
			return nil, err
		}
		return nil, ignoreKindMissing(err)
	}
	return list(ctx, reader, scope, append(options, client.UnsafeDisableDeepCopy)...)
}

// ParsePreviewOf returns the WorkspaceTemplateApply of a Workspace that is a preview.
func ParsePreviewOf(workspace client.Object) (types.NamespacedName, bool) {
	namespace, name, found := strings.Cut(workspace.GetAnnotations()[naming.PreviewOfAnnotation], "/")
	ofNamespace := workspace.GetNamespace() == "" || workspace.GetNamespace() == namespace
	return types.NamespacedName{Namespace: namespace, Name: name}, found && ofNamespace
}

// CreatePreview creates a preview. A first request without effect shows whether the API server keeps its managementPolicies: a definition
// without the field, or a webhook, could remove them, and the provider would apply.
func (c *Client) CreatePreview(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, preview *render.Rendered) error {
	if err := c.checkExists(ctx, apply); err != nil {
		return err
	}
	for _, options := range [][]client.CreateOption{{client.DryRunAll}, nil} {
		object := preview.Object.DeepCopy()
		err := c.Client.Create(ctx, object, append(options, client.FieldOwner(naming.WorkspaceTemplateApplyFieldManager))...)
		switch {
		case apierrors.IsAlreadyExists(err): // The cache does not have it yet. An event reports it.
			return nil
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err):
			return &RejectedError{Err: err}
		case err != nil:
			return fmt.Errorf("creating preview %s: %w", object.GetName(), err)
		case !preview.IsUnchanged(object):
			return &RejectedError{Err: fmt.Errorf("the API server changes Workspace %s: provider-terraform may not support managementPolicies", object.GetName())}
		}
		if options == nil {
			c.written.Record(object)
		}
	}
	return nil
}

// Replan makes the provider plan a preview again, by a change of an annotation.
func (c *Client) Replan(ctx context.Context, preview *Live, now time.Time) error {
	object := preview.Unstructured.DeepCopy()
	before := client.MergeFromWithOptions(preview.Unstructured, client.MergeFromWithOptimisticLock{})
	annotations := object.GetAnnotations()
	annotations[naming.PreviewLookAnnotation] = now.UTC().Format(time.RFC3339) + "/" + preview.typed.Status.AtProvider.Checksum
	object.SetAnnotations(annotations)
	if err := c.Client.Patch(ctx, object, before, client.FieldOwner(naming.WorkspaceTemplateApplyFieldManager)); err != nil {
		return fmt.Errorf("writing preview %s: %w", object.GetName(), err)
	}
	c.written.Record(object)
	return nil
}

// DeletePreview deletes a preview, or the Workspace of a state that CAPT releases. If the provider may do more than to observe, the deletion would destroy the
// resources of the Workspace, so that this is changed first, also while it is already being deleted. Only the version that was checked is deleted.
func (c *Client) DeletePreview(ctx context.Context, preview *Live) error {
	object := preview.Unstructured.DeepCopy()
	if !preview.OnlyObserves() {
		ctrl.LoggerFrom(ctx).Info("Restricting a Workspace to Observe before its deletion", "Workspace", klog.KObj(object))
		if err := render.OnlyObserve(object); err != nil {
			return fmt.Errorf("writing preview %s: %w", object.GetName(), err)
		}
		before := client.MergeFromWithOptions(preview.Unstructured, client.MergeFromWithOptimisticLock{})
		if err := c.Client.Patch(ctx, object, before, client.FieldOwner(naming.WorkspaceTemplateApplyFieldManager)); err != nil {
			return previewChanged("writing", object, err)
		}
	}
	if preview.Deleting() {
		return nil
	}
	err := c.Client.Delete(ctx, object, client.Preconditions{UID: ptr.To(object.GetUID()), ResourceVersion: ptr.To(object.GetResourceVersion())})
	c.written.Forget(client.ObjectKeyFromObject(object))
	return previewChanged("deleting", object, err)
}

// previewChanged returns the error of a write of a preview that may have changed since, or no longer exist.
func previewChanged(verb string, preview client.Object, err error) error {
	const previewChangedInterval = time.Second // When to try again to delete a preview that changed after it was read.
	switch {
	case client.IgnoreNotFound(err) == nil:
		return nil
	case apierrors.IsConflict(err):
		return engine.Wait("the preview to be read again", previewChangedInterval)
	}
	return fmt.Errorf("%s preview %s: %w", verb, preview.GetName(), err)
}

// DeleteOrphanedPreviews deletes the cluster-wide previews of a WorkspaceTemplateApply that no longer exists: a manager that was no longer the leader
// created them, or a user removed the finalizer. Others have an owner, and are garbage-collected. Their names depend on its UID.
func (c *Client) DeleteOrphanedPreviews(ctx context.Context, apply types.NamespacedName) error {
	if _, err := c.definition(ctx, terraform.ScopeCluster); err != nil {
		return ignoreKindMissing(err)
	}
	// Reading from the cache would start a watch, which an installation without cluster-wide Workspaces does not need.
	previews, err := listPreviews(ctx, c.Uncached, terraform.ScopeCluster)
	if err != nil {
		return ignoreKindMissing(err)
	}
	for i := range previews {
		preview, err := newLive(&previews[i])
		if err != nil {
			return err
		}
		if of, _ := ParsePreviewOf(preview); of != apply || preview.Claimed() {
			continue
		}
		owner, err := engine.Get(ctx, c.Uncached, apply, &infrav1.WorkspaceTemplateApply{})
		if err != nil || owner != nil { // The cache did not have it.
			return err
		}
		if err := c.DeletePreview(ctx, preview); err != nil {
			return err
		}
	}
	return nil
}

func ignoreKindMissing(err error) error {
	if errors.Is(err, ErrKindMissing) {
		return nil
	}
	return err
}

// Previews reports whether a live preview has a content, and the name of previews of this version, and whether no client changed it since.
func (l *Live) Previews(preview *render.Rendered) (same, unchanged bool) {
	return l.GetName() == preview.Object.GetName() && l.GetAnnotations()[naming.PreviewRevisionAnnotation] == preview.Revision, preview.IsUnchanged(l.Unstructured)
}

// PreviewObservation is what a preview shows.
type PreviewObservation struct {
	// Result is empty while it is not known.
	Result  infrav1.PreviewResult
	Message string
	// Replan is true when the provider must plan again.
	Replan bool
	// NoText is true when the plan failed, and the provider has not kept the error, as with -json.
	NoText bool
	// RequeueAfter is when the observation changes without an event; zero if it does not.
	RequeueAfter time.Duration
}

// ObservePreview returns what a preview shows. The provider loses the status of its first look when it adds its finalizer. So an empty plan is
// Ready=True with a checksum, and a plan with changes is a checksum without Ready after a second look. docs/provider-terraform.md has the table.
// report is the error of the preview.
func ObservePreview(preview *Live, now time.Time, report failure.Report) PreviewObservation {
	ready, synced := preview.condition(conditionReady), preview.condition(conditionSynced)
	switch {
	case synced == nil:
		return PreviewObservation{} // The provider has not reached it.
	case synced.Reason == reasonPaused:
		return PreviewObservation{Result: infrav1.PreviewUnavailable, Message: "preview " + preview.GetName() + " is paused by another client"}
	case preview.failed() && preview.LogsPlan() && failure.HasNoText(synced.Message):
		return PreviewObservation{NoText: true}
	case preview.failed():
		return observeFailedPreview(now.Sub(synced.LastTransitionTime.Time).Abs(), synced.Message, report)
	case isTrue(ready) && isTrue(synced) && preview.typed.Status.AtProvider.Checksum != "":
		return PreviewObservation{Result: infrav1.PreviewEmpty}
	}
	return preview.observeLooks(now)
}

// observeLooks returns what a preview shows that is neither empty nor failed. That it had no checksum when a plan was requested proves that its
// checksum is of a second look.
func (l *Live) observeLooks(now time.Time) PreviewObservation {
	checksum := l.typed.Status.AtProvider.Checksum
	at, then := l.lookedAt()
	switch {
	case at.IsZero(), checksum == "" && now.Sub(at) >= lookInterval:
		return PreviewObservation{Replan: true}
	case checksum == "":
		return PreviewObservation{RequeueAfter: lookInterval - now.Sub(at)}
	case then != "" && now.Sub(at) < settleTime:
		return PreviewObservation{RequeueAfter: settleTime - now.Sub(at)}
	}
	return PreviewObservation{Result: infrav1.PreviewChanges}
}

// observeFailedPreview reports a plan that has failed for some time. A transient error is not a result: the provider retries. A state without resources and outputs
// cannot be observed.
func observeFailedPreview(since time.Duration, message string, report failure.Report) PreviewObservation {
	switch {
	case strings.Contains(message, policiesOff):
		return PreviewObservation{Result: infrav1.PreviewUnavailable, Message: "management policies of provider-terraform are off. Enable them (flag --enable-management-policies)"}
	case strings.Contains(message, notExisting):
		return PreviewObservation{Result: infrav1.PreviewChanges, Message: "the Terraform state has no resources"}
	}
	switch {
	case report.Class.IsTransient():
		return PreviewObservation{}
	case report.Reason == infrav1.ProviderConfigFailedReason && since < connectTime:
		return PreviewObservation{RequeueAfter: connectTime - since}
	}
	return PreviewObservation{Result: infrav1.PreviewFailed, Message: report.Message}
}

// LogsPlan reports whether the provider logs what a live preview would change.
func (l *Live) LogsPlan() bool { return render.LogsPlan(l.Unstructured) }

// AskedAt returns when the plan of a live preview with changes was requested last, or has shown that the state has no resources.
func (l *Live) AskedAt() time.Time {
	if synced := l.condition(conditionSynced); l.failed() && synced != nil {
		return synced.LastTransitionTime.Time
	}
	at, _ := l.lookedAt()
	return at
}

// lookedAt returns when a plan was last requested, and the checksum that the preview had then; zero if none was requested.
func (l *Live) lookedAt() (at time.Time, checksum string) {
	text, checksum, _ := strings.Cut(l.GetAnnotations()[naming.PreviewLookAnnotation], "/")
	at, _ = time.Parse(time.RFC3339, text) // Missing or invalid means not requested.
	return at, checksum
}

// ExplainPreview explains the error of a preview, without the secrets that it or the state of the Workspace may have.
func (c *Client) ExplainPreview(ctx context.Context, preview, live *Live) failure.Report {
	secrets := c.secrets(ctx, preview)
	if live != nil {
		ofLive := c.secrets(ctx, live)
		secrets.Values, secrets.Missing = append(secrets.Values, ofLive.Values...), cmp.Or(secrets.Missing, ofLive.Missing)
	}
	return failure.Explain(preview.condition(conditionSynced).Message, secrets, "")
}
