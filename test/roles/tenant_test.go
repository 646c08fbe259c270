// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/command"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// tenant is a user whose only right is a ClusterRole in one namespace, capt-tenant for most.
type tenant struct {
	*fixture.Environment
	user string
	API  client.Client
}

func newTenant(t *testing.T, scope terraform.Scope) *tenant {
	t.Helper()
	return newUser(t, scope, "capt-tenant", &clusterv1.ClusterList{})
}

// newUser is newTenant for another role, which permits to list some objects.
func newUser(t *testing.T, scope terraform.Scope, role string, list client.ObjectList) *tenant {
	t.Helper()
	env := shared.NewEnvironment(t, scope)
	user := "tenant-of-" + env.Namespace
	require.NoError(t, shared.API.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
	config := shared.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	api, err := client.New(config, client.Options{Scheme: controllers.Scheme()})
	require.NoError(t, err)
	env.Eventually(func() string {
		err := api.List(t.Context(), list, client.InNamespace(env.Namespace))
		return fixture.Unless(err == nil, "the RoleBinding is not known yet: %v", err)
	})
	return &tenant{env, user, api}
}

// creates applies documents as the tenant.
func (u *tenant) creates(documents ...string) {
	u.Helper()
	for _, document := range documents {
		require.NoError(u, u.API.Create(u.Context(), fixture.Decode(u, u.Namespace, document)))
	}
}

// captctl runs captctl as the tenant, in its namespace.
func (u *tenant) captctl(arguments ...string) (printed, warned string, err error) {
	u.Helper()
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	arguments = append(arguments, "--kubeconfig="+shared.Kubeconfig(), "--as="+u.user, "--namespace="+u.Namespace)
	err = command.New("captctl", arguments, streams).ExecuteContext(u.Context())
	return stdout.String(), stderr.String(), err
}

// scale scales a machine pool, as kubectl scale does, and waits until Terraform has applied its node group.
func (u *tenant) scale(name string, replicas int32) {
	u.Helper()
	machinePool := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: u.Namespace, Name: name}}
	scale := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	require.NoError(u, u.API.SubResource("scale").Patch(u.Context(), machinePool, scale, client.WithSubResourceBody(&autoscalingv1.Scale{})))
	apply := &infrav1.WorkspaceTemplateApply{}
	u.Await(apply, naming.MachinePoolWorkspaceTemplateApply(name), infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	u.Eventually(func() string {
		return fixture.Unless(u.Exists(apply, naming.MachinePoolWorkspaceTemplateApply(name)) && apply.Spec.Variables.Text(naming.DesiredSizeVariable) == fmt.Sprint(replicas), "it is not scaled")
	})
}

