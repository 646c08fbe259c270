// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/fargate"
	"github.com/capt-provider/capt/controllers/kubeconfigsecret"
	"github.com/capt-provider/capt/test/builder"
)

// world is a reconciler with an API server, and what was written to it.
type world struct {
	*testing.T
	*Reconciler
	clock *builder.Clock
	// again is after how long the last reconcile wanted another one.
	again time.Duration
	// writes in their order; fail is asked before each.
	writes []string
	fail   func(write string) error
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	w := &world{T: t, clock: builder.NewClock()}
	write := func(what string) error {
		w.writes = append(w.writes, what)
		if w.fail != nil {
			return w.fail(what)
		}
		return nil
	}
	c := fake.NewClientBuilder().WithScheme(builder.Scheme()).WithObjects(objects...).WithStatusSubresource(&controlplanev1.CAPTControlPlane{}).
		WithIndex(&infrav1.WorkspaceTemplateApply{}, kubeconfigsecret.EKSIndex, kubeconfigsecret.IndexEKS).
		WithIndex(&infrav1.WorkspaceTemplateApply{}, fargate.ControllerIndex, fargate.IndexController).
		WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			selector := (&client.ListOptions{}).ApplyOptions(opts).FieldSelector
			if w.Tokens == nil && selector != nil && strings.Contains(selector.String(), kubeconfigsecret.EKSIndex) {
				return errors.New("a manager that makes no tokens has no index " + kubeconfigsecret.EKSIndex)
			}
			return c.List(ctx, list, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			named, _ := obj.(interface{ GetName() string })
			if err := write("apply " + named.GetName()); err != nil {
				return err
			}
			return c.Apply(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := write("patch"); err != nil {
				return err
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := write(sub); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	w.Reconciler = &Reconciler{
		Engine: engine.Engine{Client: c, Recorder: events.NewFakeRecorder(16), State: &engine.StateCache{Clock: w.clock}}, Uncached: c,
	}
	return w
}

func (w *world) reconcile() error {
	w.writes = nil
	result, err := w.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: "demo"}})
	w.again = result.RequeueAfter
	return err
}

func read[O client.Object](w *world, name string, object O) O {
	w.Helper()
	found, err := engine.Get(context.Background(), w.Client, client.ObjectKey{Namespace: builder.Namespace, Name: name}, object)
	require.NoError(w, err)
	return found
}

func (w *world) get() *controlplanev1.CAPTControlPlane {
	return read(w, "demo", &controlplanev1.CAPTControlPlane{})
}

// terraformMade does what the controller of WorkspaceTemplateApplies and Terraform do.
func (w *world) terraformMade() {
	w.Helper()
	apply := read(w, applyName, &infrav1.WorkspaceTemplateApply{})
	builder.UpToDate(outputs())(apply)
	builder.WithCreation(builder.Created)(apply) // As the API server does; the fake client does not.
	require.NoError(w, w.Client.Update(context.Background(), apply))
	require.NoError(w, w.Client.Create(context.Background(), connection(map[string]string{"cluster_certificate_authority_data": builder.CA()})))
}

func prepared() []client.Object {
	return []client.Object{
		builder.Cluster("demo", builder.WithInfrastructureProvisioned()), vpc(),
		builder.CAPTControlPlane("demo", builder.OwnedBy(builder.Cluster("demo"))),
	}
}

func TestTheLifeOfAControlPlane(t *testing.T) {
	w := newWorld(t, prepared()...)
	require.NoError(t, w.reconcile())
	assert.Equal(t, []string{"patch", "apply " + applyName, "status"}, w.writes, "the reference is written down first")
	assert.Equal(t, applyName, w.get().Spec.WorkspaceTemplateApplyRef.Name)
	assert.Equal(t, []string{controlplanev1.CAPTControlPlaneFinalizer}, w.get().Finalizers)
	assert.Equal(t, controlplanev1.StateProvisioning, w.get().Status.State)

	w.terraformMade()
	require.NoError(t, w.reconcile())
	require.Len(t, w.writes, 4)
	assert.ElementsMatch(t, []string{"apply demo-kubeconfig", "apply demo-user-kubeconfig"}, w.writes[:2], "the kubeconfigs come before the endpoint")
	assert.Equal(t, []string{"patch", "status"}, w.writes[2:])
	assert.Equal(t, clusterv1.APIEndpoint{Host: host, Port: 443}, w.get().Spec.ControlPlaneEndpoint)
	assert.Equal(t, controlplanev1.StateReady, w.get().Status.State)
	assert.NotNil(t, read(w, "demo-kubeconfig", &corev1.Secret{}))

	for range 3 {
		require.NoError(t, w.reconcile())
		assert.Empty(t, w.writes, "at rest nothing is written")
	}
}

