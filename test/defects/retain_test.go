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
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/stage"
)

// A VPC marked "retain" was destroyed by garbage collection, since its WorkspaceTemplateApply did not know of the mark.
func TestDefect01RetainedVPCSurvivesGarbageCollection(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name   string
		remove func(w *stage.World)
		// whole tells that the whole Cluster goes, and not the CAPTCluster alone.
		whole bool
	}{
		{"Background", func(w *stage.World) {
			w.Remove(&clusterv1.Cluster{}, stage.Demo, client.PropagationPolicy(metav1.DeletePropagationBackground))
		}, true},
		{"Foreground", func(w *stage.World) {
			w.Remove(&clusterv1.Cluster{}, stage.Demo, client.PropagationPolicy(metav1.DeletePropagationForeground))
		}, true},
		// Somebody takes the finalizer away: the garbage collector alone deletes the WorkspaceTemplateApply.
		{"Forced", func(w *stage.World) {
			w.Remove(&infrav1.CAPTCluster{}, stage.Demo)
			w.Edit(&infrav1.CAPTCluster{}, stage.Demo, `{"metadata":{"finalizers":null}}`)
		}, false},
	} {
		t.Run(way.name, func(t *testing.T) {
			inBothScopes(t, func(w *stage.World) {
				w.User(append(w.Templates(), stage.Cluster(), stage.CAPTCluster(stage.Demo, "deletionPolicy: Retain"))...)
				if way.whole {
					w.User(stage.CAPTControlPlane(stage.Demo))
					w.AwaitState(controlplanev1.StateReady, "")
				}
				w.AwaitVPC()
				before := w.Workspace(stage.VPC)

				way.remove(w)
				w.AwaitGone(&infrav1.CAPTCluster{}, stage.Demo)
				w.AwaitGone(&infrav1.WorkspaceTemplateApply{}, stage.VPC)
				if way.whole {
					w.AwaitGone(&clusterv1.Cluster{}, stage.Demo)
					require.Nil(w, w.Workspace(stage.ControlPlane), "only the VPC is to be kept")
				}
				after := w.Workspace(stage.VPC)
				require.NotNil(w, after)
				require.Equal(w, before.GetUID(), after.GetUID())
				require.Equal(w, before.GetResourceVersion(), after.GetResourceVersion(), "nothing was written to it")
				require.Empty(w, w.Operations(stage.VPC, scripted.Destroy))
				require.Len(w, w.Cloud(), 1)
			})
		})
	}
}
