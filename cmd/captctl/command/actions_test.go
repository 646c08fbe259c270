// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"net/url"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

func TestAPauseOfAClusterThatIsBeingDeletedSaysWhatItMeans(t *testing.T) {
	env := aFleet()
	cluster := env.objects[0]
	cluster.SetFinalizers([]string{clusterv1.ClusterFinalizer})
	cluster.SetDeletionTimestamp(ptr.To(before(1)))
	out, _, err := env.run(t, "pause", "team-a/good")
	require.NoError(t, err)
	assert.Equal(t, "Cluster team-a/good: is paused, so its deletion does not continue before captctl resume\n", out)
}

func TestErrorsOfTheAPIServerSayWhatToDo(t *testing.T) {
	kind := clusterv1.GroupVersion.WithKind("Cluster")
	for want, response := range map[string]error{
		"CAPT is not installed in the management cluster, or is older than captctl: no matches": &meta.NoKindMatchError{GroupKind: kind.GroupKind()},
		"captctl migrate check shows what is missing":                                           &apiutil.ErrResourceDiscoveryFailed{kind.GroupVersion(): errors.New("no matches")},
		"log in again, or choose others with --context or --user":                               apierrors.NewUnauthorized("no"),
		"to read one namespace, set --namespace": apierrors.NewForbidden(schema.GroupResource{Group: kind.Group, Resource: "clusters"}, "",
			errors.New(`User "jane" cannot list resource "clusters" in API group "cluster.x-k8s.io" at the cluster scope`)),
		"CAPT's installation has the ClusterRoles capt-tenant": apierrors.NewForbidden(schema.GroupResource{Group: infrav1.GroupVersion.Group, Resource: "captclusters"}, "", nil),
		"ask for a role that grants this":                      apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", nil),
		"check that the API server runs, and --context":        &url.Error{Op: "Get", URL: "https://example.com", Err: os.ErrDeadlineExceeded},
	} {
		env := aFleet()
		env.funcs.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return response
		}
		_, _, err := env.run(t, "get")
		assert.ErrorContains(t, err, want)
	}
}

func TestPauseResumeAndRetry(t *testing.T) {
	env := aFleet()
	env.clock = testclock.NewFakeClock(fleetNow)
	cluster, controlPlane := &clusterv1.Cluster{}, &controlplanev1.CAPTControlPlane{}
	key := client.ObjectKey{Namespace: "team-a", Name: "broken"}
	for _, row := range []struct {
		command, want string
		paused        bool
	}{
		{"resume", "is not paused", false},
		{"pause", "is paused", true},
		{"pause", "is already paused", true},
		{"resume", "is resumed", false},
		{"retry", "CAPTControlPlane broken: timeouts and recovery attempts start again", false},
	} {
		out, _, err := env.run(t, row.command, "team-a/broken")
		require.NoError(t, err)
		assert.Equal(t, "Cluster team-a/broken: "+row.want+"\n", out)
		require.NoError(t, env.connected.Get(t.Context(), key, cluster))
		assert.Equal(t, row.paused, ptr.Deref(cluster.Spec.Paused, false), row.command)
	}
	require.NoError(t, env.connected.Get(t.Context(), key, controlPlane))
	assert.Equal(t, map[string]string{naming.RetryAnnotation: "2026-10-22T10:00:00Z"}, controlPlane.Annotations)

	controlPlane.Annotations[clusterv1.PausedAnnotation] = ""
	require.NoError(t, env.connected.Update(t.Context(), controlPlane))
	out, _, err := env.run(t, "resume", "team-a/broken")
	require.NoError(t, err)
	assert.Contains(t, out, "is not paused, but these objects are, by their annotation cluster.x-k8s.io/paused: CAPTControlPlane broken")

	require.NoError(t, env.connected.Delete(t.Context(), controlPlane))
	_, _, err = env.run(t, "retry", "team-a/broken")
	assert.EqualError(t, err, "the Cluster broken has no CAPTControlPlane, so there is nothing to retry")
}

func TestReconcileAnnotatesTheObjectsOfTheCluster(t *testing.T) {
	env := aFleet()
	out, _, err := env.run(t, "reconcile", "team-a/good")
	require.NoError(t, err)
	assert.Equal(t, "Cluster team-a/good: CAPT reconciles 3 objects\n", out)
	for _, object := range capt("good", "", func(*controlplanev1.CAPTControlPlane, *infrav1.WorkspaceTemplateApply) {})[1:] {
		require.NoError(t, env.connected.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		assert.Equal(t, map[string]string{naming.ReconcileAnnotation: "2026-10-22T10:00:00Z"}, object.GetAnnotations())
	}
	_, _, err = env.run(t, "pause", "team-a/good")
	require.NoError(t, err)
	out, _, err = env.run(t, "reconcile", "team-a/good")
	require.NoError(t, err)
	assert.Contains(t, out, "except those that are paused")
}
