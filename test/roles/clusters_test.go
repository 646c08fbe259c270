// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox/process"
)

const (
	tick = 200 * time.Millisecond

	throttled = "\nError: creating EKS Cluster: operation error EKS: CreateCluster, https response error StatusCode: 429, api error ThrottlingException: Rate exceeded\n"
	soon      = "recovery: {backoff: {initialSeconds: 1, maxSeconds: 2}, actions: [{type: %s}]}"
)

// createAndDeleteClusters uses every feature that makes the manager send requests. The second environment has the users of a template of the first one.
func createAndDeleteClusters(env, user *fixture.Environment) {
	env.Helper()
	source, eks := "Auto", env.ControlPlaneTemplate(strings.Replace(fixture.FargateControlPlaneModule, "Y2E=", builder.CA(), 1))
	if env.Scope == terraform.ScopeNamespaced {
		source = "Token" // Only one control plane may have the tokens of an EKS cluster.
		fixture.Apply(env, env.Client, fixture.Decode(env, env.Namespace, strings.Replace(env.ProviderConfig(), "kind: Cluster", "kind: ", 1)))
		eks = strings.Replace(eks, "kind: ClusterProviderConfig", "kind: ProviderConfig", 1)
	}
	controlPlane := func(recovery infrav1.RecoveryActionType, profiles ...string) string {
		return fixture.CAPTControlPlane(fixture.Demo, fmt.Sprintf(soon, recovery), "kubeconfig: {source: "+source+"}", "endpointProbe: Disabled",
			fixture.FargateProfiles(profiles...))
	}
	batch := naming.FargateWorkspaceTemplateApply(fixture.Demo, "batch")

	// The first apply fails, and CAPT asks the provider for another one.
	env.SetScript(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Stderr: throttled}})
	env.User(env.FargateTemplates()...)
	env.User(eks, fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), controlPlane(infrav1.RecoveryReapply, "jobs"))
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, infrav1.RecoveringCondition, metav1.ConditionTrue, infrav1.RecoveringReason)
	env.SetScript(fixture.ControlPlane, scripted.Script{})
	env.AwaitState(infrav1.StateReady, "")

	// A profile that fails is recreated, and then removed.
	env.SetScript(batch, scripted.Script{Apply: scripted.Step{Stderr: throttled, Partial: true}})
	env.User(controlPlane(infrav1.RecoveryRecreateFargateProfile, "jobs", "batch"))
	env.AwaitOperation(batch, scripted.Destroy)
	env.SetScript(batch, scripted.Script{})
	env.AwaitState(infrav1.StateReady, "")
	env.User(controlPlane(infrav1.RecoveryReapply, "jobs"))
	env.AwaitGone(&infrav1.WorkspaceTemplateApply{}, batch)

	env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, fmt.Sprintf(
		`{"metadata":{"annotations":{%q:"1"}},"spec":{"version":"v1.34.0","additionalTags":{"edited":"true"}}}`, naming.RetryAnnotation))
	env.AwaitState(infrav1.StateReady, "")
	addNodeGroup(env)
	env.Captctl("run", env.Namespace+"/"+fixture.Demo)
	env.Captctl("plan", env.Namespace+"/"+fixture.Demo)

	// As clusterctl move pauses it.
	env.Edit(&clusterv1.Cluster{}, fixture.Demo, `{"spec":{"paused":true}}`)
	env.Await(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, clusterv1.PausedCondition, metav1.ConditionTrue, "")
	env.Edit(&clusterv1.Cluster{}, fixture.Demo, `{"spec":{"paused":false}}`)
	env.Await(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, clusterv1.PausedCondition, metav1.ConditionFalse, "")

	rollOut(env, user)
	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	env.RequireNothingLeft()
}

// addNodeGroup creates a machine pool whose size another client manages, so that CAPT writes it to the MachinePool. Its nodes cannot be read.
func addNodeGroup(env *fixture.Environment) {
	env.Helper()
	env.User(env.NodeGroupTemplate(fixture.NodeGroupModule), fixture.CAPTMachinePool("workers", fixture.NodeGroupTemplate, "scaling: {maxSize: 9}"),
		fixture.MachinePool(fixture.Demo, "workers", 1, clusterv1.ReplicasManagedByAnnotation+": autoscaler"))
	env.Await(&infrav1.CAPTMachinePool{}, "workers", infrav1.NodeGroupReadyCondition, metav1.ConditionTrue, infrav1.NodeGroupReadyReason)
	env.Eventually(func() string {
		machinePool := &clusterv1.MachinePool{}
		require.True(env, env.Exists(machinePool, "workers"))
		return fixture.Unless(*machinePool.Spec.Replicas == 3, "it has %d replicas", *machinePool.Spec.Replicas)
	})
}

