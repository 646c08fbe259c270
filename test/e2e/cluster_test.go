// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capt-provider/capt/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/eks"
)

// How many writes CAPT may need to make a cluster, and each Fargate profile or machine pool of it, Events and leases aside.
const maxWrites, maxPartWrites = 30, 10

// warning matches warnings of admission, but not the log of kubectl.
const warning = `(?m)^Warning: `

// TestQuickstart follows docs/quickstart.md word for word: a cluster is created, used, upgraded and deleted.
func TestQuickstart(t *testing.T) {
	env := newEnvironment(t, "--max-reconcile-rate=10") // With 1, the provider itself would change one profile at a time.
	g := newGuide(env)

	// The cluster is available for Cluster API itself, and its kubeconfig works.
	output := g.until("make quickstart")
	require.Contains(t, output, "$ kubectl apply -f config/samples/sandbox\n")
	require.NotRegexp(t, warning, output, "the samples are applied in an order that causes warnings")
	require.NotContains(t, output, "goroutine", "a stack trace")
	require.Regexp(t, `CAPTCluster default/demo +True +Ready`, output)
	require.Regexp(t, `CAPTControlPlane default/demo, v1.34.0 +True +Available`, output)
	require.Contains(t, output, "source .sandbox/env ")
	env.awaitTrue(&clusterv1.Cluster{}, "demo", clusterv1.AvailableCondition, clusterv1.ClusterRemoteConnectionProbeCondition,
		clusterv1.InfrastructureReadyCondition, clusterv1.ClusterControlPlaneAvailableCondition)
	env.requireFewWrites(2)
	env.requireEmptyLocalPlan()
	require.Regexp(t, `default/demo-workers`, output)
	require.Regexp(t, `(?s)eu-central-1.* Ready .*eu-central-1.* Ready `, g.until("get kubeconfig"))
	require.Contains(t, env.workload("demo", "get", "--raw", "/version"), `"emulationMinor": "34"`)

	// Cluster API itself finds the nodes.
	output = g.until("kubectl scale machinepool")
	require.Regexp(t, `demo-workers +demo +3 `, output)
	require.Regexp(t, `demo +Ready +v1.34.0 +Healthy +3/3 `, output)
	pool := &clusterv1.MachinePool{}
	env.await(pool, "demo-workers", func() string {
		return fixture.Unless(pool.Status.Phase == string(clusterv1.MachinePoolPhaseRunning) && len(pool.Status.NodeRefs) == 3, "phase %s with %d nodes", pool.Status.Phase, len(pool.Status.NodeRefs))
	})

	// A new version restarts the API server in place.
	before := env.endpoint("demo")
	require.NotRegexp(t, warning, g.until(`"version":"v1.35.0"`), "the upgrade is to a version that CAPT supports")
	require.Equal(t, before, env.endpoint("demo"))
	require.Contains(t, env.workload("demo", "get", "--raw", "/version"), `"emulationMinor": "35"`)
	require.Equal(t, 3, strings.Count(g.until("'{.status.version}'=v1.35.0"), " v1.35."), "all nodes have the new version")

	output = g.until("fargateProfiles")
	for _, profile := range []string{"default", "apps", "batch"} {
		require.Regexp(t, `Fargate profile `+profile+` +ACTIVE`, output)
	}
	env.requireProfilesChange()
	require.Regexp(t, `"sandbox-vpc" is invalid: .*module: .*line \d+, column \d+`, g.until("sed"))
	require.Contains(t, g.until("captctl template test"), "the module has no var.subnets")
	output = g.until("kubectl apply -f .sandbox/mistake.yaml")
	require.Regexp(t, `State: +Degraded`, output)
	require.Contains(t, output, "kubectl edit workspacetemplate -n default sandbox-vpc")
	require.Contains(t, g.until("captctl get"), "1 Cluster: 1 Ready")
	require.Greater(t, g.runTroubleshooting(), 30, "commands of docs/troubleshooting.md")
	require.Contains(t, g.until("captctl plan -f"), "~ terraform_data.vpc")
	require.Regexp(t, `(?s)Plans: +~1 for 1 user.*Stage: +Complete`, g.until("captctl template status"))
	require.Contains(t, g.until("kubectl delete cluster demo"), "CAPTControlPlane demo of Cluster demo is protected from deletion")
	require.Contains(t, g.until("bin/sandbox restart"), "All components of the sandbox in .sandbox are running.")

	// Deleting the Cluster destroys the node group and the Fargate profiles, then the control plane, then the VPC.
	g.until("kubectl delete cluster")
	env.requireDestroyedInOrder("demo-batch-fargate", "demo-default-fargate", "demo-apps-fargate", "demo-workers-nodegroup", "demo-eks-controlplane", "demo-vpc")
	env.requireNothingLeft("demo")
	env.requireNothingForbidden()
	require.Contains(t, g.until("make quickstart-down"), "Removed the sandbox in .sandbox.")
	require.Empty(t, g.blocks, "the last block removes the sandbox")
}

