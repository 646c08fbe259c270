// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package contract_test holds CAPT to Cluster API's contract: one subtest for every rule of the contract's documents, named
// as the rule is, against the real Cluster API core. The rules are read from the documents of the Cluster API that CAPT is
// built with, so a rule that is new there fails the suite until it has a subtest.
//
// Terraform is a scripted executor. The cluster that it pretends to make is the API server of the sandbox itself, so that
// Cluster API can connect to it.
package contract_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	// instance is the watch filter of the manager that all tests share. It is a manager with a filter, since what one of
	// several instances leaves alone can be seen only where no other one takes everything.
	instance = "first"
	// demo is a Cluster that is made once, with its namespace. Tests look at it and do not touch it.
	demo = fixture.Demo
)

// shared is the control plane of all tests of the package.
var shared *fixture.Server

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, &shared, func(o *sandbox.Options) { o.ManagerArgs = append(o.ManagerArgs, "--watch-filter="+instance) }))
}

var makeDemo sync.Once

// demoWorld is where the Cluster is that tests look at and do not touch, once it is Available.
func demoWorld(t *testing.T) *world {
	t.Helper()
	w := &world{&fixture.World{T: t, Client: shared.API, Server: shared, Namespace: demo, Scope: terraform.ScopeNamespaced}}
	makeDemo.Do(func() {
		require.NoError(t, w.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: demo}}))
		w.apply(everything(demo, "v1.34.0")...)
	})
	w.awaitAvailable(demo)
	return w
}

// world is one test's namespace.
type world struct{ *fixture.World }

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{shared.NewWorld(t, terraform.ScopeNamespaced)}
}

// apply applies documents as a user would. Objects of CAPT are for the shared manager, unless the document says otherwise.
func (w *world) apply(documents ...string) {
	w.Helper()
	for _, document := range documents {
		object := &unstructured.Unstructured{}
		require.NoError(w, yaml.UnmarshalStrict([]byte(document), &object.Object), document)
		object.SetNamespace(w.Namespace)
		labels := object.GetLabels()
		if _, filtered := labels[clusterv1.WatchLabel]; !filtered && strings.HasPrefix(object.GetKind(), "CAPT") {
			_ = unstructured.SetNestedField(object.Object, instance, "metadata", "labels", clusterv1.WatchLabel)
		}
		text, err := yaml.Marshal(object)
		require.NoError(w, err)
		w.User(string(text))
	}
}

// Scripts of Terraform.
var (
	applyHangs   = scripted.Script{Apply: scripted.Step{Hang: true}}
	destroyHangs = scripted.Script{Destroy: scripted.Step{Hang: true}}
	applyFails   = scripted.Script{Apply: scripted.Step{Stderr: "Error: VpcLimitExceeded: The maximum number of VPCs has been reached.\n"}}
	goesWell     = scripted.Script{}
)

// read reads an object.
func (w *world) read(object client.Object, name string) {
	w.Helper()
	require.NoError(w, w.Get(w.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, object))
}

// change reads an object and changes it.
func (w *world) change(object client.Object, name string, change func()) {
	w.Helper()
	w.read(object, name)
	patch := client.MergeFrom(object.DeepCopyObject().(client.Object))
	change()
	require.NoError(w, w.Patch(w.Context(), object, patch))
}

// await waits until an object is as wanted; want says what is still missing.
func (w *world) await(object client.Object, name string, want func() string) {
	w.Helper()
	w.Insist(func() string {
		if !w.Exists(object, name) {
			return fmt.Sprintf("%T %s is not there", object, name)
		}
		return want()
	})
}

// awaitCondition waits until a condition has a status, and a reason if one is given.
func (w *world) awaitCondition(object engine.Object, name, conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
	w.Helper()
	w.Await(object, name, conditionType, status, reason)
	return *meta.FindStatusCondition(object.GetConditions(), conditionType)
}

func (w *world) awaitTrue(object engine.Object, name, conditionType string) {
	w.Helper()
	w.Await(object, name, conditionType, metav1.ConditionTrue, "")
}

// awaitAvailable waits until a Cluster is Available. Cluster API connects to it for the first time when the infrastructure is
// provisioned, which is too early, and for the second time half a minute later.
func (w *world) awaitAvailable(name string) {
	w.Helper()
	w.awaitTrue(&clusterv1.Cluster{}, name, clusterv1.ClusterAvailableCondition)
}

// awaitCluster waits until the Cluster is as wanted.
func (w *world) awaitCluster(name, lack string, wanted func(*clusterv1.Cluster) bool) *clusterv1.Cluster {
	w.Helper()
	owner := &clusterv1.Cluster{}
	w.await(owner, name, func() string {
		if wanted(owner) {
			return ""
		}
		return lack
	})
	return owner
}

// awaitMirrored waits until a condition of the Cluster says what one of CAPT's objects says.
func (w *world) awaitMirrored(object engine.Object, name, conditionType, mirror string) {
	w.Helper()
	owner := &clusterv1.Cluster{}
	w.await(owner, name, func() string {
		w.read(object, name)
		ours, theirs := meta.FindStatusCondition(object.GetConditions(), conditionType), meta.FindStatusCondition(owner.GetConditions(), mirror)
		if ours == nil || theirs == nil || ours.Status != theirs.Status || ours.Reason != theirs.Reason || ours.Message != theirs.Message {
			return fmt.Sprintf("%s is %v, but %s of the Cluster is %v", conditionType, ours, mirror, theirs)
		}
		return ""
	})
}

// in reads an object in a version of its API.
func (w *world) in(version schema.GroupVersionKind, name string) map[string]any {
	w.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(version)
	w.read(object, name)
	return object.Object
}

// field is the value at a path such as status.initialization.provisioned; nil when there is none.
func field(object map[string]any, path string) any {
	value, _, err := unstructured.NestedFieldNoCopy(object, strings.Split(path, ".")...)
	if err != nil {
		return nil
	}
	return value
}

// workspaces lists the Workspaces of the namespace.
func (w *world) workspaces() []unstructured.Unstructured {
	w.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(w.Scope.GroupVersionKind())
	require.NoError(w, w.List(w.Context(), list, client.InNamespace(w.Namespace)))
	return list.Items
}
