// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

var update = flag.Bool("update", false, "write testdata/reference.txt from the reference fleet")

// referenceVariable names the folder of the reference data. Without it the folder is looked for beside the checkout.
const referenceVariable = "CAPT_REFERENCE"

// golden has the fields of every object that CAPT v0.3.0 and provider-terraform really wrote. The fixture has the same ones.
const golden = "testdata/reference.txt"

// TestTheRealFleetNeedsNoDecision compares the file with the reference fleet, where that is at hand, and upgrades it.
func TestTheRealFleetNeedsNoDecision(t *testing.T) {
	folder := referenceFolder(t)
	if folder == "" {
		require.False(t, *update, "there is no reference fleet: set %s", referenceVariable)
		return
	}
	t.Parallel()
	measured := shapes(readReference(t, folder))
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(measured), 0o600))
	}
	known, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, measured, string(known), "%s is not what %s has; run this test with -update", golden, folder)

	env := legacy.New(t, sandbox.Options{})
	load(t, env, readReference(t, folder))
	requireNoDecision(t, env)
}

// TestWholeFleetOfTheReferenceIsEvacuated adopts the reference fleet with its Terraform states, where that is at hand, and moves it to namespaced Workspaces.
func TestWholeFleetOfTheReferenceIsEvacuated(t *testing.T) {
	folder := referenceFolder(t)
	if folder == "" || !fixture.AllCombinations() {
		t.Skip("there is no reference fleet, or only a part of the combinations is tested")
	}
	t.Parallel()
	env := &whole{environment: newEnvironment(t, sandbox.Options{ClusterAPI: true, KubeControllerManager: true, Provider: true}), ready: wholeReference()}
	env.loadStates(folder)
	objects := readReference(t, folder)
	for i := range objects {
		if objects[i].GetKind() == "Workspace" { // The provider reports it.
			delete(objects[i].Object, "status")
		}
	}
	load(t, env.Environment, objects)
	env.await(env.unreported)
	env.before = env.untouched()
	require.Empty(t, env.before.runs, "Terraform applies nothing, because it has the states")

	require.NoError(t, env.Upgrade(t.Context()))
	env.await(env.unsettled)
	env.await(env.withoutAdoptionRequired)
	h := env.host.In(t)
	require.Empty(t, h.Plan().Undecided())
	h.Run(migrate.Done, "apply", "plan.json", "--yes")
	env.awaitAllReady()
	env.before.require(t)
	env.evacuates(t)

	addon := types.NamespacedName{Namespace: wholeDemo.Namespace, Name: "demo-karpenter"}
	require.NoError(t, env.Admin.Delete(t.Context(), &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: addon.Namespace, Name: addon.Name}}))
	env.awaitGone(&infrav1.WorkspaceTemplateApply{}, addon)
	require.NotEmpty(t, env.runs(), "runs are counted")
}

// loadStates creates the Terraform states of the reference fleet, and the ProviderConfig whose backend has them.
func (env *whole) loadStates(folder string) {
	env.Helper()
	for _, file := range []string{"secrets", "providerconfigs"} {
		list, err := manifests.Load(filepath.Join(folder, file+".yaml"))
		require.NoError(env, err)
		for _, object := range list {
			for _, item := range items(env.T, object) {
				if item.GetKind() == "Secret" && item.GetLabels()["tfstate"] == "" {
					continue
				}
				labels := item.GetLabels()
				item.Object["metadata"] = map[string]any{"name": item.GetName(), "namespace": item.GetNamespace()}
				item.SetLabels(labels)
				delete(item.Object, "status")
				if configuration, found, _ := unstructured.NestedString(item.Object, "spec", "configuration"); found {
					configuration = strings.ReplaceAll(configuration, "/etc/capt-lab/kubeconfig", env.Kubeconfig())
					require.NoError(env, unstructured.SetNestedField(item.Object, configuration, "spec", "configuration"))
				}
				require.NoError(env, env.Admin.Create(env.Context(), &item))
			}
		}
	}
}

