// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/builder"
)

// An API server that throttles or restarts while a unit is written must not leave the unit paused.
func TestReadObjectsTriesAgain(t *testing.T) {
	template := builder.WorkspaceTemplate("vpc", builder.WithNamespace("team-a"))
	failed := map[string]bool{}
	reader := interceptor.NewClient(fake.NewClientBuilder().WithScheme(builder.Scheme()).WithObjects(template, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if !failed[key.Name] {
				failed[key.Name] = true
				return apierrors.NewTooManyRequests("busy", 0)
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	got, err := migrate.ReadObjects(t.Context(), reader, []migrate.ObjectRef{migrate.Ref("WorkspaceTemplate", template)}, time.Now())
	require.NoError(t, err)
	assert.Len(t, got.Templates, 1)
	assert.Len(t, got.Namespaces, 1)
	assert.Equal(t, map[string]bool{"vpc": true, "team-a": true}, failed)
}

// A preview has the state of another Workspace. It must not be taken for one that a unit may adopt.
func TestPreviewsAreNotPartOfASnapshot(t *testing.T) {
	workspace, preview := builder.Workspace("vpc", builder.AtRest), builder.Workspace("vpc-preview", builder.AtRest, builder.WithLabel(naming.PreviewLabel, "true"))
	reader := fake.NewClientBuilder().WithScheme(builder.Scheme()).WithObjects(workspace, preview).Build()
	got, err := migrate.ReadObjects(t.Context(), reader, []migrate.ObjectRef{migrate.RefOf(workspace), migrate.RefOf(preview)}, time.Now())
	require.NoError(t, err)
	require.Len(t, got.Workspaces, 1)
	assert.Equal(t, "vpc", got.Workspaces[0].GetName())
}
