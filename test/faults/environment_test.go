// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	*fixture.Environment
	control *control
	// written are the versions of what the test itself wrote: the history may be a moment late.
	written map[types.UID]uint64
	// hasScript are the WorkspaceTemplateApplies whose Workspaces have scripts.
	hasScript map[string]bool
}

func newEnvironment(t *testing.T, c *control, scope terraform.Scope) *environment {
	t.Helper()
	var cl client.Client = c.API
	if c.API == nil {
		var err error
		cl, err = client.New(c.Config(), client.Options{Scheme: controllers.Scheme()})
		require.NoError(t, err)
	}
	env := &fixture.Environment{T: t, Client: cl, Server: c.Server, Namespace: fixture.NewNamespace(t, cl), Scope: scope}
	return &environment{Environment: env, control: c, written: map[types.UID]uint64{}, hasScript: map[string]bool{}}
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

// withAnyProvider runs a test with one kind of provider, or with all (see fixture.Sample): what a Workspace shows after an update or a pause
// differs between them.
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
	return types.NamespacedName{Namespace: env.Namespace, Name: name}
}

// setScript gives the Workspace of a WorkspaceTemplateApply a script, before or while it is there.
func (env *environment) setScript(name string, script scripted.Script) {
	env.Helper()
	env.hasScript[name] = true
	env.SetScript(name, env.control.realistic(script))
}

// count is how often an operation was begun for the Workspace of a WorkspaceTemplateApply.
func (env *environment) count(name string, operation scripted.Operation) int {
	env.Helper()
	return len(env.Operations(name, operation))
}

// user applies documents as a user would.
func (env *environment) user(documents ...string) {
	env.Helper()
	for _, document := range documents {
		object := fixture.Decode(env, env.Namespace, document)
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
	env.patch(&infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name}}, patch)
}

func (env *environment) patch(object client.Object, patch string) {
	env.Helper()
	require.NoError(env, env.Patch(env.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("user")))
	env.wrote(object)
}

// remove deletes an object as a user would. A template is in use until its status has no user.
func (env *environment) remove(object client.Object) {
	env.Helper()
	env.eventually(tick, func() string {
		err := client.IgnoreNotFound(env.Delete(env.Context(), object))
		if !apierrors.IsForbidden(err) {
			require.NoError(env, err)
		}
		return fixture.Unless(err == nil, "%v", err)
	})
}

// removeAllowed deletes a Workspace that CAPT's policy guards.
func (env *environment) removeAllowed(object client.Object) {
	env.Helper()
	env.patch(object, `{"metadata":{"annotations":{"`+naming.AllowDeleteAnnotation+`":"true"}}}`)
	env.remove(object)
}

func (env *environment) removeApply(names ...string) {
	env.Helper()
	for _, name := range names {
		env.remove(&infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name}})
	}
}

// newWorkspace has nothing but the identity of the Workspace of a WorkspaceTemplateApply.
func (env *environment) newWorkspace(name string) *unstructured.Unstructured {
	return fixture.NewWorkspace(env.Scope, env.WorkspaceKey(name))
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
	apply := env.control.history.apply(env.applyKey(name))
	if apply == nil || number(env.T, apply.ResourceVersion) < env.written[apply.UID] {
		return nil
	}
	return apply
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

// awaitAllReady waits until all of the WorkspaceTemplateApplies are Ready.
func (env *environment) awaitAllReady(cidr string, names ...string) {
	env.Helper()
	for _, name := range names {
		env.awaitReady(name, cidr)
	}
}

// awaitGone waits until WorkspaceTemplateApplies are gone.
func (env *environment) awaitGone(names ...string) {
	env.Helper()
	for _, name := range names {
		env.eventually(tick, func() string {
			return fixture.Unless(env.control.history.apply(env.applyKey(name)) == nil, "%s is still there", name)
		})
	}
}

// awaitWorkspace waits until the Workspace of a WorkspaceTemplateApply is as wanted.
func (env *environment) awaitWorkspace(name string, missing func(workspace *unstructured.Unstructured) string) *unstructured.Unstructured {
	env.Helper()
	var workspace *unstructured.Unstructured
	env.eventually(slowTick, func() string {
		if workspace = env.Workspace(name); workspace == nil {
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
		got := env.count(name, operation)
		return fixture.Unless(got == n, "%s: %d %s, not %d", name, got, operation, n)
	})
}

// templateName is the name of the template of an environment.
const templateName = "net"

// module creates two resources, and its output is its variable.
const module = `
variable "cidr" { type = string }
resource "terraform_data" "vpc" { input = var.cidr }
resource "terraform_data" "subnet" { input = var.cidr }
output "cidr" { value = terraform_data.vpc.output }
`

// template is a WorkspaceTemplate of the environment's scope; more are lines of its Workspace's spec.
func (env *environment) template(more ...string) string {
	return env.templateWith(sandbox.ProviderConfigName, module, more...)
}

func (env *environment) templateWith(providerConfig, module string, more ...string) string {
	template := (&fixture.Environment{Namespace: providerConfig, Scope: env.Scope}).Template(templateName, module, "cidr")
	spec := strings.Join(append([]string{"    spec:"}, more...), "\n      ")
	return strings.NewReplacer("  template:", "  publishOutputs: [cidr]\n  template:", "    spec:", spec).Replace(template)
}

// workspaceTemplateApply uses the template of the environment; more are lines of its spec.
func workspaceTemplateApply(name, cidr string, more ...string) string {
	return fixture.WorkspaceTemplateApply(templateName, name, append([]string{"variables: {cidr: " + cidr + "}"}, more...)...)
}
