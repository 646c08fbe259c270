// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package workspace reads and writes Workspaces of provider-terraform: apply, observe, delete. Package render renders their spec, and
// package failure explains errors of the provider. Only these, api/terraform and the tests know Crossplane. Observing is pure.
//
// docs/provider-terraform.md lists the states of a Workspace of provider-terraform v0.18 to v1.1.
package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/runs"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/managedfields"
)

var (
	// ErrKindMissing means that provider-terraform's CRD of the scope is not installed.
	ErrKindMissing = errors.New("the Workspace kind is not installed")
	// ErrKindNotServed means that the CRD is installed, but the API server does not serve the version that CAPT uses. It is
	// also an ErrKindMissing, but does not mean that no Workspaces exist.
	ErrKindNotServed = fmt.Errorf("%w in version %s", ErrKindMissing, terraform.ScopeCluster.GroupVersionKind().Version)
)

// DefinitionOf is the name of the CRD of the Workspaces of a scope.
func DefinitionOf(scope terraform.Scope) string {
	return "workspaces." + scope.GroupVersionKind().Group
}

// RejectedError means that the API server rejected a Workspace, and will reject it again.
type RejectedError struct{ Err error }

// Error is redacted: the API server may quote any value of the Workspace.
func (e *RejectedError) Error() string { return failure.OneLine(e.Err.Error()) }
func (e *RejectedError) Unwrap() error { return e.Err }

// Client reads and writes Workspaces. It reads from the cache, except before a Workspace is created.
type Client struct {
	Client client.Client
	// Uncached reads from the API server.
	Uncached client.Reader
	// Watch starts the watch of the Workspaces of a scope when one of them is first read: the kinds exist only while provider-terraform is
	// installed.
	Watch func(ctx context.Context, scope terraform.Scope) error
	// WatchProviderConfigs starts the watch of a kind of ProviderConfigs when a Workspace that uses one first fails; it may be nil.
	WatchProviderConfigs func(ctx context.Context, kind schema.GroupVersionKind) error

	// written is what this process applied last, to detect a stale cache.
	written engine.StateCache
	// creating has one lock per hash of a name.
	creating [64]sync.Mutex
}

// Get returns the Workspace with a name, nil when there is none, or ErrKindMissing.
func (c *Client) Get(ctx context.Context, scope terraform.Scope, namespace, name string) (*Live, error) {
	if err := c.ensureWatched(ctx, scope); err != nil {
		return nil, err
	}
	live, err := get(ctx, c.Client, scope, namespace, name)
	if live != nil && c.written.CacheIsStale(live.Unstructured) {
		return get(ctx, c.Uncached, scope, namespace, name)
	}
	return live, err
}

func (c *Client) ensureWatched(ctx context.Context, scope terraform.Scope) error {
	if err := c.checkInstalled(ctx, scope); err != nil {
		return err
	}
	if err := c.Watch(ctx, scope); err != nil {
		return fmt.Errorf("watching Workspaces: %w", err)
	}
	return nil
}

// checkInstalled checks that the kind of a scope is installed. Its definition is read first: each lookup of a missing kind causes a discovery
// request, and the result for an existing kind is cached permanently.
func (c *Client) checkInstalled(ctx context.Context, scope terraform.Scope) error {
	if _, err := c.definition(ctx, scope); err != nil {
		return err
	}
	gvk := scope.GroupVersionKind()
	if _, err := c.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); err != nil {
		if meta.IsNoMatchError(err) {
			return fmt.Errorf("%w: %s", ErrKindNotServed, gvk)
		}
		return fmt.Errorf("looking up the Workspace kind: %w", err)
	}
	return nil
}

// definition is the metadata of the CRD of the Workspaces of a scope.
func (c *Client) definition(ctx context.Context, scope terraform.Scope) (*metav1.PartialObjectMetadata, error) {
	definition := engine.Metadata("CustomResourceDefinition")
	switch err := c.Client.Get(ctx, client.ObjectKey{Name: DefinitionOf(scope)}, definition); {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w: %s", ErrKindMissing, scope.GroupVersionKind())
	case err != nil:
		return nil, fmt.Errorf("reading the definition of the Workspace kind: %w", err)
	}
	return definition, nil
}

