// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package drills_test loses management clusters, and restores them from what users keep. Terraform follows a script whose states and cloud survive, as a
// remote backend and AWS do.
package drills_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/crash/proxy"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

const tick = 200 * time.Millisecond

// side is a management cluster.
type side struct {
	*sandbox.Sandbox
	client.Client
}

// captctl runs captctl, and requires an exit code. It returns everything that was printed.
func (s *side) captctl(t *testing.T, want migrate.Outcome, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), s.Binary(sandbox.Captctl), append(arguments, "--kubeconfig="+s.Kubeconfig())...)
	command.Env = []string{"HOME=" + t.TempDir()}
	output, _ := command.CombinedOutput()
	require.Equal(t, want, migrate.Outcome(command.ProcessState.ExitCode()), "%s\n%s", command, output)
	return string(output)
}

// start starts a management cluster that shares states and cloud with others.
func start(t *testing.T, scripts string, managerArgs ...string) *side {
	t.Helper()
	s := fixture.Start(t, sandbox.Options{
		Log: os.Stderr, ClusterAPI: true, KubeControllerManager: true, Provider: true, ProviderPod: true, Manager: true, ManagerArgs: managerArgs, Programs: []string{sandbox.Captctl},
		ProviderArgs: []string{"--executor=scripted", "--script-dir=" + scripts, "--max-reconcile-rate=20"},
	})
	api, err := client.New(s.Config(), client.Options{Scheme: controllers.Scheme()})
	require.NoError(t, err)
	on := &side{s, api}
	for _, scope := range terraform.Scopes() {
		fixture.Apply(t, api, fixture.Decode(t, "", documents(scope).ProviderConfig()))
	}
	return on
}

// lose stops the controllers of a management cluster. Its API server stays: the tests compare with it.
func (s *side) lose(t *testing.T) {
	t.Helper()
	for _, component := range []string{sandbox.Manager, sandbox.ClusterAPI, sandbox.Provider, sandbox.KubeControllerManager} {
		require.NoError(t, s.StopComponent(t.Context(), component))
	}
}

func documents(scope terraform.Scope) *fixture.Environment {
	return &fixture.Environment{Namespace: "shared", Scope: scope}
}

// fleet is a namespace with a Cluster, and with objects whose states have other names than CAPT derives.
type fleet struct {
	*testing.T
	namespace string
	scripts   *scripted.Store
	documents []string
	// backedUp is the file of captctl backup, and identity the one with its private key.
	backedUp, identity string
	// order is that in which objects are restored; random if it is zero.
	order uint64
	// older are objects as they were before the last change.
	older []*unstructured.Unstructured
}

// newFleet builds a fleet, and waits until everything is Ready.
func newFleet(t *testing.T, on *side, scripts *scripted.Store, namespace string, scope terraform.Scope) *fleet {
	t.Helper()
	d := documents(scope)
	d.Namespace = namespace // Of Secrets in varFiles.
	f := &fleet{T: t, namespace: namespace, scripts: scripts, documents: append(d.FargateTemplates(),
		d.NodeGroupTemplate(fixture.NodeGroupModule), d.Template("alone", fixture.VPCModule, "vpc_name"),
		fixture.Cluster(), fixture.CAPTCluster(fixture.Demo),
		fixture.CAPTControlPlane(fixture.Demo, "eksClusterName: "+namespace, fixture.FargateProfiles("default")),
		fixture.MachinePool(fixture.Demo, "workers", 3, ""), fixture.CAPTMachinePool("workers", fixture.NodeGroupTemplate),
		fixture.WorkspaceTemplateApply("alone", "alone", "variables: {vpc_name: alone}", "writeConnectionSecretToRef: {name: alone-outputs}"))}
	for i := range f.documents {
		f.documents[i] = strings.ReplaceAll(f.documents[i], "Config, name: "+namespace+"}", "Config, name: shared}")
	}
	f.apply(on)
	f.awaitReady(on)
	if scope == terraform.ScopeNamespaced {
		f.takeState(on)
		f.awaitReady(on)
	}
	return f
}

