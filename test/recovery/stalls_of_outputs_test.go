// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package recovery_test

import (
	"encoding/base64"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/pki"
)

// halt is a way in which a Cluster does not continue. Its next step is taken as it is printed, if there is no other correction.
type halt struct {
	way
	// warning is true if the Cluster is Ready, with a warning.
	warning bool
	// columns are the arguments of kubectl get, separated by commas, whose output has the messages; by default captcontrolplane.
	columns string
	// messages are parts of the message of the cause; not are texts that neither the cause nor the next step has.
	messages, not []string
	// unbegun is true if no operation is in progress.
	unbegun bool
}

const quotedKubeconfig = `jsonencode({ apiVersion = "v1", kind = "Config", current-context = "eks", contexts = [{ name = "eks", context = { cluster = "eks", user = "eks" } }], ` +
	`clusters = [{ name = "eks", cluster = { server = "https://127.0.0.1:1" } }], users = [{ name = "eks", user = { token = "words" } }] })`

// authority is a certificate authority as EKS returns it.
var authority = sync.OnceValue(func() string {
	ca, err := pki.NewAuthority("stalls")
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(ca.Bundle())
})

// planeModule is a module of a control plane whose outputs are as given, pairs of names and expressions, or as they should be. One without an expression is left out.
func planeModule(outputs ...string) string {
	values := map[string]string{
		terraform.OutputClusterEndpoint: `"https://127.0.0.1:1"`, terraform.OutputKubeconfig: quotedKubeconfig, terraform.OutputClusterName: "var.cluster_name", terraform.OutputClusterCA: strconv.Quote(authority()),
	}
	for i := 0; i < len(outputs); i += 2 {
		values[outputs[i]] = outputs[i+1]
	}
	module := "\nvariable \"cluster_name\" { type = string }\nvariable \"tags\" { type = string }\nresource \"terraform_data\" \"eks\" { input = \"${var.cluster_name} ${var.tags}\" }\n"
	for _, name := range []string{terraform.OutputClusterEndpoint, terraform.OutputKubeconfig, terraform.OutputClusterName, terraform.OutputClusterCA} {
		if values[name] == "" {
			continue
		}
		module += fmt.Sprintf("output %q {\n  sensitive = %t\n  value = %s\n}\n", name, name == terraform.OutputKubeconfig, values[name])
	}
	return module
}

// plane is a row for a control plane whose module has wrong outputs. It is corrected in the module.
func plane(reason string, messages []string, outputs ...string) halt {
	return halt{messages: append(messages, "WorkspaceTemplate NAMESPACE/eks"), way: way{
		prepare: func(env *fixture.Environment) { env.User(env.ControlPlaneTemplate(planeModule(outputs...))) }, without: "metadata: {name: eks}\n",
		reason: reason, next: []string{"Correct the output that the message names", "kubectl edit workspacetemplate -n NAMESPACE eks"},
		correct: func(env *fixture.Environment) { env.User(env.ControlPlaneTemplate(planeModule())) },
	}}
}

// removed is a row for a control plane that is Ready before its module loses an output, or the value of it.
func removed(reason, output, message string, value ...string) halt {
	row := plane(reason, []string{message})
	row.then = func(env *fixture.Environment) {
		env.AwaitState(infrav1.StateReady, "")
		env.User(env.ControlPlaneTemplate(planeModule(output, strings.Join(value, ""))))
	}
	return row
}