// IsMovable reports whether clusterctl move moves the Workspaces of a scope. They have no owner, so clusterctl requires its labels on their
// CustomResourceDefinition. The error is ErrKindMissing when that does not exist.
func (c *Client) IsMovable(ctx context.Context, scope terraform.Scope) (bool, error) {
	definition, err := c.definition(ctx, scope)
	if err != nil {
		return false, err
	}
	labeled := func(label string) bool { _, ok := definition.Labels[label]; return ok }
	return labeled(clusterctlv1.ClusterctlLabel) &&
		(labeled(clusterctlv1.ClusterctlMoveLabel) || labeled(clusterctlv1.ClusterctlMoveHierarchyLabel)), nil
}

func get(ctx context.Context, reader client.Reader, scope terraform.Scope, namespace, name string) (*Live, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(scope.GroupVersionKind())
	key := client.ObjectKey{Namespace: namespace, Name: name}
	if scope == terraform.ScopeCluster {
		key.Namespace = ""
	}
	switch err := reader.Get(ctx, key, object); {
	case meta.IsNoMatchError(err), isNotServed(err):
		return nil, fmt.Errorf("%w: %s", ErrKindNotServed, scope.GroupVersionKind())
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Workspace %s: %w", name, err)
	}
	return newLive(object)
}

// Recorded returns the Workspace that a WorkspaceTemplateApply owns: the one that status records, or the one of spec.workspaceName in
// either scope. It needs no template; rendered may be nil. It reads from the API server, because a new Workspace that is not in the cache
// yet would be orphaned. If only a Workspace of another owner exists, it returns that one; nil if there is none.
func (c *Client) Recorded(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, rendered *render.Rendered) (*Live, error) {
	if apply.Spec.WorkspaceName == "" {
		return nil, nil
	}
	var other *Live
	for _, scope := range scopesOf(apply.Status.WorkspaceRef) {
		err := c.ensureWatched(ctx, scope) // Watch first, so that no deletion is missed.
		if errors.Is(err, ErrKindMissing) && !errors.Is(err, ErrKindNotServed) && apply.Status.WorkspaceRef == nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		live, err := get(ctx, c.Uncached, scope, apply.Namespace, apply.Spec.WorkspaceName)
		if err != nil {
			return nil, err
		}
		if live != nil && live.Owner(apply, rendered) == render.Owned {
			return live, nil
		}
		if live != nil {
			other = live
		}
	}
	return other, nil
}

// scopesOf returns the scopes to look for the recorded Workspace in: its own, or all if it is unknown.
func scopesOf(ref *infrav1.WorkspaceReference) []terraform.Scope {
	if scope, ok := ref.Scope(); ok {
		return []terraform.Scope{scope}
	}
	return terraform.Scopes()
}

func (c *Client) lockOf(name string) *sync.Mutex {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // It never fails.
	return &c.creating[hash.Sum32()%uint32(len(c.creating))]
}

// Create creates the Workspace of a WorkspaceTemplateApply. It first reads from the API server: a Workspace that exists in either scope is
// returned unchanged, and the caller determines its owner. Creations of one name are serialized, so that two objects with the same
// Workspace do not both create it.
func (c *Client) Create(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, rendered *render.Rendered) (*Live, error) {
	lock := c.lockOf(rendered.Object.GetName())
	lock.Lock()
	defer lock.Unlock()
	existing, err := get(ctx, c.Uncached, scopeOf(rendered.Object), apply.Namespace, rendered.Object.GetName())
	if err != nil || existing != nil {
		return existing, err
	}
	if existing, err = c.inOtherScope(ctx, apply, rendered); err != nil || existing != nil {
		return existing, err
	}
	if err := c.checkExists(ctx, apply); err != nil { // Last: the Workspace of an object that was deleted meanwhile would belong to none.
		return nil, err
	}
	return c.apply(ctx, rendered.Object.DeepCopy())
}