// The VPC has a template of another namespace, and the control plane one of the namespace of the tenant.
func TestATenantReadsItsClustersWithCaptctl(t *testing.T) {
	t.Parallel()
	u := newTenant(t, terraform.ScopeNamespaced)
	platform := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	platform.User(strings.Replace(platform.VPCTemplate(fixture.FargateVPCModule), "\nspec:\n", "\nspec:\n  allowedNamespaces: {names: ["+u.Namespace+"]}\n", 1))
	u.User(u.ControlPlaneTemplate(fixture.ControlPlaneModule), u.NodeGroupTemplate(fixture.NodeGroupModule))
	u.creates(fixture.Cluster(), fixture.CAPTClusterWith(fixture.Demo, "{template: {ref: {name: vpc, namespace: "+platform.Namespace+"}}}"),
		fixture.CAPTControlPlane(fixture.Demo, "endpointProbe: Disabled"),
		fixture.CAPTMachinePool("workers", fixture.NodeGroupTemplate, "scaling: {maxSize: 9}"), fixture.MachinePool(fixture.Demo, "workers", 1, ""))
	u.AwaitState(infrav1.StateReady, "")
	u.scale("workers", 2)

	for _, arguments := range [][]string{
		{"get"}, {"get", "-o", "json"}, {"describe", fixture.Demo}, {"report"},
		{"logs", fixture.Demo}, {"logs", "workspacetemplateapply/" + fixture.VPC},
		{"tree", "--impact", "WorkspaceTemplate/" + fixture.ControlPlaneTemplate},
		{"pause", fixture.Demo}, {"resume", fixture.Demo}, {"retry", fixture.Demo}, {"reconcile", fixture.Demo}, {"run", fixture.Demo}, {"check"},
		{"wait", fixture.Demo, "--for", "ready"}, {"get", "--retained"}, {"version"},
		{"template", "list"}, {"template", "plan", fixture.ControlPlaneTemplate}, {"template", "variables", fixture.ControlPlaneTemplate},
	} {
		_, _, err := u.captctl(arguments...)
		assert.NoError(t, err, arguments)
	}

	printed, warned, err := u.captctl("tree", fixture.Demo)
	require.NoError(t, err)
	assert.Empty(t, warned)
	assert.Regexp(t, `WorkspaceTemplate/`+platform.Namespace+`/vpc +Unknown +no permission to read it`, printed)
	assert.Regexp(t, `WorkspaceTemplate/eks +True`, printed)

	printed, _, err = u.captctl("diff")
	assert.ErrorContains(t, err, "1 Workspace cannot be compared, see above: ask for the right to read what is named there")
	assert.Contains(t, printed, "reading WorkspaceTemplate "+platform.Namespace+"/vpc: ")
	assert.Contains(t, printed, "0 of 3 Workspaces would change, 1 cannot be compared")

	_, warned, err = u.captctl("template", "status", fixture.ControlPlaneTemplate)
	require.NoError(t, err)
	assert.Contains(t, warned, "stored revisions are not shown")
	assert.Contains(t, warned, "users in other namespaces than "+u.Namespace+" are not shown")
	_, _, err = u.captctl("template", "status", platform.Namespace+"/"+fixture.VPCTemplate)
	assert.ErrorContains(t, err, "ask for a role in the namespace that grants this: CAPT's installation has the ClusterRoles capt-tenant")

	const approve = "ask for CAPT's ClusterRole capt-template-author in the namespace of the template"
	for command, missing := range map[string]string{
		"kubeconfig " + fixture.Demo:                                          `cannot get resource "secrets" in API group "" in the namespace "` + u.Namespace + `"; ask for a role that grants this`,
		"plan " + fixture.Demo:                                                "ask for CAPT's ClusterRole capt-plan-requester in the namespace",
		"adopt list --provider-config ClusterProviderConfig/default":          "ask for CAPT's ClusterRole capt-adopter, with a ClusterRoleBinding",
		"migrate status":                                                      "; captctl migrate check lists the missing permissions, and the roles that have them",
		"migrate plan":                                                        "rights are missing: get namespaces, list namespaces at the cluster scope, list ",
		"migrate check":                                                       "checks failed",
		"template pause " + fixture.ControlPlaneTemplate:                      approve,
		"template resume --yes " + fixture.ControlPlaneTemplate:               approve,
		"template rollback --yes " + fixture.ControlPlaneTemplate:             approve,
		"template approve --yes --revision 1 " + fixture.ControlPlaneTemplate: approve,
	} {
		_, _, err := u.captctl(strings.Fields(command)...)
		assert.ErrorContains(t, err, missing, command)
	}
	_, _, err = u.captctl("get", "--all-namespaces")
	assert.ErrorContains(t, err, "at the cluster scope; to read one namespace, set --namespace")
	for namespace, object := range map[string]client.Object{
		u.Namespace:        &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fixture.Demo + "-kubeconfig"}},
		platform.Namespace: &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: fixture.VPCTemplate}},
	} {
		err := u.API.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: object.GetName()}, object)
		assert.True(t, apierrors.IsForbidden(err), "%T: %v", object, err)
	}
	require.NoError(t, u.API.Delete(t.Context(), fixture.Decode(t, u.Namespace, fixture.Cluster())))
	u.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
}

