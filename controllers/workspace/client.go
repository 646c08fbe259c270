// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package workspace reads and writes Workspaces of provider-terraform: apply, observe, delete. Package render renders their spec, and
// package failure explains errors of the provider. Only these, api/terraform and the tests know Crossplane. Observing is pure.
//
// docs/provider-terraform.md lists the states of a Workspace of provider-terraform v0.18 to v1.1.
package workspace

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
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
