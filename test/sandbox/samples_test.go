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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/eks"
	"github.com/capt-provider/capt/test/sandbox/manifests"
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

// with runs a command with the module's variables, some of them changed.
func (m module) with(code int, changed map[string]string, verb ...string) string {
	m.t.Helper()
	vars := maps.Clone(m.vars)
	maps.Copy(vars, changed)
	args := append(verb, "-input=false", "-no-color")
	for name, value := range vars {
		args = append(args, "-var", name+"="+value)
	}
	require.NoError(m.t, os.WriteFile(filepath.Join(m.dir, "file.tfvars"), []byte(m.file), 0o600))
	return m.run(code, append(args, "-var-file=file.tfvars")...)
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

	// A new version restarts the server and changes no outputs.
	newer := map[string]string{"kubernetes_version": "1.36"}
	plan := plane.with(2, newer, "plan", "-detailed-exitcode")
	require.NotContains(t, plan, "terraform_data.cluster will")
	plane.with(0, newer, "apply", "-auto-approve")
	plane.with(0, newer, "plan", "-detailed-exitcode")
	require.Equal(t, before, plane.outputs())
	requireWorkingCluster(t, before["kubeconfig"].Value, "36")

	// An unsupported version fails the apply with the cause, and can be corrected.
	wrong := map[string]string{"kubernetes_version": "1.20"}
	require.Contains(t, plane.with(1, wrong, "apply", "-auto-approve"), "but not 1.20")
	plane.with(0, newer, "apply", "-auto-approve")

	id, err := server.Process()
	require.NoError(t, err)
	plane.with(0, newer, "destroy", "-auto-approve")
	require.False(t, id.Alive())
	require.NoDirExists(t, server.Folder())
	plane.with(0, newer, "destroy", "-auto-approve")
}

func requireWorkingCluster(t *testing.T, kubeconfig any, minor string) {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig.(string)))
	require.NoError(t, err)
	info, err := kubernetes.NewForConfigOrDie(config).ServerVersion()
	require.NoError(t, err)
	require.Equal(t, minor, info.EmulationMinor)
}
