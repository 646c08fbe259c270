// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package move_test

import (
	"bytes"
	"context"
	"os/exec"
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
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// The WorkspaceTemplateApplies that CAPT makes for the Cluster demo, and their Workspaces.
const (
	vpc          = "demo-vpc"
	eks          = "demo-eks-controlplane-apply"
	vpcWorkspace = "demo-vpc"
	eksWorkspace = "demo-eks-controlplane"
)

// tick is how often a test looks at what it waits for.
const tick = 50 * time.Millisecond

// environment is one test's namespace, on both sides.
type environment struct {
	*testing.T
	namespace string
	// folder is where commands of the manual leave files.
	folder string
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	env := &environment{T: t, namespace: "test-" + rand.String(6), folder: t.TempDir()}
	require.NoError(t, source.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.namespace}}))
	return env
}

// apply applies a YAML document, as a user would.
func (s *side) apply(ctx context.Context, namespace, document string) error {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
		return err
	}
	object.SetNamespace(namespace)
	if object.GetKind() == "CAPTControlPlane" { // All Clusters have the same name and ProviderConfig, and AWS has only one EKS cluster of a name.
		if err := unstructured.SetNestedField(object.Object, namespace, "spec", "eksClusterName"); err != nil {
			return err
		}
	}
	config := client.ApplyConfigurationFromUnstructured(object)
	return s.Apply(ctx, config, client.FieldOwner("user"), client.ForceOwnership)
}

func (env *environment) apply(on *side, documents ...string) {
	env.Helper()
	for _, document := range documents {
		require.NoError(env, on.apply(env.Context(), env.namespace, document), document)
	}
}

func (env *environment) kubectl(on *side, args ...string) {
	env.Helper()
	out, err := exec.CommandContext(env.Context(), on.Binary(sandbox.Kubectl), append(args, "--kubeconfig", on.Kubeconfig())...).CombinedOutput()
	require.NoError(env, err, "kubectl %s: %s", strings.Join(args, " "), out)
}

// clusterctl is a move that runs.
type clusterctl struct {
	*environment
	cmd    *exec.Cmd
	output bytes.Buffer
	ended  chan error
}

// startMove begins to move the namespace from the source to the target.
func (env *environment) startMove() *clusterctl {
	env.Helper()
	c := &clusterctl{environment: env, ended: make(chan error, 1)}
	c.cmd = env.shell("exec " + commands(env.T, moveNamespace)) // What is stopped is clusterctl, not the shell.
	c.cmd.Stdout, c.cmd.Stderr = &c.output, &c.output
	require.NoError(env, c.cmd.Start())
	go func() { c.ended <- c.cmd.Wait() }()
	return c
}

// wait returns when everything is moved.
func (c *clusterctl) wait() {
	c.Helper()
	select {
	case err := <-c.ended:
		require.NoError(c, err, "clusterctl: %s", &c.output)
	case <-time.After(fixture.Timeout):
		c.stop()
		require.Fail(c, "clusterctl does not end", "%s", &c.output)
	}
}

// stop breaks the move off.
func (c *clusterctl) stop() {
	c.Helper()
	require.NoError(c, c.cmd.Process.Kill())
	require.Error(c, <-c.ended, "it had not ended: %s", &c.output)
}

func (env *environment) read(on *side, object client.Object, name string) {
	env.Helper()
	require.NoError(env, on.Get(env.Context(), client.ObjectKey{Namespace: env.namespace, Name: name}, object))
}

// change reads an object and changes it.
func (env *environment) change(on *side, object client.Object, name string, change func()) {
	env.Helper()
	fixture.Change(env, on, client.ObjectKey{Namespace: env.namespace, Name: name}, object, change)
}

// await waits until an object is as wanted; want says what is still missing.
func (env *environment) await(on *side, object client.Object, name string, want func() string) {
	env.Helper()
	fixture.EventuallyObject(env, tick, on, client.ObjectKey{Namespace: env.namespace, Name: name}, object, want)
}

// awaitCondition waits until a condition is True and its message contains a text.
func (env *environment) awaitCondition(on *side, object engine.Object, name, conditionType, text string) {
	env.Helper()
	env.await(on, object, name, func() string { return fixture.ConditionMismatch(object, conditionType, metav1.ConditionTrue, "", text) })
}

func (env *environment) awaitGone(on *side, object client.Object, name string) {
	env.Helper()
	fixture.EventuallyGone(env.T, tick, on, client.ObjectKey{Namespace: env.namespace, Name: name}, object)
}

