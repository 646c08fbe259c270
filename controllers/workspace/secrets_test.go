// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// withSecrets adds each kind of reference to a Secret.
func withSecrets() builder.Option {
	return builder.With(func(workspace *unstructured.Unstructured) {
		ref := func(key string) map[string]any { return map[string]any{"name": "inputs", "key": key} }
		workspace.Object["spec"] = map[string]any{
			"forProvider": map[string]any{
				"varFiles": []any{
					map[string]any{"source": "SecretKey", "secretKeyRef": ref("tfvars")},
					map[string]any{"source": "ConfigMapKey", "configMapKeyRef": ref("tfvars")},
				},
				"env": []any{map[string]any{"name": "A", "secretKeyRef": ref("env")}, map[string]any{"name": "B", "value": "plain"}},
			},
			"writeConnectionSecretToRef": map[string]any{"name": "outputs"},
		}
	})
}

func secretObjects() []client.Object {
	secret := func(name string, data map[string][]byte) client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: name}, Data: data}
	}
	return []client.Object{
		secret("inputs", map[string][]byte{"tfvars": []byte("a-file"), "env": []byte("a-variable"), "other": []byte("not taken")}),
		secret("outputs", map[string][]byte{"kubeconfig": []byte("an-output"), "vpc_id": []byte("vpc-1")}),
	}
}

func failing(options ...builder.Option) *unstructured.Unstructured {
	outputs := builder.WithOutputs(map[string]any{"vpc_id": "vpc-1"})
	return builder.Workspace("demo-vpc", builder.UpdateFailed, append([]builder.Option{withSecrets(), outputs}, options...)...)
}

func TestSecretsOfAWorkspace(t *testing.T) {
	w := newWorld(t, terraform.Scopes(), secretObjects()...)
	secrets := w.secrets(ctx, mustLive(t, failing()))
	assert.False(t, secrets.Incomplete)
	var values []string
	for _, value := range secrets.Values {
		values = append(values, string(value))
	}
	slices.Sort(values)
	assert.Equal(t, []string{"a-file", "a-variable", "an-output"}, values, "without public outputs and unused keys")
}

func TestSecretsAreReadOnlyAfterAnError(t *testing.T) {
	w := newWorld(t, terraform.Scopes(), secretObjects()...)
	w.Uncached = builder.FailingGet[client.Object](w.api, errors.New("nothing should be read"))
	report, complete := w.Explain(ctx, mustLive(t, builder.Workspace("demo-vpc", builder.AtRest, withSecrets())))
	assert.Empty(t, report)
	assert.True(t, complete)
}

// The error is older than the change, and may quote the earlier value.
func TestAChangedSecretOmitsTheErrorText(t *testing.T) {
	rotated := secretObjects()
	rotated[0].SetCreationTimestamp(metav1.NewTime(builder.Created.Add(time.Hour)))
	for name, objects := range map[string][]client.Object{
		"deleted":             nil,
		"rotated":             rotated,
		"key missing":         {&corev1.Secret{ObjectMeta: secretObjects()[0].(*corev1.Secret).ObjectMeta}},
		"only of the outputs": {secretObjects()[0]}, // They are not inputs.
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, terraform.Scopes(), objects...)
			assert.Equal(t, name != "only of the outputs", w.secrets(ctx, mustLive(t, failing())).Incomplete)
		})
	}
}

func TestForbiddenSecretsOmitTheErrorText(t *testing.T) {
	w := newWorld(t, terraform.Scopes(), secretObjects()...)
	w.Uncached = builder.FailingGet[client.Object](w.api, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "inputs", nil))
	live := mustLive(t, failing())
	report, complete := w.Explain(ctx, live)
	require.False(t, complete)

	got := Observe(live, ObserveInput{Failure: report})
	assert.True(t, got.Failed)
	assert.NotContains(t, got.Message, "ThrottlingException")
	assert.Contains(t, got.Message, "details omitted: they may contain credentials")
}
