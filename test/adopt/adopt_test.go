// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package adopt_test adopts what OpenTofu has built by hand, in the backend of the sandbox, and what is in no state.
package adopt_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/crash/proxy"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

const (
	// adopter has the role for captctl adopt, and tenant the role edit in a namespace of its own.
	adopter, tenant = "system:serviceaccount:default:adopter", "system:serviceaccount:team-b:tenant"
	tick            = 200 * time.Millisecond
	killed          = migrate.Outcome(-1)
)

type environment struct {
	*testing.T
	*sandbox.Sandbox
	admin client.Client
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	s := fixture.Start(t, sandbox.Options{ClusterAPI: true, Provider: true, ProviderPod: true, Manager: true, KubeControllerManager: true, AuditLog: true, Programs: []string{sandbox.Captctl}})
	admin, err := client.New(s.Config(), client.Options{Scheme: cli.Scheme()})
	require.NoError(t, err)
	env := &environment{t, s, admin}
	for _, file := range []string{"controlplane-template.yaml", "vpc-template.yaml"} {
		objects, err := manifests.Load(filepath.Join("..", "..", "config", "samples", "sandbox", file))
		require.NoError(t, err)
		fixture.Apply(t, admin, objects[0])
	}
	env.bind("default", "adopter", "capt-adopter", "")
	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-b"}}))
	env.bind("team-b", "tenant", "capt-edit", "team-b")
	return env
}

// bind grants a ClusterRole to a ServiceAccount, in a namespace or, if it is empty, in all.
func (env *environment) bind(namespace, name, role, in string) {
	env.Helper()
	subjects, ref := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}}, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	var binding client.Object = &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects, RoleRef: ref}
	if in != "" {
		binding = &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: in}, Subjects: subjects, RoleRef: ref}
	}
	require.NoError(env, env.admin.Create(env.Context(), binding))
}

// captctl runs captctl adopt, and requires an exit code. It returns everything that was printed.
func (env *environment) captctl(want migrate.Outcome, arguments ...string) string {
	env.Helper()
	command := env.command("--kubeconfig="+env.Kubeconfig(), "--as="+adopter)
	command.Args = append(command.Args, arguments...)
	output, _ := command.CombinedOutput()
	require.Equal(env, want, migrate.Outcome(command.ProcessState.ExitCode()), "%s\n%s", command, output)
	return string(output)
}

func (env *environment) command(flags ...string) *exec.Cmd {
	command := exec.CommandContext(env.Context(), env.Binary(sandbox.Captctl), append(flags, "adopt")...)
	command.Env = []string{"HOME=" + env.TempDir(), "PATH=" + os.Getenv("PATH")}
	return command
}

// built is a directory in which a user has run OpenTofu.
type built struct {
	*environment
	dir string
}

// build applies the module of a template, with the backend of the sandbox, in a Terraform workspace.
func (env *environment) build(template, state string, variables map[string]string) *built {
	env.Helper()
	b := &built{env, env.TempDir()}
	of := &infrav1.WorkspaceTemplate{}
	require.NoError(env, env.admin.Get(env.Context(), client.ObjectKey{Namespace: "default", Name: template}, of))
	config := &unstructured.Unstructured{}
	config.SetGroupVersionKind(terraform.ScopeNamespaced.GroupVersionKind().GroupVersion().WithKind("ClusterProviderConfig"))
	require.NoError(env, env.admin.Get(env.Context(), client.ObjectKey{Name: sandbox.ProviderConfigName}, config))
	field := func(name string) string {
		text, _, _ := unstructured.NestedString(config.Object, "spec", name)
		return text
	}
	values, err := json.Marshal(variables)
	require.NoError(env, err)
	for name, text := range map[string]string{
		"main.tf": of.Spec.Template.Spec.ForProvider.Module, "config.tf": field("configuration"), "backend.tfbackend": field("backendFile"), "terraform.tfvars.json": string(values),
	} {
		require.NoError(env, os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600))
	}
	b.tofu("init", "-input=false", "-backend-config=backend.tfbackend")
	b.tofu("workspace", "new", state)
	b.tofu("apply", "-auto-approve", "-input=false")
	return b
}

