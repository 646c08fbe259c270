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
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/controllers/engine"
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

// world is a namespace of one test, in one scope.
type world struct {
	*testing.T
	client.Client
	*control
	namespace string
	scope     terraform.Scope
	// written are the versions of what the test itself wrote: the history may be a moment late.
	written map[types.UID]uint64
	// played are the WorkspaceTemplateApplies whose Workspaces have scripts.
	played map[string]bool
}

func newWorld(t *testing.T, c *control, scope terraform.Scope) *world {
	t.Helper()
	cl := c.api
	if cl == nil {
		var err error
		cl, err = client.New(c.Config(), client.Options{Scheme: controllers.Scheme()})
		require.NoError(t, err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "faults-"}}
	require.NoError(t, cl.Create(t.Context(), namespace))
	return &world{T: t, Client: cl, control: c, namespace: namespace.Name, scope: scope, written: map[types.UID]uint64{}, played: map[string]bool{}}
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
func withEachProvider(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Parallel()
	with(t, kinds, test)
}

// withAnyProvider runs a test with one kind of provider, or with all (see fixture.Sample).
func withAnyProvider(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Parallel()
	with(t, fixture.Sample(len(t.Name()), 1, kinds), test)
}

// inEitherScope runs a test with a provider from v1 on.
func inEitherScope(t *testing.T, test func(w *world)) {
	t.Helper()
	with(t, fixture.Sample(len(t.Name()), 1, kinds[:2]), test)
}

func with(t *testing.T, kinds []kind, test func(w *world)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			c := current
			if k.older {
				c = older
			}
			test(newWorld(t, c, k.scope))
		})
	}
}

func (w *world) applyKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: w.namespace, Name: name}
}

// workspaceKey is the key of the Workspace of a WorkspaceTemplateApply.
func (w *world) workspaceKey(name string) types.NamespacedName {
	key := types.NamespacedName{Name: naming.Workspace(w.scope, w.applyKey(name))}
	if w.scope != terraform.ScopeCluster {
		key.Namespace = w.namespace
	}
	return key
}

// play gives the Workspace of a WorkspaceTemplateApply a script, before or while it is there.
func (w *world) play(name string, script scripted.Script) {
	w.Helper()
	w.played[name] = true
	require.NoError(w, w.scripts.Play(w.workspaceKey(name), w.realistic(script)))
}

// count is how often an operation was begun for the Workspace of a WorkspaceTemplateApply.
func (w *world) count(name string, operation scripted.Operation) int {
	w.Helper()
	n, err := w.scripts.Count(w.workspaceKey(name), operation)
	require.NoError(w, err)
	return n
}

// user applies documents as a user would.
func (w *world) user(documents ...string) {
	w.Helper()
	for _, document := range documents {
		object := &unstructured.Unstructured{}
		require.NoError(w, yaml.UnmarshalStrict([]byte(document), &object.Object), document)
		object.SetNamespace(w.namespace)
		if object.GetKind() == "WorkspaceTemplateApply" && !w.played[object.GetName()] {
			w.play(object.GetName(), scripted.Script{})
		}
		require.NoError(w, w.Apply(w.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user"), client.ForceOwnership), document)
		w.wrote(object)
	}
}

// edit patches the Workspace of a WorkspaceTemplateApply as a user would, with a JSON merge patch.
func (w *world) edit(name, patch string) {
	w.Helper()
	w.patch(w.newWorkspace(name), patch)
}

// editApply patches a WorkspaceTemplateApply as a user would, with a JSON merge patch.
func (w *world) editApply(name, patch string) {
	w.Helper()
	w.patch(&infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}, patch)
}

func (w *world) patch(object client.Object, patch string) {
	w.Helper()
	require.NoError(w, w.Patch(w.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("user")))
	w.wrote(object)
}

// remove deletes an object as a user would.
func (w *world) remove(object client.Object) {
	w.Helper()
	require.NoError(w, client.IgnoreNotFound(w.Delete(w.Context(), object)))
}

// removeAllowed deletes a Workspace that CAPT's policy guards.
func (w *world) removeAllowed(object client.Object) {
	w.Helper()
	w.patch(object, `{"metadata":{"annotations":{"`+naming.AllowDeleteAnnotation+`":"true"}}}`)
	w.remove(object)
}

func (w *world) removeApply(name string) {
	w.Helper()
	w.remove(&infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}})
}

// newWorkspace has nothing but the identity of the Workspace of a WorkspaceTemplateApply.
func (w *world) newWorkspace(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(w.scope.GroupVersionKind())
	key := w.workspaceKey(name)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	return object
}

func (w *world) wrote(object client.Object) {
	w.written[object.GetUID()] = number(w.T, object.GetResourceVersion())
}

func number(t *testing.T, resourceVersion string) uint64 {
	t.Helper()
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	require.NoError(t, err)
	return version
}

// get is a WorkspaceTemplateApply as it is; nil when it is not there, or is not yet what the test made it.
func (w *world) get(name string) *infrav1.WorkspaceTemplateApply {
	apply := w.history.apply(w.applyKey(name))
	if apply == nil || number(w.T, apply.ResourceVersion) < w.written[apply.UID] {
		return nil
	}
	return apply
}

