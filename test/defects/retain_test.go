// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package defects_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// A VPC marked "retain" was destroyed by garbage collection, since its WorkspaceTemplateApply did not know of the mark.
func TestDefect01RetainedVPCSurvivesGarbageCollection(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name   string
		remove func(w *fixture.World)
		// whole reports whether the whole Cluster is deleted, and not the CAPTCluster alone.
		whole bool
	}{
		{"Background", func(w *fixture.World) {
			w.Remove(&clusterv1.Cluster{}, fixture.Demo, client.PropagationPolicy(metav1.DeletePropagationBackground))
		}, true},
		{"Foreground", func(w *fixture.World) {
			w.Remove(&clusterv1.Cluster{}, fixture.Demo, client.PropagationPolicy(metav1.DeletePropagationForeground))
		}, true},
		// Another client removes the finalizer: the garbage collector alone deletes the WorkspaceTemplateApply.
		{"Forced", func(w *fixture.World) {
			w.Remove(&infrav1.CAPTCluster{}, fixture.Demo)
			w.Edit(&infrav1.CAPTCluster{}, fixture.Demo, `{"metadata":{"finalizers":null}}`)
		}, false},
	} {
		t.Run(way.name, func(t *testing.T) {
			inEitherScope(t, func(w *fixture.World) {
				w.User(append(w.Templates(), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo, "deletionPolicy: Retain"))...)
				if way.whole {
					w.User(fixture.CAPTControlPlane(fixture.Demo))
					w.AwaitState(controlplanev1.StateReady, "")
				}
				w.AwaitVPC()
				before := w.Workspace(fixture.VPC)

				way.remove(w)
				w.AwaitGone(&infrav1.CAPTCluster{}, fixture.Demo)
				w.AwaitGone(&infrav1.WorkspaceTemplateApply{}, fixture.VPC)
				if way.whole {
					w.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
					require.Nil(w, w.Workspace(fixture.ControlPlane), "only the VPC is to be kept")
				}
				after := w.Workspace(fixture.VPC)
				require.NotNil(w, after)
				require.Equal(w, before.GetUID(), after.GetUID())
				require.Equal(w, before.GetResourceVersion(), after.GetResourceVersion(), "nothing was written to it")
				require.Empty(w, w.Operations(fixture.VPC, scripted.Destroy))
				require.Len(w, w.Cloud(), 1)
			})
		})
	}
}
