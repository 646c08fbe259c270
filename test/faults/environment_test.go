// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	// tick is how often a test looks at the history, which costs little.
	tick = 50 * time.Millisecond
	// slowTick is how often it looks at what is read again each time: the API server, and files.
	slowTick = 5 * tick
)

// environment is a namespace of one test, in one scope.
type environment struct {
	*testing.T
	client.Client
	*control
	namespace string
	scope     terraform.Scope
	// written are the versions of what the test itself wrote: the history may be a moment late.
	written map[types.UID]uint64
	// hasScript are the WorkspaceTemplateApplies whose Workspaces have scripts.
	hasScript map[string]bool
}

func newEnvironment(t *testing.T, c *control, scope terraform.Scope) *environment {
	t.Helper()
	cl := c.api
	if cl == nil {
		var err error
		cl, err = client.New(c.Config(), client.Options{Scheme: controllers.Scheme()})
		require.NoError(t, err)
	}
	return &environment{T: t, Client: cl, control: c, namespace: fixture.NewNamespace(t, cl), scope: scope, written: map[types.UID]uint64{}, hasScript: map[string]bool{}}
}

// kind is what carries out a Workspace: a provider from v1 on, in either scope, or one before v1, which has only the cluster scope.
type kind struct {
	name  string
	older bool
	scope terraform.Scope
}

var kinds = []kind{
	{"Namespaced", false, terraform.ScopeNamespaced},
	{"Cluster", false, terraform.ScopeCluster},
	{"ClusterV0", true, terraform.ScopeCluster},
}

// withEachProvider runs a test with all kinds of providers: what a Workspace shows after an update or a pause differs between them.
func withEachProvider(t *testing.T, test func(env *environment)) {
	t.Helper()
	t.Parallel()
	with(t, kinds, test)
}

// withAnyProvider runs a test with one kind of provider, or with all (see fixture.Sample).
func withAnyProvider(t *testing.T, test func(env *environment)) {
	t.Helper()
	t.Parallel()
	with(t, fixture.Sample(len(t.Name()), 1, kinds), test)
}

// inEitherScope runs a test with a provider from v1 on.
func inEitherScope(t *testing.T, test func(env *environment)) {
	t.Helper()
	with(t, fixture.Sample(len(t.Name()), 1, kinds[:2]), test)
}

func with(t *testing.T, kinds []kind, test func(env *environment)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			c := current
			if k.older {
				c = older
			}
			test(newEnvironment(t, c, k.scope))
		})
	}
}

func (env *environment) applyKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: env.namespace, Name: name}
}

// workspaceKey is the key of the Workspace of a WorkspaceTemplateApply.
func (env *environment) workspaceKey(name string) types.NamespacedName {
	return fixture.WorkspaceKey(env.scope, env.applyKey(name))
}

// setScript gives the Workspace of a WorkspaceTemplateApply a script, before or while it is there.
func (env *environment) setScript(name string, script scripted.Script) {
	env.Helper()
	env.hasScript[name] = true
	require.NoError(env, env.scripts.SetScript(env.workspaceKey(name), env.realistic(script)))
}

// count is how often an operation was begun for the Workspace of a WorkspaceTemplateApply.
func (env *environment) count(name string, operation scripted.Operation) int {
	env.Helper()
	n, err := env.scripts.Count(env.workspaceKey(name), operation)
	require.NoError(env, err)
	return n
}

// user applies documents as a user would.
func (env *environment) user(documents ...string) {
	env.Helper()
	for _, document := range documents {
		object := fixture.Decode(env, env.namespace, document)
		if object.GetKind() == "WorkspaceTemplateApply" && !env.hasScript[object.GetName()] {
			env.setScript(object.GetName(), scripted.Script{})
		}
		fixture.Apply(env, env.Client, object)
		env.wrote(object)
	}
}

// edit patches the Workspace of a WorkspaceTemplateApply as a user would, with a JSON merge patch.
func (env *environment) edit(name, patch string) {
	env.Helper()
	env.patch(env.newWorkspace(name), patch)
}

// editApply patches a WorkspaceTemplateApply as a user would, with a JSON merge patch.
func (env *environment) editApply(name, patch string) {
	env.Helper()
	env.patch(&infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name}}, patch)
}

func (env *environment) patch(object client.Object, patch string) {
	env.Helper()
	require.NoError(env, env.Patch(env.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("user")))
	env.wrote(object)
}

// remove deletes an object as a user would.
func (env *environment) remove(object client.Object) {
	env.Helper()
	require.NoError(env, client.IgnoreNotFound(env.Delete(env.Context(), object)))
}

// removeAllowed deletes a Workspace that CAPT's policy guards.
func (env *environment) removeAllowed(object client.Object) {
	env.Helper()
	env.patch(object, `{"metadata":{"annotations":{"`+naming.AllowDeleteAnnotation+`":"true"}}}`)
	env.remove(object)
}

func (env *environment) removeApply(name string) {
	env.Helper()
	env.remove(&infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name}})
}

// newWorkspace has nothing but the identity of the Workspace of a WorkspaceTemplateApply.
func (env *environment) newWorkspace(name string) *unstructured.Unstructured {
	return fixture.NewWorkspace(env.scope, env.workspaceKey(name))
}

func (env *environment) wrote(object client.Object) {
	env.written[object.GetUID()] = number(env.T, object.GetResourceVersion())
}

func number(t *testing.T, resourceVersion string) uint64 {
	t.Helper()
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	require.NoError(t, err)
	return version
}

