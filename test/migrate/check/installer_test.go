// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/test/sandbox"
)

// marked patches metadata of a definition until the test ends.
func marked(t *testing.T, definition, set, unset string) {
	t.Helper()
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: definition}}
	object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	patch := func(ctx context.Context, body string) error {
		return admin.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":`+body+`}`)))
	}
	require.NoError(t, patch(t.Context(), set))
	t.Cleanup(func() { require.NoError(t, patch(context.Background(), unset)) })
}

func TestSafety07InstallersOfDefinitionsAreFound(t *testing.T) {
	const group = ".infrastructure.cluster.x-k8s.io"
	for name, row := range map[string]struct {
		installed, keep, forget string
		by                      string
		after                   check.Status
	}{
		"Helm": {
			`{"labels":{"app.kubernetes.io/managed-by":"Helm"},"annotations":{"meta.helm.sh/release-name":"capt","meta.helm.sh/release-namespace":"capt-system"}}`,
			`{"annotations":{"helm.sh/resource-policy":"keep"}}`,
			`{"labels":{"app.kubernetes.io/managed-by":null},"annotations":{"meta.helm.sh/release-name":null,"meta.helm.sh/release-namespace":null,"helm.sh/resource-policy":null}}`,
			"Helm release capt-system/capt",
			check.Warning, // Helm does not read the live object.
		},
		"Flux": {
			`{"labels":{"kustomize.toolkit.fluxcd.io/name":"capt","kustomize.toolkit.fluxcd.io/namespace":"flux-system"}}`,
			`{"annotations":{"kustomize.toolkit.fluxcd.io/prune":"disabled"}}`,
			`{"labels":{"kustomize.toolkit.fluxcd.io/name":null,"kustomize.toolkit.fluxcd.io/namespace":null},"annotations":{"kustomize.toolkit.fluxcd.io/prune":null}}`,
			"Flux Kustomization flux-system/capt",
			check.OK,
		},
		"Argo CD": {
			`{"annotations":{"argocd.argoproj.io/tracking-id":"capt:apiextensions.k8s.io/CustomResourceDefinition:x/y"}}`,
			`{"annotations":{"argocd.argoproj.io/sync-options":"Prune=false,Delete=false"}}`,
			`{"annotations":{"argocd.argoproj.io/tracking-id":null,"argocd.argoproj.io/sync-options":null}}`,
			"Argo CD Application capt",
			check.OK,
		},
		"Argo CD by its default label": {
			`{"labels":{"app.kubernetes.io/instance":"capt"}}`,
			`{"annotations":{"argocd.argoproj.io/sync-options":"Prune=false,Delete=false"}}`,
			`{"labels":{"app.kubernetes.io/instance":null},"annotations":{"argocd.argoproj.io/sync-options":null}}`,
			"Argo CD or Helm, as capt",
			check.OK,
		},
	} {
		t.Run(name, func(t *testing.T) {
			marked(t, "captclusters"+group, row.installed, row.forget)
			found := look(t, check.CheckInstallers)
			assert.Equal(t, check.Warning, found.Status)
			assert.Equal(t, []string{"CustomResourceDefinition captclusters" + group + ": " + row.by}, found.Objects)
			assert.Contains(t, found.Message, "never with helm uninstall")
			marked(t, "captclusters"+group, row.keep, `{}`)
			assert.Equal(t, row.after, look(t, check.CheckInstallers).Status, "the tool keeps it")
		})
	}

	older := deployment(sandbox.ManagerNamespace, "appthrust-capt-controller-manager-infrastructure", "example.com/controller:v0.3.0", 0)
	older.Labels = map[string]string{"helm.toolkit.fluxcd.io/name": "capt", "helm.toolkit.fluxcd.io/namespace": "flux-system"}
	create(t, "helm-controller", older)
	found := look(t, check.CheckInstallers)
	assert.Equal(t, []string{"Deployment capt-system/appthrust-capt-controller-manager-infrastructure: Flux HelmRelease flux-system/capt"}, found.Objects)
}
