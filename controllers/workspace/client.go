// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/ssa"
	"github.com/capt-provider/capt/controllers/workspace/failure"
	"github.com/capt-provider/capt/controllers/workspace/render"
)

var (
	// ErrKindMissing means that provider-terraform's CRD of the scope is not installed.
	ErrKindMissing = errors.New("the Workspace kind is not installed")
	// ErrKindNotServed means that the CRD is installed, but the API server does not serve the version that CAPT knows: not
	// yet, or not any more. It is an ErrKindMissing, too, but says nothing about which Workspaces there are.
	ErrKindNotServed = fmt.Errorf("%w in version %s", ErrKindMissing, terraform.ScopeCluster.GroupVersionKind().Version)
)

// DefinitionOf is the name of the CRD of a scope's Workspaces.
func DefinitionOf(scope terraform.Scope) string {
	return "workspaces." + scope.GroupVersionKind().Group
}

// RejectedError means that the API server refused a Workspace, and will refuse it again.
type RejectedError struct{ Err error }

// Error quotes no secret: what the API server says can hold any value of the Workspace.
func (e *RejectedError) Error() string { return failure.OneLine(e.Err.Error()) }
func (e *RejectedError) Unwrap() error { return e.Err }

// Client reads and writes Workspaces. Reads come from the cache, but for the last look before one is created.
type Client struct {
	Client client.Client
	// Uncached reads from the API server.
	Uncached client.Reader
	// Watch starts the watch of a scope's Workspaces, the first time one of them is read. The kinds come and go with
	// provider-terraform, so they are not watched from the start.
	Watch func(ctx context.Context, scope terraform.Scope) error

	// written remembers what this process applied, since the cache shows it later.
	written engine.StateCache
	// creating has a lock for each name, or rather for each of a number of shares of all names.
	creating [64]sync.Mutex
}

// Get returns the Workspace of a name, nil when there is none, or ErrKindMissing.
func (c *Client) Get(ctx context.Context, scope terraform.Scope, namespace, name string) (*Live, error) {
	if err := c.known(ctx, scope); err != nil {
		return nil, err
	}
	live, err := get(ctx, c.Client, scope, namespace, name)
	if live != nil && c.written.CacheIsStale(live.object) {
		return get(ctx, c.Uncached, scope, namespace, name)
	}
	return live, err
}

// known checks that a scope's kind is installed, and watches it from then on.
func (c *Client) known(ctx context.Context, scope terraform.Scope) error {
	if err := c.installed(ctx, scope); err != nil {
		return err
	}
	return c.watch(ctx, scope)
}

func (c *Client) watch(ctx context.Context, scope terraform.Scope) error {
	if err := c.Watch(ctx, scope); err != nil {
		return fmt.Errorf("watching Workspaces: %w", err)
	}
	return nil
}

// installed checks that a scope's kind is installed. Its definition is looked at first: asking for a kind that is not there
// costs a discovery, and a kind that was found once is never forgotten.
func (c *Client) installed(ctx context.Context, scope terraform.Scope) error {
	if _, err := c.definition(ctx, scope); err != nil {
		return err
	}
	gvk := scope.GroupVersionKind()
	if _, err := c.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); err != nil {
		if meta.IsNoMatchError(err) {
			return fmt.Errorf("%w: %s", ErrKindNotServed, gvk)
		}
		return fmt.Errorf("looking for the Workspace kind: %w", err)
	}
	return nil
}

// definition is the metadata of the CRD of a scope's Workspaces.
func (c *Client) definition(ctx context.Context, scope terraform.Scope) (*metav1.PartialObjectMetadata, error) {
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	switch err := c.Client.Get(ctx, client.ObjectKey{Name: DefinitionOf(scope)}, definition); {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w: %s", ErrKindMissing, scope.GroupVersionKind())
	case err != nil:
		return nil, fmt.Errorf("looking for the definition of the Workspace kind: %w", err)
	}
	return definition, nil
}

// Moved tells whether clusterctl move takes the Workspaces of a scope along: they have no owner, so labels on their definition
// must say so. ErrKindMissing when there is no definition.
func (c *Client) Moved(ctx context.Context, scope terraform.Scope) (bool, error) {
	definition, err := c.definition(ctx, scope)
	if err != nil {
		return false, err
	}
	labelled := func(label string) bool { _, ok := definition.Labels[label]; return ok }
	return labelled(clusterctlv1.ClusterctlLabel) &&
		(labelled(clusterctlv1.ClusterctlMoveLabel) || labelled(clusterctlv1.ClusterctlMoveHierarchyLabel)), nil
}

func get(ctx context.Context, reader client.Reader, scope terraform.Scope, namespace, name string) (*Live, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(scope.GroupVersionKind())
	key := client.ObjectKey{Namespace: namespace, Name: name}
	if scope == terraform.ScopeCluster {
		key.Namespace = ""
	}
	switch err := reader.Get(ctx, key, object); {
	case meta.IsNoMatchError(err), notServed(err):
		return nil, fmt.Errorf("%w: %s", ErrKindNotServed, scope.GroupVersionKind())
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Workspace %s: %w", name, err)
	}
	return newLive(object)
}