func stallsOfOutputs() map[string]halt {
	const ca, endpoint, kubeconfig = terraform.OutputClusterCA, terraform.OutputClusterEndpoint, terraform.OutputKubeconfig
	rows := map[string]halt{
		"endpoint null":           plane(controlplanev1.EndpointMissingReason, []string{`output "cluster_endpoint"`, "is null"}, endpoint, "null"),
		"endpoint empty":          plane(controlplanev1.EndpointMissingReason, []string{`output "cluster_endpoint"`, "is empty"}, endpoint, `""`),
		"endpoint without a form": plane(controlplanev1.EndpointInvalidReason, []string{`output "cluster_endpoint"`, "host[:port]"}, endpoint, `"a b"`),
		"CA not base64":           plane(controlplanev1.KubeconfigInvalidReason, []string{`output "cluster_certificate_authority_data"`}, ca, `"not-base64!"`, kubeconfig, "null"),
		"CA null":                 plane(controlplanev1.KubeconfigMissingReason, []string{`"cluster_certificate_authority_data"`, "null"}, ca, "null", kubeconfig, "null"),
		"CA empty":                plane(controlplanev1.KubeconfigMissingReason, []string{`output "cluster_certificate_authority_data"`, "no value"}, ca, `""`, kubeconfig, `""`),
		"name of EKS":             plane(controlplanev1.KubeconfigInvalidReason, []string{`output "cluster_name"`}, kubeconfig, "null", terraform.OutputClusterName, `"-a"`),
	}
	warns := plane(controlplanev1.KubeconfigReadyReason, []string{`output "kubeconfig"`, "not a kubeconfig", "aws eks get-token"}, kubeconfig, `"words"`)
	warns.warning, warns.next = true, nil
	rows["kubeconfig not YAML"] = warns
	for name, row := range map[string]halt{
		"kubeconfig not YAML, from the output": plane(controlplanev1.KubeconfigInvalidReason, []string{`output "kubeconfig"`, "not a kubeconfig"}, kubeconfig, `"words"`),
		"kubeconfig null":                      plane(controlplanev1.KubeconfigMissingReason, []string{`output "kubeconfig"`, "null"}, kubeconfig, "null"),
		"kubeconfig empty":                     plane(controlplanev1.KubeconfigMissingReason, []string{`output "kubeconfig"`, "no value"}, kubeconfig, `""`),
	} {
		row.replace = []string{"version: v1.35.0", "version: v1.35.0\n  kubeconfig: {source: Output}"}
		rows[name] = row
	}
	for name, row := range map[string]halt{ // The connection Secret keeps their last values.
		"removed endpoint":        removed(controlplanev1.EndpointMissingReason, endpoint, `has no output "cluster_endpoint"`),
		"endpoint that gets null": removed(controlplanev1.EndpointMissingReason, endpoint, `output "cluster_endpoint" of its module is null`, "null"),
		"removed kubeconfig":      removed(controlplanev1.KubeconfigMissingReason, kubeconfig, `has no output "kubeconfig" any more`),
	} {
		row.replace = []string{"version: v1.35.0", "version: v1.35.0\n  kubeconfig: {source: Output}"}
		rows[name] = row
	}
	for name, value := range map[string]string{"null": "null", "empty": `""`} {
		rows["VPC "+name] = halt{columns: "captcluster", messages: []string{"WorkspaceTemplate NAMESPACE/vpc", `output "vpc_id"`, "is " + name}, way: way{
			prepare: func(env *fixture.Environment) {
				before, _, _ := strings.Cut(fixture.FargateVPCModule, `output "vpc_id"`)
				env.User(env.VPCTemplate(before + `output "vpc_id" { value = ` + value + " }\noutput \"other\" { value = 1 }\n"))
			}, without: "metadata: {name: vpc}", reason: infrav1.VPCIDMissingReason, next: []string{"Correct the output", "kubectl edit workspacetemplate -n NAMESPACE vpc"},
			correct: func(env *fixture.Environment) { env.User(env.VPCTemplate(fixture.FargateVPCModule)) },
		}}
	}
	return rows
}

