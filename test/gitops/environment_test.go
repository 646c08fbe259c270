// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package gitops_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// Names of config/gitops/flux.
const (
	fleet = "fleet"

	platform  = "platform"
	templates = "templates"
	clusters  = "clusters"
)

var (
	repositoryKind    = schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "GitRepository"}
	kustomizationKind = schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"}

	captClusterKind  = infrav1.GroupVersion.WithKind("CAPTCluster")
	controlPlaneKind = controlplanev1.GroupVersion.WithKind("CAPTControlPlane")
)

// environment is a fleet in a namespace, whose manifests are in a repository.
type environment struct {
	*fixture.Environment
	git     *repository
	history *history
	// flux is the namespace of its Kustomizations, flux-system for users.
	flux string
}

// newEnvironment creates an empty repository, and applies config/gitops/flux for it.
func (f *flux) newEnvironment(t *testing.T, name string) *environment {
	t.Helper()
	env := &environment{
		// Workspaces of API v1beta1 have no namespace.
		Environment: &fixture.Environment{T: t, Client: f.API, Server: f.Server, Namespace: name, Scope: terraform.ScopeCluster},
		git:         newRepository(t, filepath.Join(f.repositories, name), platform, templates, clusters),
		history:     record(t, f.API, kustomizationKind, captClusterKind, controlPlaneKind),
		flux:        name + "-flux",
	}
	require.NoError(t, f.API.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.flux}}))
	env.git.commit("No manifests")
	objects, err := manifests.Load(filepath.Join("..", "..", "config", "gitops", "flux"))
	require.NoError(t, err)
	require.Len(t, objects, 4)
	for _, object := range objects {
		if object.GetKind() == repositoryKind.Kind {
			require.NoError(t, unstructured.SetNestedField(object.Object, f.url+"/"+name+"/.git", "spec", "url"))
		}
		object.SetNamespace(env.flux)
		fixture.Apply(t, f.API, object)
	}
	return env
}

// read reads an object of Flux.
func (env *environment) read(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	env.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	require.NoError(env, env.Get(env.Context(), client.ObjectKey{Namespace: env.flux, Name: name}, object))
	return object
}

// request lets Flux reconcile an object now, as flux reconcile does, and returns when it has.
func (env *environment) request(kind schema.GroupVersionKind, name string) {
	env.Helper()
	object, now := env.read(kind, name), time.Now().Format(time.RFC3339Nano)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":%q}}}`, now)
	require.NoError(env, env.Patch(env.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("user")))
	env.Eventually(func() string {
		object = env.read(kind, name)
		handled, _, _ := unstructured.NestedString(object.Object, "status", "lastHandledReconcileAt")
		return fixture.Unless(handled == now, "Flux has not reconciled %s %s: %s", kind.Kind, name, readyMessage(object))
	})
}

// push commits everything, and returns its revision when Flux has fetched it.
func (env *environment) push(message string) (revision string) {
	env.Helper()
	revision = env.git.commit(message)
	env.request(repositoryKind, fleet)
	env.Eventually(func() string {
		repository := env.read(repositoryKind, fleet)
		fetched, _, _ := unstructured.NestedString(repository.Object, "status", "artifact", "revision")
		return fixture.Unless(fetched == revision, "Flux has fetched %q: %s", fetched, readyMessage(repository))
	})
	return revision
}

// awaitApplied waits until all Kustomizations are Ready with a revision.
func (env *environment) awaitApplied(revision string) {
	env.Helper()
	for _, name := range []string{platform, templates, clusters} {
		env.Eventually(func() string {
			kustomization := env.read(kustomizationKind, name)
			return fixture.Unless(isReady(kustomization) && statusText(kustomization, "lastAppliedRevision") == revision,
				"Kustomization %s of %s: %s", name, revision, readyMessage(kustomization))
		})
	}
}

// awaitFailed waits until Flux reports a failure of the Kustomization of the clusters with a revision, and returns its message. Flux does not record the
// revision if it finds no manifests in it: then it is "".
func (env *environment) awaitFailed(revision, reason string) (message string) {
	env.Helper()
	env.Eventually(func() string {
		kustomization := env.read(kustomizationKind, clusters)
		ready := condition(kustomization, "Ready")
		message = fmt.Sprint(ready["message"])
		return fixture.Unless(ready["status"] == "False" && ready["reason"] == reason && (revision == "" || statusText(kustomization, "lastAttemptedRevision") == revision),
			"Kustomization %s: %s", clusters, readyMessage(kustomization))
	})
	return message
}

