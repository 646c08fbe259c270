// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/eks"
	"github.com/capt-provider/capt/test/sandbox/manifests"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// module is the Terraform module of a sample in its own directory, with the configuration of the sandbox's provider.
type module struct {
	t    *testing.T
	tofu string
	dir  string
	vars map[string]string
	// file is the text of a variables file, if the module reads one.
	file string
}

func newModule(t *testing.T, s *sandbox.Sandbox, sample string, vars map[string]string) module {
	t.Helper()
	objects, err := manifests.Load(filepath.Join("..", "..", "config", "samples", "sandbox", sample))
	require.NoError(t, err)
	text, _, err := unstructured.NestedString(objects[0].Object, "spec", "template", "spec", "forProvider", "module")
	require.NoError(t, err)
	config := &unstructured.Unstructured{}
	config.SetAPIVersion("tf.m.upbound.io/v1beta1")
	config.SetKind("ClusterProviderConfig")
	require.NoError(t, newClient(t, s).Get(t.Context(), client.ObjectKey{Name: sandbox.ProviderConfigName}, config))
	m := module{t: t, tofu: s.Binary(sandbox.Tofu), dir: t.TempDir(), vars: vars}
	for name, content := range map[string]string{
		"main.tf":           text,
		"provider.tf":       nested(t, config, "configuration"),
		"backend.tfbackend": nested(t, config, "backendFile"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(m.dir, name), []byte(content), 0o600))
	}
	m.run(0, "init", "-input=false", "-backend-config=backend.tfbackend")
	// All modules use the same backend.
	m.run(0, "workspace", "new", vars["cluster_name"]+"-"+strings.TrimSuffix(sample, ".yaml"))
	return m
}

func nested(t *testing.T, config *unstructured.Unstructured, field string) string {
	t.Helper()
	text, found, err := unstructured.NestedString(config.Object, "spec", field)
	require.NoError(t, err)
	require.True(t, found)
	return text
}

// run runs tofu and requires an exit code. A plan with changes has exit code 2.
func (m module) run(code int, args ...string) string {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), m.tofu, args...)
	cmd.Dir = m.dir
	// Ignore the Terraform settings of the user.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "TF_") })
	var errors bytes.Buffer
	cmd.Stderr = &errors
	output, _ := cmd.Output()
	require.Equal(m.t, code, cmd.ProcessState.ExitCode(), "tofu %v:\n%s%s", args, output, &errors)
	if code == 1 {
		return errors.String()
	}
	return string(output)
}

// with runs a command with the module's variables, some of them changed. As provider-terraform does with a varmap, they are in a JSON file.
func (m module) with(code int, changed map[string]string, verb ...string) string {
	m.t.Helper()
	vars := maps.Clone(m.vars)
	maps.Copy(vars, changed)
	values := map[string]any{}
	for name, value := range vars {
		if values[name] = value; strings.HasPrefix(value, "[") || strings.HasPrefix(value, "{") {
			values[name] = json.RawMessage(value)
		}
	}
	varMap, err := json.Marshal(values)
	require.NoError(m.t, err)
	require.NoError(m.t, os.WriteFile(filepath.Join(m.dir, "file.tfvars"), []byte(m.file), 0o600))
	require.NoError(m.t, os.WriteFile(filepath.Join(m.dir, "map.tfvars.json"), varMap, 0o600))
	return m.run(code, append(verb, "-input=false", "-no-color", "-var-file=file.tfvars", "-var-file=map.tfvars.json")...)
}

// words removes Terraform's line breaks from a message.
func words(message string) string { return strings.Join(strings.Fields(message), " ") }

func (m module) outputs() map[string]struct {
	Value     any
	Sensitive bool
} {
	m.t.Helper()
	outputs := map[string]struct {
		Value     any
		Sensitive bool
	}{}
	raw := m.run(0, "output", "-json")
	require.NoError(m.t, json.Unmarshal([]byte(raw), &outputs), raw)
	return outputs
}