// otherStalls are those of objects and of runs.
func otherStalls() map[string]halt {
	profile := naming.FargateWorkspaceTemplateApply(fixture.Demo, "jobs")
	return map[string]halt{
		"created while paused": {columns: "captcluster,captcontrolplane,captmachinepool", messages: []string{"paused"}, not: []string{"Create a Cluster", "Create a MachinePool"}, way: way{
			pool: true, profile: true, replace: []string{"kind: Cluster\nmetadata: {name: demo}\nspec:", "kind: Cluster\nmetadata: {name: demo}\nspec:\n  paused: true"},
			next: []string{"captctl resume NAMESPACE/demo"}, correct: func(env *fixture.Environment) { env.Captctl("resume", env.Namespace+"/"+fixture.Demo) },
		}},
		"Secret of an existing VPC": {columns: "captcontrolplane", messages: []string{"Secret net", "vpc_config"}, way: way{
			replace: []string{"vpc: {template: {ref: {name: vpc}}}", "vpc: {existingID: vpc-1, connectionSecretRef: {name: net}}"}, reason: infrav1.WaitingForDependenciesReason,
			correct: create("{apiVersion: v1, kind: Secret, metadata: {name: net}, stringData: {vpc_config: 'vpc_id = \"vpc-1\"\n'}}"),
		}},
		"endpoint of another cluster": {messages: []string{`output "cluster_endpoint"`, "WorkspaceTemplate NAMESPACE/eks", "127.0.0.1:2"}, way: way{
			then: func(env *fixture.Environment) {
				env.AwaitState(infrav1.StateReady, "")
				env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"controlPlaneEndpoint":{"host":"127.0.0.1","port":2}}}`)
			}, reason: controlplanev1.EndpointChangedReason, next: []string{"kubectl patch -n NAMESPACE captcontrolplane demo"},
		}},
		"CAPTCluster missing beside a Ready cluster": {columns: "captcontrolplane", messages: []string{"CAPTCluster demo, which does not exist. Create it"}, unbegun: true, way: way{
			prepare: func(env *fixture.Environment) {
				for _, apply := range []string{"other-vpc", "other-eks-controlplane-apply"} {
					env.SetScript(apply, scripted.Script{Apply: scripted.Step{Delay: 12 * time.Second}}) // Shorter operations do not count.
				}
				env.User(append(env.FargateTemplates(), fixture.CAPTCluster("other"), fixture.CAPTControlPlane("other"), fixture.ClusterNamed("other"))...)
				env.Await(planeKind.DeepCopy(), "other", infrav1.ReadyCondition, metav1.ConditionTrue, "")
			}, without: "kind: CAPTCluster\n", reason: controlplanev1.WaitingForInfrastructureReason, correct: create(fixture.CAPTCluster(fixture.Demo)),
		}},
		"replicas of a topology": {columns: topologyCondition, messages: []string{"failed to create CAPTControlPlane"}, way: way{ // Cluster API does not say more.
			prepare: func(env *fixture.Environment) {
				env.User(append(topologyTemplates(env), clusterClass, strings.Replace(topology, "version:", "controlPlane: {replicas: 3}, version:", 1))...)
			}, without: "kind: ", reason: clusterv1.ClusterTopologyReconciledFailedReason, next: []string{"Remove spec.topology.controlPlane.replicas"},
		}},
		"VPC that hangs": hangs(fixture.VPC, "vpc", `resource "terraform_data" "vpc"`, infrav1.VPCReadyTimeoutReason, "captcluster", "ref: {name: vpc}", "ref: {name: vpc}, timeoutSeconds: 10"),
		"control plane that hangs": hangs(fixture.ControlPlane, "eks", `resource "terraform_data" "eks"`, controlplanev1.ControlPlaneTimeoutReason, "captcontrolplane",
			"version: v1.35.0", "version: v1.35.0\n  timeouts: {controlPlaneSeconds: 10}"),
		"pool that hangs": func() halt {
			row := hangs(workers+"-nodegroup", "nodegroup", `resource "terraform_data" "group"`, infrav1.NodeGroupTimeoutReason, "captmachinepool",
				"workspaceTemplateRef: {name: nodegroup}", "workspaceTemplateRef: {name: nodegroup}\n  timeouts: {nodeGroupSeconds: 10}")
			row.pool = true
			return row
		}(),
		"profile that hangs": func() halt {
			row := hangs(profile, "fargate", `resource "terraform_data" "profile"`, controlplanev1.FargateProfileFailedReason, "captcontrolplane", "version: v1.35.0", "version: v1.35.0\n  timeouts: {fargateProfileSeconds: 10}")
			row.profile = true
			return row
		}(),
	}
}

// hangs is a row for a run that does not end. Its template is corrected meanwhile, which does not reach the run.
func hangs(apply, template, resource, reason, columns string, replace ...string) halt {
	return halt{columns: columns, messages: []string{"timed out after 10s", "since", "with the content before", "--timeout"}, not: []string{"Fix the cause"}, way: way{
		replace: replace, scripts: script(apply, scripted.Script{Apply: scripted.Step{Hang: true}}), reason: reason, next: []string{"kill -INT"},
		then: func(env *fixture.Environment) {
			env.AwaitOperation(apply, scripted.Apply)
			inTemplate(template, resource, "# corrected\n"+resource)(env)
		},
		correct: succeeds(apply), // The run ends, as with the command.
	}}
}

// A Cluster that does not continue says why, in kubectl get and in captctl describe, and what to do, and that helps.
func TestStallsOfOutputsAndRunsExplainThemselves(t *testing.T) {
	t.Parallel()
	for _, rows := range []map[string]halt{stallsOfOutputs(), otherStalls()} {
		for name, s := range rows {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
				s.run(env)
			})
		}
	}
}

func (s *halt) run(env *fixture.Environment) {
	if s.prepare != nil {
		s.prepare(env)
	}
	for apply, script := range s.scripts {
		env.SetScript(apply, script)
	}
	env.User(s.documents(env)...)
	if s.then != nil {
		s.then(env)
	}
	described := s.awaitDescribed(env)
	if s.correct != nil {
		s.correct(env)
	} else {
		s.follow(env, &described)
	}
	s.awaitReady(env)
}

// follow runs the commands of the next step.
func (s *halt) follow(env *fixture.Environment, described *fleet.Description) {
	for _, command := range described.NextStep.Commands {
		output, err := exec.CommandContext(env.Context(), "sh", "-c", "export KUBECONFIG="+env.Kubeconfig()+"\n"+command).CombinedOutput()
		require.NoError(env, err, string(output))
	}
}

func (s *halt) awaitReady(env *fixture.Environment) {
	env.Helper()
	env.Eventually(func() string {
		described := describeCluster(env, fixture.Demo)
		warned := slices.ContainsFunc(described.Warnings, func(warning *overview.Cause) bool { return s.warning && warning.Reason == s.reason })
		return fixture.Unless(described.State == infrav1.StateReady && described.Cause == nil && !warned, "%+v", described.Cluster)
	})
}

func (s *halt) awaitDescribed(env *fixture.Environment) (described fleet.Description) {
	of := func(text string) string { return strings.ReplaceAll(text, "NAMESPACE", env.Namespace) }
	columns := s.columns
	if columns == "" {
		columns = "captcontrolplane"
	}
	env.Eventually(func() string {
		described = describeCluster(env, fixture.Demo)
		cause := described.Cause
		for _, warning := range described.Warnings {
			if s.warning && warning.Reason == s.reason {
				cause = warning
			}
		}
		if cause == nil || s.reason != "" && cause.Reason != s.reason {
			return fmt.Sprintf("%+v, cause %+v", described.Cluster, cause)
		}
		if s.unbegun && described.Progress != nil {
			return fmt.Sprintf("progress %+v", described.Progress)
		}
		next := ""
		if described.NextStep != nil {
			next = described.NextStep.Step + "\n" + strings.Join(described.NextStep.Commands, "\n")
		}
		for _, part := range s.messages {
			if !strings.Contains(cause.Message, of(part)) {
				return fmt.Sprintf("the message has no %q: %s\n%s", of(part), cause.Message, next)
			}
		}
		for _, part := range s.next {
			if !strings.Contains(next, of(part)) {
				return fmt.Sprintf("the next step has no %q: %s", of(part), next)
			}
		}
		for _, part := range s.not {
			if strings.Contains(cause.Message+next, part) {
				return fmt.Sprintf("it has %q: %s\n%s", part, cause.Message, next)
			}
		}
		for _, kind := range strings.Split(columns, ",") {
			shown := strings.Join(strings.Fields(env.Kubectl(append([]string{"get"}, strings.Fields(kind)...)...)), " ")
			for _, part := range s.messages {
				if !s.warning && !strings.Contains(shown, of(part)) {
					return fmt.Sprintf("kubectl get %s has no %q: %s", kind, of(part), shown)
				}
			}
		}
		return ""
	})
	return described
}

// What is killed in its first apply says whether CAPT continues it, and when, and what to do if it does not. Whatever Terraform creates, CAPT continues it
// by itself with a remote state.
func TestKilledRunsSayWhatHappensNext(t *testing.T) {
	server := shared.Exclusive(t)
	profile := naming.FargateWorkspaceTemplateApply(fixture.Demo, "jobs")
	killed := map[string]*fixture.Environment{}
	for _, apply := range []string{fixture.VPC, fixture.ControlPlane, workers + "-nodegroup", profile} {
		for _, backend := range []string{"remote", "local"} {
			env := server.NewEnvironment(t, terraform.ScopeNamespaced)
			if backend == "remote" {
				env.User(strings.Replace(env.ProviderConfig(), "pluginCache: false", `pluginCache: false, configuration: "terraform {\n  backend \"s3\" {}\n}"`, 1))
			}
			w := way{pool: apply == workers+"-nodegroup", profile: apply == profile}
			env.SetScript(apply, scripted.Script{Apply: scripted.Step{Hang: true}})
			env.User(w.documents(env)...)
			killed[apply+" "+backend] = env
		}
	}
	for name, env := range killed {
		env.AwaitOperation(strings.Fields(name)[0], scripted.Apply)
	}
	require.NoError(t, server.Kill(sandbox.Provider))
	for name, env := range killed {
		env.SetScript(strings.Fields(name)[0], scripted.Script{})
	}
	require.NoError(t, server.StartComponent(t.Context(), sandbox.Provider))
	for name, env := range killed {
		s := halt{columns: "workspacetemplateapply", messages: []string{"terminated during the first apply", "condition", "Recovering"}, way: way{reason: infrav1.CreateInterruptedReason}}
		if s.next = []string{"CAPT continues: recovery attempt 1 of 5 (ClearInterruptedCreate"}; strings.HasSuffix(name, "local") {
			s.next = []string{"Compare the Terraform state with AWS", "annotate workspaces.tf.m.upbound.io"}
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel() // CAPT does not wait for the others.
			env := env.In(t)
			described := s.awaitDescribed(env)
			if strings.HasSuffix(name, "local") {
				s.follow(env, &described)
			}
			s.awaitReady(env)
		})
	}
}
