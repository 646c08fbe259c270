// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/api/changes"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/cmd/captctl/diff"
	"github.com/capt-provider/capt/migrate"
)

// eksTemplate is the template of the control planes of these tests.
const eksTemplate = `apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata: {name: eks, namespace: platform}
spec:
  workspaceScope: Namespaced
  allowedNamespaces: {names: ["*"]}
  template:
    spec:
      forProvider:
        source: Inline
        module: |
          variable "cluster_name" { type = string }
          variable "kubernetes_version" { type = string }
          variable "region" { type = string }
          locals { size = 1 }
        vars:
        - {key: cluster_name, value: "${cluster_name}"}
        - {key: kubernetes_version, value: "${kubernetes_version}"}
        - {key: region, value: "${region}"}
        env:
        - {name: TOKEN, value: hunter2-hunter2}
        - {name: KEY, secretKeyRef: {name: keys, key: key}}
`

// templated are Ready Clusters of one template, as the manager leaves them: their Workspaces are as rendered.
func templated(t *testing.T, names ...string) *environment {
	t.Helper()
	template := &infrav1.WorkspaceTemplate{}
	readYAML(t, eksTemplate, template)
	template.UID = "uid-of-eks"
	objects := []client.Object{template}
	for _, name := range names {
		cluster := &clusterv1.Cluster{ObjectMeta: named(name)}
		cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: name}
		controlPlane := &controlplanev1.CAPTControlPlane{ObjectMeta: named(name)}
		controlPlane.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: name, UID: cluster.UID}}
		cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
		controlPlane.Spec.Version, controlPlane.Spec.Region = "v1.35.0", "eu-central-1"
		controlPlane.Spec.WorkspaceTemplateRef = infrav1.WorkspaceTemplateReference{Name: "eks", Namespace: "platform"}
		controlPlane.Spec.WorkspaceTemplateApplyRef.Name = naming.ControlPlaneWorkspaceTemplateApply(name)
		controlPlane.Status.ObservedGeneration = 1
		intent, err := desired.NewControlPlane(controlPlane, nil, nil).Intent(name, "")
		require.NoError(t, err)
		apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: named(controlPlane.Spec.WorkspaceTemplateApplyRef.Name), Spec: intent.Spec("team-a", controlPlane.Spec.WorkspaceTemplateRef)}
		apply.Labels = map[string]string{clusterv1.ClusterNameLabel: name}
		apply.Spec.WorkspaceName = validation.WorkspaceName(apply, template)
		workspace := rendered(t, apply, template)
		apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{
			APIVersion: workspace.GetAPIVersion(), Kind: workspace.GetKind(), Namespace: "team-a", Name: workspace.GetName(), UID: workspace.GetUID(),
		}
		objects = append(objects, cluster, controlPlane, apply, workspace)
	}
	return &environment{objects: objects}
}

// rendered is a Workspace as the manager wrote it.
func rendered(t *testing.T, apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate) *unstructured.Unstructured {
	t.Helper()
	made, errs := render.Workspace(render.Input{Apply: apply, Template: template, Name: apply.Spec.WorkspaceName})
	require.Empty(t, errs)
	made.Object.SetUID(named(apply.Name).UID)
	made.Object.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: naming.WorkspaceTemplateApplyFieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: made.Object.GetAPIVersion(), FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:forProvider":{"f:env":{},"f:module":{},"f:source":{},"f:vars":{}}}}`),
	}})
	require.NoError(t, unstructured.SetNestedField(made.Object.Object, "Delete", "spec", "defaultOfTheAPIServer"))
	return made.Object
}