// checkExists fails if the WorkspaceTemplateApply no longer exists according to the API server: another manager may have become leader and
// released it.
func (c *Client) checkExists(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) error {
	now, err := c.current(ctx, apply)
	if err == nil && (now == nil || !now.DeletionTimestamp.IsZero()) {
		err = errDeleted(apply)
	}
	return err
}

func errDeleted(apply *infrav1.WorkspaceTemplateApply) error {
	return fmt.Errorf("WorkspaceTemplateApply %s was deleted during the reconcile", client.ObjectKeyFromObject(apply))
}

// current returns the WorkspaceTemplateApply according to the API server; nil if it no longer exists.
func (c *Client) current(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceTemplateApply, error) {
	now, err := engine.Get(ctx, c.Uncached, client.ObjectKeyFromObject(apply), &infrav1.WorkspaceTemplateApply{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the WorkspaceTemplateApply: %w", err)
	case now == nil || now.UID != apply.UID:
		return nil, nil
	}
	return now, nil
}

// inOtherScope finds the Workspace in the other scope: the template may have been replaced, and status lost.
func (c *Client) inOtherScope(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, rendered *render.Rendered) (*Live, error) {
	for _, scope := range terraform.Scopes() {
		if scope == scopeOf(rendered.Object) {
			continue
		}
		switch err := c.checkInstalled(ctx, scope); {
		case errors.Is(err, ErrKindNotServed):
			return nil, err
		case errors.Is(err, ErrKindMissing):
			continue
		case err != nil:
			return nil, err
		}
		live, err := get(ctx, c.Uncached, scope, apply.Namespace, rendered.Object.GetName())
		if err != nil || (live != nil && live.ClaimedBy(apply)) {
			return live, err
		}
	}
	return nil, nil
}

// Update updates the live Workspace to what was rendered for a WorkspaceTemplateApply, by server-side apply. The caller checks difference and owner. A manager
// that has lost its leadership must not revert what the next one wrote: the API server confirms that the WorkspaceTemplateApply is as it was read.
func (c *Client) Update(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, live *Live, rendered *render.Rendered) (*Live, error) {
	now, err := c.current(ctx, apply)
	switch {
	case err != nil:
		return nil, err
	case now == nil || now.Generation != apply.Generation:
		return nil, fmt.Errorf("WorkspaceTemplateApply %s was changed during the reconcile", client.ObjectKeyFromObject(apply))
	}
	return c.update(ctx, live, rendered)
}

func (c *Client) update(ctx context.Context, live *Live, rendered *render.Rendered) (*Live, error) {
	want := rendered.For(live.Unstructured)
	// The API server refuses if the Workspace was recreated, or written since it was read.
	want.SetUID(live.GetUID())
	want.SetResourceVersion(live.GetResourceVersion())
	return c.apply(ctx, want)
}

// Restore restores the managedFields of a Workspace that CAPT created and that is as rendered. provider-terraform does not plan: generation,
// labels and annotations do not change.
func (c *Client) Restore(ctx context.Context, live *Live, rendered *render.Rendered) (*Live, error) {
	restored, err := c.update(ctx, live, rendered)
	if err != nil {
		return nil, err
	}
	if err := managedfields.Restore(ctx, c.Client, restored.Unstructured, naming.WorkspaceTemplateApplyFieldManager); err != nil {
		return nil, err
	}
	c.written.Record(restored.Unstructured)
	return restored, nil
}

func (c *Client) apply(ctx context.Context, object *unstructured.Unstructured) (*Live, error) {
	want := object.DeepCopy()
	want.SetResourceVersion("") // A precondition.
	err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
		client.FieldOwner(naming.WorkspaceTemplateApplyFieldManager), client.ForceOwnership)
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err),
		err != nil && strings.Contains(err.Error(), "failed to create typed patch object"): // The CRD does not have a field. The status is that of an internal error.
		return nil, &RejectedError{Err: err}
	case meta.IsNoMatchError(err), isNotServed(err):
		return nil, fmt.Errorf("%w: %s", ErrKindNotServed, object.GroupVersionKind())
	case err != nil:
		return nil, fmt.Errorf("applying Workspace %s: %w", object.GetName(), err)
	}
	c.written.Record(object)
	live, err := newLive(object)
	if err == nil {
		live.Rewritten = !ssa.Contains(object, want)
	}
	return live, err
}

