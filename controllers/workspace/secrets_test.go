// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
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
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// takingSecrets gives a Workspace a value of each kind of reference to a Secret.
func takingSecrets() builder.Option {
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
	return builder.Workspace("demo-vpc", builder.UpdateFailed, append([]builder.Option{takingSecrets(), outputs}, options...)...)
}

func TestTheSecretsThatAnErrorMayQuote(t *testing.T) {
	w := newWorld(t, terraform.Scopes(), secretObjects()...)
	secrets := w.secrets(ctx, mustLive(t, failing()))
	assert.False(t, secrets.unknown)
	var values []string
	for _, value := range secrets.values {
		values = append(values, string(value))
	}
	slices.Sort(values)
	assert.Equal(t, []string{"a-file", "a-variable", "an-output"}, values, "public outputs and keys that are not taken are no secrets here")
}

func TestNoSecretIsReadForAWorkspaceWithoutAnError(t *testing.T) {
	w := newWorld(t, terraform.Scopes(), secretObjects()...)
	w.Uncached = interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("nothing should be read")
		},
	})
	told, complete := w.Tell(ctx, mustLive(t, builder.Workspace("demo-vpc", builder.AtRest, takingSecrets())))
	assert.Empty(t, told)
	assert.True(t, complete)
}

// The error is older than the change, and quotes what is not there any more.
func TestWithoutTheValueOfThatTimeNothingThatTerraformSaidIsTold(t *testing.T) {
	rotated := secretObjects()
	rotated[0].SetCreationTimestamp(metav1.NewTime(builder.Created.Add(time.Hour)))
	for name, objects := range map[string][]client.Object{
		"the Secret is gone": nil,
		"it was rotated":     rotated,
		"it has another key": {&corev1.Secret{ObjectMeta: secretObjects()[0].(*corev1.Secret).ObjectMeta}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, terraform.Scopes(), objects...)
			assert.True(t, w.secrets(ctx, mustLive(t, failing())).unknown)
		})
	}
}

func TestAConnectionSecretThatIsGoneHidesNothing(t *testing.T) {
	w := newWorld(t, terraform.Scopes(), secretObjects()[0])
	assert.False(t, w.secrets(ctx, mustLive(t, failing())).unknown, "an output that is nowhere is no input of Terraform")
}

func TestWithoutARightToReadSecretsNothingThatTerraformSaidIsTold(t *testing.T) {
	w := newWorld(t, terraform.Scopes(), secretObjects()...)
	w.Uncached = interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "inputs", nil)
		},
	})
	live := mustLive(t, failing())
	told, complete := w.Tell(ctx, live)
	require.False(t, complete)

	got := Observe(live, Circumstances{Told: told})
	assert.True(t, got.Failed)
	assert.NotContains(t, got.Message, "ThrottlingException")
	assert.Contains(t, got.Message, "see condition Synced of the Workspace")
}
