// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package gitops_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// Files of the repository.
const (
	platformFile  = "platform/team.yaml"
	templatesFile = "templates/eks.yaml"
	clusterFile   = "clusters/demo.yaml"
)

// demo is a cluster as manifests of CAPT v0.3 have it.
const demo = `apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata:
  name: demo
  namespace: %[1]s
spec:
  infrastructureRef:
    apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
    kind: CAPTCluster
    name: demo
  controlPlaneRef:
    apiVersion: controlplane.cluster.x-k8s.io/v1beta1
    kind: CAPTControlPlane
    name: demo
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: CAPTCluster
metadata:
  name: demo
  namespace: %[1]s
spec:
  region: eu-central-1
  vpcTemplateRef:
    name: vpc
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: CAPTControlPlane
metadata:
  name: demo
  namespace: %[1]s
spec:
  version: "1.34"
  workspaceTemplateRef:
    name: eks
  controlPlaneConfig:
    region: eu-central-1
`

// Each fleet has its own Kustomizations.
func TestFleetsAreManagedWithFlux(t *testing.T) {
	f := startFlux(t, shared)
	t.Run("manifests of CAPT v0.3", func(t *testing.T) { f.newEnvironment(t, "team-a").runsAFleet() })
	t.Run("a ClusterClass", func(t *testing.T) { f.newEnvironment(t, "team-b").runsAClusterClass() })
}

// A cluster is created, upgraded, converted and deleted by commits only.
func (env *environment) runsAFleet() {
	env.Helper()
	env.git.write(platformFile, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: "+env.Namespace+"\n", env.ProviderConfig())
	var templates []string
	for _, template := range env.templates() {
		templates = append(templates, env.manifest(legacy(template)))
	}
	env.git.write(templatesFile, templates...)
	env.git.write(clusterFile, fmt.Sprintf(demo, env.Namespace))
	env.creates()
	env.rejects()
	env.upgrades()
	env.converts()
	env.isQuiet()
	env.requireNeverEarly()
	env.blocksPruning()
	env.prunes()
}

// templates are those of the VPC and of the control plane. Terraform applies a change of the version.
func (env *environment) templates() []string {
	controlPlane := strings.NewReplacer(
		`variable "tags"`, "variable \"kubernetes_version\" { type = string }\nvariable \"tags\"", "${var.tags}", "${var.tags} ${var.kubernetes_version}",
	).Replace(fixture.ControlPlaneModule)
	return []string{
		env.VPCTemplate(fixture.VPCModule),
		env.Template(fixture.ControlPlaneTemplate, controlPlane, "cluster_name", "tags", "kubernetes_version"),
	}
}

// legacy returns a template in v1beta1.
func legacy(template string) string {
	return strings.NewReplacer("/v1beta2", "/v1beta1", "  workspaceScope: Cluster\n", "", "kind: ProviderConfig, ", "").Replace(template)
}

// setVersion changes the Kubernetes version in Git.
func (env *environment) setVersion(version string) {
	env.Helper()
	env.git.change(clusterFile, func(object *unstructured.Unstructured) {
		if object.GetKind() == controlPlaneKind.Kind {
			require.NoError(env, unstructured.SetNestedField(object.Object, version, "spec", "version"))
		}
	})
}

// protect changes the deletion protection in Git.
func (env *environment) protect(protection string) {
	env.Helper()
	env.git.change(clusterFile, func(object *unstructured.Unstructured) {
		if object.GetKind() != "Cluster" {
			require.NoError(env, unstructured.SetNestedField(object.Object, protection, "spec", "deletionProtection"))
		}
	})
}

// creates commits the cluster. The first commit has a mistake, which a second one corrects while Flux still waits for the cluster.
func (env *environment) creates() {
	env.Helper()
	setTemplate := func(name string) {
		env.git.change(clusterFile, func(object *unstructured.Unstructured) {
			if object.GetKind() == controlPlaneKind.Kind {
				require.NoError(env, unstructured.SetNestedField(object.Object, name, "spec", "workspaceTemplateRef", "name"))
			}
		})
	}
	setTemplate("missing")
	mistake := env.push("A cluster whose template does not exist")
	env.AwaitVPC()
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.ReadyCondition, metav1.ConditionFalse, infrav1.TemplateNotFoundReason)
	env.requireWaiting(mistake, "captcontrolplanes")

	env.SetScript(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Hang: true}})
	setTemplate(fixture.ControlPlaneTemplate)
	corrected := env.push("The template that exists")
	env.AwaitOperation(fixture.ControlPlane, scripted.Apply)
	env.requireWaiting(corrected, "captcontrolplanes")
	env.SetScript(fixture.ControlPlane, scripted.Script{})
	env.awaitApplied(corrected)
	env.AwaitState(infrav1.StateReady, "")
}