func TestSampleModulesPlanApplyUpgradeAndDestroy(t *testing.T) {
	t.Parallel()
	vpc := newModule(t, shared, "vpc-template.yaml", map[string]string{"cluster_name": "demo", "vpc_name": "demo-vpc", "region": "eu-central-1"})
	vpc.with(0, nil, "apply", "-auto-approve")
	vpc.with(0, nil, "plan", "-detailed-exitcode")
	require.Regexp(t, "^vpc-[0-9a-f]{17}$", vpc.outputs()["vpc_id"].Value)
	require.Contains(t, vpc.outputs()["vpc_config"].Value, `private_subnets = ["subnet-`)

	plane := newModule(t, shared, "controlplane-template.yaml", map[string]string{
		"cluster_name": "demo", "kubernetes_version": "1.35", "region": "eu-central-1", "endpoint_public_access": "true"})
	server := eks.Server{Dir: shared.Dir(), Name: "demo"}
	running := func() process.ID {
		id, err := server.Process()
		require.NoError(t, err)
		return id
	}
	plane.with(2, nil, "plan", "-detailed-exitcode")
	plane.with(0, nil, "apply", "-auto-approve")
	plane.with(0, nil, "plan", "-detailed-exitcode")
	before := plane.outputs()
	requireWorkingCluster(t, before["kubeconfig"].Value, "35")
	require.True(t, before["kubeconfig"].Sensitive)
	require.Equal(t, server.Endpoint(), before["cluster_endpoint"].Value)
	bundle, err := base64.StdEncoding.DecodeString(before["cluster_certificate_authority_data"].Value.(string))
	require.NoError(t, err)
	require.Contains(t, string(bundle), "BEGIN CERTIFICATE")

	// Starting the same version again changes nothing.
	first := running()
	require.NoError(t, server.Start(t.Context(), "v1.35.0"))
	require.Equal(t, first, running())
	configMaps := clusterOf(t, before["kubeconfig"].Value).CoreV1().ConfigMaps("default")
	_, err = configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, metav1.CreateOptions{})
	require.NoError(t, err)

	// A new version runs in another process, with the same outputs and objects.
	newer := map[string]string{"kubernetes_version": "1.36"}
	plan := plane.with(2, newer, "plan", "-detailed-exitcode")
	require.NotContains(t, plan, "terraform_data.cluster will")
	plane.with(0, newer, "apply", "-auto-approve")
	plane.with(0, newer, "plan", "-detailed-exitcode")
	require.Equal(t, before, plane.outputs())
	requireWorkingCluster(t, before["kubeconfig"].Value, "36")
	second := running()
	require.NotEqual(t, first, second)
	require.False(t, first.Alive())
	_, err = configMaps.Get(t.Context(), "mine", metav1.GetOptions{})
	require.NoError(t, err)

	// An unsupported version fails the apply with the cause, and can be corrected.
	wrong := map[string]string{"kubernetes_version": "1.20"}
	require.Contains(t, words(plane.with(1, wrong, "apply", "-auto-approve")), "can run as Kubernetes 1.33 to 1.36, but not 1.20")
	plane.with(0, newer, "apply", "-auto-approve")

	plane.with(0, newer, "destroy", "-auto-approve")
	require.False(t, second.Alive())
	require.NoDirExists(t, server.Folder())
	plane.with(0, newer, "destroy", "-auto-approve")
	require.NoError(t, server.Stop(t.Context()), "stopping is not idempotent")

	// Its keys were deleted: a new cluster of the same name is empty.
	plane.with(0, nil, "apply", "-auto-approve")
	_, err = clusterOf(t, plane.outputs()["kubeconfig"].Value).CoreV1().ConfigMaps("default").Get(t.Context(), "mine", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	plane.with(0, nil, "destroy", "-auto-approve")
}

// clusterOf returns a client with a kubeconfig.
func clusterOf(t *testing.T, kubeconfig any) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig.(string)))
	require.NoError(t, err)
	return kubernetes.NewForConfigOrDie(config)
}

func requireWorkingCluster(t *testing.T, kubeconfig any, minor string) {
	t.Helper()
	info, err := clusterOf(t, kubeconfig).ServerVersion()
	require.NoError(t, err)
	require.Equal(t, minor, info.EmulationMinor)
}

// selecting is a variable with quotes, braces and a text that Terraform could evaluate as a reference.
const selecting = `[{"namespace":"default"},{"labels":{"team":"${b}"},"namespace":"kube-system"}]`

