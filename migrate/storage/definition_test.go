/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package storage

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/migrate"
)

func TestTrimmingGoesOnAfterALostAnswerAndAConflict(t *testing.T) {
	kind := migrate.Kinds()[0]
	definition := &apiextensionsv1.CustomResourceDefinition{}
	definition.Name = kind.Definition()
	definition.Spec.Names.Kind = kind.Kind
	definition.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: kind.Version, Served: true, Storage: true}}
	definition.Status.StoredVersions = []string{migrate.LegacyVersion, kind.Version}
	definition.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	scheme := runtime.NewScheme()
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	sent := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(definition).WithStatusSubresource(definition).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if sent++; sent == 1 {
				return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), nil)
			}
			if err := c.SubResource(name).Patch(ctx, object, patch, options...); err != nil {
				return err
			}
			return io.ErrUnexpectedEOF
		},
	}).Build()
	require.NoError(t, trim(t.Context(), c, kind))
	require.Equal(t, 2, sent, "it has seen that the second one arrived")
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(definition), definition))
	require.Equal(t, []string{kind.Version}, definition.Status.StoredVersions)
}
