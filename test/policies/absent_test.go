// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// The policies are there, and neither CAPT's kinds nor those of provider-terraform: between an uninstallation and the next
// installation, for example.
func TestPoliciesDoNoHarmWhereTheKindsAreMissing(t *testing.T) {
	t.Parallel()
	s := fixture.Start(t, sandbox.Options{NoCRDs: true})
	scheme := controllers.Scheme()
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	api, err := client.New(s.Config(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	policies, err := manifests.Load("../../config/policy")
	require.NoError(t, err)
	require.NoError(t, manifests.Apply(t.Context(), api, policies...))

	// The policy for definitions needs no kind of CAPT. When it holds, the API server has seen the others as well.
	definition := olderDefinition("CaptMachine", "captmachines", "infrastructure.cluster.x-k8s.io")
	require.NoError(t, api.Create(t.Context(), definition))
	refused(t, func(ctx context.Context) error { return api.Delete(ctx, definition, client.DryRunAll) })

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}
	require.NoError(t, api.Create(t.Context(), namespace))
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	require.NoError(t, api.Delete(ctx, namespace), "it must not hang")

	// The commands of captctl migrate check annotate this definition before they delete it.
	older := olderDefinition("CaptControlPlaneTemplate", "captcontrolplanetemplates", "controlplane.cluster.x-k8s.io")
	require.NoError(t, api.Create(t.Context(), older))
	require.True(t, apierrors.IsForbidden(api.Delete(t.Context(), older.DeepCopy(), client.DryRunAll)))
	allow := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"capt.cluster.x-k8s.io/allow-delete":"true"}}}`))
	require.NoError(t, api.Patch(t.Context(), older, allow))
	require.NoError(t, api.Delete(t.Context(), older, client.DryRunAll))
}
