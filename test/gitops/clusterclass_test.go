// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package gitops_test

import (
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// class names the generated objects like the Cluster.
const class = `apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: eks}
spec:
  infrastructure:
    templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: CAPTClusterTemplate, name: eks}
    naming: {template: "{{ .cluster.name }}"}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: CAPTControlPlaneTemplate, name: eks}
    naming: {template: "{{ .cluster.name }}"}
`

const classCluster = `apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTClusterTemplate
metadata: {name: eks}
spec: {template: {spec: {region: eu-central-1, vpc: {template: {ref: {name: vpc}}}}}}
`

const classControlPlane = `apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: CAPTControlPlaneTemplate
metadata: {name: eks}
spec: {template: {spec: {workspaceTemplateRef: {name: eks}}}}
`

const classy = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo}
spec: {topology: {classRef: {name: eks}, version: v1.34.0}}
`

// Of a cluster with a ClusterClass, only the Cluster is in Git: Flux reads nothing else.
func (env *environment) runsAClusterClass() {
	env.Helper()
	env.git.write(platformFile, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: "+env.Namespace+"\n", env.ProviderConfig())
	var templates []string
	for _, document := range append(env.templates(), class, classCluster, classControlPlane) {
		templates = append(templates, env.manifest(document))
	}
	env.git.write(templatesFile, templates...)
	env.git.write(clusterFile, env.manifest(classy))

	env.SetScript(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Hang: true}})
	created := env.push("A Cluster of a ClusterClass")
	env.AwaitOperation(fixture.ControlPlane, scripted.Apply)
	env.requireWaiting(created, "clusters")
	env.SetScript(fixture.ControlPlane, scripted.Script{})
	env.awaitApplied(created)
	env.AwaitState(infrav1.StateReady, "")

	env.SetScript(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Hang: true}})
	env.git.change(clusterFile, func(object *unstructured.Unstructured) {
		require.NoError(env, unstructured.SetNestedField(object.Object, "v1.35.0", "spec", "topology", "version"))
	})
	upgraded := env.push("Kubernetes 1.35")
	env.awaitApply(2)
	env.requireWaiting(upgraded, "clusters")
	env.SetScript(fixture.ControlPlane, scripted.Script{})
	env.awaitApplied(upgraded)
	require.Equal(env, "v1.35.0", env.AwaitState(infrav1.StateReady, "").Status.Version)
	env.requireNeverEarly()

	// Without the directory, Flux deletes nothing.
	env.git.remove(clusters)
	env.push("Remove the directory")
	require.Contains(env, env.awaitFailed("", "ArtifactFailed"), "path not found")
	cluster := &clusterv1.Cluster{}
	require.True(env, env.Exists(cluster, fixture.Demo) && cluster.DeletionTimestamp.IsZero())
	env.git.git("revert", "--no-edit", "HEAD")
	env.git.remove(clusterFile)
	env.awaitApplied(env.push("Remove the cluster"))
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	env.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
	env.RequireNothingLeft()
}
