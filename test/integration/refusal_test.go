// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// refusal is a document that the API server refuses.
type refusal struct {
	name string
	// given is what is there before. An object of the same name makes the document a change of it.
	given []string
	// document is refused.
	document string
	// field is what the answer points at, and says a part of what it says about it.
	field, says string
}

// refuse shows that documents are refused, each in a namespace of its own.
func refuse(t *testing.T, refusals []refusal) {
	t.Helper()
	for _, row := range refusals {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(row.given...)
			w.refuses(row.document, row.field, row.says)
		})
	}
}

// refuses waits until a document is refused: webhooks see what was there before a moment later than the API server.
func (w *world) refuses(document, field, says string) {
	w.Helper()
	object := w.object(document)
	answer := "it is admitted"
	err := wait.PollUntilContextTimeout(w.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := w.dryRun(ctx, object)
		if err == nil {
			return false, nil
		}
		answer = err.Error()
		return refusedFor(err, field, says), nil
	})
	require.NoError(w, err, "want %s: %s\ngot %s", field, says, answer)
}

// object reads a document, into the namespace of the test.
func (w *world) object(document string) *unstructured.Unstructured {
	w.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(w, yaml.Unmarshal([]byte(document), object), document)
	clusterWide := object.GetKind() == "ClusterProviderConfig" || object.GetKind() == "Namespace"
	if !clusterWide && object.GetNamespace() == "" {
		object.SetNamespace(w.namespace)
	}
	return object
}

// dryRun creates an object, or applies it when it exists, without doing it.
func (w *world) dryRun(ctx context.Context, object *unstructured.Unstructured) error {
	err := w.Create(ctx, object.DeepCopy(), client.DryRunAll)
	if apierrors.IsAlreadyExists(err) {
		config := client.ApplyConfigurationFromUnstructured(object.DeepCopy())
		return w.Apply(ctx, config, client.FieldOwner("user"), client.ForceOwnership, client.DryRunAll)
	}
	return err
}

// refusedFor reports whether an answer is a refusal of the object, as the API server itself refuses, that names a field and
// says something about it.
func refusedFor(err error, field, says string) bool {
	var status *apierrors.StatusError
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.ErrStatus.Details == nil {
		return false
	}
	for _, cause := range status.ErrStatus.Details.Causes {
		if cause.Field == field && strings.Contains(cause.Message, says) {
			return true
		}
	}
	return false
}

// document of any kind of CAPT's, in v1beta2.
func document(kind, name, spec string) string {
	return versioned("v1beta2", kind, name, spec)
}

// legacyDocument is one in v1beta1.
func legacyDocument(kind, name, spec string) string {
	return versioned("v1beta1", kind, name, spec)
}

func versioned(version, kind, name, spec string) string {
	group := "infrastructure"
	if strings.HasPrefix(kind, "CAPTControlPlane") {
		group = "controlplane"
	}
	return fmt.Sprintf("apiVersion: %s.cluster.x-k8s.io/%s\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", group, version, kind, name, spec)
}
