// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"cmp"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/migrate/host"
	"github.com/capt-provider/capt/test/sandbox"
)

var (
	wholeDemo   = types.NamespacedName{Namespace: "default", Name: "demo"}
	wholeProd   = types.NamespacedName{Namespace: "default", Name: "prod-1"}
	wholeOld    = types.NamespacedName{Namespace: "default", Name: "in-old-vpc"}
	wholeBroken = types.NamespacedName{Namespace: "default", Name: "broken"}
	wholeApps   = types.NamespacedName{Namespace: "team-a", Name: "apps"}
	// wholeLive is a control plane that Cluster API can connect to.
	wholeLive = types.NamespacedName{Namespace: "live", Name: "live"}
)

// whole is the fleet of TestWholeFleetIsAdoptedUpgradedAndDeleted.
type whole struct {
	*environment
	before  *untouched
	history *history
	// ready are the Clusters that become Ready.
	ready []types.NamespacedName
}

// wholeReference are the Clusters of the reference fleet that become Ready.
func wholeReference() []types.NamespacedName {
	return []types.NamespacedName{wholeDemo, wholeProd, wholeOld, wholeApps}
}

// TestWholeFleetIsAdoptedUpgradedAndDeleted takes a fleet of the topology that CAPT v0.3.0 was measured with through all of its life, with
// Terraform, Cluster API and the manager running, and no decision. One more cluster has a control plane that answers.
func TestWholeFleetIsAdoptedUpgradedAndDeleted(t *testing.T) {
	t.Parallel()
	env := &whole{environment: newEnvironment(t, sandbox.Options{ClusterAPI: true, KubeControllerManager: true, Provider: true}), ready: append(wholeReference(), wholeLive)}
	env.create()
	env.before = env.untouched()
	require.Len(t, env.before.workspaces, 22)
	require.NotEmpty(t, env.before.runs)

	t.Run("check before anything is installed", func(t *testing.T) {
		env.host.In(t).Run(migrate.Done, "check")
		require.Empty(t, env.writesOf(sandbox.CaptctlUser, env.before.since))
	})
	require.NoError(t, env.Upgrade(t.Context()))
	env.await(env.unsettled)
	env.history = env.environment.history()
	t.Run("the manager changes nothing before adoption", env.beforeAdoption)
	t.Run("one cluster first", env.adoptsOne)
	t.Run("the rest", env.adoptsAll)
	t.Run("one is rolled back and adopted again", env.rollsBack)
	if t.Failed() {
		t.FailNow()
	}
	env.requireHarmless()
	t.Run("clusters are evacuated from cluster-wide Workspaces", env.evacuates)
	if t.Failed() {
		t.FailNow()
	}

	// From here on they are clusters like others.
	retained := env.everyWorkspace()["prod-1-vpc"].GetUID()
	env.upgrades(wholeDemo)
	env.upgrades(wholeApps)
	env.deletesAll()
	// The VPC of prod-1 is retained, and so is the role of spot instances, which belongs to the account.
	require.Empty(t, env.applies())
	left := slices.DeleteFunc(names(env.everyWorkspace()), func(name string) bool { return strings.HasSuffix(name, "-spot-role-check") })
	require.Equal(t, []string{"prod-1-vpc"}, left)
	require.Equal(t, retained, env.everyWorkspace()["prod-1-vpc"].GetUID())
	require.Nil(t, env.everyWorkspace()["prod-1-vpc"].GetDeletionTimestamp())
}

func (env *whole) create() {
	env.Helper()
	_, err := env.Create(env.Context(), reference(legacy.PlainRecipe()), referenceNames())
	require.NoError(env, err)
	recipe, err := sandboxRecipe()
	require.NoError(env, err)
	_, err = env.Create(env.Context(), live(recipe, wholeLive.Name), legacy.Names{Namespace: wholeLive.Namespace})
	require.NoError(env, err)
}

// states of the units, by name.
func (env *whole) states(t *testing.T) map[string]plan.UnitState {
	t.Helper()
	states := map[string]plan.UnitState{}
	for name, unit := range env.host.In(t).Status() {
		states[name] = unit.State
		assert.Empty(t, unit.PendingChange, name)
		assert.False(t, unit.Paused, name)
	}
	return states
}