func written(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "edited.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// The manager writes what the rollout has assigned, which is no longer in the template.
func TestDiffOfAStagedTemplateShowsWhatItsRolloutWillChange(t *testing.T) {
	env := templated(t, "a")
	template := env.objects[0].(*infrav1.WorkspaceTemplate)
	template.Spec.Rollout = infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Approval: infrav1.RolloutApprovalAlways}
	revision := rollout.History{}.Record(template)
	stored, err := revision.Object(template)
	require.NoError(t, err)
	apply := env.objects[3].(*infrav1.WorkspaceTemplateApply)
	apply.Spec.TemplateRevision, apply.Status.WrittenSpec = revision.Hash, rollout.SpecHash(apply)
	env.objects = append(env.objects, stored)
	edited := strings.Replace(strings.Replace(eksTemplate, "size = 1", "size = 2", 1), "  template:\n", "  rollout: {strategy: Staged, approval: Always}\n  template:\n", 1)
	out, _, err := env.run(t, "diff", "-f", written(t, edited))
	require.NoError(t, err)
	assert.Contains(t, out, "+locals { size = 2 }")
	assert.Contains(t, out, "written when the rollout of the template assigns revision")
	out, _, err = env.run(t, "diff")
	require.NoError(t, err)
	assert.Equal(t, "0 of 1 Workspace would change\n", out)
}

func TestDiffOfATemplateShowsWhichWorkspacesChange(t *testing.T) {
	env := templated(t, "a", "b")
	edited := strings.NewReplacer("size = 1", "size = 2", "hunter2-hunter2", "hunter3-hunter3", "        - {key: region, value: \"${region}\"}\n", "").Replace(eksTemplate)
	file := written(t, edited)
	out, _, err := env.run(t, "diff", "-f", file)
	require.NoError(t, err)
	assert.Equal(t, strings.TrimLeft(`
~ Workspace team-a/a-eks-controlplane of Cluster team-a/a (WorkspaceTemplate platform/eks)
~ Workspace team-a/b-eks-controlplane of Cluster team-a/b (WorkspaceTemplate platform/eks)
    ~ spec.forProvider.env[TOKEN]: changes; the value is not shown
      spec.forProvider.module:
    @@ -2,3 +2,3 @@
     variable "kubernetes_version" { type = string }
     variable "region" { type = string }
    -locals { size = 1 }
    +locals { size = 2 }
    - spec.forProvider.vars[region]: eu-central-1

2 of 2 Workspaces would change
`, "\n"), out)

	out, _, err = env.run(t, "diff", "team-a/b", "-f", file, "--detailed-exitcode", "-o", "json")
	assert.Equal(t, migrate.Pending, migrate.OutcomeOf(err))
	var document diff.Diff
	require.NoError(t, json.Unmarshal([]byte(out), &document))
	require.Len(t, document.Workspaces, 1)
	assert.Equal(t, changes.ActionUpdate, document.Workspaces[0].Action)
	assert.NotContains(t, out, "hunter")

	out, _, err = env.run(t, "diff", "-f", written(t, eksTemplate), "--detailed-exitcode")
	require.NoError(t, err, "the same template changes nothing")
	assert.Equal(t, "0 of 2 Workspaces would change\n", out)
}

func TestDiffOfAnOwnerShowsItsWorkspacesOnly(t *testing.T) {
	env := templated(t, "a", "b")
	out, _, err := env.run(t, "diff", "-f", written(t, `apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: CAPTControlPlane
metadata: {name: b, namespace: team-a}
spec:
  version: v1.36.0
  region: eu-central-1
  workspaceTemplateRef: {name: eks, namespace: platform}
`))
	require.NoError(t, err)
	assert.Contains(t, out, "    - spec.forProvider.vars[kubernetes_version]: \"1.35\"\n    + spec.forProvider.vars[kubernetes_version]: \"1.36\"\n")
	assert.Contains(t, out, "1 of 1 Workspace would change\n")

	out, _, err = env.run(t, "diff", "-f", written(t, strings.ReplaceAll(eksTemplate, "size = 1", "size =")))
	require.ErrorContains(t, err, "the webhooks would reject the files:\n  ")
	assert.Regexp(t, `edited.yaml:15:\d+: WorkspaceTemplate eks: spec.template.spec.forProvider.module: line 4, column \d+: `, err.Error())
	assert.Empty(t, out)

	_, _, err = env.run(t, "diff", "-f", written(t, "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: CAPTControlPlane\nmetadata: {name: b, namespace: team-a}\n"+
		"spec: {version: v1.35.0, region: eu-central-1}\n"))
	assert.ErrorContains(t, err, "edited.yaml:4:1: CAPTControlPlane b: spec.workspaceTemplateRef: Required value")

	out, _, err = env.run(t, "diff", "-f", written(t, "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: CAPTControlPlane\nmetadata: {name: b, namespace: team-a}\n"+
		"spec:\n  version: v1.35.0\n  region: eu-central-1\n  workspaceTemplateRef: {name: eks, namespace: platform}\n"+
		"  fargateProfiles: [{name: jobs, selectors: [{namespace: jobs}], workspaceTemplateRef: {name: nowhere}}]\n"))
	require.NoError(t, err)
	assert.Contains(t, out, "! WorkspaceTemplateApply team-a/b-jobs-fargate-apply of Cluster team-a/b (WorkspaceTemplate team-a/nowhere)\n")
}