// isNotServed reports whether an error means that the API server does not serve the kind.
func isNotServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Delete deletes the Workspace of a WorkspaceTemplateApply, so that the provider destroys its cloud resources. A Workspace with the same name and another
// UID is not deleted. The API server confirms the WorkspaceTemplateApply after the Workspace was read: a manager that has lost its leadership may have read
// the Workspace of one that was created again.
func (c *Client) Delete(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, live *Live) error {
	switch now, err := c.current(ctx, apply); {
	case err != nil:
		return err
	case now == nil:
		return errDeleted(apply)
	}
	err := c.Client.Delete(ctx, live.Unstructured, client.Preconditions{UID: ptr.To(live.GetUID())})
	c.written.Forget(client.ObjectKeyFromObject(live.Unstructured))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Workspace %s: %w", live.GetName(), err)
	}
	return nil
}

// ScopeOf returns the scope of a Workspace.
func ScopeOf(object *unstructured.Unstructured) terraform.Scope { return scopeOf(object) }

func scopeOf(object *unstructured.Unstructured) terraform.Scope {
	if object.GroupVersionKind().Group == terraform.ScopeCluster.GroupVersionKind().Group {
		return terraform.ScopeCluster
	}
	return terraform.ScopeNamespaced
}

// Explain explains the error of the Workspace of a WorkspaceTemplateApply, without the secrets that it may quote. complete is false when the
// text of Terraform is omitted, because some secrets are not known.
func (c *Client) Explain(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, live *Live) (report failure.Report, complete bool) {
	failed := live.typed.Failure()
	if failed == nil {
		return failure.Report{}, true
	}
	secrets := c.secrets(ctx, live)
	return failure.Explain(failed.Message, secrets, failure.Command(apply)), secrets.Missing == nil
}

// secrets reads the secrets that the error of a Workspace may quote.
func (c *Client) secrets(ctx context.Context, live *Live) failure.Secrets {
	return failure.SecretsOf(&live.typed, func(key types.NamespacedName) (*corev1.Secret, error) {
		secret := &corev1.Secret{}
		err := c.Uncached.Get(ctx, key, secret)
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot read a Secret that an error of Terraform may quote: details of the error are omitted", "Secret", klog.KRef(key.Namespace, key.Name))
		}
		return secret, err
	})
}

// Requests for recovery actions that are carried out on a Workspace: <type>/<UID of the Workspace>/<time>.
const (
	reapplyRequest = string(infrav1.RecoveryReapply)
	clearRequest   = string(infrav1.RecoveryClearInterruptedCreate)
)

// RecoveryRequested reports whether a request is for this Workspace and was not carried out. A request for an earlier Workspace of the name
// is void.
func (l *Live) RecoveryRequested(request string) bool {
	isFor := func(action string) bool { return strings.HasPrefix(request, action+"/"+string(l.GetUID())+"/") }
	return (isFor(reapplyRequest) || isFor(clearRequest) || isFor(runs.Action)) && l.GetAnnotations()[naming.RecoveryAnnotation] != request
}

// ClearsInterruptedCreate reports whether a request continues an interrupted create.
func ClearsInterruptedCreate(request string) bool {
	return strings.HasPrefix(request, clearRequest+"/")
}