// workspace is the Workspace of a WorkspaceTemplateApply as it is at this moment; nil when it is not there.
func (w *world) workspace(name string) *unstructured.Unstructured {
	w.Helper()
	workspace := w.newWorkspace(name)
	err := w.Get(w.Context(), client.ObjectKeyFromObject(workspace), workspace)
	if engine.Absent(err) {
		return nil
	}
	require.NoError(w, err)
	return workspace
}

// insist is fixture.Insist.
func (w *world) insist(every time.Duration, lack func() string) {
	w.Helper()
	fixture.Insist(w.T, every, lack)
}

// await waits until a condition of a WorkspaceTemplateApply has a status and a reason, its message holds the parts, and it is
// about the latest generation.
func (w *world) await(name, conditionType string, status metav1.ConditionStatus, reason string, parts ...string) *infrav1.WorkspaceTemplateApply {
	w.Helper()
	var apply *infrav1.WorkspaceTemplateApply
	w.insist(tick, func() string {
		if apply = w.get(name); apply == nil {
			return name + " is not there"
		}
		if apply.Status.ObservedGeneration != apply.Generation {
			return name + ": the latest generation was not looked at"
		}
		c := meta.FindStatusCondition(apply.Status.Conditions, conditionType)
		if c == nil {
			return name + " has no condition " + conditionType
		}
		if c.Status != status || c.Reason != reason {
			return fmt.Sprintf("%s: %s is %s/%s: %s", name, conditionType, c.Status, c.Reason, c.Message)
		}
		for _, part := range parts {
			if !strings.Contains(c.Message, part) {
				return fmt.Sprintf("%s: %s/%s says %q, not %q", name, conditionType, reason, c.Message, part)
			}
		}
		return ""
	})
	return apply
}

// awaitReady waits until a WorkspaceTemplateApply is Ready and has the output of its variable.
func (w *world) awaitReady(name, cidr string) *infrav1.WorkspaceTemplateApply {
	w.Helper()
	apply := w.await(name, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	require.Equal(w, cidr, apply.Status.Outputs["cidr"], "%s is Ready with the outputs of before", name)
	require.Empty(w, apply.Status.LastFailureMessage)
	require.Empty(w, apply.Status.LastFailureClass)
	require.Empty(w, apply.Status.LastFailedRevision)
	require.NotEmpty(w, apply.Status.LastAppliedRevision)
	return apply
}

// awaitNotReady waits for what a user sees when a WorkspaceTemplateApply is not Ready.
func (w *world) awaitNotReady(name, reason string, parts ...string) *infrav1.WorkspaceTemplateApply {
	w.Helper()
	return w.await(name, infrav1.ReadyCondition, metav1.ConditionFalse, reason, parts...)
}

// awaitDeleting waits for what a user sees of a deletion.
func (w *world) awaitDeleting(name, reason string, parts ...string) *infrav1.WorkspaceTemplateApply {
	w.Helper()
	return w.await(name, infrav1.DeletingCondition, metav1.ConditionTrue, reason, parts...)
}

// awaitGone waits until a WorkspaceTemplateApply is gone.
func (w *world) awaitGone(name string) {
	w.Helper()
	w.insist(tick, func() string {
		if w.history.apply(w.applyKey(name)) == nil {
			return ""
		}
		return name + " is still there"
	})
}

// awaitWorkspace waits until the Workspace of a WorkspaceTemplateApply is as wanted.
func (w *world) awaitWorkspace(name string, lack func(workspace *unstructured.Unstructured) string) *unstructured.Unstructured {
	w.Helper()
	var workspace *unstructured.Unstructured
	w.insist(slowTick, func() string {
		if workspace = w.workspace(name); workspace == nil {
			return "the Workspace of " + name + " is not there"
		}
		return lack(workspace)
	})
	return workspace
}

// awaitOperation waits until the n-th operation of a kind has begun.
func (w *world) awaitOperation(name string, operation scripted.Operation, n int) {
	w.Helper()
	w.insist(slowTick, func() string {
		if got := w.count(name, operation); got != n {
			return fmt.Sprintf("%s: %d %s, not %d", name, got, operation, n)
		}
		return ""
	})
}

// templateName is the name of the template of a world.
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

// template is a WorkspaceTemplate of the world's scope; more are lines of its Workspace's spec.
func (w *world) template(more ...string) string {
	return w.templateWith(templateName, sandbox.ProviderConfigName, module, more...)
}

func (w *world) templateWith(name, providerConfig, module string, more ...string) string {
	kind := "ClusterProviderConfig"
	if w.scope == terraform.ScopeCluster {
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
`, name, w.scope, lines.String(), kind, providerConfig, strings.ReplaceAll(module, "\n", "\n          "))
}

// workspaceTemplateApply uses the template of the world; more are lines of its spec.
func workspaceTemplateApply(name, cidr string, more ...string) string {
	return fixture.WorkspaceTemplateApply(templateName, name, append([]string{"variables: {cidr: " + cidr + "}"}, more...)...)
}