func TestSampleFargateProfileIsReplacedAsInEKS(t *testing.T) {
	t.Parallel()
	server := eks.Server{Dir: shared.Dir(), Name: "profiles"}
	vpc := newModule(t, shared, "vpc-template.yaml", map[string]string{"cluster_name": "profiles", "vpc_name": "demo-vpc", "region": "eu-central-1"})
	vpc.with(0, nil, "apply", "-auto-approve")
	fargate := newModule(t, shared, "fargate-template.yaml", map[string]string{
		"cluster_name": "profiles", "profile_name": "default", "region": "eu-central-1", "selectors": selecting, "tags": `{"team":"a"}`})
	network := vpc.outputs()["vpc_config"].Value.(string)

	// Without a network or a cluster, the error says what is missing.
	fargate.file = "vpc_id = \"vpc-1\"\n"
	require.Contains(t, words(fargate.with(1, nil, "apply", "-auto-approve")), "vpc_config in the connection Secret of the VPC names none")
	fargate.file = network
	require.Contains(t, fargate.with(1, nil, "apply", "-auto-approve"), "No cluster found for name: profiles")

	require.NoError(t, server.Start(t.Context(), "1.36"))
	fargate.with(0, nil, "apply", "-auto-approve")
	before := fargate.outputs()
	require.Equal(t, "profiles:default", before["fargate_profile_id"].Value)
	require.Equal(t, "ACTIVE", before["fargate_profile_status"].Value)
	require.ElementsMatch(t, []eks.FargateSelector{{Namespace: "default"}, {Namespace: "kube-system", Labels: map[string]string{"team": "${b}"}}},
		onlyProfile(t, server).Selectors)
	require.Len(t, onlyProfile(t, server).Subnets, 3)
	fargate.with(0, map[string]string{"selectors": `[{"namespace":"kube-system","labels":{"team":"${b}"}},{"namespace":"default"}]`},
		"plan", "-detailed-exitcode")

	// Only tags are changed in place.
	fargate.with(0, map[string]string{"tags": `{"team":"b"}`}, "apply", "-auto-approve")
	after := fargate.outputs()
	require.Equal(t, before["fargate_profile_arn"], after["fargate_profile_arn"])
	require.Equal(t, map[string]any{"team": "b"}, after["fargate_profile_tags"].Value)
	fargate.with(0, map[string]string{"selectors": `[{"namespace":"default"}]`}, "apply", "-auto-approve")
	require.NotEqual(t, before["fargate_profile_arn"], fargate.outputs()["fargate_profile_arn"])
	require.Equal(t, []eks.FargateSelector{{Namespace: "default"}}, onlyProfile(t, server).Selectors)

	// It can be destroyed without the network.
	fargate.file = ""
	fargate.with(0, nil, "destroy", "-auto-approve")
	profiles, err := server.FargateProfiles()
	require.NoError(t, err)
	require.Empty(t, profiles)
	require.NoError(t, server.Stop(t.Context()))
}

func onlyProfile(t *testing.T, server eks.Server) eks.FargateProfile {
	t.Helper()
	profiles, err := server.FargateProfiles()
	require.NoError(t, err)
	require.Len(t, profiles, 1)
	return profiles[0]
}

// nodesOf returns the nodes of a cluster by name.
func nodesOf(t *testing.T, server eks.Server) map[string]corev1.Node {
	t.Helper()
	cluster, err := server.Client()
	require.NoError(t, err)
	list, err := cluster.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	nodes := map[string]corev1.Node{}
	for _, node := range list.Items {
		nodes[node.Name] = node
	}
	return nodes
}

// requireNodes requires a number of nodes that are Ready, with a version, and returns the names.
func requireNodes(t *testing.T, server eks.Server, count int, minor string) []string {
	t.Helper()
	nodes := nodesOf(t, server)
	require.Len(t, nodes, count)
	for _, node := range nodes {
		require.Equal(t, corev1.ConditionTrue, readiness(node), node.Name)
		require.Contains(t, node.Status.NodeInfo.KubeletVersion, "v"+minor+".")
	}
	return slices.Collect(maps.Keys(nodes))
}

func readiness(node corev1.Node) corev1.ConditionStatus {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return ""
}