func (b *built) tofu(arguments ...string) string {
	b.Helper()
	command := exec.CommandContext(b.Context(), b.Binary("tofu"), append(arguments, "-no-color")...)
	var stdout, stderr bytes.Buffer
	command.Dir, command.Stdout, command.Stderr = b.dir, &stdout, &stderr
	command.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1")
	require.NoError(b, command.Run(), "%s\n%s%s", command, &stdout, &stderr)
	return stdout.String()
}

// state is the serial of a state, which each apply that changes it increases, and the IDs of its resources.
type state struct {
	Serial int
	IDs    map[string]string
}

func (b *built) state() state {
	b.Helper()
	var pulled struct {
		Serial    int
		Resources []struct {
			Name      string
			Instances []struct{ Attributes struct{ ID string } }
		}
	}
	text := b.tofu("state", "pull")
	require.NoError(b, json.Unmarshal([]byte(text[strings.IndexByte(text, '{'):]), &pulled), text)
	found := state{pulled.Serial, map[string]string{}}
	for _, resource := range pulled.Resources {
		for i, instance := range resource.Instances {
			found.IDs[fmt.Sprint(resource.Name, i)] = instance.Attributes.ID
		}
	}
	return found
}

// workspaces that exist, whose names begin with a text. Those of plans only observe, and may be there for a moment.
func (env *environment) workspaces(prefix string) (names []string) {
	env.Helper()
	for _, workspace := range fixture.Workspaces(env, env.admin, "") {
		if strings.HasPrefix(workspace.GetName(), prefix) && !naming.IsPreview(&workspace) {
			names = append(names, workspace.GetName())
		}
	}
	return names
}

var cluster = []string{
	"state", "--cluster=default/shop", "--control-plane-template=sandbox-controlplane", "--state-name=shop", "--vpc-template=sandbox-vpc", "--vpc-state-name=shop-vpc",
	"--region=eu-west-1", "--provider-config=" + sandbox.ProviderConfigName, "--yes", "--timeout=4m",
}

func (env *environment) buildCluster() (vpc, eks *built) {
	env.Helper()
	vpc = env.build("sandbox-vpc", "shop-vpc", map[string]string{"cluster_name": "shop", "vpc_name": "shop-vpc", "region": "eu-west-1"})
	id := strings.TrimSpace(vpc.tofu("output", "-raw", "vpc_id"))
	return vpc, env.build("sandbox-controlplane", "shop", map[string]string{"cluster_name": "shop", "kubernetes_version": "1.33", "region": "eu-west-1", "vpc_id": id[strings.Index(id, "vpc-"):]})
}

// The two tests use every feature of captctl adopt.
func TestCaptctlAdoptNeedsAllOfItsRole(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	t.Run("both", func(t *testing.T) {
		for name, test := range map[string]func(*environment){"a cluster that was built by hand": builtByHand, "what is in no state": importsWhatIsInNoState} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(&environment{t, env.Sandbox, env.admin})
			})
		}
	})
	if !t.Failed() {
		env.requireNoUnusedRight()
	}
}

// requireNoUnusedRight requires that captctl needed each right of its role.
func (env *environment) requireNoUnusedRight() {
	env.Helper()
	// Admission checks the first, and the second is for a pool that the list has not any more.
	used := map[string]bool{"guards migrate": true, "captmachinepools get": true}
	for _, event := range fixture.AuditEvents(env, env.Sandbox, audit.Filter{}) {
		if event.ObjectRef == nil || event.ImpersonatedUser == nil || event.ImpersonatedUser.Username != adopter {
			continue
		}
		// Admission may refuse the deletion of an object that was protected a moment ago, with 403 as well: release waits for it.
		assert.Equal(env, "allow", event.Annotations["authorization.k8s.io/decision"], "%s %s", event.Verb, event.RequestURI)
		used[event.ObjectRef.Resource+" "+event.Verb] = true
		if event.Verb == "patch" && event.ResponseStatus.Code == http.StatusCreated { // Server-side apply of a new object needs both.
			used[event.ObjectRef.Resource+" create"] = true
		}
	}
	role := &rbacv1.ClusterRole{}
	require.NoError(env, env.admin.Get(env.Context(), client.ObjectKey{Name: "capt-adopter"}, role))
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				assert.True(env, used[resource+" "+verb], "no request needed %s of %s: remove it from the role, or add the request to these tests", verb, resource)
			}
		}
	}
}