// everyUnit of the fleet in one state. The addons of demo have no owner, and are units of their own.
func everyUnit(state plan.UnitState) map[string]plan.UnitState {
	return map[string]plan.UnitState{
		wholeDemo.String(): state, wholeProd.String(): state, wholeOld.String(): state, wholeBroken.String(): state, wholeApps.String(): state,
		wholeLive.String(): state, "WorkspaceTemplateApply/default/demo-karpenter": state, "WorkspaceTemplateApply/default/demo-fargate": state,
	}
}

func (env *whole) beforeAdoption(t *testing.T) {
	env.await(env.withoutAdoptionRequired)
	env.awaitReconciled()
	env.before.require(t)
	require.Equal(t, everyUnit(plan.Adoptable), env.states(t))
	h := env.host.In(t)
	h.Run(migrate.Done, "check")
	p := h.Plan()
	require.Empty(t, p.Undecided())
	h.Run(migrate.Pending, "plan", "--detailed-exitcode")
	require.Contains(t, h.Run(migrate.Done, "show", "plan.json"), wholeApps.String())
	require.Contains(t, h.Run(migrate.Done, "show", "plan.json", "--diff"), "workspaceTemplateApplyRef")
	require.Empty(t, env.writesOf(sandbox.CaptctlUser, env.before.since))
}

func (env *whole) adoptsOne(t *testing.T) {
	h := env.host.In(t)
	h.Run(migrate.Done, "apply", "plan.json", "--cluster=default/demo", "--yes")
	env.awaitReady(wholeDemo)
	env.before.require(t)
	states := everyUnit(plan.Adoptable)
	states[wholeDemo.String()] = plan.Adopted
	require.Equal(t, states, env.states(t))
	for _, event := range env.writesOf(sandbox.CaptctlUser, env.before.since) {
		require.NotContains(t, event, wholeProd.Name, "nothing of another cluster is written")
	}
	h.Run(migrate.Pending, "status", "--detailed-exitcode")
}

func (env *whole) adoptsAll(t *testing.T) {
	h := env.host.In(t)
	h.Run(migrate.Done, "apply", "plan.json", "--yes")
	require.Equal(t, everyUnit(plan.Adopted), env.states(t))
	env.awaitAllReady()
	require.Empty(t, env.alarms())
	env.before.require(t)
	h.Run(migrate.Done, "status", "--detailed-exitcode")
	h.Run(migrate.Done, "plan", "--detailed-exitcode")

	written := len(env.objectsWritten())
	h.Run(migrate.Done, "apply", "plan.json", "--yes")
	require.Len(t, env.objectsWritten(), written, "there is nothing left to write")
}

// rollsBack rolls one cluster back from a host that has nothing but the kubeconfig.
func (env *whole) rollsBack(t *testing.T) {
	h := env.host.In(t).Another("")
	before := host.Fleet(t, env.Admin, host.Desired)
	h.Run(migrate.Done, "rollback", "--cluster=team-a/apps", "--yes")
	states := everyUnit(plan.Adopted)
	states[wholeApps.String()] = plan.Adoptable
	require.Equal(t, states, env.states(t))
	require.Equal(t, apply.PhaseRolledBack, h.Status()[wholeApps.String()].Phase)
	require.Empty(t, env.alarms(), "after a rollback everything works as under CAPT v0.3")
	env.before.require(t)
	h.Plan()
	h.Run(migrate.Done, "apply", "plan.json", "--cluster=team-a/apps", "--yes")
	require.Equal(t, everyUnit(plan.Adopted), env.states(t))
	env.awaitAllReady()
	require.Equal(t, before, host.Fleet(t, env.Admin, host.Desired))
	require.Empty(t, env.alarms())
	env.before.require(t)
}