// requireWaiting waits until Flux has checked the health of objects of a resource a few times for a revision, and requires that it still waits.
func (env *environment) requireWaiting(revision, resource string) {
	env.Helper()
	const checks = 3
	began := time.Now()
	env.Eventually(func() string {
		kustomization := env.read(kustomizationKind, clusters)
		if attempted := statusText(kustomization, "lastAttemptedRevision"); attempted != revision {
			return "Flux has not applied " + revision + ", but " + attempted
		}
		require.Equal(env, "Unknown", condition(kustomization, "Ready")["status"], readyMessage(kustomization))
		events := fixture.AuditEvents(env, env.Sandbox, audit.Filter{User: sandbox.FluxUser, Verbs: []string{"get"}, Resource: resource, Namespace: env.Namespace, Since: began})
		return fixture.Unless(len(events) >= checks, "Flux has checked %s %d times: %s", resource, len(events), readyMessage(kustomization))
	})
}

// requireNeverEarly requires that Flux was never Ready before CAPT was.
func (env *environment) requireNeverEarly() {
	env.Helper()
	env.Eventually(func() string { // The watches of the history may be late.
		early, moments := env.history.early(env.flux, env.Namespace)
		require.NotZero(env, moments)
		return strings.Join(early, "\n")
	})
}

func statusText(object *unstructured.Unstructured, field string) string {
	text, _, _ := unstructured.NestedString(object.Object, "status", field)
	return text
}

// inventory are the objects that Flux has applied for the clusters, and will prune.
func (env *environment) inventory() (ids []string) {
	env.Helper()
	entries, _, err := unstructured.NestedSlice(env.read(kustomizationKind, clusters).Object, "status", "inventory", "entries")
	require.NoError(env, err)
	for _, entry := range entries {
		ids = append(ids, fmt.Sprint(entry.(map[string]any)["id"]))
	}
	return ids
}

// manifest is a document of an object in the namespace of the fleet.
func (env *environment) manifest(document string) string {
	env.Helper()
	data, err := yaml.Marshal(fixture.Decode(env, env.Namespace, document).Object)
	require.NoError(env, err)
	return string(data)
}

// stored has the UID and the resource version of each object of the fleet.
func (env *environment) stored() map[string]string {
	env.Helper()
	objects := fixture.Workspaces(env, env.Client, env.Namespace)
	for _, kind := range []schema.GroupVersionKind{
		clusterv1.GroupVersion.WithKind("Cluster"), captClusterKind, controlPlaneKind, infrav1.GroupVersion.WithKind("WorkspaceTemplate"),
		infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"), corev1.SchemeGroupVersion.WithKind("Secret"),
	} {
		objects = append(objects, fixture.List(env, env.Client, kind, client.InNamespace(env.Namespace))...)
	}
	stored := map[string]string{}
	for _, object := range objects {
		stored[object.GetKind()+" "+object.GetName()] = string(object.GetUID()) + " " + object.GetResourceVersion()
	}
	return stored
}

// workspaces are those of stored.
func workspaces(stored map[string]string) map[string]string {
	only := maps.Clone(stored)
	maps.DeleteFunc(only, func(name, _ string) bool { return !strings.HasPrefix(name, terraform.WorkspaceKind+" ") })
	return only
}

// writes are the requests of a user that changed objects other than those of Flux. Flux sends requests that are only checked (dry run) to find
// differences.
func (env *environment) writes(user string, since time.Time) (writes []string) {
	env.Helper()
	events := fixture.AuditEvents(env, env.Sandbox, audit.Filter{User: user, Verbs: audit.Writes, Since: since})
	events = slices.DeleteFunc(events, func(event auditv1.Event) bool {
		ref := event.ObjectRef
		return strings.HasSuffix(ref.APIGroup, ".toolkit.fluxcd.io") || ref.Resource == "events" || ref.Resource == "leases" ||
			strings.Contains(event.RequestURI, "dryRun=All")
	})
	for _, event := range events {
		writes = append(writes, event.Verb+" "+event.RequestURI)
	}
	return writes
}
