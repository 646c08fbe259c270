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
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	// tick is the first interval of waits.
	tick = 200 * time.Millisecond
)

// shared is the control plane of all tests of the package.
var shared *fixture.Server

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, &shared, func(o *sandbox.Options) { o.ManagerArgs = append(o.ManagerArgs, "--watch-filter="+instance) }))
}

var makeDemo sync.Once

// demoEnvironment is where the Cluster is that tests look at and do not touch, once it is Available.
func demoEnvironment(t *testing.T) *environment {
	t.Helper()
	env := &environment{&fixture.Environment{T: t, Client: shared.API, Server: shared, Namespace: demo, Scope: terraform.ScopeNamespaced}}
	makeDemo.Do(func() {
		require.NoError(t, env.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: demo}}))
		env.apply(everything(demo, "v1.34.0")...)
	})
	env.awaitAvailable(demo)
	return env
}

// environment is one test's namespace.
type environment struct{ *fixture.Environment }

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	return &environment{shared.NewEnvironment(t, terraform.ScopeNamespaced)}
}

// apply applies documents as a user would. Objects of CAPT are for the shared manager, unless the document says otherwise. The AWS account is that of the
// test, which may have EKS clusters of the same names as others.
func (env *environment) apply(documents ...string) {
	env.Helper()
	for _, document := range documents {
		if env.Namespace != demo {
			document = strings.Replace(document, "ClusterProviderConfig, name: sandbox}", "ClusterProviderConfig, name: "+env.Namespace+"}", 1)
		}
		object := fixture.Decode(env, env.Namespace, document)
		labels := object.GetLabels()
		if _, filtered := labels[clusterv1.WatchLabel]; !filtered && strings.HasPrefix(object.GetKind(), "CAPT") {
			_ = unstructured.SetNestedField(object.Object, instance, "metadata", "labels", clusterv1.WatchLabel)
		}
		fixture.Apply(env, env, object)
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
func (env *environment) read(object client.Object, name string) {
	env.Helper()
	require.NoError(env, env.Get(env.Context(), client.ObjectKey{Namespace: env.Namespace, Name: name}, object))
}

// change reads an object and changes it.
func (env *environment) change(object client.Object, name string, change func()) {
	env.Helper()
	fixture.Change(env, env, client.ObjectKey{Namespace: env.Namespace, Name: name}, object, change)
}

// await waits until an object is as wanted; want says what is still missing.
func (env *environment) await(object client.Object, name string, want func() string) {
	env.Helper()
	fixture.EventuallyObject(env, tick, env, client.ObjectKey{Namespace: env.Namespace, Name: name}, object, want)
}

// awaitCondition waits until a condition has a status, and a reason if one is given.
func (env *environment) awaitCondition(object engine.Object, name, conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
	env.Helper()
	env.Await(object, name, conditionType, status, reason)
	return *meta.FindStatusCondition(object.GetConditions(), conditionType)
}

func (env *environment) awaitTrue(object engine.Object, name, conditionType string) {
	env.Helper()
	env.Await(object, name, conditionType, metav1.ConditionTrue, "")
}

// awaitAvailable waits until a Cluster is Available. Cluster API connects to it for the first time when the infrastructure is
// provisioned, which is too early, and for the second time half a minute later.
func (env *environment) awaitAvailable(name string) {
	env.Helper()
	env.awaitTrue(&clusterv1.Cluster{}, name, clusterv1.ClusterAvailableCondition)
}

// awaitCluster waits until the Cluster is as wanted.
func (env *environment) awaitCluster(name, missing string, wanted func(*clusterv1.Cluster) bool) *clusterv1.Cluster {
	env.Helper()
	owner := &clusterv1.Cluster{}
	env.await(owner, name, func() string { return fixture.Unless(wanted(owner), "%s", missing) })
	return owner
}

func infrastructureProvisioned(owner *clusterv1.Cluster) bool {
	return ptr.Deref(owner.Status.Initialization.InfrastructureProvisioned, false)
}

func controlPlaneInitialized(owner *clusterv1.Cluster) bool {
	return ptr.Deref(owner.Status.Initialization.ControlPlaneInitialized, false)
}

// awaitMirrored waits until a condition of the Cluster says what one of CAPT's objects says.
func (env *environment) awaitMirrored(object engine.Object, name, conditionType, mirror string) {
	env.Helper()
	owner := &clusterv1.Cluster{}
	env.await(owner, name, func() string {
		env.read(object, name)
		ours, theirs := meta.FindStatusCondition(object.GetConditions(), conditionType), meta.FindStatusCondition(owner.GetConditions(), mirror)
		return fixture.Unless(ours != nil && theirs != nil && ours.Status == theirs.Status && ours.Reason == theirs.Reason && ours.Message == theirs.Message,
			"%s is %v, but %s of the Cluster is %v", conditionType, ours, mirror, theirs)
	})
}

// in reads an object in a version of its API.
func (env *environment) in(version schema.GroupVersionKind, name string) map[string]any {
	env.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(version)
	env.read(object, name)
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
func (env *environment) workspaces() []unstructured.Unstructured {
	env.Helper()
	return fixture.List(env, env, env.Scope.GroupVersionKind(), client.InNamespace(env.Namespace))
}