func builtByHand(env *environment) {
	t := env.T
	vpc, eks := env.buildCluster()
	vpcBefore, eksBefore := vpc.state(), eks.state()

	printed := env.captctl(migrate.NeedsDecision, append(cluster, "--version=v1.32.0")...)
	assert.Contains(t, printed, "-/+ terraform_data.version (cannot_update)", "what differs is listed")
	assert.Equal(t, []string{"shop-vpc"}, env.workspaces("shop"), "nothing is created for a plan with changes; the VPC has none")
	require.Equal(t, eksBefore, eks.state())

	env.captctl(migrate.Done, append(cluster, "--version=v1.33.0")...)
	controlPlane := &controlplanev1.CAPTControlPlane{}
	demo := client.ObjectKey{Namespace: "default", Name: "shop"}
	fixture.EventuallyObject(t, tick, env.admin, demo, controlPlane, func() string {
		return fixture.ConditionMismatch(controlPlane, infrav1.ReadyCondition, metav1.ConditionTrue, "")
	})
	require.Equal(t, eksBefore, eks.state(), "no apply has changed the state")
	require.Equal(t, vpcBefore, vpc.state())

	printed = env.captctl(migrate.NeedsDecision, "state", "--apply=team-b/shop", "--template=default/sandbox-vpc", "--state-name=shop", "--yes")
	assert.Contains(t, printed, "Terraform state shop is in use by a Workspace of another namespace")
	env.refusesTenant()
	list := []string{"list", "--provider-config=ClusterProviderConfig/" + sandbox.ProviderConfigName}
	assert.NotContains(t, env.captctl(migrate.Done, list...), "shop")
	assert.Contains(t, env.captctl(migrate.Done, append(list, "--used")...), "shop  in use by Workspace default/shop-eks-controlplane")

	workers := env.adoptsWorkers()
	require.NoError(t, env.admin.Patch(t.Context(), controlPlane, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"version":"v1.34.0"}}`))))
	fixture.EventuallyObject(t, tick, env.admin, demo, controlPlane, func() string {
		return fixture.Unless(controlPlane.Status.Version == "v1.34.0", "version %s", controlPlane.Status.Version)
	})
	upgraded := eks.state()
	require.Equal(t, eksBefore.IDs["cluster0"], upgraded.IDs["cluster0"], "the cluster is the same one")

	env.captctl(migrate.Done, "release", "--cluster=default/shop", "--yes", "--timeout=4m")
	assert.Empty(t, env.workspaces("shop"))
	assert.Contains(t, env.captctl(migrate.Done, list...), "shop-vpc")
	require.Equal(t, upgraded, eks.state(), "neither cloud nor state has changed")
	require.Len(t, workers.state().IDs, 1)
	require.Equal(t, vpcBefore, vpc.state())
	variables := map[string]string{"cluster_name": "shop", "kubernetes_version": "1.34", "region": "eu-west-1", "vpc_id": controlPlaneVPC(eks)}
	values, err := json.Marshal(variables)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(eks.dir, "terraform.tfvars.json"), values, 0o600))
	eks.tofu("plan", "-input=false", "-detailed-exitcode") // It fails if anything would change.
}

// adoptsWorkers adopts a node group, and gives it to a machine pool, as docs/adopt.md describes.
func (env *environment) adoptsWorkers() *built {
	env.Helper()
	d := &fixture.Environment{Namespace: sandbox.ProviderConfigName, Scope: terraform.ScopeNamespaced}
	fixture.Apply(env, env.admin, fixture.Decode(env, "default", d.NodeGroupTemplate(fixture.NodeGroupModule)))
	workers := env.build(fixture.NodeGroupTemplate, "shop-workers", map[string]string{"nodegroup_name": "workers", "kubernetes_version": "1.33"})
	before := workers.state()
	env.captctl(migrate.Done, "state", "--apply=default/shop-workers", "--template="+fixture.NodeGroupTemplate, "--state-name=shop-workers", "--var=cluster_name=shop",
		"--var=nodegroup_name=workers", "--var=kubernetes_version=1.33", "--yes", "--timeout=4m")
	for _, document := range []string{
		fixture.CAPTMachinePool("workers", fixture.NodeGroupTemplate, "workspaceTemplateApplyRef: {name: shop-workers}", "deletionProtection: Enabled"), fixture.MachinePool("shop", "workers", 3, ""),
	} {
		fixture.Apply(env, env.admin, fixture.Decode(env, "default", document))
	}
	pool := &infrav1.CAPTMachinePool{}
	fixture.EventuallyObject(env, tick, env.admin, client.ObjectKey{Namespace: "default", Name: "workers"}, pool, func() string {
		return fixture.ConditionMismatch(pool, infrav1.NodeGroupReadyCondition, metav1.ConditionTrue, "")
	})
	require.Equal(env, before, workers.state(), "no apply has changed the state")
	return workers
}

// controlPlaneVPC is the VPC with which the control plane was built.
func controlPlaneVPC(eks *built) string {
	eks.Helper()
	data, err := os.ReadFile(filepath.Join(eks.dir, "terraform.tfvars.json"))
	require.NoError(eks, err)
	values := map[string]string{}
	require.NoError(eks, json.Unmarshal(data, &values))
	return values["vpc_id"]
}

// refusesTenant requires that a user of another namespace can name no state, at any time.
func (env *environment) refusesTenant() {
	env.Helper()
	config := env.Config()
	config.Impersonate.UserName = tenant
	user, err := client.New(config, client.Options{Scheme: cli.Scheme()})
	require.NoError(env, err)
	apply := func(state string) *infrav1.WorkspaceTemplateApply {
		a := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: "mine"}}
		a.Spec.TemplateRef.Name = "any"
		if state != "" {
			a.Spec.TerraformState = infrav1.TerraformState{Name: state, ProviderConfig: "ClusterProviderConfig/" + sandbox.ProviderConfigName}
		}
		return a
	}
	err = user.Create(env.Context(), apply("shop"))
	require.True(env, apierrors.IsForbidden(err) || apierrors.IsInvalid(err), "%v", err)
	require.ErrorContains(env, err, "terraformState")
	mine := apply("")
	require.NoError(env, user.Create(env.Context(), mine))
	err = user.Patch(env.Context(), mine, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"terraformState":{"name":"shop","providerConfig":"ClusterProviderConfig/sandbox"}}}`)))
	require.True(env, apierrors.IsForbidden(err) || apierrors.IsInvalid(err), "%v", err)
}