const newCluster = `apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: CAPTControlPlane
metadata: {name: new, namespace: team-a}
spec: {version: v1.35.0, region: eu-central-1, workspaceTemplateRef: {name: eks, namespace: platform}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTCluster
metadata: {name: new, namespace: team-a}
spec: {region: eu-central-1, vpc: {template: {ref: {name: net}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata: {name: net, namespace: team-a}
spec:
  template: {spec: {forProvider: {source: Inline, module: 'output "vpc_id" { value = "vpc-1" }'}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTMachinePool
metadata: {name: workers, namespace: team-a}
spec: {workspaceTemplateRef: {name: nodes}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachinePool
metadata: {name: workers, namespace: team-a}
spec:
  clusterName: new
  template:
    spec:
      clusterName: new
      bootstrap: {dataSecretName: ""}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTMachinePool, name: workers}
`

func TestDiffShowsWhatNewObjectsCreate(t *testing.T) {
	env := templated(t, "a")
	out, _, err := env.run(t, "diff", "-f", written(t, newCluster))
	require.NoError(t, err)
	assert.Contains(t, out, "! WorkspaceTemplateApply team-a/new-eks-controlplane-apply (WorkspaceTemplate platform/eks)\n    no Cluster owns this object.", "the Cluster is in no file")
	out, errOut, err := env.run(t, "diff", "-f", written(t, newCluster+`---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: new, namespace: team-a}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTCluster, name: new}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: CAPTControlPlane, name: new}
`))
	require.NoError(t, err)
	assert.Empty(t, errOut)
	assert.Contains(t, out, "+ Workspace team-a/new-vpc of Cluster team-a/new (WorkspaceTemplate team-a/net)\n    + spec.forProvider.module: output \"vpc_id\"")
	assert.Contains(t, out, "! WorkspaceTemplateApply team-a/new-eks-controlplane-apply of Cluster team-a/new (WorkspaceTemplate platform/eks)\n    waiting for Terraform to create the VPC")
	assert.Contains(t, out, "! WorkspaceTemplateApply team-a/workers-nodegroup-apply of Cluster team-a/new (WorkspaceTemplate team-a/nodes)\n    waiting for CAPTControlPlane new")
	assert.Contains(t, out, "1 of 3 Workspaces would change, 2 are not written\n")
	_, errOut, err = env.run(t, "diff", "-n", "team-b", "-f", written(t, newCluster))
	require.NoError(t, err)
	assert.Contains(t, errOut, "Warning: CAPTControlPlane new is not compared: only namespace team-b is read\n")
	stored := &controlplanev1.CAPTControlPlane{}
	assert.True(t, apierrors.IsNotFound(env.connected.Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "new"}, stored)))
}