func TestSampleNodeGroupHasNodesThatFollowTerraformAndAutoscaler(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), eks.Server{Dir: shared.Dir(), Name: "workers"}
	group := newModule(t, shared, "nodegroup-template.yaml", map[string]string{
		"cluster_name": "workers", "region": "eu-west-1", "nodegroup_name": "blue", "kubernetes_version": "1.35"})
	group.file = `private_subnets = ["subnet-2", "subnet-1"]`
	size := func(least, most, desired string) map[string]string {
		sizes := map[string]string{"min_size": least, "max_size": most}
		if desired != "" {
			sizes["desired_size"] = desired
		}
		return sizes
	}
	require.NoError(t, server.Start(ctx, "1.35"))

	// A creation that fails is reported with EKS's message, and can be repeated.
	require.NoError(t, server.BreakNodeGroup(ctx, "blue", eks.FailCreate))
	require.Contains(t, words(group.with(1, size("1", "4", "2"), "apply", "-auto-approve")), "NodeCreationFailure: Instances failed to join the kubernetes cluster")
	require.NoError(t, server.BreakNodeGroup(ctx, "blue", eks.FailNothing))
	group.with(0, size("1", "4", "2"), "apply", "-auto-approve")
	group.with(0, size("1", "4", "2"), "plan", "-detailed-exitcode")
	first := requireNodes(t, server, 2, "1.35")
	arn := group.outputs()["node_group_arn"].Value
	for name, want := range map[string]any{"node_group_name": "blue", "node_group_size": 2.0, "node_group_version": "1.35"} {
		require.Equal(t, want, group.outputs()[name].Value, name)
	}

	// Terraform corrects the size that it manages, and keeps another one, also when limits change that allow it.
	require.NoError(t, server.Rescale(ctx, "blue", eks.Scaling{Min: -1, Max: -1, Desired: 3}))
	group.with(0, size("1", "4", "2"), "apply", "-auto-approve")
	requireNodes(t, server, 2, "1.35")
	group.with(0, size("1", "4", ""), "apply", "-auto-approve")
	require.NoError(t, server.Rescale(ctx, "blue", eks.Scaling{Min: -1, Max: -1, Desired: 3}))
	require.Contains(t, group.with(2, size("1", "4", ""), "plan", "-detailed-exitcode"), "without changing any real infrastructure")
	labeled := size("1", "5", "")
	labeled["labels"], labeled["taints"] = `{"team":"a"}`, `[{"key":"dedicated","effect":"NO_EXECUTE"}]`
	group.with(0, labeled, "apply", "-auto-approve")
	group.with(0, labeled, "plan", "-detailed-exitcode")
	for _, node := range nodesOf(t, server) {
		require.Equal(t, "a", node.Labels["team"])
		require.Equal(t, []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoExecute}}, node.Spec.Taints)
	}
	require.Equal(t, 3.0, group.outputs()["node_group_size"].Value)

	// Limits that exclude the size change it. Limits that others have changed are corrected.
	group.with(0, size("4", "5", ""), "apply", "-auto-approve")
	requireNodes(t, server, 4, "1.35")
	require.NoError(t, server.Rescale(ctx, "blue", eks.Scaling{Min: 1, Max: -1, Desired: 1}))
	group.with(0, size("4", "5", ""), "apply", "-auto-approve")
	requireNodes(t, server, 4, "1.35")
	group.with(0, size("1", "5", "1"), "apply", "-auto-approve")

	// A node stays broken while the control plane is upgraded, and until the update of the node group replaces it.
	broken := requireNodes(t, server, 1, "1.35")[0]
	require.NoError(t, server.BreakNode(ctx, broken, true))
	newer := size("1", "5", "1")
	newer["kubernetes_version"] = "1.36"
	require.Contains(t, words(group.with(1, newer, "apply", "-auto-approve")), "should be equal to Cluster kubernetes version 1.35")
	require.NoError(t, server.Start(ctx, "1.36"))
	require.Equal(t, corev1.ConditionUnknown, readiness(nodesOf(t, server)[broken]))
	group.with(0, newer, "apply", "-auto-approve")
	require.NotContains(t, append(first, broken), requireNodes(t, server, 1, "1.36")[0])
	require.Equal(t, arn, group.outputs()["node_group_arn"].Value)

	// The cluster is stopped after its node group, with kwok.
	require.ErrorContains(t, server.Stop(ctx), "Cluster has nodegroups attached")
	group.file = ""
	group.with(0, newer, "destroy", "-auto-approve")
	require.Empty(t, nodesOf(t, server))
	recorded, err := server.Recorded()
	require.NoError(t, err)
	require.Len(t, recorded.Processes, 2)
	require.NoError(t, server.Stop(ctx))
	for _, p := range recorded.Processes {
		require.False(t, p.Alive(), "%s still runs", p.Name)
	}
}
