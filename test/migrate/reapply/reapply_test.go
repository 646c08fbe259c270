// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package reapply_test applies the manifests of a fleet of CAPT v0.3 again, as GitOps tools do, at each step of its migration.
package reapply_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/migrate/host"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

const (
	timeout = 5 * time.Minute
	tick    = 100 * time.Millisecond
)

// environment is a fleet of CAPT v0.3 with Cluster API and the manager. No provider runs: the Workspaces stay as they were left.
type environment struct {
	*testing.T
	*legacy.Environment
	host *host.Host
	// git are the manifests of the fleet, in v1beta1.
	git []*unstructured.Unstructured
}

func newEnvironment(t *testing.T, fixtures ...string) *environment {
	t.Helper()
	require.NoError(t, sandbox.Build(t.Context(), t.Output(), sandbox.Kubectl))
	env := &environment{T: t, Environment: legacy.New(t, sandbox.Options{ClusterAPI: true, KubeControllerManager: true})}
	env.host = host.New(t, env.Sandbox)
	for _, name := range fixtures {
		objects, err := env.Create(t.Context(), legacy.Named()[name], legacy.NamesOf(name))
		require.NoError(t, err)
		env.git = append(env.git, objects.Manifests...)
		env.git = append(env.git, slices.DeleteFunc(objects.Exported(), func(exported *unstructured.Unstructured) bool {
			return slices.ContainsFunc(env.git, func(o *unstructured.Unstructured) bool { return host.Name(o) == host.Name(exported) })
		})...)
	}
	require.NoError(t, env.Upgrade(t.Context()))
	env.settled(t)
	return env
}

// ways in which manifests get into a cluster.
var ways = map[string][]string{
	"client-side apply": {"apply", "-f", "-"},
	"server-side apply": {"apply", "--server-side", "--force-conflicts", "--field-manager=kustomize-controller", "-f", "-"},
	"replace":           {"replace", "-f", "-"},
}

// Manifests in Git do not change by themselves when a fleet is adopted. However they are applied again, no Workspace is changed, each owner keeps
// its WorkspaceTemplateApply, and that its Workspace.
func TestOldManifestsAppliedAgainChangeNoWorkspace(t *testing.T) {
	env := newEnvironment(t, "reference-empty-hand-made-fixed-name", "hand-made-without-owner-reference", "templates-in-default",
		"helpers-present", "retained-vpc", "existing-vpc", "flux-managed", "argocd-managed")
	env.reapplies("before the adoption", "client-side apply", "server-side apply")
	env.host.Plan()
	env.host.Run(migrate.Done, "apply", "plan.json", "--yes")
	adopted := env.reapplies("after the adoption", "client-side apply", "server-side apply", "replace", "client-side apply")
	env.host.Run(migrate.Done, "rollback", "plan.json", "--yes")
	env.reapplies("after a rollback", "client-side apply", "server-side apply")
	env.host.Plan()
	env.host.Run(migrate.Done, "apply", "plan.json", "--yes")
	require.Equal(t, adopted, env.settled(t))
	env.host.Run(migrate.Done, "rollback", "plan.json", "--yes")
	env.replaces()
}

// reapplies applies the manifests in some ways. Each time, everything stays as it is, also for a manager that is restarted.
func (env *environment) reapplies(step string, named ...string) (before map[string]string) {
	env.Helper()
	before = env.settled(env.T)
	for _, way := range named {
		env.Run(step+", "+way, func(t *testing.T) {
			inner := &environment{T: t, Environment: env.Environment, host: env.host, git: env.git}
			began := time.Now()
			inner.kubectl(env.git, ways[way]...)
			inner.settled(t)
			require.NoError(t, env.Restart(t.Context(), sandbox.Manager))
			after := inner.settled(t)
			require.Len(t, after, len(before))
			for name, object := range before {
				assert.Equal(t, object, after[name], name)
			}
			inner.requireNothingCreated(began)
		})
	}
	return before
}

// replaces runs kubectl replace on objects that are not adopted, which removes what v0.3 recorded in their specs and metadata.
func (env *environment) replaces() {
	env.Helper()
	env.Run("before the adoption, replace", func(t *testing.T) {
		inner, began := &environment{T: t, Environment: env.Environment, host: env.host}, time.Now()
		before := inner.settled(t)
		inner.kubectl(env.git, ways["replace"]...)
		after := inner.settled(t)
		for name, object := range before {
			if strings.HasPrefix(name, terraform.WorkspaceKind+" ") {
				assert.Equal(t, object, after[name], name)
			}
		}
		inner.requireNothingCreated(began)
	})
}