// unreported reports which Workspace the provider has not planned yet. The control plane of broken cannot be planned.
func (env *whole) unreported() string {
	for name, workspace := range env.workspaces() {
		synced := slices.ContainsFunc(conditionsOf(env.T, workspace), func(c any) bool {
			fields, _ := c.(map[string]any)
			return fields["type"] == "Ready" && fields["status"] == "True"
		})
		if !synced && !strings.HasPrefix(name, wholeBroken.Name+"-eks") {
			return "Workspace " + name + " is not Ready"
		}
	}
	return ""
}

func conditionsOf(t *testing.T, object *unstructured.Unstructured) []any {
	t.Helper()
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	require.NoError(t, err)
	return conditions
}

// requireFieldsOfTheReference requires that a fleet, as it was created, has the fields of the reference fleet.
func requireFieldsOfTheReference(t *testing.T, env *legacy.Environment) {
	t.Helper()
	known, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.NotEmpty(t, known)
	for _, deployment := range legacy.Deployments(0) {
		require.NoError(t, env.Admin.Create(t.Context(), deployment))
	}
	assert.Equal(t, string(known), shapes(readFixture(t, env)))
}

// referenceFolder is empty when there is none.
func referenceFolder(t *testing.T) string {
	t.Helper()
	root, err := binaries.Root()
	require.NoError(t, err)
	folder, named := os.LookupEnv(referenceVariable)
	if !named {
		folder = filepath.Join(root, "..", "shared", "reference")
	}
	fleet := filepath.Join(folder, "legacy-fleet")
	if _, err := os.Stat(fleet); errors.Is(err, fs.ErrNotExist) && !named {
		return ""
	}
	require.DirExists(t, fleet, referenceVariable)
	return fleet
}

func readReference(t *testing.T, folder string) (objects []unstructured.Unstructured) {
	t.Helper()
	for _, file := range []string{
		"clusters", "captclusters", "captcontrolplanes", "workspacetemplates", "workspacetemplateapplies", "workspaces", "secrets", "deployments",
	} {
		loaded, err := manifests.Load(filepath.Join(folder, file+".yaml"))
		require.NoError(t, err)
		for _, object := range loaded {
			objects = append(objects, items(t, object)...)
		}
	}
	return slices.DeleteFunc(objects, isState)
}

func readFixture(t *testing.T, env *legacy.Environment) (objects []unstructured.Unstructured) {
	t.Helper()
	for _, kind := range []schema.GroupVersionKind{
		clusterv1.GroupVersion.WithKind("Cluster"),
		infrav1beta1.GroupVersion.WithKind("CAPTCluster"),
		controlplanev1beta1.GroupVersion.WithKind("CAPTControlPlane"),
		infrav1beta1.GroupVersion.WithKind("WorkspaceTemplate"),
		infrav1beta1.GroupVersion.WithKind("WorkspaceTemplateApply"),
		terraform.ScopeCluster.GroupVersionKind(),
		{Version: "v1", Kind: "Secret"},
		{Group: "apps", Version: "v1", Kind: "Deployment"},
	} {
		objects = append(objects, fixture.List(t, env.Admin, kind)...)
	}
	return slices.DeleteFunc(objects, isState)
}

// isState reports whether an object is a Secret of Terraform's backend, or no object of a fleet.
func isState(object unstructured.Unstructured) bool {
	return object.GetKind() == "Secret" && (len(object.GetOwnerReferences()) == 0 || object.GetLabels()["tfstate"] != "")
}

func items(t *testing.T, object *unstructured.Unstructured) []unstructured.Unstructured {
	t.Helper()
	if !object.IsList() {
		return []unstructured.Unstructured{*object}
	}
	list, err := object.ToList()
	require.NoError(t, err)
	return list.Items
}