// rejects commits a change that admission rejects, together with one that it accepts. Flux applies neither.
func (env *environment) rejects() {
	env.Helper()
	env.AwaitRest()
	before := env.stored()
	env.setVersion("1.35")
	env.git.change(clusterFile, func(object *unstructured.Unstructured) {
		if object.GetKind() == captClusterKind.Kind {
			require.NoError(env, unstructured.SetNestedField(object.Object, "eu-west-1", "spec", "region"))
		}
	})
	message := env.awaitFailed(env.push("Another region"), "ReconciliationFailed")
	require.Contains(env, message, "spec.region")
	require.Contains(env, message, "immutable")
	require.Equal(env, before, env.stored())
	env.git.git("revert", "--no-edit", "HEAD")
	env.awaitApplied(env.push("The former region"))
	require.Equal(env, before, env.stored())
}

// upgrades changes the Kubernetes version.
func (env *environment) upgrades() {
	env.Helper()
	env.SetScript(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Hang: true}})
	env.setVersion("1.35")
	revision := env.push("Kubernetes 1.35")
	env.awaitApply(2)
	env.requireWaiting(revision, "captcontrolplanes")
	env.SetScript(fixture.ControlPlane, scripted.Script{})
	env.awaitApplied(revision)
	require.Equal(env, "v1.35.0", env.AwaitState(infrav1.StateReady, "").Status.Version)
}

// awaitApply waits until Terraform has begun to apply the control plane for the nth time.
func (env *environment) awaitApply(n int) {
	env.Helper()
	env.Eventually(func() string {
		applies := len(env.Operations(fixture.ControlPlane, scripted.Apply))
		return fixture.Unless(applies == n, "Terraform has begun to apply the control plane %d times", applies)
	})
}

// converts replaces the manifests by those that captctl writes.
func (env *environment) converts() {
	env.Helper()
	env.AwaitRest()
	before, began := env.stored(), time.Now()
	env.Captctl("convert", "--from-cluster", "--write", "--recursive", "--filename="+filepath.Join(env.git.dir, templates), "--filename="+filepath.Join(env.git.dir, clusters))
	require.NotContains(env, env.git.git("grep", "--no-index", "apiVersion: ", "--", templates, clusters), "infrastructure.cluster.x-k8s.io/v1beta1")
	require.NotContains(env, env.git.git("grep", "--no-index", "apiVersion: ", "--", templates, clusters), "controlplane.cluster.x-k8s.io/v1beta1")
	env.awaitApplied(env.push("API v1beta2"))
	env.AwaitRest()
	after := env.stored()
	require.NotEmpty(env, workspaces(before))
	require.Equal(env, workspaces(before), workspaces(after))
	for name, version := range before {
		uid, _, _ := strings.Cut(version, " ")
		require.True(env, strings.HasPrefix(after[name], uid), "%s was recreated", name)
	}
	require.Len(env, after, len(before))
	for _, write := range append(env.writes(sandbox.FluxUser, began), env.writes(env.manager(), began)...) {
		require.False(env, strings.HasPrefix(write, "create") || strings.HasPrefix(write, "delete"), write)
	}
}

// manager is the user of CAPT's manager.
func (env *environment) manager() string {
	env.Helper()
	user, err := env.InstalledManagerUser()
	require.NoError(env, err)
	return user
}