// requireNothingCreated requires that the manager created and deleted nothing that Terraform runs for, and that no Workspace was written.
func (env *environment) requireNothingCreated(since time.Time) {
	env.Helper()
	for _, event := range fixture.AuditEvents(env, env.Sandbox, audit.Filter{User: sandbox.ManagerUser, Verbs: []string{"create", "delete"}, Since: since}) {
		assert.NotContains(env, []string{"workspaces", "workspacetemplateapplies"}, event.ObjectRef.Resource, event.RequestURI)
	}
	assert.Empty(env, fixture.AuditEvents(env, env.Sandbox, audit.Filter{Verbs: audit.Writes, Resource: "workspaces", Since: since}))
}

// kubectl passes the manifests to kubectl, in one stream, again if there was a conflict. One may be refused: a WorkspaceTemplateApply does not lose
// a variable that identifies cloud resources.
func (env *environment) kubectl(manifests []*unstructured.Unstructured, args ...string) {
	env.Helper()
	var stream bytes.Buffer
	for _, manifest := range manifests {
		data, err := json.Marshal(manifest.Object)
		require.NoError(env, err)
		stream.Write(append(data, "\n---\n"...))
	}
	failed := ""
	err := wait.PollUntilContextTimeout(env.Context(), tick, timeout, true, func(ctx context.Context) (bool, error) {
		cmd := exec.CommandContext(ctx, env.Binary(sandbox.Kubectl), append([]string{"--kubeconfig", env.Kubeconfig()}, args...)...)
		cmd.Stdin = bytes.NewReader(stream.Bytes())
		output, _ := cmd.CombinedOutput()
		failed = ""
		for line := range strings.Lines(string(output)) {
			if strings.HasPrefix(strings.ToLower(line), "error") && !strings.Contains(line, "cannot be changed or removed: Terraform would destroy") {
				failed += line
			}
		}
		return !strings.Contains(failed, "Error from server (Conflict)"), nil
	})
	require.NoError(env, err, "kubectl %s: %s", strings.Join(args, " "), failed)
	require.Empty(env, failed)
}

// settled is what an adoption writes, and what there must be one of, when the manager has nothing to do.
func (env *environment) settled(t *testing.T) map[string]string {
	t.Helper()
	return host.Settled(t, env.Sandbox, func() map[string]string { return host.Fleet(t, env.Admin, facts) })
}

// facts is a view of the fields that identify cloud resources. Users' tools own the others.
func facts(object *unstructured.Unstructured) {
	kept := map[string]any{"uid": string(object.GetUID())}
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	switch object.GetKind() {
	case "CAPTCluster", "CAPTControlPlane":
		kept["spec"] = spec
	case "WorkspaceTemplateApply":
		kept["workspaceName"], kept["deletionPolicy"] = spec["workspaceName"], spec["deletionPolicy"]
		kept["workspaceRef"], _, _ = unstructured.NestedMap(object.Object, "status", "workspaceRef")
	case "WorkspaceTemplate":
		kept["allowedNamespaces"], kept["scope"] = spec["allowedNamespaces"], spec["workspaceScope"]
	}
	kept["kind"], kept["metadata"] = object.GetKind(), map[string]any{"namespace": object.GetNamespace(), "name": object.GetName()}
	object.Object = kept
}

// A control plane that does not own what v0.3 created for it is deleted and created again from Git before anything is adopted, while its EKS
// cluster runs under a name that no scheme gives. The manager asks for a decision.
func TestARecreatedControlPlaneIsNotBuiltAgain(t *testing.T) {
	env := newEnvironment(t, "hand-made-without-owner-reference")
	before, began := env.settled(t), time.Now()
	i := slices.IndexFunc(env.git, func(o *unstructured.Unstructured) bool { return o.GetKind() == "CAPTControlPlane" })
	controlPlane, key := &controlplanev1.CAPTControlPlane{}, client.ObjectKeyFromObject(env.git[i])
	require.NoError(t, env.Admin.Get(t.Context(), key, controlPlane))
	require.NoError(t, env.Admin.Patch(t.Context(), controlPlane, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	require.NoError(t, env.Admin.Delete(t.Context(), controlPlane))
	fixture.EventuallyTrue(t, tick, func() bool { return apierrors.IsNotFound(env.Admin.Get(t.Context(), key, controlPlane)) }, "the control plane still exists")
	env.kubectl([]*unstructured.Unstructured{env.git[i]}, "apply", "-f", "-")
	fixture.EventuallyTrue(t, tick, func() bool {
		require.NoError(t, env.Admin.Get(t.Context(), key, controlPlane))
		c := meta.FindStatusCondition(controlPlane.Status.Conditions, infrav1.AdoptionRequiredCondition)
		return c != nil && c.Status == "True" && strings.Contains(c.Message, "written-by-hand")
	}, "the control plane does not report that it awaits adoption")
	require.Zero(t, controlPlane.Spec.WorkspaceTemplateApplyRef)
	env.requireNothingCreated(began)
	after := env.settled(t)
	for name, object := range before {
		if name != host.Name(env.git[i]) {
			assert.Equal(t, object, after[name], name)
		}
	}
}
