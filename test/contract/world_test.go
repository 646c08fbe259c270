// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// patience is how long a test waits for what must happen.
const patience = 5 * time.Minute

// world is one test's namespace.
type world struct {
	*testing.T
	client.Client
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	require.NoError(t, api.Create(t.Context(), namespace))
	return &world{T: t, Client: api, namespace: namespace.Name}
}

// demoWorld is where the Cluster is that tests look at and do not touch, once it is Available.
func demoWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, Client: api, namespace: demo}
	w.awaitAvailable(demo)
	return w
}

// apply applies a YAML document in a namespace, as a user would. Objects of CAPT are for the shared manager, unless the
// document says otherwise.
func apply(ctx context.Context, namespace, document string) error {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
		return err
	}
	object.SetNamespace(namespace)
	labels := object.GetLabels()
	if _, filtered := labels[clusterv1.WatchLabel]; !filtered && strings.HasPrefix(object.GetKind(), "CAPT") {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[clusterv1.WatchLabel] = instance
		object.SetLabels(labels)
	}
	config := client.ApplyConfigurationFromUnstructured(object)
	if err := api.Apply(ctx, config, client.FieldOwner("user"), client.ForceOwnership); err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

func (w *world) apply(documents ...string) {
	w.Helper()
	for _, document := range documents {
		require.NoError(w, apply(w.Context(), w.namespace, document))
	}
}

// play gives the Workspace of that name its script.
func (w *world) play(workspace string, script scripted.Script) {
	w.Helper()
	require.NoError(w, stage.Play(types.NamespacedName{Namespace: w.namespace, Name: workspace}, script))
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
	require.NoError(w, w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, object))
}

// change reads an object and changes it.
func (w *world) change(object client.Object, name string, change func()) {
	w.Helper()
	w.read(object, name)
	patch := client.MergeFrom(object.DeepCopyObject().(client.Object))
	change()
	require.NoError(w, w.Patch(w.Context(), object, patch))
}

// delete deletes an object.
func (w *world) delete(object client.Object, name string) {
	w.Helper()
	w.read(object, name)
	require.NoError(w, w.Delete(w.Context(), object))
}

// await waits until an object is as wanted; want says what is still missing.
func (w *world) await(object client.Object, name string, want func() string) {
	w.Helper()
	lack := "it was not read yet"
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		if err := w.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, object); err != nil {
			if ctx.Err() == nil { // When time is up, what was missing before is more to the point.
				lack = err.Error()
			}
			return false, nil
		}
		lack = want()
		return lack == "", nil
	})
	require.NoError(w, err, "%T %s: %s", object, name, lack)
}

// awaitCondition waits until a condition has a status, and a reason if one is given.
func (w *world) awaitCondition(object engine.Object, name, conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
	w.Helper()
	var condition *metav1.Condition
	w.await(object, name, func() string {
		condition = meta.FindStatusCondition(object.GetConditions(), conditionType)
		if condition == nil {
			return "condition " + conditionType + " is missing"
		}
		if condition.Status != status || reason != "" && condition.Reason != reason {
			return fmt.Sprintf("condition %s is %s/%s: %s", conditionType, condition.Status, condition.Reason, condition.Message)
		}
		return ""
	})
	return *condition
}

func (w *world) awaitTrue(object engine.Object, name, conditionType string) {
	w.Helper()
	w.awaitCondition(object, name, conditionType, metav1.ConditionTrue, "")
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

// awaitGone waits until an object no longer exists.
func (w *world) awaitGone(object client.Object, name string) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		return engine.Absent(w.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, object)), nil
	})
	require.NoError(w, err, "%T %s still exists: %v", object, name, object)
}

// awaitBegun waits until Terraform has begun an operation on a Workspace.
func (w *world) awaitBegun(workspace string, operation scripted.Operation) {
	w.Helper()
	key := types.NamespacedName{Namespace: w.namespace, Name: workspace}
	require.Eventually(w, func() bool {
		n, err := stage.Count(key, operation)
		return err == nil && n > 0
	}, patience, 50*time.Millisecond, "Terraform has not begun to %s %s", operation, workspace)
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
	list.SetAPIVersion("tf.m.upbound.io/v1beta1")
	list.SetKind("WorkspaceList")
	require.NoError(w, w.List(w.Context(), list, client.InNamespace(w.namespace)))
	return list.Items
}

// workspace reads a Workspace that must exist.
func (w *world) workspace(name string) *unstructured.Unstructured {
	w.Helper()
	workspace := &unstructured.Unstructured{}
	workspace.SetAPIVersion("tf.m.upbound.io/v1beta1")
	workspace.SetKind("Workspace")
	w.read(workspace, name)
	return workspace
}