// Recover carries out a recovery action, or a run that a user requested, by an edit of the metadata of the Workspace. CAPT never edits the metadata of a Workspace otherwise
// after its creation, because each edit makes the provider run a plan. Here the plan is the purpose: nothing else makes the provider try again
// before its own backoff ends, and nothing but the removal of the annotation makes it continue an interrupted create. Only the actions Reapply,
// ClearInterruptedCreate and Run use this, and Reconnect. The annotation with the request stays, so that each request is carried out once, also after a restart
// of the manager or a move. last is the change that status records.
func (c *Client) Recover(ctx context.Context, live *Live, request string, last *infrav1.WorkspaceUpdate) (*Live, error) {
	// Before v1, another status would mean that the provider has observed the last change.
	if runs.IsRequested(request) && (live.ReportsGeneration() || live.statusIsCurrent(last)) {
		if err := c.invalidateChecksum(ctx, live, request); err != nil {
			return nil, err
		}
	}
	annotations := map[string]any{naming.RecoveryAnnotation: request}
	metadata := map[string]any{"uid": live.GetUID(), "annotations": annotations}
	if ClearsInterruptedCreate(request) {
		// Changing another annotation in the same patch is needed: the provider ignores changes of this one. The provider must not have written
		// since, because it could have started another create.
		annotations[terraform.CreatePendingAnnotation] = nil
		metadata["resourceVersion"] = live.GetResourceVersion()
	}
	return c.annotate(ctx, live, metadata)
}

// Reconnect makes the provider observe the Workspace, so that it writes the connection Secret. The same request has no effect again.
func (c *Client) Reconnect(ctx context.Context, live *Live, request string) (*Live, error) {
	return c.annotate(ctx, live, map[string]any{"uid": live.GetUID(), "annotations": map[string]any{naming.ResumedAnnotation: request}})
}

// invalidateChecksum replaces the checksum that the provider has stored with its last plan. The provider then initializes the working directory again, and a
// run that changes nothing shows that it has ended: it stores its own checksum. The annotation follows, so that the provider does not miss this.
func (c *Client) invalidateChecksum(ctx context.Context, live *Live, request string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": live.GetUID()}, "status": map[string]any{"atProvider": map[string]any{"checksum": request}},
	})
	if err != nil {
		return err
	}
	if err := c.Client.Status().Patch(ctx, live.Unstructured.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(naming.RecoveryFieldManager)); err != nil {
		return fmt.Errorf("requesting a run of Workspace %s: %w", live.GetName(), err)
	}
	return nil
}

// Pause stops the provider, because Terraform could not save its state: each further run would create again what the last one has created. The Workspace
// must not have changed since: a user may have resumed it a moment ago.
func (c *Client) Pause(ctx context.Context, live *Live) (*Live, error) {
	return c.annotate(ctx, live, map[string]any{
		"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(),
		"annotations": map[string]any{terraform.PausedAnnotation: "true", naming.StateNotSavedAnnotation: "true"},
	})
}

// annotate patches the metadata of a Workspace.
func (c *Client) annotate(ctx context.Context, live *Live, metadata map[string]any) (*Live, error) {
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	object := live.Unstructured.DeepCopy()
	if err := c.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(naming.RecoveryFieldManager)); err != nil {
		return nil, fmt.Errorf("annotating Workspace %s: %w", object.GetName(), err)
	}
	c.written.Record(object)
	return newLive(object)
}