// evacuates moves the fleet to namespaced Workspaces, one cluster after the other and without an apply: each state stays where it is. One is moved back, and
// once more. A helper stays, because its connection Secret is in another namespace, and so does a control plane whose plan fails, so that its cluster is moved back.
func (env *whole) evacuates(t *testing.T) {
	runs, was := env.runs(), env.stateNames()
	stay := map[string]string{
		wholeApps.String():   "WorkspaceTemplateApply apps-kubeconfig-apply, whose connection Secret is in namespace default",
		wholeBroken.String(): "WorkspaceTemplateApply default/broken-eks-controlplane-apply is not moved",
	}
	moves := [][]string{
		{wholeProd.String()}, {wholeProd.String(), "--rollback"}, {wholeProd.String()}, {wholeApps.String()},
		{wholeDemo.String()}, {wholeOld.String()}, {wholeBroken.String()}, {wholeBroken.String(), "--rollback"}, {wholeLive.String()}, {"--apply=default/demo-karpenter", "--apply=default/demo-fargate"},
	}
	if !fixture.AllCombinations() {
		moves = moves[:4]
	}
	moves = slices.DeleteFunc(moves, func(move []string) bool {
		return move[0] == wholeLive.String() && !slices.Contains(env.ready, wholeLive)
	})
	for _, move := range moves {
		_, name, _ := strings.Cut(move[0], "/")
		addons := strings.HasPrefix(move[0], "--apply")
		isMoved := func(workspace string) bool {
			addon := workspace == "demo-karpenter" || workspace == "demo-fargate"
			stays := workspace == "apps-kubeconfig" || name == wholeBroken.Name && workspace != "broken-vpc"
			return addon && addons || !addon && strings.HasPrefix(workspace, name+"-") && !stays
		}
		want, before := migrate.Done, identities(env.everyWorkspace())
		if because := stay[strings.Join(move, "")]; because != "" {
			want = migrate.NeedsDecision
		}
		command := exec.CommandContext(t.Context(), env.Binary(sandbox.Captctl), append([]string{"evacuate", "--yes", "--timeout=4m", "--kubeconfig=" + env.Kubeconfig()}, move...)...)
		output, _ := command.CombinedOutput()
		require.Equal(t, int(want), command.ProcessState.ExitCode(), "%s\n%s", command, output)
		require.Contains(t, string(output), stay[strings.Join(move, "")])
		env.awaitAllReady()
		require.Equal(t, runs, env.runs(), "Terraform applies and destroys nothing")
		require.Equal(t, was, env.stateNames(), "each state has one Workspace")
		for name, workspace := range env.everyWorkspace() {
			if name == "broken-eks-controlplane" {
				continue // CAPT tries to recover it.
			}
			require.Equal(t, isMoved(name), !assert.ObjectsAreEqual(before[name], identities(map[string]*unstructured.Unstructured{name: workspace})[name]), "%s after %s", name, move)
			require.False(t, isMoved(name) && (workspace.GetNamespace() == "") != slices.Contains(move, "--rollback"), "the scope of %s after %s", name, move)
		}
	}
	for _, name := range names(env.workspaces()) {
		require.True(t, !fixture.AllCombinations() || name == "apps-kubeconfig" || strings.HasPrefix(name, wholeBroken.Name+"-"), "%s is cluster-wide", name)
	}
}

// everyWorkspace returns the Workspaces of both scopes by name.
func (env *whole) everyWorkspace() map[string]*unstructured.Unstructured {
	env.Helper()
	all := env.workspaces()
	for _, workspace := range fixture.List(env, env.Admin, terraform.ScopeNamespaced.GroupVersionKind()) {
		require.NotContains(env, all, workspace.GetName())
		all[workspace.GetName()] = &workspace
	}
	return all
}

// stateNames returns the name of the Terraform state of each Workspace.
func (env *whole) stateNames() map[string]string {
	env.Helper()
	found := map[string]string{}
	for name, workspace := range env.everyWorkspace() {
		found[name] = cmp.Or(workspace.GetAnnotations()["crossplane.io/external-name"], name)
	}
	return found
}

// alarms about clusters that worked under CAPT v0.3, other than that they await their adoption. A WorkspaceTemplateApply may be reconciled once
// between two writes of captctl, and be not Ready for that moment.
func (env *whole) alarms() []string {
	return slices.DeleteFunc(env.history.alarms(), func(alarm string) bool {
		return strings.Contains(alarm, wholeBroken.Name) || strings.Contains(alarm, wholeOld.Name) || strings.Contains(alarm, infrav1.AdoptionRequiredCondition) ||
			strings.Contains(alarm, "WorkspaceTemplateApply ")
	})
}