// A template author has no other role, in the namespace of the template.
func TestATemplateAuthorRollsARevisionOut(t *testing.T) {
	t.Parallel()
	u := newUser(t, terraform.ScopeNamespaced, "capt-template-author", &infrav1.WorkspaceTemplateList{})
	staged := strings.Replace(u.VPCTemplate(fixture.VPCModule), "\nspec:\n", "\nspec:\n  rollout: {strategy: Staged, approval: Always}\n", 1)
	u.User(staged, u.ControlPlaneTemplate(fixture.ControlPlaneModule), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo, "endpointProbe: Disabled"))
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: u.Namespace, Name: fixture.VPCTemplate}}
	await := func(stage infrav1.RolloutStage, revision int64) {
		u.Eventually(func() string {
			found := u.Exists(template, template.Name) && template.Status.Rollout.Stage == stage && template.Status.Rollout.Number == revision
			return fixture.Unless(found, "the stage of revision %d is %s", template.Status.Rollout.Number, template.Status.Rollout.Stage)
		})
	}
	await(infrav1.RolloutWaitingForApproval, 1)
	_, _, err := u.captctl("template", "approve", template.Name, "--revision", template.Status.Revision, "--yes")
	require.NoError(t, err)
	u.AwaitState(infrav1.StateReady, "")
	edit := fmt.Sprintf(`{"spec":{"template":{"spec":{"forProvider":{"module":%q}}}}}`, fixture.VPCModule+"\n# edited\n")
	require.NoError(t, u.API.Patch(t.Context(), template, client.RawPatch(types.MergePatchType, []byte(edit))))
	await(infrav1.RolloutWaitingForApproval, 2)
	for _, arguments := range [][]string{
		{"list"}, {"status", template.Name}, {"plan", template.Name}, {"variables", template.Name}, {"pause", template.Name}, {"resume", template.Name, "--yes"},
		{"approve", template.Name, "--revision", template.Status.Revision, "--yes"}, {"rollback", template.Name, "--yes"},
	} {
		printed, _, err := u.captctl(append([]string{"template"}, arguments...)...)
		require.NoError(t, err, arguments)
		assert.NotEmpty(t, printed, arguments)
	}
}

// The role view of Kubernetes includes capt-view, and nothing of Cluster API and Crossplane.
func TestCaptctlShowsWhatAUserOfTheRoleViewMayRead(t *testing.T) {
	t.Parallel()
	u := newUser(t, terraform.ScopeNamespaced, "capt-view", &infrav1.CAPTClusterList{})
	u.User(u.VPCTemplate(fixture.VPCModule), u.ControlPlaneTemplate(fixture.ControlPlaneModule), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo, "endpointProbe: Disabled"))
	u.AwaitState(infrav1.StateReady, "")
	for _, arguments := range [][]string{
		{"get"}, {"get", fixture.Demo}, {"describe", fixture.Demo}, {"report"}, {"tree", fixture.Demo}, {"tree", "--impact", "WorkspaceTemplate/" + fixture.VPCTemplate},
		{"logs", fixture.Demo}, {"template", "list"}, {"template", "status", fixture.VPCTemplate}, {"template", "plan", fixture.VPCTemplate},
	} {
		printed, warned, err := u.captctl(arguments...)
		require.NoError(t, err, arguments)
		assert.NotEmpty(t, printed, arguments)
		if arguments[0] != "template" {
			assert.Contains(t, warned, "clusters.cluster.x-k8s.io", arguments)
			assert.Contains(t, warned, "what Cluster API reports is not shown; the ClusterRole capt-tenant grants it", arguments)
		}
	}
	printed, _, err := u.captctl("get")
	require.NoError(t, err)
	assert.Regexp(t, fixture.Demo+" +Ready", printed)
	for _, arguments := range [][]string{{"diff"}, {"get", "--retained"}} {
		_, _, err := u.captctl(arguments...)
		assert.ErrorContains(t, err, "ask for a role", arguments)
	}
}

// No right in a namespace gives access to an object without one.
func TestCaptctlReportsThatATenantMayNotReadClusterScopedWorkspaces(t *testing.T) {
	t.Parallel()
	u := newTenant(t, terraform.ScopeCluster)
	u.User(u.VPCTemplate(fixture.VPCModule))
	u.SetScript("vpc", scripted.Script{Apply: scripted.Step{Stderr: throttled}})
	u.creates(fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "vpc", "variables: {vpc_name: vpc}"))
	u.Await(&infrav1.WorkspaceTemplateApply{}, "vpc", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ApplyFailedReason)

	printed, _, err := u.captctl("logs", "vpc")
	require.NoError(t, err)
	assert.Contains(t, printed, "Rate exceeded", "the manager publishes a shortened message")
	assert.Regexp(t, `The complete text is not available: reading Workspace \S+: workspaces.tf.upbound.io "\S+" is forbidden`, printed)

	printed, _, err = u.captctl("diff")
	assert.ErrorContains(t, err, "1 Workspace cannot be compared")
	assert.Contains(t, printed, "listing Workspaces: workspaces.tf.upbound.io is forbidden")

	_, warned, err := u.captctl("tree", "--impact", "WorkspaceTemplate/"+fixture.VPCTemplate)
	require.NoError(t, err)
	assert.Contains(t, warned, "what Workspaces refer to (Secrets, ConfigMaps, ProviderConfigs) is not shown: workspaces.tf.upbound.io is forbidden")
}