// nodes are resources that can be imported with the providers of the sandbox.
const nodes = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata: {name: nodes}
spec:
  workspaceScope: Namespaced
  template:
    spec:
      providerConfigRef: {kind: ClusterProviderConfig, name: sandbox}
      forProvider:
        source: Inline
        module: |
          resource "terraform_data" "node" {
            count = 2
          }
          output "vpc_id" {
            value = join("-", terraform_data.node[*].id)
          }
`

func importsWhatIsInNoState(env *environment) {
	t := env.T
	fixture.Apply(t, env.admin, fixture.Decode(t, "default", nodes))
	file := filepath.Join(t.TempDir(), "imports.yaml")
	require.NoError(t, os.WriteFile(file, []byte("- {to: 'terraform_data.node[1]', id: node-b}\n"), 0o600))
	arguments := []string{"import", "--apply=default/nodes", "--template=nodes", "--yes", "--timeout=4m", "--import=terraform_data.node[0]=node-a"}

	assert.Contains(t, env.captctl(migrate.Failed, append(arguments, "--import=terraform_data.other=node-b")...), "imports[1].to: Invalid value: \"terraform_data.other\"")
	assert.True(t, apierrors.IsNotFound(env.admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "nodes-imported"}, &infrav1.WorkspaceTemplate{})), "nothing is created")

	printed := env.captctl(migrate.NeedsDecision, arguments...)
	assert.Contains(t, printed, "+ terraform_data.node[1]", "a resource that is not imported would be created")
	assert.Contains(t, printed, "import terraform_data.node[0]")
	assert.Empty(t, env.workspaces("nodes"))

	env.captctl(migrate.Done, append(arguments, "--filename="+file)...)
	apply, template := &infrav1.WorkspaceTemplateApply{}, &infrav1.WorkspaceTemplate{}
	require.NoError(t, env.admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "nodes"}, apply))
	require.NoError(t, env.admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "nodes-imported"}, template))
	assert.Equal(t, "node-a-node-b", apply.Status.Outputs["vpc_id"], "the IDs are those of the resources that existed")
	assert.NotContains(t, template.Spec.Template.Spec.ForProvider.Module, "import {")
	assert.Equal(t, infrav1.PreviewEmpty, apply.Status.Preview.Result, "the second revision is proven empty")
	workspace := fixture.Workspace(t, env.admin, terraform.ScopeNamespaced, client.ObjectKey{Namespace: "default", Name: "nodes"})
	module, _, _ := unstructured.NestedString(workspace.Object, "spec", "forProvider", "module")
	assert.NotContains(t, module, "import {")
	env.captctl(migrate.Done, append(arguments, "--filename="+file)...)

	env.captctl(migrate.Done, "release", "--apply=default/nodes", "--yes", "--timeout=4m")
	assert.Empty(t, env.workspaces("nodes"))
	assert.Regexp(t, `(?m)^default-nodes-\w+$`, env.captctl(migrate.Done, "list", "--provider-config=ClusterProviderConfig/"+sandbox.ProviderConfigName), "the state is kept")
	env.captctl(migrate.Done, "list", "--provider-config="+sandbox.ProviderConfigName) // Of cluster-wide Workspaces.
}

// killing runs captctl through a proxy that kills it.
type killing struct {
	*environment
	proxy      *proxy.Proxy
	kubeconfig string
	running    *exec.Cmd
}

func newKilling(env *environment) *killing {
	env.Helper()
	k := &killing{environment: env, kubeconfig: filepath.Join(env.TempDir(), "kubeconfig")}
	var err error
	k.proxy, err = proxy.Start(env.Config(), func() { _ = k.running.Process.Kill() })
	require.NoError(env, err)
	env.Cleanup(func() { require.NoError(env, k.proxy.Close()) })
	require.NoError(env, k.proxy.WriteKubeconfig(k.kubeconfig))
	return k
}

// run runs captctl, and kills it at a write. It returns the exit code.
func (k *killing) run(number int, moment proxy.Moment, arguments ...string) migrate.Outcome {
	k.Helper()
	k.proxy.Arm(proxy.Target{Number: number, Moment: moment})
	k.running = k.command("--kubeconfig=" + k.kubeconfig)
	k.running.Args = append(k.running.Args, arguments...)
	output, _ := k.running.CombinedOutput()
	k.proxy.Open()
	outcome := migrate.Outcome(k.running.ProcessState.ExitCode())
	require.Contains(k, []migrate.Outcome{killed, migrate.Done}, outcome, "%s", output)
	return outcome
}

// An adoption, and a release, continue after a kill -9 before and after each write.
func TestCaptctlIsKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	vpc, eks := env.buildCluster()
	vpcBefore, eksBefore := vpc.state(), eks.state()
	k := newKilling(env)
	kills := 0
	for number, outcome := 1, killed; outcome == killed; number++ {
		for _, moment := range []proxy.Moment{proxy.Before, proxy.After} {
			if outcome = k.run(number, moment, append(cluster, "--version=v1.33.0")...); outcome != killed {
				break
			}
			kills++
		}
	}
	require.GreaterOrEqual(t, kills, 10, "five objects, before and after each")
	assert.ElementsMatch(t, []string{"shop-vpc", "shop-eks-controlplane"}, env.workspaces("shop"))
	for outcome := killed; outcome == killed; {
		for _, moment := range []proxy.Moment{proxy.Before, proxy.After} { // Each run has fewer writes than the one before.
			if outcome = k.run(1, moment, "release", "--cluster=default/shop", "--yes", "--timeout=4m"); outcome != killed {
				break
			}
			kills++
		}
	}
	t.Logf("killed %d times", kills)
	assert.Empty(t, env.workspaces("shop"))
	require.Equal(t, eksBefore, eks.state())
	require.Equal(t, vpcBefore, vpc.state())
}