// apply applies what the fleet has in Git.
func (f *fleet) apply(on *side) {
	f.Helper()
	err := on.Create(f.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}})
	require.True(f, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
	for _, document := range f.documents {
		fixture.EventuallyAccepted(f, func(context.Context) error {
			object := fixture.Decode(f, f.namespace, document)
			return on.Apply(f.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user"), client.ForceOwnership)
		})
	}
}

// takeState adopts a state that CAPT has not created.
func (f *fleet) takeState(on *side) {
	f.Helper()
	hand := f.byHand(on, "legacy")
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"managementPolicies":["Observe"]}}`))
	require.NoError(f, on.Patch(f.Context(), hand, patch))
	require.NoError(f, on.Delete(f.Context(), hand))
	fixture.EventuallyGone(f, tick, on, client.ObjectKeyFromObject(hand), hand)
	f.documents = append(f.documents, fixture.WorkspaceTemplateApply("alone", "taken", "variables: {vpc_name: alone}",
		"terraformState: {name: "+f.namespace+"-legacy, providerConfig: ClusterProviderConfig/shared}"))
	f.apply(on)
}

// byHand creates a Workspace as a user would, with a state that has another name than CAPT derives.
func (f *fleet) byHand(on *side, name string) *unstructured.Unstructured {
	f.Helper()
	seed := fixture.NewWorkspace(terraform.ScopeNamespaced, client.ObjectKey{Namespace: f.namespace, Name: "alone"})
	require.NoError(f, on.Get(f.Context(), client.ObjectKeyFromObject(seed), seed))
	hand := fixture.NewWorkspace(terraform.ScopeNamespaced, client.ObjectKey{Namespace: f.namespace, Name: "by-hand-" + name})
	hand.SetAnnotations(map[string]string{"crossplane.io/external-name": f.namespace + "-" + name})
	hand.Object["spec"] = seed.Object["spec"]
	unstructured.RemoveNestedField(hand.Object, "spec", "writeConnectionSecretToRef")
	require.NoError(f, on.Create(f.Context(), hand))
	fixture.EventuallyTrue(f, tick, func() bool {
		states, err := f.scripts.States()
		require.NoError(f, err)
		return states[f.namespace+"-"+name].Applied != ""
	}, "the state is not there")
	return hand
}

// adoptWorkspace adopts a Workspace that CAPT has not created: only status, and the Workspace itself, have the name of its state.
func (f *fleet) adoptWorkspace(on *side) {
	f.Helper()
	hand := f.byHand(on, "adopted")
	apply := fixture.Decode(f, f.namespace, fixture.WorkspaceTemplateApply("alone", "adopted", "variables: {vpc_name: alone}", "workspaceName: "+hand.GetName()))
	apply.SetAnnotations(map[string]string{naming.AdoptWorkspaceAnnotation: string(hand.GetUID())})
	fixture.Apply(f, on, apply)
	f.awaitReady(on)
}

// changeTemplate changes the module of the objects without a Cluster.
func (f *fleet) changeTemplate(on *side) {
	f.Helper()
	template := &infrav1.WorkspaceTemplate{}
	require.NoError(f, on.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: "alone"}, template))
	before := template.DeepCopy()
	template.Spec.Template.Spec.ForProvider.Module += "\n# changed"
	require.NoError(f, on.Patch(f.Context(), template, client.MergeFrom(before)))
}

// awaitReady waits until everything is Ready.
func (f *fleet) awaitReady(on *side) {
	f.Helper()
	fixture.Eventually(f, tick, func() string { return f.notReady(on) })
}

func (f *fleet) notReady(on *side) string {
	f.Helper()
	var clusters clusterv1.ClusterList
	var controlPlanes controlplanev1.CAPTControlPlaneList
	var pools infrav1.CAPTMachinePoolList
	var applies infrav1.WorkspaceTemplateApplyList
	for _, list := range []client.ObjectList{&clusters, &controlPlanes, &pools, &applies} {
		require.NoError(f, on.List(f.Context(), list, client.InNamespace(f.namespace)))
	}
	missing := []string{}
	add := func(text string) {
		if text != "" {
			missing = append(missing, text)
		}
	}
	add(fixture.Unless(len(clusters.Items) > 0 && len(controlPlanes.Items) > 0 && len(pools.Items) > 0, "objects are missing"))
	add(fixture.Unless(len(applies.Items) >= len(f.expected()), "%d WorkspaceTemplateApplies", len(applies.Items)))
	for i := range controlPlanes.Items {
		add(fixture.ConditionMismatch(&controlPlanes.Items[i], infrav1.ReadyCondition, metav1.ConditionTrue, ""))
	}
	for i := range pools.Items {
		add(fixture.ConditionMismatch(&pools.Items[i], infrav1.ReadyCondition, metav1.ConditionTrue, ""))
	}
	for i := range applies.Items {
		if text := fixture.ConditionMismatch(&applies.Items[i], infrav1.ReadyCondition, metav1.ConditionTrue, ""); text != "" {
			add(applies.Items[i].Name + ": " + text)
		}
	}
	return strings.Join(missing, "\n")
}

// expected are the WorkspaceTemplateApplies of a fleet.
func (f *fleet) expected() []string {
	names := []string{"alone", naming.VPCWorkspaceTemplateApply(fixture.Demo), naming.ControlPlaneWorkspaceTemplateApply(fixture.Demo),
		naming.FargateWorkspaceTemplateApply(fixture.Demo, "default"), naming.MachinePoolWorkspaceTemplateApply("workers")}
	if slices.ContainsFunc(f.documents, func(text string) bool { return strings.Contains(text, "name: taken") }) {
		names = append(names, "taken")
	}
	return names
}

// world is what Terraform has made for a fleet: the IDs of resources by state and address.
func (f *fleet) world() map[string]string {
	f.Helper()
	states, err := f.scripts.States()
	require.NoError(f, err)
	cloud, err := f.scripts.Cloud()
	require.NoError(f, err)
	ids := map[string]string{}
	for _, r := range cloud {
		if strings.Contains(r.ExternalName, f.namespace) {
			ids["cloud "+r.ID] = r.Address
		}
	}
	for name, state := range states {
		for _, r := range state.Resources {
			if strings.Contains(name, f.namespace) {
				ids[name+" "+r.Address] = r.ID
			}
		}
	}
	return ids
}

// changes lists what Terraform applied and destroyed in the namespace since a moment.
func (f *fleet) changes(since time.Time) (changes []string) {
	f.Helper()
	entries, err := f.scripts.Journal()
	require.NoError(f, err)
	for _, e := range entries {
		if e.Start.After(since) && strings.Contains(e.Namespace+e.Name+e.ExternalName, f.namespace) && (e.Operation == scripted.Apply || e.Operation == scripted.Destroy) {
			changes = append(changes, string(e.Operation)+" "+e.Name)
		}
	}
	return changes
}

// kinds are those that a backup has, in no order.
func kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		infrav1.GroupVersion.WithKind("WorkspaceTemplate"), infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"), infrav1.GroupVersion.WithKind("CAPTCluster"),
		infrav1.GroupVersion.WithKind("CAPTMachinePool"), controlplanev1.GroupVersion.WithKind("CAPTControlPlane"), clusterv1.GroupVersion.WithKind("Cluster"),
		clusterv1.GroupVersion.WithKind("MachinePool"), terraform.ScopeNamespaced.GroupVersionKind(),
	}
}

// backup returns the objects of the fleet of some kinds as a backup without status has them.
func (f *fleet) backup(on *side, kinds ...schema.GroupVersionKind) (objects []*unstructured.Unstructured) {
	f.Helper()
	for _, kind := range kinds {
		for _, object := range fixture.List(f, on, kind, client.InNamespace(f.namespace)) {
			for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
				unstructured.RemoveNestedField(object.Object, "metadata", field)
			}
			delete(object.Object, "status")
			objects = append(objects, &object)
		}
	}
	return objects
}

// captctlBackup backs up the namespace, with Secrets.
func (f *fleet) captctlBackup(on *side) {
	f.Helper()
	identity, err := age.GenerateX25519Identity()
	require.NoError(f, err)
	dir := f.TempDir()
	f.backedUp = filepath.Join(dir, "backup.age")
	f.identity = filepath.Join(dir, "key.txt")
	require.NoError(f, os.WriteFile(f.identity, []byte(identity.String()), 0o600))
	require.NoError(f, on.Create(f.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "credentials"}, StringData: map[string]string{"key": "value"}}))
	on.captctl(f.T, migrate.Done, "backup", "--namespace="+f.namespace, "--file="+f.backedUp, "--secrets", "--recipient="+identity.Recipient().String())
}

// captctlRestore restores the namespace, is killed before and after each write, rolls back, and restores once more.
func (f *fleet) captctlRestore(t *testing.T, after *side, lost time.Time) {
	t.Helper()
	command := []string{"restore", "--file=" + f.backedUp, "--identity=" + f.identity}
	assert.Contains(t, after.captctl(t, migrate.NeedsDecision, append(command, "--yes")...), "still answers", "the old management cluster runs")
	command = append(command, "--old-is-stopped")
	assert.Contains(t, after.captctl(t, migrate.Done, command...), "WorkspaceTemplateApply "+f.namespace+"/adopted: Terraform state "+f.namespace+"-adopted")
	assert.Error(t, after.Get(t.Context(), client.ObjectKey{Name: f.namespace}, &corev1.Namespace{}), "nothing was written without --yes")

	killer, kubeconfig, running := newKiller(t, after)
	kills, killed := 0, true
	for number := 1; killed; number++ {
		for _, moment := range []proxy.Moment{proxy.Before, proxy.After} { // Each run has fewer writes than the one before.
			killer.Arm(proxy.Target{Number: number, Moment: moment})
			*running = exec.CommandContext(t.Context(), after.Binary(sandbox.Captctl), append(command, "--yes", "--timeout=4m", "--kubeconfig="+kubeconfig)...)
			output, _ := (*running).CombinedOutput()
			killer.Open()
			if killed = (*running).ProcessState.ExitCode() < 0; !killed {
				require.Equal(t, 0, (*running).ProcessState.ExitCode(), "%s", output)
				break
			}
			kills++
		}
	}
	t.Logf("killed %d times", kills)
	require.GreaterOrEqual(t, kills, 6)
	f.awaitReady(after)
	require.NoError(t, after.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "credentials"}, &corev1.Secret{}))

	after.captctl(t, migrate.Done, append(command, "--rollback", "--yes")...)
	require.Empty(t, fixture.List(t, after, applyKind, client.InNamespace(f.namespace)))
	require.Empty(t, f.changes(lost), "Terraform changed nothing")
	after.captctl(t, migrate.Done, append(command, "--yes", "--timeout=4m")...)
}

// create creates objects in a random order, and half of the orders so slowly that CAPT reconciles each before the next. None is rejected: Velero creates each
// once. CAPT_DRILL_ORDERS replays orders.
func (f *fleet) create(on *side, objects []*unstructured.Unstructured) {
	f.Helper()
	if f.order == 0 {
		f.order = uint64(time.Now().UnixNano())
	}
	random := rand.New(rand.NewPCG(f.order, 1))
	random.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	slow := random.IntN(2) == 0
	f.Logf("order %d, slow: %v", f.order, slow)
	err := on.Create(f.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}})
	require.True(f, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
	for _, object := range objects {
		if err := on.Create(f.Context(), object.DeepCopy()); !apierrors.IsAlreadyExists(err) { // Owners create what they miss.
			require.NoError(f, err, "%s %s", object.GetKind(), object.GetName())
		}
		created := time.Now().Unix()
		fixture.EventuallyTrue(f, tick, func() bool { return !slow || time.Now().Unix() > created }, "creation times have whole seconds")
	}
}

// losesDeadOwners requires that new templates of ClusterClasses and stored revisions lose owners that do not exist, and that those of others keep them.
func (f *fleet) losesDeadOwners(on *side) {
	f.Helper()
	const owner = "ownerReferences: [{apiVersion: %s, kind: %s, name: gone, uid: of-before}]"
	ofTemplate := fmt.Sprintf(owner, infrav1.GroupVersion, "WorkspaceTemplate")
	for document, want := range map[string]int{
		"{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: ours, labels: {" + naming.TemplateRevisionLabel + ": a}, " + ofTemplate + "}, revision: 1, data: {}}": 0,
		"{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: others, " + ofTemplate + "}, revision: 1, data: {}}":                                                  1,
		"{apiVersion: " + infrav1.GroupVersion.String() + ", kind: CAPTClusterTemplate, metadata: {name: class, " + fmt.Sprintf(owner, clusterv1.GroupVersion, "ClusterClass") +
			"}, spec: {template: {spec: {region: eu-central-1, vpc: {existingID: vpc-1}}}}}": 0,
	} {
		object := fixture.Decode(f, f.namespace, document)
		require.NoError(f, on.Create(f.Context(), object))
		assert.Len(f, object.GetOwnerReferences(), want, document)
	}
}

// withoutOwners removes owner references.
func withoutOwners(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	for _, object := range objects {
		object.SetOwnerReferences(nil)
	}
	return objects
}

var (
	applyKind     = infrav1.GroupVersion.WithKind("WorkspaceTemplateApply")
	workspaceKind = terraform.ScopeNamespaced.GroupVersionKind()
)

func without(all []schema.GroupVersionKind, some ...schema.GroupVersionKind) []schema.GroupVersionKind {
	return slices.DeleteFunc(all, func(kind schema.GroupVersionKind) bool { return slices.Contains(some, kind) })
}

func TestAManagementClusterThatIsLostIsRestored(t *testing.T) {
	scripts := t.TempDir()
	before := start(t, scripts)
	store, lost := scripted.At(scripts), time.Time{}
	drills := map[string]func(t *testing.T, f *fleet, after *side){
		"git": func(t *testing.T, f *fleet, after *side) {
			f.apply(after)
			// Git has not the name of this state: CAPT derives another one, which is empty.
			unknown := fixture.Decode(t, f.namespace, fixture.WorkspaceTemplateApply("alone", "adopted", "variables: {vpc_name: alone}"))
			fixture.Apply(t, after, unknown)
			apply := &infrav1.WorkspaceTemplateApply{}
			fixture.EventuallyObject(t, tick, after, client.ObjectKeyFromObject(unknown), apply, func() string {
				return fixture.ConditionMismatch(apply, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.NotProvenReason, "--prove-new-workspaces", "Nothing is applied")
			})
			require.NoError(t, after.Delete(t.Context(), apply))
			fixture.EventuallyGone(t, tick, after, client.ObjectKeyFromObject(unknown), apply)
		},
		"spec": func(_ *testing.T, f *fleet, after *side) {
			f.create(after, withoutOwners(f.backup(before, without(kinds(), workspaceKind)...)))
		},
		"velero": func(_ *testing.T, f *fleet, after *side) {
			f.create(after, withoutOwners(f.backup(before, applyKind))) // An owner would create those that it misses, and not know their Workspaces.
			f.create(after, withoutOwners(f.backup(before, without(kinds(), applyKind)...)))
		},
		// Owner references have UIDs of before: the garbage collector would delete the objects.
		"owners": func(_ *testing.T, f *fleet, after *side) {
			f.create(after, f.backup(before, without(kinds(), workspaceKind)...))
			f.losesDeadOwners(after)
		},
		// The backup is older than the last change, which Terraform would revert.
		"older": func(t *testing.T, f *fleet, after *side) {
			f.create(after, withoutOwners(f.older))
			apply := &infrav1.WorkspaceTemplateApply{}
			fixture.EventuallyObject(t, tick, after, client.ObjectKey{Namespace: f.namespace, Name: "alone"}, apply, func() string {
				return fixture.ConditionMismatch(apply, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.NotProvenReason, "Nothing is applied")
			})
			f.changeTemplate(after)
		},
		"restore": func(t *testing.T, f *fleet, after *side) { f.captctlRestore(t, after, lost) },
		"half": func(_ *testing.T, f *fleet, after *side) {
			f.create(after, withoutOwners(f.backup(before, without(kinds(), workspaceKind, applyKind)...)))
			f.apply(after)
		},
	}
	adopts := func(f *fleet) { f.adoptWorkspace(before) }
	prepare := map[string]func(f *fleet){"git": adopts, "spec": adopts, "velero": adopts, "owners": adopts, "older": func(f *fleet) {
		f.older = f.backup(before, without(kinds(), workspaceKind)...)
		began := time.Now()
		f.changeTemplate(before)
		fixture.EventuallyTrue(f, tick, func() bool { return len(f.changes(began)) >= 2 }, "its two users are not applied again")
		f.awaitReady(before)
	}, "restore": func(f *fleet) {
		f.adoptWorkspace(before)
		f.captctlBackup(before)
	}}
	orders := map[string]uint64{}
	if given := strings.Fields(os.Getenv("CAPT_DRILL_ORDERS")); len(given) > 0 { // Such as owners=1796013309994764820, from the log of a test.
		all := maps.Clone(drills)
		clear(drills)
		for _, replayed := range given {
			name, order, _ := strings.Cut(replayed, "=")
			number, err := strconv.ParseUint(order, 10, 64)
			require.NoError(t, err)
			again := name + "-" + order
			drills[again], prepare[again], orders[again] = all[name], prepare[name], number
		}
	}
	fleets := map[string]*fleet{}
	{
		done := make(chan *fleet)
		for name := range drills {
			go func() {
				f := newFleet(t, before, store, "drill-"+name, terraform.ScopeNamespaced)
				if more := prepare[name]; more != nil {
					more(f)
				}
				done <- f
			}()
		}
		for range drills {
			f := <-done
			fleets[strings.TrimPrefix(f.namespace, "drill-")] = f
		}
	}
	before.lose(t)
	lost = time.Now()
	after := start(t, scripts, "--prove-new-workspaces")
	for name, drill := range drills {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fleets[name]
			require.NotNil(t, f)
			f.T, f.order = t, orders[name]
			was := f.world()
			require.NotEmpty(t, was)
			drill(t, f, after)
			f.awaitReady(after)
			assert.Equal(t, was, f.world(), "the same states have the same resources")
			assert.Empty(t, f.changes(lost), "Terraform changed nothing")
		})
	}
}

// scopes lists the scope of the Workspace of each WorkspaceTemplateApply.
func (f *fleet) scopes(on *side) map[string]terraform.Scope {
	f.Helper()
	var applies infrav1.WorkspaceTemplateApplyList
	require.NoError(f, on.List(f.Context(), &applies, client.InNamespace(f.namespace)))
	scopes := map[string]terraform.Scope{}
	for i := range applies.Items {
		scope, recorded := applies.Items[i].Status.WorkspaceRef.Scope()
		require.True(f, recorded)
		scopes[applies.Items[i].Name] = scope
	}
	delete(scopes, "alone") // It has no Cluster.
	return scopes
}

func TestClusterWideWorkspacesAreEvacuated(t *testing.T) {
	scripts := t.TempDir()
	on := start(t, scripts)
	f := newFleet(t, on, scripted.At(scripts), "evacuated", terraform.ScopeCluster)
	was, began := f.world(), time.Now()
	require.NotEmpty(t, was)
	all := func(scope terraform.Scope) map[string]terraform.Scope {
		scopes := map[string]terraform.Scope{}
		for _, name := range f.expected() {
			scopes[name] = scope
		}
		delete(scopes, "alone")
		return scopes
	}
	require.Equal(t, all(terraform.ScopeCluster), f.scopes(on))
	evacuate := []string{"evacuate", f.namespace + "/demo", "--yes", "--timeout=4m"}
	killer, kubeconfig, running := newKiller(t, on)
	kills := 0
	for _, arguments := range [][]string{evacuate, append(slices.Clone(evacuate), "--rollback"), evacuate} {
		scope := terraform.ScopeNamespaced
		if slices.Contains(arguments, "--rollback") {
			scope = terraform.ScopeCluster
		}
		for number, killed := 1, true; killed; number++ {
			for _, moment := range []proxy.Moment{proxy.Before, proxy.After} {
				killer.Arm(proxy.Target{Number: number, Moment: moment})
				*running = exec.CommandContext(t.Context(), on.Binary(sandbox.Captctl), append(arguments, "--kubeconfig="+kubeconfig)...)
				output, _ := (*running).CombinedOutput()
				killer.Open()
				if killed = (*running).ProcessState.ExitCode() < 0; !killed {
					require.Equal(t, 0, (*running).ProcessState.ExitCode(), "%s", output)
					break
				}
				kills++
			}
		}
		f.awaitReady(on)
		require.Equal(t, all(scope), f.scopes(on))
		require.Equal(t, was, f.world(), "the same states have the same resources")
		require.Empty(t, f.changes(began), "Terraform changed nothing")
	}
	t.Logf("killed %d times", kills)
	require.Greater(t, kills, 20)
}

// newKiller returns a proxy that kills the running program.
func newKiller(t *testing.T, on *side) (killer *proxy.Proxy, kubeconfig string, running **exec.Cmd) {
	t.Helper()
	running = new(*exec.Cmd)
	killer, err := proxy.Start(on.Config(), func() { _ = (*running).Process.Kill() })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, killer.Close()) })
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, killer.WriteKubeconfig(kubeconfig))
	return killer, kubeconfig, running
}
