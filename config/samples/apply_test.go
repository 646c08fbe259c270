// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package samples_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/cmd/captctl/command"
	"github.com/capt-provider/capt/test/provider/executor"
	"github.com/capt-provider/capt/test/provider/executor/tofu"
	"github.com/capt-provider/capt/test/sandbox/binaries"
)

// account is a stand-in of an AWS account, in which OpenTofu applies the templates of the sample for AWS with the modules of testdata.
type account struct {
	*testing.T
	dir       string
	templates map[string]*infrav1.WorkspaceTemplate
	settings  string
	factory   executor.Factory
	// network is the file with the private subnets, which the VPC template writes.
	network []byte
}

// registryModule matches the address of a module of the registry, with its version.
var registryModule = regexp.MustCompile(`source( *)= "terraform-aws-modules/(\w+)/aws(?:/(/[^"]*))?"\n *version *= "([^"]*)"`)

func newAccount(t *testing.T) *account {
	t.Helper()
	a := &account{T: t, dir: t.TempDir(), templates: map[string]*infrav1.WorkspaceTemplate{}}
	t.Setenv(awsDir, a.dir)
	samples := load(t)["aws"]
	for _, template := range ofKind[*infrav1.WorkspaceTemplate](samples) {
		a.templates[template.Name] = template
	}
	for _, config := range ofKind[*unstructured.Unstructured](samples) {
		text, _, err := unstructured.NestedString(config.Object, "spec", "configuration")
		require.NoError(t, err)
		a.settings = text[:strings.Index(text, `  backend "s3"`)] + text[strings.Index(text, "  required_providers"):]
	}
	provider := filepath.Join(a.dir, ".mirror", "registry.opentofu.org", "hashicorp", "aws", "6.99.0", runtime.GOOS+"_"+runtime.GOARCH)
	require.NoError(t, os.MkdirAll(provider, 0o700))
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(provider, "terraform-provider-aws")))
	binary, err := binaries.Built(t.Context(), os.Stderr, binaries.Tofu)
	require.NoError(t, err)
	a.factory = tofu.New(tofu.Options{Binary: binary, WorkDir: a.dir})
	return a
}

// workspace is a Workspace in the account.
type workspace struct {
	*account
	template  string
	terraform executor.Executor
	options   executor.RunOptions
}

// open renders a template, and initializes Terraform with the result.
func (a *account) open(template string, variables infrav1.Variables) *workspace {
	a.Helper()
	require.Contains(a, a.templates, template)
	w := &workspace{account: a, template: template}
	parameters := w.use(variables)
	modules, err := filepath.Abs(filepath.Join("testdata", "terraform-aws-modules"))
	require.NoError(a, err)
	w.terraform, err = a.factory.Open(a.Context(), executor.Module{
		UID: types.UID(template), Files: map[string][]byte{"main.tf": []byte(registryModule.ReplaceAllString(parameters.Module, `source$1= "`+modules+`/$2$3"`))},
		EntrypointFiles: map[string][]byte{"settings.tf": []byte(a.settings)},
	})
	require.NoError(a, err)
	require.NoError(a, w.terraform.Init(a.Context(), nil))
	return w
}

// use renders the template with other variables, which do not change the module.
func (w *workspace) use(variables infrav1.Variables) terraform.WorkspaceParameters {
	w.Helper()
	parameters, errs := rendered(w.templates[w.template], variables)
	require.Empty(w, errs)
	w.options.VarFiles = nil
	for range parameters.VarFiles {
		w.options.VarFiles = append(w.options.VarFiles, executor.VarFile{Data: w.network})
	}
	require.NotNil(w, parameters.VarMap)
	w.options.VarFiles = append(w.options.VarFiles, executor.VarFile{JSON: true, Data: parameters.VarMap.Raw})
	return parameters
}

// apply applies the template, requires that another plan is empty, and returns the outputs.
func (w *workspace) apply() map[string]any {
	w.Helper()
	require.NoError(w, w.terraform.Apply(w.Context(), w.options), w.template)
	changes, err := w.terraform.Plan(w.Context(), w.options)
	require.NoError(w, err)
	require.False(w, changes, "the plan after the apply of %s is not empty", w.template)
	outputs, err := w.terraform.Outputs(w.Context())
	require.NoError(w, err)
	values := map[string]any{}
	for _, output := range outputs {
		values[output.Name] = output.Value
	}
	return values
}

func (a *account) applyVPC(captCluster *infrav1.CAPTCluster, cluster string) map[string]any {
	a.Helper()
	outputs := a.open(captCluster.Spec.VPC.Template.Ref.Name, desired.VPCIntent(captCluster, cluster).Variables).apply()
	require.NotEmpty(a, outputs["vpc_id"])
	require.NotEmpty(a, outputs["availability_zones"])
	a.network = []byte(outputs["vpc_config"].(string))
	return outputs
}

