// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
)

// legacyServer serves only what a management cluster has before the new definitions are installed, or less.
type legacyServer struct {
	client.Reader
	kinds     []string
	objects   map[string]string
	forbidden []string
}

func newLegacyServer(objects map[string]string) *legacyServer {
	return &legacyServer{objects: objects, kinds: []string{
		"v1, Kind=NamespaceList", "apps/v1, Kind=ControllerRevisionList", "cluster.x-k8s.io/v1beta1, Kind=ClusterList",
		"infrastructure.cluster.x-k8s.io/v1beta1, Kind=WorkspaceTemplateList", "infrastructure.cluster.x-k8s.io/v1beta1, Kind=WorkspaceTemplateApplyList",
		"infrastructure.cluster.x-k8s.io/v1beta1, Kind=CAPTClusterList", "controlplane.cluster.x-k8s.io/v1beta1, Kind=CAPTControlPlaneList",
	}}
}

func (s *legacyServer) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.(*corev1.Namespace).UID = "here"
	return nil
}

func (s *legacyServer) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	gvk := list.GetObjectKind().GroupVersionKind()
	kind := gvk.String()
	if gvk.Group == "" {
		kind = gvk.Version + ", Kind=" + gvk.Kind
	}
	if !slices.Contains(s.kinds, kind) {
		return &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	}
	if slices.Contains(s.forbidden, gvk.Kind) {
		return apierrors.NewForbidden(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, "", nil)
	}
	if text := s.objects[gvk.Kind]; text != "" {
		object := unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			return err
		}
		list.(*unstructured.UnstructuredList).Items = []unstructured.Unstructured{object}
	}
	return nil
}

// clusterOfV1Beta1 is what Cluster API serves in v1beta1, as in the reference fleet.
const clusterOfV1Beta1 = `
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata:
  name: demo
  namespace: team-a
  uid: "1"
  annotations: {cluster.x-k8s.io/conversion-data: '{}', cluster.x-k8s.io/paused: "true"}
spec:
  paused: true
  clusterNetwork: {pods: {cidrBlocks: [192.168.0.0/16]}}
  controlPlaneEndpoint: {host: "https://demo.example.com", port: 443}
  controlPlaneRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: CAPTControlPlane, name: demo, namespace: team-a}
  infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: CAPTCluster, name: demo-vpc, namespace: team-a}
status: {phase: Provisioned, infrastructureReady: true}
`

func TestAClusterIsReadWhereOnlyV1Beta1IsServed(t *testing.T) {
	snapshot, err := migrate.Read(t.Context(), newLegacyServer(map[string]string{"ClusterList": clusterOfV1Beta1}), "", time.Now())
	require.NoError(t, err)
	require.Len(t, snapshot.Clusters, 1)
	cluster := snapshot.Clusters[0]
	assert.Equal(t, clusterv1.GroupVersion.String(), cluster.APIVersion)
	assert.Equal(t, map[string]string{clusterv1.PausedAnnotation: "true"}, cluster.Annotations)
	assert.Equal(t, ptr.To(true), cluster.Spec.Paused)
	assert.Equal(t, clusterv1.APIEndpoint{Host: "https://demo.example.com", Port: 443}, cluster.Spec.ControlPlaneEndpoint)
	assert.Equal(t, clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "CAPTControlPlane", Name: "demo"}, cluster.Spec.ControlPlaneRef)
	assert.Equal(t, clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "CAPTCluster", Name: "demo-vpc"}, cluster.Spec.InfrastructureRef)
}

// What the API server keeps of metadata when a webhook converts is kept here, too.
func TestAnObjectIsReadWhereOnlyV1Beta1IsServed(t *testing.T) {
	snapshot, err := migrate.Read(t.Context(), newLegacyServer(map[string]string{"WorkspaceTemplateApplyList": `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata:
  name: demo
  namespace: team-a
  uid: "2"
  resourceVersion: "7"
  selfLink: /kept
  labels: {a: b}
  managedFields: [{manager: kubectl, operation: Update, apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, fieldsType: FieldsV1, fieldsV1: {}}]
spec:
  templateRef: {name: vpc}
  unknown: dropped
status: {workspaceName: demo-workspace, applied: true}
`}), "", time.Now())
	require.NoError(t, err)
	require.Len(t, snapshot.Applies, 1)
	assert.Equal(t, "demo-workspace", snapshot.Applies[0].Status.WorkspaceName)
	apply := snapshot.Applies[0]
	assert.Equal(t, infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"), apply.GroupVersionKind())
	apply.Status = infrav1.WorkspaceTemplateApplyStatus{}
	assert.Equal(t, infrav1.WorkspaceTemplateApply{
		TypeMeta:   apply.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "team-a", UID: "2", ResourceVersion: "7", SelfLink: "/kept", Labels: map[string]string{"a": "b"}},
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef: infrav1.WorkspaceTemplateReference{Name: "vpc"},
		},
	}, apply)
}

func TestAKindThatIsNotServedAtAllIsReported(t *testing.T) {
	for _, kind := range []string{"Cluster", "WorkspaceTemplate", "WorkspaceTemplateApply", "CAPTCluster", "CAPTControlPlane"} {
		t.Run(kind, func(t *testing.T) {
			server := newLegacyServer(nil)
			server.kinds = slices.DeleteFunc(server.kinds, func(known string) bool { return strings.HasSuffix(known, "="+kind+"List") })
			_, err := migrate.Read(t.Context(), server, "", time.Now())
			require.True(t, meta.IsNoMatchError(err), "%v", err)
			assert.ErrorContains(t, err, "listing "+kind)
			assert.ErrorContains(t, err, "v1beta2")
		})
	}
}

func TestEveryRightThatIsMissingIsReported(t *testing.T) {
	server := newLegacyServer(nil)
	server.forbidden = []string{"WorkspaceTemplateList", "ClusterList", "CAPTControlPlaneList"}
	_, err := migrate.Read(t.Context(), server, "", time.Now())
	require.True(t, apierrors.IsForbidden(err))
	for _, kind := range []string{"WorkspaceTemplate", "Cluster", "CAPTControlPlane"} {
		assert.ErrorContains(t, err, "listing "+kind+": ")
	}
}