// isQuiet lets Flux apply everything several times. Neither Flux nor CAPT finds anything to write.
func (env *environment) isQuiet() {
	env.Helper()
	const times = 3
	env.AwaitRest()
	before, began := env.stored(), time.Now()
	for range times {
		for _, name := range []string{platform, templates, clusters} {
			env.request(kustomizationKind, name)
			env.Eventually(func() string {
				kustomization := env.read(kustomizationKind, name)
				return fixture.Unless(isReady(kustomization), "Kustomization %s: %s", name, readyMessage(kustomization))
			})
		}
		env.AwaitRest()
	}
	require.Equal(env, before, env.stored())
	require.Empty(env, env.writes(sandbox.FluxUser, began))
	require.Empty(env, env.writes(env.manager(), began))
}

// blocksPruning removes the manifests of a protected cluster. Flux reports why it cannot delete the objects, and continues to manage them.
func (env *environment) blocksPruning() {
	env.Helper()
	env.protect("Enabled")
	env.awaitApplied(env.push("Protect the cluster"))
	applied := env.inventory()
	require.Len(env, applied, 3)
	env.git.remove(clusterFile)
	revision := env.push("Remove the cluster")
	for range 2 {
		message := env.awaitFailed(revision, "PruneFailed")
		for _, part := range []string{"CAPTControlPlane demo", "is protected from deletion", "spec.deletionProtection"} {
			require.Contains(env, message, part)
		}
		require.ElementsMatch(env, applied, env.inventory(), "Flux would not delete the objects later")
		env.request(kustomizationKind, clusters)
	}
	env.requireNotDeleted()
}

// requireNotDeleted requires that nothing of the cluster is being deleted.
func (env *environment) requireNotDeleted() {
	env.Helper()
	cluster, captCluster, controlPlane := &clusterv1.Cluster{}, &infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}
	require.True(env, env.Exists(cluster, fixture.Demo) && env.Exists(captCluster, fixture.Demo) && env.Exists(controlPlane, fixture.Demo))
	require.True(env, cluster.DeletionTimestamp.IsZero() && captCluster.DeletionTimestamp.IsZero() && controlPlane.DeletionTimestamp.IsZero())
	require.Empty(env, env.Operations(fixture.VPC, scripted.Destroy))
	require.Empty(env, env.Operations(fixture.ControlPlane, scripted.Destroy))
}

// prunes removes the protection, then the cluster, and then its templates, in one commit each.
func (env *environment) prunes() {
	env.Helper()
	env.git.git("revert", "--no-edit", "HEAD")
	env.protect("Disabled")
	env.awaitApplied(env.push("Remove the protection"))
	env.requireNotDeleted()

	env.SetScript(fixture.ControlPlane, scripted.Script{Destroy: scripted.Step{Hang: true}})
	env.git.remove(clusterFile)
	// Flux does not wait for deletions. It may try to delete the CAPTCluster before the Cluster, which is rejected, and tries again.
	removed := env.push("Remove the cluster")
	env.AwaitOperation(fixture.ControlPlane, scripted.Destroy)
	env.request(kustomizationKind, clusters)
	env.awaitApplied(removed)
	require.True(env, env.Exists(&clusterv1.Cluster{}, fixture.Demo))
	require.Empty(env, env.Operations(fixture.VPC, scripted.Destroy))
	require.True(env, env.Exists(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate) && env.Exists(&infrav1.WorkspaceTemplate{}, fixture.ControlPlaneTemplate))
	env.SetScript(fixture.ControlPlane, scripted.Script{})
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	env.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
	env.RequireNothingLeft()
	env.git.remove(templatesFile)
	env.awaitApplied(env.push("Remove the templates, which are no longer in use"))
	env.AwaitGone(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate)
	env.AwaitGone(&infrav1.WorkspaceTemplate{}, fixture.ControlPlaneTemplate)

	env.git.remove(platformFile)
	env.awaitApplied(env.push("Remove the namespace and the ProviderConfig"))
	env.AwaitGone(&corev1.Namespace{}, env.Namespace)
}