func (a *account) openControlPlane(controlPlane *controlplanev1.CAPTControlPlane, cluster string) *workspace {
	a.Helper()
	variables := controlPlaneVariables(a.T, controlPlane, nil, nil)
	variables[naming.ClusterVariable] = infrav1.TextValue(cluster)
	return a.open(controlPlane.Spec.WorkspaceTemplateRef.Name, variables)
}

// cluster returns the objects of a Cluster of the sample.
func cluster(t *testing.T, name string) (captCluster *infrav1.CAPTCluster, controlPlane *controlplanev1.CAPTControlPlane) {
	t.Helper()
	samples := load(t)["aws"]
	require.True(t, slices.ContainsFunc(ofKind[*clusterv1.Cluster](samples), func(c *clusterv1.Cluster) bool { return c.Name == name }))
	for _, c := range ofKind[*infrav1.CAPTCluster](samples) {
		if c.Name == name {
			captCluster = c
		}
	}
	for _, c := range ofKind[*controlplanev1.CAPTControlPlane](samples) {
		if c.Name == name {
			controlPlane = c
		}
	}
	return captCluster, controlPlane
}

// names are the shortest and the longest name of a cluster. With -short, as in make test, only the longest is tested: the names of EKS clusters have up to
// 100 characters, and those of IAM roles 64.
func names() []string {
	longest := strings.Repeat("long-name-", 10)
	if testing.Short() {
		return []string{longest}
	}
	return []string{"demo", longest}
}

func TestTheSampleForAWSIsAppliedByTerraform(t *testing.T) {
	for _, name := range names() {
		t.Run(fmt.Sprint(len(name)), func(t *testing.T) {
			a := newAccount(t)
			captCluster, controlPlane := cluster(t, "demo")
			a.applyVPC(captCluster, name)
			eks := a.openControlPlane(controlPlane, name)
			outputs := eks.apply()
			for _, output := range []string{"cluster_endpoint", "cluster_certificate_authority_data"} {
				require.NotEmpty(t, outputs[output], output)
			}
			assert.Equal(t, name, outputs["cluster_name"])
			for i := range controlPlane.Spec.FargateProfiles {
				variables := fargateVariables(controlPlane, i)
				variables[naming.ClusterVariable] = infrav1.TextValue(name)
				a.open(controlPlane.Spec.FargateProfiles[i].WorkspaceTemplateRef.Name, variables).apply()
			}
			require.NoError(t, eks.terraform.Destroy(t.Context(), eks.options))
			resources, err := eks.terraform.Resources(t.Context())
			require.NoError(t, err)
			assert.Empty(t, resources)
		})
	}
}

// EKS rejects an update that only leaves out the block of Auto Mode.
func TestAutoModeOfTheSampleCanBeSwitchedOffAndOn(t *testing.T) {
	a := newAccount(t)
	_, controlPlane := cluster(t, "demo")
	for _, on := range []string{"true", "false", "true"} {
		controlPlane.Spec.Variables["auto_mode"] = apiextensionsv1.JSON{Raw: []byte(on)}
		a.openControlPlane(controlPlane, "demo").apply()
	}
}

func TestTheNetworkOfTheClusterReachesTheSample(t *testing.T) {
	a := newAccount(t)
	_, controlPlane := cluster(t, "demo")
	open := func(services string) (*workspace, field.ErrorList) {
		c := &clusterv1.Cluster{}
		c.Spec.ClusterNetwork.Services.CIDRBlocks = []string{services}
		template := a.templates[controlPlane.Spec.WorkspaceTemplateRef.Name]
		variables := controlPlaneVariables(t, controlPlane, c, template)
		_, errs := rendered(template, variables)
		if len(errs) > 0 {
			return nil, errs
		}
		return a.open(controlPlane.Spec.WorkspaceTemplateRef.Name, variables), nil
	}
	for _, services := range []string{"172.20.0.0/16", "fd00:ec2::/108"} {
		w, errs := open(services)
		require.Empty(t, errs)
		w.apply()
	}
	w, errs := open("10.0.0.0/20")
	require.Empty(t, errs)
	require.ErrorContains(t, w.terraform.Apply(t.Context(), w.options), "precondition failed", "the variable reaches the module")
	_, errs = open("100.64.0.0/16")
	require.ErrorContains(t, errs.ToAggregate(), "spec.variables[service_cidr]", "found before Terraform runs")
}