// requireEmptyLocalPlan plans the Cluster on this machine: nothing would change, and the states do not.
func (env *environment) requireEmptyLocalPlan() {
	env.Helper()
	states := func() string {
		return env.kubectl("get", "secrets", "-A", "-l", "tfstate=true", "-o", "jsonpath={range .items[*]}{.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}")
	}
	before := states()
	output := env.run(sandbox.Captctl, "plan", "default/demo", "--local", "--detailed-exitcode", "--terraform", env.Binary(sandbox.Tofu), "--kubeconfig", env.Kubeconfig())
	require.Regexp(env, `(?s)\(vpc\).*No changes\..*\(controlplane\).*No changes\..*\(machinepool\).*No changes\.`, output)
	require.Contains(env, before, "tfstate-")
	require.Equal(env, before, states())
}

// workload runs kubectl against the new cluster, with the kubeconfig that users get.
func (env *environment) workload(cluster string, args ...string) string {
	env.Helper()
	path := filepath.Join(env.TempDir(), "kubeconfig")
	require.NoError(env, os.WriteFile(path, []byte(env.clusterctl("get", "kubeconfig", cluster)), 0o600))
	return env.run(sandbox.Kubectl, append([]string{"--kubeconfig", path}, args...)...)
}

func (env *environment) endpoint(name string) clusterv1.APIEndpoint {
	env.Helper()
	cluster := &clusterv1.Cluster{}
	env.await(cluster, name, func() string { return "" })
	return cluster.Spec.ControlPlaneEndpoint
}

// requireFewWrites counts what the manager wrote for the cluster so far. Templates are not part of it: many clusters share
// them.
func (env *environment) requireFewWrites(parts int) {
	env.Helper()
	events, err := env.AuditEvents(audit.Filter{User: sandbox.ManagerUser, Verbs: audit.Writes})
	require.NoError(env, err)
	var writes []string
	for _, event := range events {
		ref := event.ObjectRef
		switch ref.Resource {
		case "events", "leases", "workspacetemplates", "customresourcedefinitions": // Definitions are marked once, for all clusters.
		default:
			writes = append(writes, strings.Join([]string{event.Verb, ref.Resource, ref.Subresource, ref.Name}, " "))
		}
		require.NotEqual(env, "clusters", ref.Resource, "CAPT never writes a Cluster")
	}
	env.Logf("writes of the manager from creation to Ready: %d", len(writes))
	require.LessOrEqual(env, len(writes), maxWrites+parts*maxPartWrites, strings.Join(writes, "\n"))
}

// requireDestroyedInOrder reads from the audit log that these Workspaces were deleted in this order, each only after the one
// before it was gone. Those of Fargate profiles and node groups come first.
func (env *environment) requireDestroyedInOrder(workspaces ...string) {
	env.Helper()
	deletions, err := env.AuditEvents(audit.Filter{User: sandbox.ManagerUser, Verbs: []string{"delete"}, Resource: "workspaces"})
	require.NoError(env, err)
	deletions = slices.DeleteFunc(deletions, func(event auditv1.Event) bool { return strings.Contains(event.ObjectRef.Name, "-preview-") })
	var names []string
	for _, event := range deletions {
		names = append(names, event.ObjectRef.Name)
	}
	// The order of Fargate profiles and node groups does not matter.
	profiles := slices.IndexFunc(workspaces, func(name string) bool {
		return !strings.HasSuffix(name, "-fargate") && !strings.HasSuffix(name, "-nodegroup")
	})
	require.Len(env, names, len(workspaces))
	require.ElementsMatch(env, workspaces[:profiles], names[:profiles])
	require.Equal(env, workspaces[profiles:], names[profiles:])
	for i, workspace := range names[:len(names)-1] {
		require.True(env, env.released(workspace).Before(deletions[i+1].RequestReceivedTimestamp.Time),
			"the finalizer of %s was removed before %s was deleted", workspace, workspaces[i+1])
	}
}