func TestACrashAfterTheReferenceCreatesNoSecondApply(t *testing.T) {
	w := newWorld(t, prepared()...)
	w.fail = func(write string) error {
		if strings.HasPrefix(write, "apply") {
			return errors.New("killed")
		}
		return nil
	}
	require.Error(t, w.reconcile())
	w.fail = nil
	require.NoError(t, w.reconcile())
	var list infrav1.WorkspaceTemplateApplyList
	require.NoError(t, w.Client.List(context.Background(), &list))
	assert.Len(t, list.Items, 1)
}

// An empty reference next to a WorkspaceTemplateApply must not make a second EKS cluster.
func TestDefect05NoSecondClusterIsCreatedNextToACandidate(t *testing.T) {
	w := newWorld(t, append(prepared(), builder.WorkspaceTemplateApply("by-hand", builder.OwnedBy(builder.CAPTControlPlane("demo")), ofTemplate("eks")))...)
	require.NoError(t, w.reconcile())
	assert.Equal(t, []string{"status"}, w.writes)
	assert.Equal(t, "True AdoptionRequired", builder.Story(w.get().Status.Conditions)["AdoptionRequired"])
}

func TestAKnownEndpointIsNotOverwritten(t *testing.T) {
	objects := prepared()
	builder.WithEndpoint("of-before.example.com", 443)(objects[2])
	builder.WithApplyRef(applyName)(objects[2])
	w := newWorld(t, objects...)
	require.NoError(t, w.reconcile())
	w.terraformMade()
	require.NoError(t, w.reconcile())
	assert.Equal(t, "of-before.example.com", w.get().Spec.ControlPlaneEndpoint.Host)
	assert.Equal(t, "False EndpointChanged", builder.Story(w.get().Status.Conditions)["EndpointAvailable"])
}

// One that was adopted, or restored from a backup, is ready before anything is provisioned.
func TestAReadyControlPlaneGetsItsFinalizer(t *testing.T) {
	w := newWorld(t, prepared()...)
	require.NoError(t, w.reconcile())
	w.terraformMade()
	controlPlane := w.get()
	controlPlane.Finalizers = nil
	require.NoError(t, w.Client.Update(context.Background(), controlPlane))
	require.NoError(t, w.reconcile())
	assert.Equal(t, []string{controlplanev1.CAPTControlPlaneFinalizer}, w.get().Finalizers)
}

func TestAControlPlaneWithoutACluster(t *testing.T) {
	w := newWorld(t,
		builder.CAPTControlPlane("demo", builder.WithApplyRef(applyName)),
		builder.WorkspaceTemplateApply(applyName, builder.UpToDate(outputs())))
	require.NoError(t, w.reconcile())
	assert.Equal(t, controlplanev1.StatePending, w.get().Status.State)
	assert.Equal(t, "False WaitingForOwner", builder.Story(w.get().Status.Conditions)["Ready"])
}

func TestDeletion(t *testing.T) {
	w := newWorld(t, prepared()...)
	require.NoError(t, w.reconcile())
	held := read(w, applyName, &infrav1.WorkspaceTemplateApply{})
	builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer)(held)
	require.NoError(t, w.Client.Update(context.Background(), held))
	require.NoError(t, w.Client.Delete(context.Background(), w.get()))

	require.NoError(t, w.reconcile())
	held = read(w, applyName, &infrav1.WorkspaceTemplateApply{})
	require.False(t, held.DeletionTimestamp.IsZero(), "the WorkspaceTemplateApply goes first")
	require.NoError(t, w.reconcile())
	assert.Equal(t, "True WaitingForWorkspaceTemplateApplyDeletion", builder.Story(w.get().Status.Conditions)["Deleting"])

	held.Finalizers = nil
	require.NoError(t, w.Client.Update(context.Background(), held))
	require.NoError(t, w.reconcile())
	assert.Nil(t, w.get())
}

func TestSecretKeys(t *testing.T) {
	assert.Equal(t, []string{"default/demo-eks-connection"}, secretKeys(builder.CAPTControlPlane("demo")))
	assert.Equal(t,
		[]string{"default/demo-eks-connection", "default/c-kubeconfig", "default/c-user-kubeconfig"},
		secretKeys(builder.CAPTControlPlane("demo", builder.WithLabel(clusterv1.ClusterNameLabel, "c"))))
}
