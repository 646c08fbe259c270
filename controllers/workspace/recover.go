// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/runs"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/controllers/engine"
)

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
