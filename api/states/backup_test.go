// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/states"
)

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &object.Object))
	return object
}

const liveApply = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplateApply
metadata:
  namespace: team
  name: shop
  uid: one
  resourceVersion: "1"
  generation: 4
  creationTimestamp: "2026-01-01T00:00:00Z"
  finalizers: [infrastructure.cluster.x-k8s.io/workspacetemplateapply]
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: gone, uid: two}]
  labels: {cluster.x-k8s.io/cluster-name: shop}
  annotations: {team: a, capt.cluster.x-k8s.io/external-name: legacy, capt.cluster.x-k8s.io/external-name-noted-by: one, clusterctl.cluster.x-k8s.io/block-move: until-ready}
spec: {templateRef: {name: eks}, workspaceName: shop}
status: {workspaceName: shop}
`

func TestABackupHasNothingOfItsManagementCluster(t *testing.T) {
	object := parsed(t, liveApply)
	states.Portable(object)
	assert.Equal(t, parsed(t, `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplateApply
metadata: {namespace: team, name: shop, labels: {cluster.x-k8s.io/cluster-name: shop}, annotations: {team: a}}
spec: {templateRef: {name: eks}, workspaceName: shop}
`).Object, object.Object)
	template := parsed(t, `{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: WorkspaceTemplate, metadata: {name: eks, uid: a, finalizers: [f]}}`)
	states.Portable(template)
	assert.Equal(t, []string{"f"}, template.GetFinalizers(), "without it, the template would get new defaults")
}

func TestTheStateOfABackupIsTheOneOfTheWorkspace(t *testing.T) {
	live := parsed(t, `{apiVersion: tf.upbound.io/v1beta1, kind: Workspace, metadata: {name: shop, annotations: {crossplane.io/external-name: legacy}}, spec: {providerConfigRef: {name: aws}}}`)
	recorded := &infrav1.WorkspaceTemplateApply{Status: infrav1.WorkspaceTemplateApplyStatus{WorkspaceRef: &infrav1.WorkspaceReference{Name: "shop", ExternalName: "recorded"}}}
	planned := &infrav1.WorkspaceTemplateApply{Spec: infrav1.WorkspaceTemplateApplySpec{TerraformState: infrav1.TerraformState{Name: "planned", ProviderConfig: "aws"}}}
	assert.Equal(t, infrav1.TerraformState{Name: "legacy", ProviderConfig: "aws"}, states.StateOf(recorded, live))
	assert.Equal(t, "recorded", states.StateOf(recorded, nil).Name)
	assert.Equal(t, planned.Spec.TerraformState, states.StateOf(planned, nil))
	assert.Empty(t, states.StateOf(&infrav1.WorkspaceTemplateApply{}, nil), "nothing was created for it")
}

func TestRestoredObjectsAreHeld(t *testing.T) {
	b := &states.Backup{Checksum: "sum", States: map[string]states.BackedUpState{"team/shop": {TerraformState: infrav1.TerraformState{Name: "legacy", ProviderConfig: "aws"}}}}
	held, err := b.HoldFor(parsed(t, liveApply), "now")
	require.NoError(t, err)
	state, _, _ := unstructured.NestedStringMap(held.Object, "spec", "terraformState")
	assert.Equal(t, map[string]string{"name": "legacy", "providerConfig": "aws"}, state)
	assert.Equal(t, "now", held.GetAnnotations()[naming.ProveAnnotation])
	assert.Equal(t, "sum", held.GetAnnotations()[naming.RestoredAnnotation])

	cluster := parsed(t, `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {namespace: team, name: shop}, spec: {}}`)
	held, err = b.HoldFor(cluster, "now")
	require.NoError(t, err)
	assert.True(t, states.IsPausedIn(held))
	assert.False(t, states.IsPausedIn(cluster), "the backup is not changed")
}

func TestADamagedBackupIsRefused(t *testing.T) {
	b := &states.Backup{TypeMeta: metav1.TypeMeta{APIVersion: naming.GuardGroup + "/v1", Kind: states.BackupKind}, States: map[string]states.BackedUpState{}, Objects: []*unstructured.Unstructured{parsed(t, liveApply)}}
	require.NoError(t, b.Seal())
	data, err := json.Marshal(b)
	require.NoError(t, err)
	read := &states.Backup{}
	require.NoError(t, json.Unmarshal(data, read))
	require.NoError(t, read.Verify())
	read.Objects[0].SetName("other")
	require.ErrorContains(t, read.Verify(), "it is damaged or was changed")
	require.ErrorContains(t, (&states.Backup{}).Verify(), "which this version of captctl does not know")
}

func TestTheLocationOfABackend(t *testing.T) {
	config := parsed(t, `{apiVersion: tf.upbound.io/v1beta1, kind: ProviderConfig, metadata: {name: aws}, spec: {configuration: "terraform {\n backend \"s3\" {\n bucket = \"states\"\n }\n}"}}`)
	assert.Equal(t, map[string]string{"type": "s3", "bucket": "states"}, states.Location(config))
	assert.Nil(t, states.Location(parsed(t, `{apiVersion: tf.upbound.io/v1beta1, kind: ProviderConfig, metadata: {name: aws}}`)))
}