// A file is merged as kubectl apply, or the API server, merges it.
func TestDiffMergesAFileAsApplyingItDoes(t *testing.T) {
	const file = "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: CAPTControlPlane\nmetadata: {name: a, namespace: team-a}\n" +
		"spec: {version: v1.35.0, workspaceTemplateRef: {name: eks, namespace: platform}}\n"
	const removed = "spec.region is empty, and the infrastructure of the Cluster has no region"
	for name, row := range map[string]struct {
		last, shown string
		refused     error
		warned      bool
	}{
		"a field that only the cluster has is kept":           {`{"spec":{"version":"v1.34.0"}}`, "", nil, false},
		"a field that is removed from the file":               {`{"spec":{"version":"v1.34.0","region":"eu-central-1"}}`, removed, nil, false},
		"server-side apply":                                   {"", "", nil, false},
		"without the right to apply, nothing is removed":      {"", "", apierrors.NewForbidden(schema.GroupResource{Resource: "captcontrolplanes"}, "a", errors.New("no")), true},
		"an annotation of another client that cannot be read": {`{`, "", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			env := templated(t, "a")
			if row.refused != nil {
				env.funcs.Apply = func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
					return row.refused
				}
			}
			if row.last != "" {
				env.objects[2].SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: row.last})
			}
			out, errOut, err := env.run(t, "diff", "-f", written(t, file))
			require.NoError(t, err)
			assert.Equal(t, row.warned, strings.Contains(errOut, "Warning: CAPTControlPlane a: fields that it does not have any more count as kept: a dry run of applying it failed: "), errOut)
			assert.Equal(t, row.shown != "", strings.Contains(out, removed), out)
			live := &controlplanev1.CAPTControlPlane{}
			require.NoError(t, env.connected.Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "a"}, live))
			assert.Equal(t, "eu-central-1", live.Spec.Region)
		})
	}
}

func TestDiffShowsWhatIsPendingInTheCluster(t *testing.T) {
	env := templated(t, "a", "b")
	for _, object := range env.objects {
		switch object := object.(type) {
		case *clusterv1.Cluster:
			object.Spec.Paused = ptr.To(object.Name == "a")
		case *controlplanev1.CAPTControlPlane:
			if object.Name == "a" {
				object.Spec.Version = "v1.36.0"
			} else {
				object.Spec.Region = "us-east-1"
			}
		}
	}
	out, _, err := env.run(t, "diff", "team-a/a", "--detailed-exitcode")
	assert.Equal(t, migrate.Pending, migrate.OutcomeOf(err))
	assert.Contains(t, out, "    written when it is no longer paused\n    - spec.forProvider.vars[kubernetes_version]: \"1.35\"\n")
	out, _, err = env.run(t, "diff")
	require.NoError(t, err)
	assert.Contains(t, out, "! Workspace team-a/b-eks-controlplane of Cluster team-a/b")
	assert.Contains(t, out, "the control plane exists in region eu-central-1 and cannot move to us-east-1")
	assert.Contains(t, out, "1 of 2 Workspaces would change, 1 is not written\n")
	_, _, err = env.run(t, "diff", "team-a/nowhere")
	assert.EqualError(t, err, "there is no Cluster nowhere of CAPT in namespace team-a; captctl get lists all Clusters")
}

func TestDiffShowsThatAnotherControlPlaneHasTheEKSCluster(t *testing.T) {
	env := templated(t, "a", "b")
	env.objects = env.objects[:7] // The second control plane has nothing yet.
	env.objects[6].(*controlplanev1.CAPTControlPlane).Spec.EKSClusterName = "a"
	out, _, err := env.run(t, "diff", "team-a/b")
	require.NoError(t, err)
	assert.Contains(t, out, "nothing is created: EKS cluster a in region eu-central-1 with ProviderConfig")
	assert.Contains(t, out, "is that of CAPTControlPlane a, and AWS has only one of a name. Delete this Cluster, and create it with another spec.eksClusterName")
}

// The requests must not grow with the fleet.
func TestDiffCreatesNothingBesideWhatCAPTv03LeftForAnOwner(t *testing.T) {
	env := templated(t, "a")
	controlPlane, apply := env.objects[2].(*controlplanev1.CAPTControlPlane), env.objects[3].(*infrav1.WorkspaceTemplateApply)
	controlPlane.Spec.WorkspaceTemplateApplyRef.Name = ""
	apply.Name, apply.Finalizers = "production", []string{infrav1.LegacyWorkspaceTemplateApplyFinalizer}
	apply.Spec.WorkspaceName, apply.Status = "", infrav1.WorkspaceTemplateApplyStatus{WorkspaceName: "production-workspace"}
	out, _, err := env.run(t, "diff", "team-a/a")
	require.NoError(t, err)
	assert.Contains(t, out, "WorkspaceTemplateApply production (")
	assert.Contains(t, out, "0 of 2 Workspaces would change")
}