func TestTheSampleGrantsTheManagerAccess(t *testing.T) {
	a := newAccount(t)
	_, controlPlane := cluster(t, "demo")
	for _, role := range []string{"", "arn:aws:iam::111122223333:role/capt-manager"} {
		controlPlane.Spec.Variables["manager_role_arn"] = infrav1.TextValue(role)
		a.openControlPlane(controlPlane, "demo").apply()
	}
	controlPlane.Spec.Variables["manager_role_arn"] = infrav1.TextValue("capt-manager")
	w := a.openControlPlane(controlPlane, "demo")
	require.ErrorContains(t, w.terraform.Apply(t.Context(), w.options), "precondition failed", "the variable reaches the module")
}

// nodeGroup returns the variables that CAPT passes for the machine pool of the sample with nodes, in an EKS cluster of a name, with changes.
func (a *account) nodeGroup(name string, change infrav1.Variables) infrav1.Variables {
	a.Helper()
	samples := load(a.T)["aws"]
	machinePools, pools := ofKind[*clusterv1.MachinePool](samples), ofKind[*infrav1.CAPTMachinePool](samples)
	require.Len(a, machinePools, 1)
	require.Len(a, pools, 1)
	return a.nodeGroupOf(name, machinePools[0], pools[0], change)
}

func (a *account) nodeGroupOf(name string, machinePool *clusterv1.MachinePool, captMachinePool *infrav1.CAPTMachinePool, change infrav1.Variables) infrav1.Variables {
	a.Helper()
	captCluster, controlPlane := cluster(a.T, "workers")
	c := desired.NewControlPlane(controlPlane, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, captCluster)
	c.Apply = &infrav1.WorkspaceTemplateApply{Spec: infrav1.WorkspaceTemplateApplySpec{Variables: infrav1.TextVariables(map[string]string{"cluster_name": name})}}
	pool := desired.MachinePool{Pool: captMachinePool, MachinePool: machinePool, ControlPlane: c}
	variables := pool.Want().Intent.Variables
	maps.Copy(variables, change)
	return variables
}

// workers returns the variables of the WorkspaceTemplateApply of the sample with nodes that has a template, with changes.
func (a *account) workers(template string, change infrav1.Variables) infrav1.Variables {
	a.Helper()
	for _, apply := range ofKind[*infrav1.WorkspaceTemplateApply](load(a.T)["aws"]) {
		if apply.Spec.TemplateRef.Name == template {
			maps.Copy(apply.Spec.Variables, change)
			return apply.Spec.Variables
		}
	}
	require.FailNow(a, "no WorkspaceTemplateApply", template)
	return nil
}

func TestTheWorkersOfTheSampleAreAppliedByTerraform(t *testing.T) {
	for _, name := range names() {
		t.Run(fmt.Sprint(len(name)), func(t *testing.T) {
			a := newAccount(t)
			captCluster, controlPlane := cluster(t, "workers")
			a.applyVPC(captCluster, name)
			a.openControlPlane(controlPlane, name).apply()
			variables := infrav1.Variables{}
			for list, value := range map[string]string{"instance_types": `["m7g.large"]`, "taints": `[{"key": "dedicated", "effect": "NO_SCHEDULE"}]`} {
				variables[list] = apiextensionsv1.JSON{Raw: []byte(value)}
			}
			outputs := a.open("aws-nodegroup", a.nodeGroup(name, variables)).apply()
			assert.Equal(t, map[string]any{"node_group_arn": "aws_eks_node_group-arn", "node_group_name": "workers-default", "node_group_size": 2.0, "node_group_version": "1.35"}, outputs)
			outputs = a.open("aws-karpenter", a.workers("aws-karpenter", infrav1.TextVariables(map[string]string{"cluster_name": name}))).apply()
			assert.NotEmpty(t, outputs["queue_name"])
			assert.NotEmpty(t, outputs["node_iam_role_name"])
		})
	}
}