// get is a WorkspaceTemplateApply as it is; nil when it is not there, or is not yet what the test made it.
func (env *environment) get(name string) *infrav1.WorkspaceTemplateApply {
	apply := env.history.apply(env.applyKey(name))
	if apply == nil || number(env.T, apply.ResourceVersion) < env.written[apply.UID] {
		return nil
	}
	return apply
}

// workspace is the current Workspace of a WorkspaceTemplateApply; nil if it does not exist.
func (env *environment) workspace(name string) *unstructured.Unstructured {
	env.Helper()
	return fixture.Workspace(env, env.Client, env.scope, env.workspaceKey(name))
}

func (env *environment) eventually(every time.Duration, missing func() string) {
	env.Helper()
	fixture.Eventually(env.T, every, missing)
}

// await waits until a condition of a WorkspaceTemplateApply has a status and a reason, its message holds the parts, and it is
// about the latest generation.
func (env *environment) await(name, conditionType string, status metav1.ConditionStatus, reason string, parts ...string) *infrav1.WorkspaceTemplateApply {
	env.Helper()
	var apply *infrav1.WorkspaceTemplateApply
	env.eventually(tick, func() string {
		if apply = env.get(name); apply == nil {
			return name + " is not there"
		}
		if apply.Status.ObservedGeneration != apply.Generation {
			return name + ": the latest generation was not looked at"
		}
		return fixture.ConditionMismatch(apply, conditionType, status, reason, parts...)
	})
	return apply
}

// awaitReady waits until a WorkspaceTemplateApply is Ready and has the output of its variable.
func (env *environment) awaitReady(name, cidr string) *infrav1.WorkspaceTemplateApply {
	env.Helper()
	apply := env.await(name, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	require.Equal(env, cidr, apply.Status.Outputs["cidr"], "%s is Ready with the outputs of before", name)
	require.Empty(env, apply.Status.LastFailureMessage)
	require.Empty(env, apply.Status.LastFailureClass)
	require.Empty(env, apply.Status.LastFailedRevision)
	require.NotEmpty(env, apply.Status.LastAppliedRevision)
	return apply
}

// awaitNotReady waits for what a user sees when a WorkspaceTemplateApply is not Ready.
func (env *environment) awaitNotReady(name, reason string, parts ...string) *infrav1.WorkspaceTemplateApply {
	env.Helper()
	return env.await(name, infrav1.ReadyCondition, metav1.ConditionFalse, reason, parts...)
}

// awaitDeleting waits for what a user sees of a deletion.
func (env *environment) awaitDeleting(name, reason string, parts ...string) *infrav1.WorkspaceTemplateApply {
	env.Helper()
	return env.await(name, infrav1.DeletingCondition, metav1.ConditionTrue, reason, parts...)
}

// awaitGone waits until a WorkspaceTemplateApply is gone.
func (env *environment) awaitGone(name string) {
	env.Helper()
	env.eventually(tick, func() string {
		if env.history.apply(env.applyKey(name)) == nil {
			return ""
		}
		return name + " is still there"
	})
}

// awaitWorkspace waits until the Workspace of a WorkspaceTemplateApply is as wanted.
func (env *environment) awaitWorkspace(name string, missing func(workspace *unstructured.Unstructured) string) *unstructured.Unstructured {
	env.Helper()
	var workspace *unstructured.Unstructured
	env.eventually(slowTick, func() string {
		if workspace = env.workspace(name); workspace == nil {
			return "the Workspace of " + name + " is not there"
		}
		return missing(workspace)
	})
	return workspace
}

// awaitOperation waits until the n-th operation of a kind has begun.
func (env *environment) awaitOperation(name string, operation scripted.Operation, n int) {
	env.Helper()
	env.eventually(slowTick, func() string {
		if got := env.count(name, operation); got != n {
			return fmt.Sprintf("%s: %d %s, not %d", name, got, operation, n)
		}
		return ""
	})
}

// templateName is the name of the template of an environment.
const templateName = "net"

// module creates two resources, and its output is its variable.
const module = `
variable "cidr" {
  type = string
}
resource "terraform_data" "vpc" {
  input = var.cidr
}
resource "terraform_data" "subnet" {
  input = var.cidr
}
output "cidr" {
  value = terraform_data.vpc.output
}
`

// template is a WorkspaceTemplate of the environment's scope; more are lines of its Workspace's spec.
func (env *environment) template(more ...string) string {
	return env.templateWith(templateName, sandbox.ProviderConfigName, module, more...)
}

func (env *environment) templateWith(name, providerConfig, module string, more ...string) string {
	kind := "ClusterProviderConfig"
	if env.scope == terraform.ScopeCluster {
		kind = "ProviderConfig"
	}
	var lines strings.Builder
	for _, line := range more {
		lines.WriteString("\n      " + line)
	}
	return fmt.Sprintf(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata:
  name: %s
spec:
  workspaceScope: %s
  publishOutputs: [cidr]
  template:
    spec:%s
      providerConfigRef: {kind: %s, name: %s}
      forProvider:
        source: Inline
        module: |%s
        vars:
        - {key: cidr, value: '${cidr}'}
`, name, env.scope, lines.String(), kind, providerConfig, strings.ReplaceAll(module, "\n", "\n          "))
}

// workspaceTemplateApply uses the template of the environment; more are lines of its spec.
func workspaceTemplateApply(name, cidr string, more ...string) string {
	return fixture.WorkspaceTemplateApply(templateName, name, append([]string{"variables: {cidr: " + cidr + "}"}, more...)...)
}
