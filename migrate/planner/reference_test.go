// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/sandbox/manifests"
	captconversion "github.com/capt-provider/capt/webhooks/conversion"
)

// The fleet that CAPT v0.3.0 really built is planned without a decision. Its broken cluster is adopted as well: its Workspaces are what
// template and spec render.
func TestTheReferenceFleetNeedsNoDecision(t *testing.T) {
	folder := referenceFleet(t)
	fleet := &migrate.Snapshot{ClusterUID: "management-cluster", Taken: now}
	for _, name := range []string{"default", "team-a"} {
		fleet.Namespaces = append(fleet.Namespaces, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, file := range []string{
		"clusters", "captclusters", "captcontrolplanes", "workspacetemplates", "workspacetemplateapplies", "workspaces", "captcontrolplanetemplates",
	} {
		loaded, err := manifests.Load(filepath.Join(folder, file+".yaml"))
		require.NoError(t, err)
		for _, object := range loaded {
			require.NoError(t, object.EachListItem(func(item runtime.Object) error {
				takeLegacy(t, fleet, item.(*unstructured.Unstructured))
				return nil
			}))
		}
	}
	require.NotEmpty(t, fleet.Applies)
	got, err := planner.New(fleet, planner.Options{Now: now})
	require.NoError(t, err)
	lines := story(got)
	assert.Empty(t, got.Undecided(), "%v", lines)
	adopted := 0
	for i := range got.Units {
		unit := &got.Units[i]
		assert.Equal(t, plan.Adoptable, unit.State, unit.Name())
		for _, member := range unit.Members {
			if member.State == migrate.Adoptable {
				adopted++
			}
		}
	}
	assert.Equal(t, 25, adopted)
	var names []string
	for i := range got.Units {
		names = append(names, got.Units[i].Name())
	}
	assert.Equal(t, []string{
		"WorkspaceTemplateApply/default/demo-fargate", "WorkspaceTemplateApply/default/demo-karpenter",
		"default/broken", "default/demo", "default/in-old-vpc", "default/prod-1", "team-a/apps",
	}, names)
	assert.Subset(t, lines, []string{
		"WorkspaceTemplateApply broken-eks-controlplane-apply: /spec/workspaceName",
		"WorkspaceTemplateApply apps-eks-controlplane-apply: /spec/workspaceName",
		"WorkspaceTemplateApply apps-kubeconfig-apply: /spec/workspaceName",
		"Warning TemplateKindRenamed CaptControlPlaneTemplate standard",
	})
	for _, finding := range got.Findings {
		assert.Contains(t, []string{planner.ReasonPermissionGranted, planner.ReasonInvalidClusterEndpoint, planner.ReasonTemplateKindRenamed}, finding.Reason, finding.Message)
	}
}

// referenceFleet is the folder that CAPT_REFERENCE names, or that is beside the checkout.
func referenceFleet(t *testing.T) string {
	t.Helper()
	folder, named := os.LookupEnv("CAPT_REFERENCE")
	if !named {
		folder = filepath.Join("..", "..", "..", "shared", "reference")
	}
	folder = filepath.Join(folder, "legacy-fleet")
	if _, err := os.Stat(folder); err != nil {
		require.False(t, named, "CAPT_REFERENCE has no legacy-fleet: %v", err)
		t.Skip("no reference fleet; CAPT_REFERENCE names the folder of the reference data")
	}
	return folder
}

// takeLegacy converts an object of CAPT v0.3 as the webhook does. Workspaces and Clusters are as the API server has them.
func takeLegacy(t *testing.T, fleet *migrate.Snapshot, object *unstructured.Unstructured) {
	t.Helper()
	switch object.GetKind() {
	case "Cluster":
		var cluster clusterv1.Cluster
		for _, ref := range []string{"infrastructureRef", "controlPlaneRef"} {
			for _, field := range []string{"apiVersion", "namespace"} {
				unstructured.RemoveNestedField(object.Object, "spec", ref, field)
			}
		}
		delete(object.Object, "status")
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &cluster))
		take(t, fleet, &cluster)
		return
	case "Workspace", migrate.OlderTemplateKind:
		take(t, fleet, object)
		return
	}
	scheme, registry := captconversion.NewRegistry()
	converted, err := captconversion.Convert(t.Context(), scheme, registry, object, migrate.Version)
	require.NoError(t, err)
	to, err := scheme.New(converted.GroupVersionKind())
	require.NoError(t, err)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(converted.Object, to))
	take(t, fleet, to.(client.Object))
}
