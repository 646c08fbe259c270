// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// leftBehind is a Workspace that an earlier WorkspaceTemplateApply of the same name left behind, on purpose.
func leftBehind(options ...builder.Option) *unstructured.Unstructured {
	key := types.NamespacedName{Namespace: builder.Namespace, Name: "demo-vpc"}
	return builder.Workspace("demo-vpc", builder.AtRest, append([]builder.Option{
		builder.WithAnnotation(naming.ClaimAnnotation, naming.Claim(key)),
		builder.WithAnnotation(render.ExternalNameAnnotation, naming.ExternalName(key)),
		builder.WithCreation(builder.Created.Add(-90 * 24 * time.Hour)),
	}, options...)...)
}

// lagging is a client whose cache has not got the Workspaces yet.
type lagging struct{ client.WithWatch }

func (l lagging) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	if u, ok := object.(*unstructured.Unstructured); ok && u.GetKind() == terraform.WorkspaceKind {
		key.Name = "not-there-yet"
	}
	return l.WithWatch.Get(ctx, key, object, opts...)
}

// Creating finds what the cache did not show, after the object was prepared. What is noted then must not make it ours.
func TestCreateDoesNotTakeOverARetainedWorkspace(t *testing.T) {
	for name, row := range map[string]struct {
		left *unstructured.Unstructured
		lags bool
	}{
		"in the other scope": {left: leftBehind(builder.InClusterScope())},
		"the cache lags":     {left: leftBehind(), lags: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"), row.left)
			if row.lags {
				w.reconciler.Workspaces.Client = lagging{w.API}
			}
			for range 3 {
				_, err := w.reconcile("demo-vpc")
				require.NoError(t, err)
				assert.Nil(t, w.get("demo-vpc").Status.WorkspaceRef, "it is not this object's")
			}
			w.remove(w.get("demo-vpc"))
			_, err := w.reconcile("demo-vpc")
			require.NoError(t, err)
			assert.NotContains(t, w.Writes, "delete Workspace", "what was retained would be destroyed")
		})
	}
}

// Restored from a backup, or moved, without status and without its Workspace: all that is left is where its state was.
func TestAnObjectWithAnotherRecordedStateCreatesNoWorkspace(t *testing.T) {
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("demo-vpc"),
		builder.WithAnnotation(naming.ExternalNameAnnotation, "state-of-the-older-capt")))
	w.mustReconcile("demo-vpc")
	assert.Nil(t, w.workspace("demo-vpc"))
	assert.Equal(t, "state-of-the-older-capt", w.get("demo-vpc").Annotations[naming.ExternalNameAnnotation])
	assert.Contains(t, w.ready("demo-vpc"), "False WorkspaceConflict: Workspace demo-vpc does not exist, and this object had one with Terraform state state-of-the-older-capt")

	w.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) { a.Annotations = nil })
	w.mustReconcile("demo-vpc")
	assert.NotNil(t, w.workspace("demo-vpc"), "the user has decided")
}

// A fleet: the template is edited, and this one is queued. The Workspace was last changed months ago.
func TestAWaitingUpdateHasNotStarted(t *testing.T) {
	for name, wait := range map[string]func(w *world){
		"queued by the rate limit": func(w *world) { w.reconciler.RateLimiter.Reserve(client.ObjectKey{Name: "first-of-the-fleet"}, now) },
		"for a Secret": func(w *world) {
			w.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) {
				a.Spec.WaitForSecrets = []infrav1.SecretDependency{{Name: "gone"}}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := atRest(t)
			wait(w)
			w.template(builder.WithModule("# new"))
			_, err := w.reconcile("demo-vpc")
			require.NoError(t, err)
			assert.NotContains(t, w.ready("demo-vpc"), "True")
			assert.Nil(t, w.get("demo-vpc").Status.StartedTime)
		})
	}
}

// The template is gone, and Terraform fails for a moment on what it applied months ago.
func TestAnErrorWithoutATemplateStartsNow(t *testing.T) {
	w := atRest(t)
	w.remove(builder.WorkspaceTemplate("vpc"))
	w.provide("demo-vpc", builder.PlanFailed)
	_, err := w.reconcile("demo-vpc")
	require.NoError(t, err)
	require.NotNil(t, w.get("demo-vpc").Status.StartedTime)
	assert.Equal(t, now.Unix(), w.get("demo-vpc").Status.StartedTime.Unix())
}

// Each of a fleet looks at those that may have its Workspace, and not at the fleet.
func TestSafety24OlderClaimReadsOneNamespace(t *testing.T) {
	objects := []client.Object{builder.WorkspaceTemplate("vpc")}
	for i := range 1000 {
		objects = append(objects, builder.WorkspaceTemplateApply("demo-vpc", builder.WithNamespace(fmt.Sprintf("team-%d", i)),
			builder.WithUID(types.UID(fmt.Sprint(i))), builder.WithWorkspaceName("demo-vpc")))
	}
	w := newWorld(t, objects...)
	read := 0
	w.reconciler.Client = interceptor.NewClient(w.API, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			read += meta.LenList(list)
			return err
		},
	})
	apply := objects[500].(*infrav1.WorkspaceTemplateApply)
	f := &Facts{Name: "demo-vpc", Template: builder.WorkspaceTemplate("vpc")}
	claim, err := w.reconciler.olderClaim(t.Context(), apply, f)
	require.NoError(t, err)
	assert.Empty(t, claim)
	assert.Equal(t, 1, read, "itself")

	f.Template = builder.WorkspaceTemplate("vpc", builder.WithScope(terraform.ScopeCluster))
	claim, err = w.reconciler.olderClaim(t.Context(), apply, f)
	require.NoError(t, err)
	assert.NotEmpty(t, claim, "a cluster-wide Workspace can be claimed from every namespace")
}