// requireNoDecision upgrades a reference fleet, and proves that captctl can adopt all of it without a decision.
func requireNoDecision(t *testing.T, env *legacy.Environment) {
	t.Helper()
	untouched, err := migrate.Read(t.Context(), env.Admin, "", time.Now())
	require.NoError(t, err)
	require.NoError(t, env.Upgrade(t.Context(), legacy.WebhooksOnly))
	snapshot, err := migrate.Read(t.Context(), env.Admin, "", untouched.Taken)
	require.NoError(t, err)
	requireSameSnapshot(t, untouched, snapshot)
	p, err := planner.New(snapshot, nil)
	require.NoError(t, err)
	// A CAPTCluster with an existing VPC has nothing. The 25 WorkspaceTemplateApplies are of 9 owners, and 16 without one.
	counts := map[migrate.OwnerState]int{}
	for i := range p.Units {
		assert.Equal(t, plan.Adoptable, p.Units[i].State, p.Units[i].Name())
		for _, member := range p.Units[i].Members {
			counts[member.State]++
		}
	}
	assert.Equal(t, map[migrate.OwnerState]int{migrate.Adoptable: 25, migrate.NothingToAdopt: 1}, counts)
	for _, finding := range p.Findings {
		assert.Equal(t, migrate.Warning, finding.Severity, "%s %s: %s", finding.Reason, finding.Object, finding.Message)
		assert.Contains(t, []string{planner.ReasonPermissionGranted, planner.ReasonInvalidClusterEndpoint}, finding.Reason, finding.Message)
	}
}

// load creates objects that were read from a management cluster, with their status.
func load(t *testing.T, env *legacy.Environment, objects []unstructured.Unstructured) {
	t.Helper()
	require.NoError(t, env.Admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}))
	uids := map[string]types.UID{}
	for i := range objects {
		object := &objects[i]
		if object.GetKind() == "Secret" || object.GetKind() == "Deployment" {
			continue
		}
		status, has := object.Object["status"]
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
			unstructured.RemoveNestedField(object.Object, "metadata", field)
		}
		owners := object.GetOwnerReferences()
		for j := range owners {
			owners[j].UID = uids[owners[j].Kind+object.GetNamespace()+owners[j].Name]
			require.NotEmpty(t, owners[j].UID)
		}
		object.SetOwnerReferences(owners)
		if object.GetKind() == "Cluster" {
			toHub(t, object)
		}
		require.NoError(t, env.Admin.Create(t.Context(), object))
		uids[object.GetKind()+object.GetNamespace()+object.GetName()] = object.GetUID()
		if has && object.GetKind() != "Cluster" {
			object.Object["status"] = status
			require.NoError(t, env.Admin.Status().Update(t.Context(), object))
		}
	}
}

// toHub converts what counts of a Cluster: there is no webhook of Cluster API.
func toHub(t *testing.T, cluster *unstructured.Unstructured) {
	t.Helper()
	spec := map[string]any{}
	for _, field := range []string{"infrastructureRef", "controlPlaneRef"} {
		ref, _, err := unstructured.NestedStringMap(cluster.Object, "spec", field)
		require.NoError(t, err)
		group, _, _ := strings.Cut(ref["apiVersion"], "/")
		spec[field] = map[string]any{"apiGroup": group, "kind": ref["kind"], "name": ref["name"]}
	}
	if host, _, _ := unstructured.NestedString(cluster.Object, "spec", "controlPlaneEndpoint", "host"); host != "" {
		spec["controlPlaneEndpoint"] = map[string]any{"host": host, "port": int64(443)}
	}
	cluster.SetAPIVersion(clusterv1.GroupVersion.String())
	cluster.SetAnnotations(nil)
	cluster.Object["spec"] = spec
	delete(cluster.Object, "status")
}

// referenceClusters are the clusters of the reference fleet, with their namespaces.
var referenceClusters = map[string]string{"demo": "default", "prod-1": "default", "in-old-vpc": "default", "broken": "default", "apps": "team-a"}