// Recorded returns the Workspace that a WorkspaceTemplateApply owns: the one status remembers, or the one of
// spec.workspaceName in either scope. It needs no template; rendered may be nil. It looks past the cache, since a Workspace
// that was made a moment ago and is not found would be left behind for ever. Should there be none of its own but somebody
// else's, that one is returned, for the caller to tell; nil when there is none at all.
func (c *Client) Recorded(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, rendered *render.Rendered) (*Live, error) {
	if apply.Spec.WorkspaceName == "" {
		return nil, nil
	}
	var other *Live
	for _, scope := range scopesOf(apply.Status.WorkspaceRef) {
		err := c.known(ctx, scope) // The watch first: what goes between the two would not wake the object.
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
		if live != nil && live.Owner(apply, rendered) == Owned {
			return live, nil
		}
		if live != nil {
			other = live
		}
	}
	return other, nil
}

func scopesOf(ref *infrav1.WorkspaceReference) []terraform.Scope {
	for _, scope := range terraform.Scopes() {
		if ref != nil && scope.GroupVersionKind().GroupVersion().String() == ref.APIVersion {
			return []terraform.Scope{scope}
		}
	}
	return terraform.Scopes()
}

func (c *Client) lockOf(name string) *sync.Mutex {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // It never fails.
	return &c.creating[hash.Sum32()%uint32(len(c.creating))]
}

// Create makes the Workspace of a WorkspaceTemplateApply. Before it does, it looks past the cache: a Workspace that is there
// already, in either scope, is returned as it is, for the caller to decide whose it is. Of each name one is made at a time, so
// that two that mean the same do not both find nothing. Others do not wait for it: it takes four requests, and a fleet would
// come one by one.
func (c *Client) Create(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, rendered *render.Rendered) (*Live, error) {
	creating := c.lockOf(rendered.Object.GetName())
	creating.Lock()
	defer creating.Unlock()
	if err := c.stillWanted(ctx, apply); err != nil {
		return nil, err
	}
	there, err := get(ctx, c.Uncached, scopeOf(rendered.Object), apply.Namespace, rendered.Object.GetName())
	if err != nil || there != nil {
		return there, err
	}
	if there, err = c.elsewhere(ctx, apply, rendered); err != nil || there != nil {
		return there, err
	}
	return c.apply(ctx, rendered.Object.DeepCopy())
}

// stillWanted looks once more whether the WorkspaceTemplateApply is there. Another manager may have taken over since this one
// decided, and released it.
func (c *Client) stillWanted(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) error {
	now, err := engine.Get(ctx, c.Uncached, client.ObjectKeyFromObject(apply), &infrav1.WorkspaceTemplateApply{})
	switch {
	case err != nil:
		return fmt.Errorf("reading the WorkspaceTemplateApply: %w", err)
	case now == nil || now.UID != apply.UID || !now.DeletionTimestamp.IsZero():
		return fmt.Errorf("WorkspaceTemplateApply %s was deleted in the meantime", client.ObjectKeyFromObject(apply))
	}
	return nil
}

// elsewhere finds the Workspace in the other scope: the template may have been exchanged, and status lost.
func (c *Client) elsewhere(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, rendered *render.Rendered) (*Live, error) {
	for _, scope := range terraform.Scopes() {
		if scope == scopeOf(rendered.Object) {
			continue
		}
		switch err := c.installed(ctx, scope); {
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

// Update makes the live Workspace what was rendered, by server-side apply. The caller knows that it differs, and whose it
// is.
func (c *Client) Update(ctx context.Context, live *Live, rendered *render.Rendered) (*Live, error) {
	want := live.applicable(rendered)
	// Should the Workspace have been replaced in the meantime, the API server refuses.
	want.SetUID(live.UID())
	return c.apply(ctx, want)
}

// Restore restores the managedFields of a Workspace that is as it was rendered, and was created by CAPT. provider-terraform does
// not plan for that: neither the generation nor labels and annotations change.
func (c *Client) Restore(ctx context.Context, live *Live, rendered *render.Rendered) (*Live, error) {
	restored, err := c.Update(ctx, live, rendered)
	if err != nil {
		return nil, err
	}
	if err := ssa.RestoreManagedFields(ctx, c.Client, restored.object, naming.WorkspaceTemplateApplyFieldManager); err != nil {
		return nil, err
	}
	c.written.Record(restored.object)
	return restored, nil
}

func (c *Client) apply(ctx context.Context, object *unstructured.Unstructured) (*Live, error) {
	err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
		client.FieldOwner(naming.WorkspaceTemplateApplyFieldManager), client.ForceOwnership)
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err), notOfSchema(err):
		return nil, &RejectedError{Err: err}
	case meta.IsNoMatchError(err), notServed(err):
		return nil, fmt.Errorf("%w: %s", ErrKindNotServed, object.GroupVersionKind())
	case err != nil:
		return nil, fmt.Errorf("applying Workspace %s: %w", object.GetName(), err)
	}
	c.written.Record(object)
	return newLive(object)
}

// notOfSchema recognises the API server's answer to a field that the CRD does not have. It comes as an internal error.
func notOfSchema(err error) bool {
	return err != nil && strings.Contains(err.Error(), "failed to create typed patch object")
}

// notServed recognises the API server's answer about a kind that it no longer, or not yet, serves.
func notServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Delete asks the provider to destroy the cloud resources and the Workspace. Only this very Workspace is deleted, never
// another one of its name.
func (c *Client) Delete(ctx context.Context, live *Live) error {
	err := c.Client.Delete(ctx, live.object, client.Preconditions{UID: ptr.To(live.UID())})
	c.written.Forget(client.ObjectKeyFromObject(live.object))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Workspace %s: %w", live.object.GetName(), err)
	}
	return nil
}

func scopeOf(object *unstructured.Unstructured) terraform.Scope {
	if object.GroupVersionKind().Group == terraform.ScopeCluster.GroupVersionKind().Group {
		return terraform.ScopeCluster
	}
	return terraform.ScopeNamespaced
}