// released is when the provider let go of a Workspace: its last write to it.
func (env *environment) released(workspace string) time.Time {
	env.Helper()
	writes, err := env.AuditEvents(audit.Filter{User: sandbox.ProviderUser, Resource: "workspaces", Name: workspace, Verbs: audit.Writes})
	require.NoError(env, err)
	require.NotEmpty(env, writes)
	return writes[len(writes)-1].RequestReceivedTimestamp.Time
}

// requireNothingLeft looks for objects, Terraform's state, Secrets and the API server of the cluster.
func (env *environment) requireNothingLeft(cluster string) {
	env.Helper()
	for _, kind := range [][2]string{
		{"cluster.x-k8s.io/v1beta2", "Cluster"},
		{infrav1.GroupVersion.String(), "CAPTCluster"},
		{controlplanev1.GroupVersion.String(), "CAPTControlPlane"},
		{infrav1.GroupVersion.String(), "WorkspaceTemplateApply"},
		{"tf.m.upbound.io/v1beta1", "Workspace"},
		{clusterv1.GroupVersion.String(), "MachinePool"},
		{infrav1.GroupVersion.String(), "CAPTMachinePool"},
		{bootstrapv1.GroupVersion.String(), "CAPTBootstrapConfig"},
	} {
		require.Empty(env, env.names(kind[0], kind[1]), kind[1])
	}
	for _, secret := range env.names("v1", "Secret") {
		require.NotContains(env, secret, cluster)
	}
	servers, err := eks.List(env.Dir())
	require.NoError(env, err)
	require.Empty(env, servers, "the API server of the cluster is gone")
}

// requireNothingForbidden: the role that is shipped is enough.
func (env *environment) requireNothingForbidden() {
	env.Helper()
	events, err := env.AuditEvents(audit.Filter{User: sandbox.ManagerUser})
	require.NoError(env, err)
	for _, event := range events {
		require.NotEqual(env, int32(403), event.ResponseStatus.Code, "%s %s", event.Verb, event.RequestURI)
	}
}

// requireProfilesChange edits one of three profiles and removes it. The simulated EKS refuses to change two at a time.
func (env *environment) requireProfilesChange() {
	env.Helper()
	batch, other := env.arn("batch"), env.arn("default")
	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.kubectl("patch", "captcontrolplane", "demo", "--type=json", "-p", `[{"op": "replace", "path": "/spec/fargateProfiles/2/selectors/0/namespace", "value": "jobs"}]`)
	env.await(controlPlane, "demo", func() string {
		if env.arn("batch") == batch {
			return "batch was not replaced"
		}
		return ""
	})
	env.awaitTrue(controlPlane, "demo", controlplanev1.ReadyCondition)
	require.Equal(env, other, env.arn("default"))

	env.kubectl("patch", "captcontrolplane", "demo", "--type=json", "-p", `[{"op": "remove", "path": "/spec/fargateProfiles/2"}]`)
	env.awaitGone(&infrav1.WorkspaceTemplateApply{}, "demo-batch-fargate-apply")
	env.await(controlPlane, "demo", func() string {
		if len(controlPlane.Status.FargateProfiles) != 2 {
			return "status still has batch"
		}
		return ""
	})
	require.Equal(env, map[string]string{"default": "ACTIVE", "apps": "ACTIVE"}, env.listed("demo"))
	env.awaitTrue(controlPlane, "demo", controlplanev1.ReadyCondition)
	env.requireNeverRefused()
}

// listed are the profiles that EKS has, with their status.
func (env *environment) listed(cluster string) map[string]string {
	env.Helper()
	profiles, err := eks.Server{Dir: env.Dir(), Name: cluster}.FargateProfiles()
	require.NoError(env, err)
	listed := map[string]string{}
	for _, profile := range profiles {
		listed[profile.Name] = string(profile.Status)
	}
	return listed
}

// arn of a profile, which is another one for each that was made.
func (env *environment) arn(profile string) string {
	env.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	env.await(apply, "demo-"+profile+"-fargate-apply", func() string { return "" })
	return apply.Status.Outputs["fargate_profile_arn"]
}

// requireNeverRefused: a failure of Terraform would have been reported, since EKS refuses two at a time.
func (env *environment) requireNeverRefused() {
	env.Helper()
	events := &eventsv1.EventList{}
	require.NoError(env, env.List(env.Context(), events))
	require.NotEmpty(env, events.Items)
	for i := range events.Items {
		require.NotContains(env, events.Items[i].Note, "ResourceInUseException")
		require.NotEqual(env, infrav1.ApplyFailedReason, events.Items[i].Reason, events.Items[i].Note)
		require.NotEqual(env, infrav1.DestroyFailedReason, events.Items[i].Reason, events.Items[i].Note)
	}
}