// NotFailing returns what shows that the recorded Workspace of a WorkspaceTemplateApply does not fail any more, or no longer exists; empty if nothing does.
// It reads from the API server: a retry of the provider may have succeeded a moment ago.
func (c *Client) NotFailing(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (string, error) {
	ref := apply.Status.WorkspaceRef
	scope, ok := ref.Scope()
	if !ok {
		return "WorkspaceTemplateApply " + apply.Name + " has no Workspace", nil
	}
	live, err := get(ctx, c.Uncached, scope, ref.Namespace, ref.Name)
	switch {
	case err != nil:
		return "", err
	case live == nil || !live.RecordedFor(apply):
		return "Workspace " + ref.Name + " does not exist, or was recreated", nil
	case live.applied():
		return "Workspace " + ref.Name + " was applied", nil
	case len(outputs(&live.typed, terraform.PublishedOutputs())) > 0:
		return "Workspace " + ref.Name + " has outputs", nil
	case apply.Status.LastFailureClass != "" && !live.failed():
		return "Workspace " + ref.Name + " has no error any more", nil
	}
	return "", nil
}

// RunInputs are what a run of Terraform uses in addition to the spec of the Workspace.
type RunInputs struct {
	// Hash changes when one of the objects is changed, created or deleted; empty if one could not be read.
	Hash string
	// Objects are the ProviderConfig and the Secrets, as from InputKey.
	Objects []string
	// NotRemote is why the state may have been lost with the provider; empty if it is remote.
	NotRemote string
}

// InputKey identifies an object that runs of Terraform use.
func InputKey(object client.Object) string {
	return object.GetObjectKind().GroupVersionKind().GroupKind().String() + " " + client.ObjectKeyFromObject(object).String()
}

// Inputs reads the ProviderConfig of a Workspace, and the versions of the Secrets that both refer to. It reads from the API server, and is meant
// for failed Workspaces only.
func (c *Client) Inputs(ctx context.Context, live *Live) (in RunInputs, err error) {
	config := render.ProviderConfigObject(live.Unstructured)
	var versions []string
	add := func(object client.Object, version func() string) error {
		in.Objects = append(in.Objects, InputKey(object))
		switch err := c.Uncached.Get(ctx, client.ObjectKeyFromObject(object), object); {
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			versions = append(versions, "missing")
		case err != nil:
			return fmt.Errorf("reading %s: %w", in.Objects[len(in.Objects)-1], err)
		default:
			versions = append(versions, string(object.GetUID())+"/"+version())
		}
		return nil
	}
	if c.WatchProviderConfigs != nil {
		if err := c.WatchProviderConfigs(ctx, config.GroupVersionKind()); err != nil && !meta.IsNoMatchError(err) {
			return in, fmt.Errorf("watching ProviderConfigs: %w", err)
		}
	}
	if err := add(config, func() string { return fmt.Sprint(config.GetGeneration()) }); err != nil {
		return in, err
	}
	in.NotRemote = notRemote(config)
	for _, key := range append(credentialsOf(config), live.typed.Spec.SecretKeys()...) {
		secret := engine.Metadata("Secret")
		secret.SetNamespace(cmp.Or(key.Namespace, live.GetNamespace()))
		secret.SetName(key.Name)
		if err := add(secret, secret.GetResourceVersion); err != nil {
			return in, err
		}
	}
	in.Hash = hash([]byte(strings.Join(versions, " ")))
	return in, nil
}

func credentialsOf(config *unstructured.Unstructured) []terraform.KeyReference {
	var refs []terraform.KeyReference
	spec, err := terraform.ProviderConfigSpecOf(config)
	if err != nil {
		return nil // The provider cannot use it, either.
	}
	for _, credentials := range spec.Credentials {
		if credentials.SecretRef != nil {
			refs = append(refs, *credentials.SecretRef)
		}
	}
	return refs
}

// notRemote returns why the state of a ProviderConfig is not known to be remote. Without a backend, the state is in a directory of the
// provider's Pod, and is lost with it.
func notRemote(config *unstructured.Unstructured) string {
	text, _, _ := unstructured.NestedString(config.Object, "spec", "configuration")
	params := terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: text}
	missing := fmt.Sprintf("%s %s has no remote backend in spec.configuration, so the state of the interrupted run may be lost", config.GetKind(), config.GetName())
	if len(modules.ValidateComplexity(params, field.NewPath("spec", "configuration"))) > 0 {
		return missing
	}
	if backend, err := modules.BackendOf("configuration.tf", []byte(text)); err == nil && backend != nil && backend.Type != modules.LocalBackend {
		return ""
	}
	return missing
}

// CreateNotContinuable returns why an interrupted create must not be continued automatically; empty if it may. The provider reports an
// interruption once: if it has started another create since, that one runs, or was interrupted as well, and nothing shows which. So each
// report allows one continuation.
func (l *Live) CreateNotContinuable() string {
	began, err := time.Parse(time.RFC3339, l.GetAnnotations()[terraform.CreatePendingAnnotation])
	synced := l.condition(conditionSynced)
	switch {
	case err != nil, synced == nil:
		return "the interrupted create was continued, and provider-terraform has not reported since"
	case began.After(synced.LastTransitionTime.Time):
		return "the interrupted create was continued before, and may still be running"
	}
	return ""
}