// stagedTemplate is the name of a template that is rolled out in stages.
const stagedTemplate = "staged"

// stage is a VPC template that is rolled out in stages to those who use it from namespaces with a label.
func stage(env *fixture.Environment, module string) string {
	return strings.Replace(env.Template(stagedTemplate, module, "vpc_name"), "\nspec:\n",
		"\nspec:\n  rollout: {strategy: Staged, preview: Always, approval: OnChanges}\n  allowedNamespaces: {selector: {matchLabels: {team: shop}}}\n", 1)
}

// rollOut previews and approves a change, and makes so many revisions that old ones are deleted.
func rollOut(env, user *fixture.Environment) {
	env.Helper()
	user.Kubectl("label", "namespace", user.Namespace, "team=shop")
	env.User(stage(env, fixture.VPCModule))
	user.User(fixture.WorkspaceTemplateApply(stagedTemplate+", namespace: "+env.Namespace, "vpc", "variables: {vpc_name: vpc}"))
	user.Await(&infrav1.WorkspaceTemplateApply{}, "vpc", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)

	env.User(stage(env, strings.Replace(fixture.VPCModule, "input = var.vpc_name", `input = "${var.vpc_name} 2"`, 1)))
	env.Await(&infrav1.WorkspaceTemplate{}, stagedTemplate, infrav1.RollingOutCondition, metav1.ConditionTrue, infrav1.RolloutWaitingReason, naming.ApproveAnnotation)
	template := &infrav1.WorkspaceTemplate{}
	require.True(env, env.Exists(template, stagedTemplate))
	env.Edit(template, stagedTemplate, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, naming.ApproveAnnotation, rollout.HashOf(template)))
	for edit := range 12 {
		env.Eventually(func() string {
			require.True(env, env.Exists(template, stagedTemplate))
			s := template.Status.Rollout
			return fixture.Unless(s.Revision == rollout.HashOf(template) && s.Stage == infrav1.RolloutComplete, "the rollout of %s is at stage %s", s.Revision, s.Stage)
		})
		env.Edit(template, stagedTemplate, fmt.Sprintf(`{"spec":{"template":{"spec":{"forProvider":{"planArgs":["-parallelism=%d"]}}}}}`, edit+1))
	}
	user.Remove(&infrav1.WorkspaceTemplateApply{}, "vpc")
	user.AwaitGone(&infrav1.WorkspaceTemplateApply{}, "vpc")
	env.RemoveAllowed(&infrav1.WorkspaceTemplate{}, stagedTemplate)
	env.AwaitGone(&infrav1.WorkspaceTemplate{}, stagedTemplate)
}

// readMetrics reads the metrics of a replica that does not lead, which authenticates and authorizes its clients as in config/manager.
func readMetrics(t *testing.T) {
	t.Helper()
	port, err := process.FreePort()
	require.NoError(t, err)
	shared.StartInstance(t, "standby", append(leaderElection(), "--insecure-diagnostics=false", "--diagnostics-address="+process.Loopback(port))...)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: fixture.NewNamespace(t, shared.API), Name: "scraper"}}
	require.NoError(t, shared.API.Create(t.Context(), account))
	request := &authenticationv1.TokenRequest{}
	require.NoError(t, shared.API.SubResource("token").Create(t.Context(), account, request))
	awaitCode := func(token string, code int) {
		t.Helper()
		fixture.Eventually(t, tick, func() string {
			got, err := scrape(t, "https://"+process.Loopback(port)+"/metrics", token)
			return fixture.Unless(err == nil && got == code, "it returns %d, %v", got, err)
		})
	}
	awaitCode("", http.StatusUnauthorized)
	awaitCode(request.Status.Token, http.StatusForbidden)
	require.NoError(t, shared.API.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account.Namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capt-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}))
	awaitCode(request.Status.Token, http.StatusOK)
}

func scrape(t *testing.T, url, token string) (int, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // The certificate is self-signed.
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