func TestDiffShowsThatAWorkspaceThatAdoptsAStateWaitsForItsPlan(t *testing.T) {
	env := templated(t, "a")
	apply := env.objects[3].(*infrav1.WorkspaceTemplateApply)
	apply.Spec.TerraformState.Name, apply.Spec.WorkspaceName, apply.Status = "shop", "", infrav1.WorkspaceTemplateApplyStatus{}
	env.objects = env.objects[:4]
	out, _, err := env.run(t, "diff")
	require.NoError(t, err)
	assert.Contains(t, out, "+ Workspace team-a/a-eks-controlplane of Cluster team-a/a")
	assert.Contains(t, out, "    written when a plan shows that Terraform would change no resource of the state that it adopts\n")
}

func TestDiffShowsThatTheManagerDoesNotWriteARetainedWorkspace(t *testing.T) {
	env := templated(t, "a")
	for _, object := range env.objects {
		switch object := object.(type) {
		case *infrav1.WorkspaceTemplateApply:
			object.CreationTimestamp, object.Status = metav1.Now(), infrav1.WorkspaceTemplateApplyStatus{}
		case *unstructured.Unstructured:
			object.SetCreationTimestamp(metav1.NewTime(time.Now().Add(-time.Hour)))
			require.Equal(t, "team-a/a-eks-controlplane-apply", object.GetAnnotations()[naming.ClaimAnnotation], "it was created for an earlier object of this name")
		}
	}
	out, _, err := env.run(t, "diff", "-f", written(t, strings.ReplaceAll(eksTemplate, "size = 1", "size = 2")))
	require.NoError(t, err)
	assert.Contains(t, out, "exists and is not recorded for this object: an earlier object of this name may have retained it")
	assert.Contains(t, out, "0 of 1 Workspace would change")
}

// As a team has it: it may read its namespace, and neither the templates of the platform team nor cluster-scoped Workspaces.
func TestDiffComparesTheRestIfATemplateMayNotBeRead(t *testing.T) {
	env := templated(t, "a", "b")
	own := &infrav1.WorkspaceTemplate{}
	readYAML(t, strings.Replace(eksTemplate, "namespace: platform", "namespace: team-a", 1), own)
	env.objects = append(env.objects, own)
	for _, object := range env.objects {
		if controlPlane, ok := object.(*controlplanev1.CAPTControlPlane); ok && controlPlane.Name == "b" {
			controlPlane.Spec.WorkspaceTemplateRef.Namespace = "team-a"
		}
		if apply, ok := object.(*infrav1.WorkspaceTemplateApply); ok && apply.Name == "b-eks-controlplane-apply" {
			apply.Spec.TemplateRef.Namespace = "team-a"
		}
	}
	env.funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if key.Namespace == "platform" {
			return apierrors.NewForbidden(schema.GroupResource{Group: infrav1.GroupVersion.Group, Resource: "workspacetemplates"}, key.Name, errors.New("no RBAC rule allows it"))
		}
		return c.Get(ctx, key, object, options...)
	}
	out, _, err := env.run(t, "diff")
	assert.EqualError(t, err, "1 Workspace cannot be compared, see above: ask for the right to read what is named there; CAPT's ClusterRole capt-view grants it for templates of a namespace")
	assert.Equal(t, strings.TrimLeft(`
! Workspace team-a/a-eks-controlplane of Cluster team-a/a (WorkspaceTemplate platform/eks)
    reading WorkspaceTemplate platform/eks: workspacetemplates.infrastructure.cluster.x-k8s.io "eks" is forbidden: no RBAC rule allows it

0 of 2 Workspaces would change, 1 cannot be compared
`, "\n"), out)
}

func TestDiffOfAFleetListsEachKindOnce(t *testing.T) {
	names := make([]string, 200)
	for i := range names {
		names[i] = fmt.Sprintf("c%03d", i)
	}
	env := templated(t, names...)
	requests := 0
	env.funcs = interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			requests++
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			requests++
			return c.List(ctx, list, options...)
		},
	}
	out, _, err := env.run(t, "diff", "-f", written(t, strings.ReplaceAll(eksTemplate, "size = 1", "size = 2")))
	require.NoError(t, err)
	assert.Contains(t, out, "~ and 195 more (-o wide lists all)\n")
	assert.Contains(t, out, "200 of 200 Workspaces would change\n")
	assert.LessOrEqual(t, requests, 8, "six kinds, the Workspaces of one scope, and the template")
}