// objectsWritten are captctl's writes of objects other than its Lease, journal and Events.
func (env *whole) objectsWritten() []string {
	return slices.DeleteFunc(env.writesOf(sandbox.CaptctlUser, env.before.since), func(write string) bool { return !strings.Contains(write, ".cluster.x-k8s.io/") })
}

func (env *whole) awaitAllReady() {
	env.Helper()
	for _, key := range env.ready {
		env.awaitReady(key)
		if key == wholeLive {
			env.awaitTrue(&clusterv1.Cluster{}, wholeLive, clusterv1.AvailableCondition, clusterv1.ClusterRemoteConnectionProbeCondition)
			continue
		}
		env.awaitTrue(&infrav1.WorkspaceTemplateApply{}, types.NamespacedName{Namespace: key.Namespace, Name: key.Name + "-kubeconfig-apply"}, infrav1.ReadyCondition)
	}
	env.awaitTrue(&infrav1.CAPTCluster{}, wholeBroken, infrav1.ReadyCondition)
}

func (env *whole) awaitReady(key types.NamespacedName) {
	env.Helper()
	env.awaitTrue(&infrav1.CAPTCluster{}, key, infrav1.ReadyCondition)
	env.awaitTrue(&controlplanev1.CAPTControlPlane{}, key, controlplanev1.ReadyCondition)
}

// upgrades gives a cluster another version, which reaches Terraform.
func (env *whole) upgrades(key types.NamespacedName) {
	env.Helper()
	const version = "v" + liveUpgrade + ".0"
	controlPlane := &controlplanev1.CAPTControlPlane{}
	require.NoError(env, env.Admin.Get(env.Context(), key, controlPlane))
	endpoint := controlPlane.Spec.ControlPlaneEndpoint
	require.NoError(env, env.Admin.Patch(env.Context(), controlPlane, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"version":"`+version+`"}}`))))
	env.await(func() string {
		require.NoError(env, env.Admin.Get(env.Context(), key, controlPlane))
		return fixture.Unless(controlPlane.Status.Version == version && controlPlane.Status.State == infrav1.StateReady,
			"version %s, state %s", controlPlane.Status.Version, controlPlane.Status.State)
	})
	require.Equal(env, endpoint, controlPlane.Spec.ControlPlaneEndpoint)
	outputs, _, err := unstructured.NestedMap(env.everyWorkspace()[key.Name+"-eks-controlplane"].Object, "status", "atProvider", "outputs")
	require.NoError(env, err)
	require.Equal(env, liveUpgrade, outputs["cluster_version"], "Terraform has applied it")
}

// deletesAll deletes every Cluster at once. What a user created on top of one is named, and is the user's to delete.
func (env *whole) deletesAll() {
	env.Helper()
	all := []types.NamespacedName{wholeDemo, wholeProd, wholeOld, wholeBroken, wholeApps, wholeLive}
	for _, key := range all {
		require.NoError(env, env.Admin.Delete(env.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
	}
	for _, key := range all[1:] {
		env.awaitGone(&clusterv1.Cluster{}, key)
	}
	env.await(func() string {
		controlPlane := &controlplanev1.CAPTControlPlane{}
		require.NoError(env, env.Admin.Get(env.Context(), wholeDemo, controlPlane))
		deleting := meta.FindStatusCondition(controlPlane.Status.Conditions, infrav1.DeletingCondition)
		return fixture.Unless(deleting != nil && strings.Contains(deleting.Message, "demo-karpenter"),
			"the control plane does not report that it waits for demo-karpenter")
	})
	assert.Nil(env, env.everyWorkspace()["demo-eks-controlplane"].GetDeletionTimestamp())
	for _, addon := range []string{"demo-karpenter", "demo-fargate"} {
		require.NoError(env, env.Admin.Delete(env.Context(), &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: addon}}))
	}
	env.awaitGone(&clusterv1.Cluster{}, wholeDemo)
	env.awaitGone(&infrav1.WorkspaceTemplateApply{}, types.NamespacedName{Namespace: "default", Name: "demo-fargate"})
	env.await(func() string { // A Workspace can be there for a moment after its WorkspaceTemplateApply.
		for name, workspace := range env.everyWorkspace() {
			if workspace.GetDeletionTimestamp() != nil {
				return name + " is still being deleted"
			}
		}
		return ""
	})
}
