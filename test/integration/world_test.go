// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

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
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/controllers/engine"
)

const (
	// patience is how long a test waits for what takes Terraform.
	patience = 5 * time.Minute
	// prompt is how soon a fault must be visible.
	prompt = 10 * time.Second
)

// world is one test's namespace.
type world struct {
	*testing.T
	client.Client
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c, err := client.New(shared.Config(), client.Options{Scheme: controllers.Scheme()})
	require.NoError(t, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	require.NoError(t, c.Create(t.Context(), namespace))
	return &world{T: t, Client: c, namespace: namespace.Name}
}

// apply applies YAML documents, in the namespace of the test, as a user would.
func (w *world) apply(documents ...string) {
	w.Helper()
	for _, document := range documents {
		config := client.ApplyConfigurationFromUnstructured(w.object(document))
		require.NoError(w, w.Apply(w.Context(), config, client.FieldOwner("user")), document)
	}
}

// await waits until an object is as wanted; want says what is still missing.
func (w *world) await(deadline time.Duration, object client.Object, name string, want func() string) {
	w.Helper()
	lack := "it was not read yet"
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, deadline, true, func(ctx context.Context) (bool, error) {
		if err := w.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, object); err != nil {
			lack = err.Error()
			return false, nil
		}
		lack = want()
		return lack == "", nil
	})
	require.NoError(w, err, "%T %s: %s", object, name, lack)
}

// awaitCondition waits until a condition has a status and a reason, and its message holds the parts.
func (w *world) awaitCondition(deadline time.Duration, object engine.Object, name, conditionType string, status metav1.ConditionStatus, reason string, parts ...string) {
	w.Helper()
	w.await(deadline, object, name, func() string {
		condition := meta.FindStatusCondition(object.GetConditions(), conditionType)
		if condition == nil {
			return "condition " + conditionType + " is missing"
		}
		if condition.Status != status || condition.Reason != reason {
			return fmt.Sprintf("condition %s is %s/%s: %s", conditionType, condition.Status, condition.Reason, condition.Message)
		}
		for _, part := range parts {
			if !strings.Contains(condition.Message, part) {
				return fmt.Sprintf("message %q does not hold %q", condition.Message, part)
			}
		}
		return ""
	})
}

// awaitGone waits until an object no longer exists.
func (w *world) awaitGone(object client.Object, name string) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := w.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, object)
		return engine.Absent(err), nil
	})
	require.NoError(w, err, "%T %s still exists", object, name)
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