// The file has the examples of another provider, as docs/workers.md translates them.
func TestTheMachinePoolsOfCAPAAreTranslated(t *testing.T) {
	const examples = "testdata/capa-pools.yml"
	streams, _, _, output := genericiooptions.NewTestIOStreams()
	require.NoError(t, command.New("captctl", []string{"validate", "aws/nodegroup-template.yaml", examples}, streams).ExecuteContext(t.Context()), output)
	a := newAccount(t)
	captCluster, _ := cluster(t, "workers")
	a.applyVPC(captCluster, "workers")
	w := a.open("aws-nodegroup", a.nodeGroup("workers", nil))
	variables := func(pool *infrav1.CAPTMachinePool) infrav1.Variables {
		machinePool := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: pool.Name}, Spec: clusterv1.MachinePoolSpec{ClusterName: "workers", Replicas: ptr.To[int32](1)}}
		return a.nodeGroupOf("workers", machinePool, pool, nil)
	}
	want := map[string][]string{
		// What the launch template has is left to AWS.
		"workers-imds":     {`"version":"2"`, `ami_type:"aws_eks_node_group-ami_type"`, ` version:"aws_eks_node_group-version"`, `instance_types: labels`},
		"workers-pool-0":   {`ami_type:"AL2023_x86_64_STANDARD"`},
		"workers-gpu":      {`ami_type:"AL2023_x86_64_NVIDIA"`},
		"workers-update":   {`"max_unavailable":"2"`, `"enabled":"false"`},
		"workers-lt-0":     {`"id":"lt-0123456789abcdef0"`, `"version":"1"`, `ami_type:"AL2023`},
		"workers-enclaves": {`"aws-nitro-enclaves-k8s-dp":"enabled"`, `c6i.xlarge`},
		"workers-spot":     {`capacity_type:"SPOT"`, `m7a.large`},
		"workers-all": {`node_group_name:"all"`, `release_version:"1.35.0-20260601"`, `disk_size:"100"`, `"enabled":"true"`, `"ec2_ssh_key":"admin"`, `"max_unavailable_percentage":"25"`,
			`"team":"a"`, `"dedicated"`, `subnet_ids:"subnet-0a000000000000001"`, `node_role_arn:"aws_iam_role-arn"`},
		"workers-role": {`node_role_arn:"arn:aws:iam::123456789012:role/eks-nodegroup`},
	}
	for _, pool := range ofKind[*infrav1.CAPTMachinePool](read(t, examples, nil)) {
		if testing.Short() && pool.Name != "workers-imds" && pool.Name != "workers-all" {
			continue
		}
		require.NoError(t, os.WriteFile(filepath.Join(a.dir, desiredSizeFile), []byte("1"), 0o600))
		w.use(variables(pool))
		assert.Equal(t, 1.0, w.apply()["node_group_size"], pool.Name)
		content, err := os.ReadFile(filepath.Join(a.dir, nodeGroupFile))
		require.NoError(t, err)
		require.NotEmpty(t, want[pool.Name], pool.Name)
		for _, part := range want[pool.Name] {
			assert.Contains(t, string(content), part, pool.Name)
		}
	}
	for refused, change := range map[string]string{
		"set them in the launch template": `{"disk_size": 50, "launch_template": {"id": "lt-1", "version": "1"}}`,
		"needs a launch_template":         `{"ami_type": "CUSTOM"}`,
		"or none in availability_zones":   `{"availability_zones": ["eu-central-1x"]}`,
	} {
		wrong := infrav1.Variables{}
		require.NoError(t, json.Unmarshal([]byte(change), &wrong))
		w.use(a.nodeGroup("workers", wrong))
		err := w.terraform.Apply(t.Context(), w.options)
		require.Error(t, err, refused)
		assert.Contains(t, failure.Explain(err.Error(), failure.Secrets{}, "").Message, refused)
	}
}

// EKS rejects a minimum above the desired size, which Terraform must not reset to the minimum either, unless it manages the size.
func TestTheLimitsOfANodeGroupChangeAndItsAutoscalerDecidesBetweenThem(t *testing.T) {
	a := newAccount(t)
	captCluster, _ := cluster(t, "workers")
	a.applyVPC(captCluster, "workers")
	w := a.open("aws-nodegroup", a.nodeGroup("workers", nil))
	for _, row := range []struct{ least, most, desired, autoscaled, want string }{
		{"2", "4", "null", "", "2"}, {"2", "4", "null", "3", "3"}, {"1", "4", "null", "", "3"}, {"4", "8", "null", "", "4"}, {"1", "2", "null", "", "2"},
		{"1", "4", "4", "", "4"}, {"1", "4", "4", "2", "4"}, {"5", "8", "4", "", "5"}, {"0", "8", "0", "", "0"},
	} {
		if row.autoscaled != "" {
			require.NoError(t, os.WriteFile(filepath.Join(a.dir, desiredSizeFile), []byte(row.autoscaled), 0o600))
		}
		variables := infrav1.Variables{}
		for name, value := range map[string]string{"min_size": row.least, "max_size": row.most, "desired_size": row.desired} {
			variables[name] = apiextensionsv1.JSON{Raw: []byte(value)}
		}
		w.use(a.nodeGroup("workers", variables))
		outputs := w.apply()
		size, err := os.ReadFile(filepath.Join(a.dir, desiredSizeFile))
		require.NoError(t, err)
		assert.Equal(t, row.want, string(size), row)
		assert.Equal(t, row.want, fmt.Sprint(outputs["node_group_size"]), row)
	}
}