// awaitBlock waits until a WorkspaceTemplateApply keeps clusterctl waiting, and says until when.
func (env *environment) awaitBlock(name, until string) {
	env.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	env.await(source, apply, name, func() string {
		got := apply.Annotations["clusterctl.cluster.x-k8s.io/block-move"]
		return fixture.Unless(got == until, "it blocks %q", got)
	})
}

// names lists what there is of a kind in the namespace.
func (env *environment) names(on *side, gvk schema.GroupVersionKind) []string {
	env.Helper()
	names := []string{}
	for _, object := range fixture.List(env, on, gvk, client.InNamespace(env.namespace)) {
		names = append(names, object.GetName())
	}
	return names
}

// workspaceKind is the kind of Workspaces in a namespace.
var workspaceKind = terraform.ScopeNamespaced.GroupVersionKind()

func (env *environment) workspace(on *side, name string) *unstructured.Unstructured {
	env.Helper()
	object := fixture.NewWorkspace(terraform.ScopeNamespaced, env.key(name))
	env.read(on, object, name)
	return object
}

// setScript gives the Workspace of that name its script.
func (env *environment) setScript(workspace string, script scripted.Script) {
	env.Helper()
	require.NoError(env, scripts.SetScript(env.key(workspace), script))
}

func (env *environment) key(workspace string) types.NamespacedName {
	return types.NamespacedName{Namespace: env.namespace, Name: workspace}
}

// has reports whether a Workspace is of the namespace. The names of those that are cluster-wide begin with it.
func (env *environment) has(namespace, name string) bool {
	return namespace == env.namespace || namespace == "" && strings.HasPrefix(name, env.namespace+"-")
}

// done lists what Terraform applied and destroyed in the namespace since a moment, on either side.
func (env *environment) done(since time.Time) []string {
	env.Helper()
	entries, err := scripts.Journal()
	require.NoError(env, err)
	done := []string{}
	for _, e := range entries {
		if env.has(e.Namespace, e.Name) && e.Start.After(since) && (e.Operation == scripted.Apply || e.Operation == scripted.Destroy) {
			done = append(done, string(e.Operation)+" "+e.Name)
		}
	}
	return done
}

// cloud counts what Terraform has made in the namespace and not destroyed.
func (env *environment) cloud() int {
	env.Helper()
	resources, err := scripts.Cloud()
	require.NoError(env, err)
	return len(slices.DeleteFunc(resources, func(r scripted.Resource) bool { return !env.has(r.Namespace, r.Name) }))
}

// requireUnnoticed requires that since a moment, on either side, no manager has written to any Workspace of the namespace, and Terraform changed nothing.
func (env *environment) requireUnnoticed(since time.Time) {
	env.Helper()
	filter := audit.Filter{User: sandbox.ManagerUser, Verbs: audit.Writes, Resource: "workspaces", Since: since}
	for _, on := range []*side{source, target} {
		for _, event := range fixture.AuditEvents(env, on.Sandbox, filter) {
			require.False(env, env.has(event.ObjectRef.Namespace, event.ObjectRef.Name), "%s %+v", event.Verb, event.ObjectRef)
		}
	}
	require.Empty(env, env.done(since), "Terraform changed nothing")
}

// documents are those of a Cluster named demo with Workspaces of a scope. Their ProviderConfig is the same on both sides: what is configured is
// part of what Terraform plans.
func documents(scope terraform.Scope) *fixture.Environment {
	return &fixture.Environment{Namespace: "shared", Scope: scope}
}

// controlPlaneModule is that of the fixture, which follows the version as well.
var controlPlaneModule = strings.Replace(fixture.ControlPlaneModule, "${var.tags}", "${var.tags} ${var.kubernetes_version}", 1) +
	"variable \"kubernetes_version\" { type = string }\n"

func controlPlaneTemplate(scope terraform.Scope, module string) string {
	return documents(scope).Template(fixture.ControlPlaneTemplate, module, "cluster_name", "tags", "kubernetes_version")
}

// everything is all documents of a Cluster with version 1.34.
func everything(scope terraform.Scope) []string {
	return []string{
		documents(scope).VPCTemplate(fixture.VPCModule), controlPlaneTemplate(scope, controlPlaneModule), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo),
		strings.Replace(fixture.CAPTControlPlane(fixture.Demo), "v1.35.0", "v1.34.0", 1),
	}
}

// alone is a WorkspaceTemplateApply that belongs to no Cluster.
func alone() string {
	return fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "alone", "variables: {vpc_name: alone}", "writeConnectionSecretToRef: {name: alone-outputs}")
}