// Of some fields only the presence is compared: what differs from one cluster to the next, and what users chose.
var anyValue = regexp.MustCompile(`\.uid$|[tT]ime$|Revision$|[mM]essage$|\.checksum$|\.module$|\.description$|\.host$|\.vpcId$|\.outputs\.|^data\.|` +
	`\.variables\.cluster_(endpoint|certificate_authority_data)$|\[cluster_(endpoint|certificate_authority_data)\]\.value$|last-applied-configuration$|external-create-`)

// Fields that the API server and kubectl keep for themselves, and the canary of this package.
var notCompared = regexp.MustCompile(`^metadata\.(uid|resourceVersion|generation|creationTimestamp|managedFields)|^data\.canary$|^(apiVersion|kind)$`)

// ofCluster are the fields of a Cluster that CAPT v0.3 has a part in. All others are Cluster API's.
var ofCluster = regexp.MustCompile(`^metadata\.(name|finalizers)|^spec\.controlPlaneEndpoint|^status\.phase$`)

// ofDeployment are the fields of a Deployment by which it is recognized.
var ofDeployment = regexp.MustCompile(`^metadata\.(name|namespace|labels)|^spec\.(replicas|selector)|^spec\.template\.metadata\.labels|\.image$|\.serviceAccountName$`)

// shapes are the fields of each object of a fleet, one per line. Objects with the same fields share one block.
func shapes(objects []unstructured.Unstructured) string {
	names := map[string][]string{}
	for i := range objects {
		object := &objects[i]
		block := object.GetKind() + "\n" + strings.Join(shape(object), "\n")
		names[block] = append(names[block], strings.TrimPrefix(object.GetNamespace()+"/", "/")+object.GetName())
	}
	var blocks []string
	for block, of := range names {
		slices.Sort(of)
		kind, fields, _ := strings.Cut(block, "\n")
		blocks = append(blocks, kind+" "+strings.Join(of, " ")+"\n"+fields+"\n")
	}
	slices.Sort(blocks)
	return strings.Join(blocks, "\n")
}

func shape(object *unstructured.Unstructured) []string {
	cluster, namespace := clusterOf(object)
	fields := map[string]string{}
	flatten(fields, "", object.Object)
	var lines []string
	for path, value := range fields {
		switch {
		case notCompared.MatchString(path), object.GetKind() == "Cluster" && !ofCluster.MatchString(path):
			continue
		case object.GetKind() == "Deployment" && !ofDeployment.MatchString(path):
			continue
		case object.GetKind() == "Cluster" && fields["spec.controlPlaneEndpoint.host"] == "" && strings.HasPrefix(path, "spec.controlPlaneEndpoint"):
			continue // The versions of a Cluster differ in how they say that there is none.
		case anyValue.MatchString(path) && value != "":
			value = "*"
		case strings.HasSuffix(path, "namespace") && value == namespace:
			value = "<namespace>"
		case cluster != "":
			value = strings.ReplaceAll(value, cluster, "<cluster>")
		}
		lines = append(lines, "  "+path+": "+value)
	}
	slices.Sort(lines)
	return lines
}

// clusterOf is the cluster of the reference fleet that an object belongs to, with its namespace.
func clusterOf(object *unstructured.Unstructured) (name, namespace string) {
	for cluster, namespace := range referenceClusters {
		if object.GetName() == cluster || strings.HasPrefix(object.GetName(), cluster+"-") {
			return cluster, namespace
		}
	}
	return "", object.GetNamespace()
}

// flatten collects the leaves of an object by their paths. Elements of lists go by what names them, since their order means nothing.
func flatten(fields map[string]string, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 {
			fields[path] = "{}"
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			flatten(fields, strings.TrimPrefix(path+"."+key, "."), value[key])
		}
	case []any:
		for i, element := range value {
			flatten(fields, fmt.Sprintf("%s[%v]", path, nameOf(element, i)), element)
		}
	default:
		fields[path] = fmt.Sprint(value)
	}
}

func nameOf(element any, index int) any {
	fields, _ := element.(map[string]any)
	for _, key := range []string{"type", "key"} {
		if name, found := fields[key]; found {
			return name
		}
	}
	return index
}
