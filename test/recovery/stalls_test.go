// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package recovery_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/fixture/servers"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/pki"
)

// stall is what makes a Cluster stop, what users read about it, and what they do then.
type stall struct {
	// documents are those of the Cluster if they are not fixture.Environment.Everything. inject stops it, once it is Ready if ready is true.
	documents func(env *fixture.Environment) []string
	ready     bool
	inject    func(env *fixture.Environment)

	// get are the arguments of kubectl get, and columns what it shows.
	get     string
	columns []string
	// state, object, reason, message and next are what captctl describe shows; of the last two it shows at least these parts.
	state          infrav1.State
	object, reason string
	message, next  []string

	// act carries out what the next step says. The Cluster is Ready after it, or gone if gone is true.
	act  func(env *fixture.Environment)
	gone bool
}

const anyState infrav1.State = "any"

const clusterClass = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: eks}
spec:
  infrastructure:
    templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: CAPTClusterTemplate, name: eks}
    naming: {template: "{{ .cluster.name }}"}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: CAPTControlPlaneTemplate, name: eks}
    naming: {template: "{{ .cluster.name }}"}
`

// topology is a Cluster of the ClusterClass.
const topology = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo}
spec: {topology: {classRef: {name: eks}, version: v1.35.0}}
`

const topologyCondition = `cluster demo -o jsonpath={.status.conditions[?(@.type=="TopologyReconciled")]}`

// topologyTemplates are what the ClusterClass refers to.
func topologyTemplates(env *fixture.Environment) []string {
	return append(env.Templates(),
		"{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: CAPTClusterTemplate, metadata: {name: eks}, spec: {template: {spec: {region: eu-central-1, vpc: {template: {ref: {name: vpc}}}}}}}",
		"{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: CAPTControlPlaneTemplate, metadata: {name: eks}, spec: {template: {spec: {workspaceTemplateRef: {name: eks}, endpointProbe: Disabled}}}}")
}

// ofDemo creates a WorkspaceTemplateApply that the control plane controls, and that waits for a Secret.
func ofDemo(env *fixture.Environment, name, secret string, more ...string) {
	env.Helper()
	env.User(env.Template("addon", fixture.ControlPlaneModule, "cluster_name", "tags"))
	controlPlane := &controlplanev1.CAPTControlPlane{}
	require.True(env, env.Exists(controlPlane, fixture.Demo))
	env.User(strings.Replace(fixture.WorkspaceTemplateApply("addon", name, append(more, "waitForSecrets: [{name: "+secret+"}]", "variables: {cluster_name: demo, tags: a}")...), "metadata: {",
		fmt.Sprintf("metadata: {ownerReferences: [{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: CAPTControlPlane, name: demo, uid: %s, controller: true}], ", controlPlane.UID), 1))
}

// labeled creates a WorkspaceTemplateApply with the label of the Cluster.
func labeled(env *fixture.Environment, name, secret string, more ...string) {
	env.Helper()
	env.User(env.Template("addon", fixture.ControlPlaneModule, "cluster_name", "tags"), strings.Replace(
		fixture.WorkspaceTemplateApply("addon", name, append(more, "waitForSecrets: [{name: "+secret+"}]", "variables: {cluster_name: demo, tags: a}")...), "metadata: {",
		"metadata: {labels: {"+clusterv1.ClusterNameLabel+": demo}, ", 1))
}

const foreign = "example.com/protect"

// finalizer adds a finalizer of another controller to an object, and deletes the Cluster.
func finalizer(object client.Object, name string) func(env *fixture.Environment) {
	return func(env *fixture.Environment) {
		env.Helper()
		setFinalizer(env, object, name, true)
		env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	}
}

func setFinalizer(env *fixture.Environment, object client.Object, name string, set bool) {
	env.Helper()
	object = object.DeepCopyObject().(client.Object)
	fixture.Change(env, env.Client, client.ObjectKey{Namespace: env.Namespace, Name: name}, object, func() {
		var kept []string
		for _, f := range object.GetFinalizers() {
			if f != foreign {
				kept = append(kept, f)
			}
		}
		if set {
			kept = append(kept, foreign)
		}
		object.SetFinalizers(kept)
	})
}

func stalls() map[string]stall {
	all := map[string]stall{
		"S1: a Workspace of another owner": {
			documents: func(env *fixture.Environment) []string {
				workspace := "{apiVersion: tf.m.upbound.io/v1beta1, kind: Workspace, metadata: {name: demo-vpc}, spec: {providerConfigRef: {kind: ClusterProviderConfig, name: " + env.Namespace + "}, forProvider: {source: Inline, module: 'output \"a\" { value = 1 }'}}}"
				return append([]string{workspace}, env.Everything()...)
			},
			get: "workspacetemplateapply demo-vpc", columns: []string{infrav1.WorkspaceConflictReason, "demo-vpc"},
			state: infrav1.StateFailed, object: "WorkspaceTemplateApply demo-vpc", reason: infrav1.WorkspaceConflictReason, message: []string{"Workspace demo-vpc"},
			next: []string{"what the message names"}, act: func(env *fixture.Environment) { env.Kubectl("delete", "workspaces.tf.m.upbound.io", "demo-vpc") },
		},
		"S2: a Cluster without infrastructure, and a module that needs a VPC": {
			documents: func(env *fixture.Environment) []string {
				module := fixture.ControlPlaneModule + "variable \"vpc_id\" { type = string }\n"
				cluster, controlPlane, _ := strings.Cut(fixture.Cluster(), "  infrastructureRef")
				_, controlPlane, _ = strings.Cut(controlPlane, "\n")
				return []string{env.Template(fixture.ControlPlaneTemplate, module, "cluster_name", "tags", "vpc_id"), cluster + controlPlane, fixture.CAPTControlPlane(fixture.Demo, "endpointProbe: Disabled", "region: eu-central-1")}
			},
			get: "captcontrolplane demo", columns: []string{"vpc_id"},
			state: infrav1.StateFailed, object: "WorkspaceTemplateApply " + fixture.ControlPlane, reason: infrav1.VariableMissingReason, message: []string{"${vpc_id} has no value", "spec.infrastructureRef of the Cluster"},
			next: []string{"kubectl edit cluster -n NAMESPACE demo"}, act: func(env *fixture.Environment) {
				env.User(env.VPCTemplate(fixture.VPCModule), fixture.CAPTCluster(fixture.Demo), fixture.Cluster())
			},
		},
		"S3: a VPC that was recreated": {
			documents: func(env *fixture.Environment) []string {
				return append([]string{env.VPCTemplate(strings.Replace(fixture.VPCModule, `"vpc-0${substr(md5(var.vpc_name), 0, 8)}"`, "terraform_data.vpc.id", 1))}, env.Everything()[1:]...)
			},
			ready: true, inject: func(env *fixture.Environment) { env.RemoveAllowed(workspaceKind(), env.WorkspaceKey(fixture.VPC).Name) },
			get: "captcontrolplane demo", columns: []string{"but the control plane was created in"},
			state: infrav1.StateDegraded, object: "CAPTCluster demo", reason: infrav1.VPCReplacedReason, message: []string{"Terraform reports VPC"}, next: []string{"A replaced VPC"},
			act: func(env *fixture.Environment) {
				env.RemoveAllowed(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane)
			},
		},
		"S4: an endpoint that means that there is none": {
			documents: func(env *fixture.Environment) []string {
				return append([]string{env.ControlPlaneTemplate(strings.Replace(fixture.ControlPlaneModule, `value = "https://127.0.0.1:1"`, `value = "null"`, 1))},
					env.VPCTemplate(fixture.VPCModule), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo))
			},
			get: "captcontrolplane demo", columns: []string{`output "cluster_endpoint"`, "null"},
			state: infrav1.StateFailed, object: "CAPTControlPlane demo", reason: controlplanev1.EndpointInvalidReason, message: []string{`output "cluster_endpoint"`, "null"}, next: []string{"Correct the output", "kubectl edit workspacetemplate -n NAMESPACE eks"},
			act: inTemplate(fixture.ControlPlaneTemplate, `value = "null"`, `value = "https://127.0.0.1:1"`),
		},
		"S4: the ID of a VPC that means that there is none": {
			documents: func(env *fixture.Environment) []string {
				return append([]string{env.VPCTemplate(strings.Replace(fixture.VPCModule, `"vpc-0${substr(md5(var.vpc_name), 0, 8)}"`, `"null"`, 1))}, env.Everything()[1:]...)
			},
			get: "captcluster demo", columns: []string{`output "vpc_id"`, `"null"`},
			state: infrav1.StateFailed, object: "CAPTCluster demo", reason: infrav1.VPCIDMissingReason, message: []string{`output "vpc_id"`, `"null"`}, next: []string{"Correct the output", "kubectl edit workspacetemplate -n NAMESPACE vpc"},
			act: inTemplate(fixture.VPCTemplate, `value = "null"`, `value = "vpc-1"`),
		},
		"S5: an add-on that the control plane controls waits for a Secret": {
			ready: true, inject: func(env *fixture.Environment) { ofDemo(env, "addon", "missing") },
			get: "workspacetemplateapply addon", columns: []string{infrav1.WaitingForDependenciesReason, "Secret missing does not exist"},
			state: infrav1.StateDegraded, object: "WorkspaceTemplateApply addon", reason: infrav1.WaitingForDependenciesReason, message: []string{"Secret missing does not exist"},
			next: []string{"Create what the message names", "kubectl edit workspacetemplateapply -n NAMESPACE addon"}, act: create("{apiVersion: v1, kind: Secret, metadata: {name: missing}, stringData: {a: b}}"),
		},
		"S5: add-ons that wait for each other": {
			ready: true, inject: func(env *fixture.Environment) {
				labeled(env, "a", "of-b", "writeConnectionSecretToRef: {name: of-a}")
				labeled(env, "b", "of-a", "writeConnectionSecretToRef: {name: of-b}")
			},
			get: "captcontrolplane demo -o jsonpath={.status.conditions[?(@.type==\"DependencyCycle\")]}", columns: []string{`"status":"True"`, "objects wait for each other"},
			state: infrav1.StateDegraded, object: "CAPTControlPlane demo", reason: controlplanev1.DependencyCycleReason, message: []string{"objects wait for each other", "Remove spec.waitForSecrets[0]"},
			next: []string{"kubectl edit workspacetemplateapply -n NAMESPACE a"}, act: edit(&infrav1.WorkspaceTemplateApply{}, "a", `{"spec":{"waitForSecrets":null}}`),
		},
		"S6: a ClusterClass that does not exist": {
			documents: func(env *fixture.Environment) []string { return append(topologyTemplates(env), topology) },
			get:       topologyCondition, columns: []string{`"status":"False"`, "eks"},
			object: "Cluster demo", reason: "ReconcileFailed", message: []string{`ClusterClass`, "eks"}, next: []string{"ClusterClass", "kubectl edit cluster -n NAMESPACE demo"},
			act: create(clusterClass),
		},
		"S6: a webhook whose certificate is not trusted, and a topology": {
			documents: func(env *fixture.Environment) []string {
				untrusted(env, controlplanev1.GroupVersion.Group, "captcontrolplanes")
				return append(topologyTemplates(env), clusterClass, topology)
			},
			get: topologyCondition, columns: []string{"failed calling webhook", "x509:"}, object: "Cluster demo", reason: "ReconcileFailed", message: []string{"failed calling webhook", "x509:"},
			state: anyState, next: []string{"Renew its certificate", "kubectl get certificates -A"}, act: trust,
		},
		"S6: a webhook whose certificate is not trusted": {
			documents: func(env *fixture.Environment) []string {
				untrusted(env, infrav1.GroupVersion.Group, "workspacetemplateapplies")
				return env.Everything()
			},
			get: "captcluster demo", columns: []string{"failed calling webhook", "x509:"}, object: "CAPTCluster demo", reason: infrav1.ApplyRefusedReason, message: []string{"failed calling webhook", "x509:"},
			state: anyState, next: []string{"Renew its certificate", "kubectl get certificates -A"}, act: func(env *fixture.Environment) {
				trust(env)
				env.Captctl("reconcile", env.Namespace+"/"+fixture.Demo)
			},
		},
		"a policy of a neighbor that rewrites Workspaces": {
			documents: func(env *fixture.Environment) []string {
				rewrite(env)
				return env.Everything()
			},
			get: "workspacetemplateapply demo-vpc", columns: []string{infrav1.WorkspaceRejectedReason, "spec.forProvider.module"}, object: "WorkspaceTemplateApply demo-vpc", reason: infrav1.WorkspaceRejectedReason,
			message: []string{"another value of spec.forProvider.module of Workspace demo-vpc", "Exclude those of CAPT from it"}, state: anyState, next: []string{"captctl reconcile NAMESPACE/demo"},
			act: func(env *fixture.Environment) {
				require.NoError(env, env.Delete(env.Context(), &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace}}))
				env.Eventually(func() string { // The API server learns it a moment late.
					env.Captctl("reconcile", env.Namespace+"/"+fixture.Demo)
					described := describeCluster(env, fixture.Demo)
					return fixture.Unless(described.Cause == nil || described.Cause.Reason != infrav1.WorkspaceRejectedReason, "%+v", described.Cause)
				})
			},
		},
	}
	for name, s := range foreignFinalizers() {
		all["S9: a finalizer of another controller on a "+name] = s
	}
	return all
}

// foreignFinalizers are the stalls by a finalizer of another controller, on each kind of object that a deletion waits for.
func foreignFinalizers() map[string]stall {
	all := map[string]stall{}
	for name, row := range map[string]struct {
		object client.Object
		name   string
		of     string // The object whose condition reports it, if it is another one.
	}{
		"WorkspaceTemplateApply": {&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane, ""}, "CAPTControlPlane": {&controlplanev1.CAPTControlPlane{}, fixture.Demo, ""},
		"CAPTCluster": {&infrav1.CAPTCluster{}, fixture.Demo, ""}, "CAPTMachinePool": {&infrav1.CAPTMachinePool{}, workers, ""},
		"Cluster": {&clusterv1.Cluster{}, fixture.Demo, "none"}, "MachinePool": {&clusterv1.MachinePool{}, workers, "none"},
		"Workspace": {workspaceKind(), fixture.VPC, "WorkspaceTemplateApply " + fixture.VPC}, "Secret": {&corev1.Secret{}, naming.ControlPlaneConnectionSecret(fixture.Demo), "WorkspaceTemplateApply " + fixture.ControlPlane},
	} {
		s := stall{
			ready: true, inject: finalizer(row.object, row.name), get: name + " " + row.name, columns: []string{foreign, "probably a controller of example.com"},
			state: overview.StateDeleting, object: name + " " + row.name, reason: infrav1.WaitingForFinalizersReason, message: []string{foreign, "probably a controller of example.com"},
			next: []string{"kubectl edit " + strings.ToLower(name), " -n NAMESPACE " + row.name}, act: func(env *fixture.Environment) { setFinalizer(env, row.object, row.name, false) }, gone: true,
		}
		switch row.of {
		case "":
		case "none": // Cluster API does not report it.
			s.get, s.columns = s.get+" -o jsonpath={.metadata.finalizers}", s.columns[:1]
		default:
			s.get, s.object = row.of, row.of
		}
		if strings.Contains(name, "MachinePool") {
			s.documents = func(env *fixture.Environment) []string {
				return append(env.Everything(), env.NodeGroupTemplate(fixture.NodeGroupModule), fixture.MachinePool(fixture.Demo, workers, 3, ""), fixture.CAPTMachinePool(workers, fixture.NodeGroupTemplate))
			}
		}
		if name == "Secret" { // The garbage collector deletes it before the Workspace.
			s.inject = func(env *fixture.Environment) {
				setFinalizer(env, row.object, row.name, true)
				workspace := workspaceKind()
				env.RemoveAllowed(workspace, env.WorkspaceKey(fixture.ControlPlane).Name, client.PropagationPolicy(metav1.DeletePropagationForeground))
				env.Remove(&clusterv1.Cluster{}, fixture.Demo)
			}
		}
		all[name] = s
	}
	return all
}

func workspaceKind() *unstructured.Unstructured {
	workspace := &unstructured.Unstructured{}
	workspace.SetGroupVersionKind(terraform.ScopeNamespaced.GroupVersionKind())
	return workspace
}

// Each stall names its cause, the object and the next step, in kubectl get and in captctl describe. The next step ends it.
func TestEveryStallExplainsItself(t *testing.T) {
	t.Parallel()
	for name, s := range stalls() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
			documents := env.Everything()
			if s.documents != nil {
				documents = s.documents(env)
			}
			env.User(documents...)
			if s.ready {
				env.AwaitState(infrav1.StateReady, "")
				env.AwaitVPC()
			}
			if s.inject != nil {
				s.inject(env)
			}
			s.requireExplained(env)
			s.act(env)
			if s.gone {
				env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
				env.RequireNothingLeft()
				return
			}
			env.AwaitState(infrav1.StateReady, "")
			env.Eventually(func() string {
				d := describeCluster(env, fixture.Demo)
				return fixture.Unless(d.State == infrav1.StateReady && d.Cause == nil, "%s: %+v", d.State, d.Cause)
			})
		})
	}
}

// requireExplained waits until kubectl get and captctl describe explain the stall.
func (s *stall) requireExplained(env *fixture.Environment) {
	env.Helper()
	env.Eventually(func() string {
		columns, err := env.Server.Kubectl(env.Context(), append([]string{"get", "--namespace", env.Namespace}, strings.Fields(s.get)...)...)
		if err != nil {
			return columns
		}
		if text := missing(strings.Join(strings.Fields(columns), " "), s.columns); text != "" {
			return text + env.Kubectl("get", "workspaces.tf.m.upbound.io", "-o", "jsonpath={.items[*].metadata}")
		}
		return ""
	})
	var d fleet.Description
	env.Eventually(func() string {
		d = describeCluster(env, fixture.Demo)
		if d.Cause == nil {
			return fmt.Sprintf("%s has no cause", d.State)
		}
		named := d.Cause.Reason == s.reason && d.Cause.Kind+" "+d.Cause.Name == s.object && missing(d.Cause.Message, s.message) == ""
		return fixture.Unless(named && (s.state == anyState || d.State == s.state), "%s: %+v", d.State, d.Cause)
	})
	next := overview.Next{}
	if d.NextStep != nil {
		next = *d.NextStep
	}
	env.Logf("%s %s %s: %s\n  %s: %s\n  => %s\n  %s", cmp.Or(d.State, "Unknown"), d.Cause.Actor, s.object, d.Cause.Reason, d.Cause.Condition, d.Cause.Message, next.Step, strings.Join(next.Commands, "\n  "))
	assert.Empty(env, missing(d.Cause.Message, s.message))
	assert.Empty(env, missing(strings.ReplaceAll(next.Step+"\n"+strings.Join(next.Commands, "\n"), env.Namespace, "NAMESPACE"), s.next))
}

func missing(text string, parts []string) string {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return fmt.Sprintf("no %q in %s", part, text)
		}
	}
	return ""
}

// withOneWorker is a control plane whose provider works on one Workspace at a time, as it does by default.
func withOneWorker(t *testing.T) *fixture.Server {
	t.Helper()
	options, err := servers.Options(servers.Exclusive, t.TempDir(), os.Stderr)
	require.NoError(t, err)
	options.ProviderArgs = append(options.ProviderArgs, "--max-reconcile-rate=1")
	server, err := fixture.Connect(fixture.Start(t, options))
	require.NoError(t, err)
	return server
}

// A provider that is busy or stopped is reported for each operation that waits for it, with what it works on.
func TestAProviderThatDoesNotReportIsExplained(t *testing.T) {
	server := withOneWorker(t)
	waits := map[string]struct {
		apply, reason string
		start         func(env *fixture.Environment)
		gone          bool
	}{
		"creation": {fixture.VPC, infrav1.WorkspaceNotReconciledReason, func(env *fixture.Environment) { env.User(env.Everything()...) }, false},
		"update":   {fixture.ControlPlane, infrav1.NotReportedReason, edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"additionalTags":{"edited":"true"}}}`), false},
		"deletion": {fixture.ControlPlane, infrav1.NotReportedReason, func(env *fixture.Environment) { env.Remove(&clusterv1.Cluster{}, fixture.Demo) }, true},
		"profile": {naming.FargateWorkspaceTemplateApply(fixture.Demo, "jobs"), infrav1.WorkspaceNotReconciledReason, func(env *fixture.Environment) {
			env.User(fixture.CAPTControlPlane(fixture.Demo, "endpointProbe: Disabled", fixture.FargateProfiles("jobs")))
		}, false},
		"pool": {naming.MachinePoolWorkspaceTemplateApply(workers), infrav1.WorkspaceNotReconciledReason, func(env *fixture.Environment) {
			env.User(env.NodeGroupTemplate(fixture.NodeGroupModule), fixture.MachinePool(fixture.Demo, workers, 3, ""), fixture.CAPTMachinePool(workers, fixture.NodeGroupTemplate))
		}, false},
	}
	environments := map[string]*fixture.Environment{}
	for name := range waits {
		env := server.NewEnvironment(t, terraform.ScopeNamespaced)
		if environments[name] = env; name != "creation" {
			env.User(append(env.FargateTemplates(), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo, "endpointProbe: Disabled"))...)
		}
	}
	for name, env := range environments {
		if name != "creation" {
			env.AwaitState(infrav1.StateReady, "")
		}
	}
	busy := server.NewEnvironment(t, terraform.ScopeNamespaced)
	busy.SetScript("busy", scripted.Script{Apply: scripted.Step{Hang: true}})
	busy.User(busy.VPCTemplate(fixture.VPCModule), fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "busy", "variables: {vpc_name: busy}"))
	busy.AwaitOperation("busy", scripted.Apply)
	for name, w := range waits {
		w.start(environments[name])
	}
	for name, w := range waits {
		t.Run(name, func(t *testing.T) {
			s := stall{
				get: "workspacetemplateapply " + w.apply, columns: []string{"provider-terraform has not re", "--max-reconcile-rate", "interrupts what runs"},
				state: anyState, object: "WorkspaceTemplateApply " + w.apply, reason: w.reason, message: []string{"Workspace"},
				next: []string{busy.Namespace + "/busy (since ", "interrupts what runs", "runs since", "kubectl get pods -A", " logs "},
			}
			s.requireExplained(environments[name].In(t))
		})
	}
	busy.SetScript("busy", scripted.Script{})
	for name, w := range waits {
		if env := environments[name]; w.gone {
			env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
		} else {
			env.AwaitState(infrav1.StateReady, "")
		}
	}

	// A restart interrupts what runs. CAPT continues it if the state is remote, as for a control plane.
	env := server.NewEnvironment(t, terraform.ScopeNamespaced)
	env.User(strings.Replace(env.ProviderConfig(), "pluginCache: false", `pluginCache: false, configuration: "terraform {\n  backend \"s3\" {}\n}"`, 1))
	env.SetScript(fixture.VPC, scripted.Script{Apply: scripted.Step{Hang: true}})
	env.User(env.Everything()...)
	env.AwaitOperation(fixture.VPC, scripted.Apply)
	require.NoError(t, server.Kill(sandbox.Provider))
	env.SetScript(fixture.VPC, scripted.Script{})
	require.NoError(t, server.StartComponent(t.Context(), sandbox.Provider))
	env.Await(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.CreateInterruptedReason)
	env.AwaitState(infrav1.StateReady, "")
}

// untrusted creates a webhook for a resource in the namespace of the environment, whose certificate the API server does not trust.
func untrusted(env *fixture.Environment, group, resource string) {
	env.Helper()
	var installed admissionv1.MutatingWebhookConfigurationList
	require.NoError(env, env.List(env.Context(), &installed))
	other, err := pki.NewAuthority("other")
	require.NoError(env, err)
	hook := admissionv1.ValidatingWebhook{
		Name: "untrusted.example.com", SideEffects: ptr.To(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		ClientConfig:      admissionv1.WebhookClientConfig{URL: installed.Items[0].Webhooks[0].ClientConfig.URL, CABundle: other.Bundle()},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: env.Namespace}},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
		}},
	}
	require.NoError(env, env.Create(env.Context(), &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace}, Webhooks: []admissionv1.ValidatingWebhook{hook}}))
	env.Cleanup(func() { _ = removeWebhook(context.Background(), env) })
	awaitUntrusted(env, true)
}

// rewrite changes each Workspace that is written in the namespace of the environment, as a policy or a webhook of another team can.
func rewrite(env *fixture.Environment) {
	env.Helper()
	name := metav1.ObjectMeta{Name: env.Namespace}
	inNamespace := &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: env.Namespace}}}
	all := inNamespace.DeepCopy()
	all.ResourceRules = []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{terraform.ScopeNamespaced.GroupVersionKind().Group}, APIVersions: []string{"*"}, Resources: []string{"workspaces"}},
	}}}
	policy := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: name, Spec: admissionv1.MutatingAdmissionPolicySpec{
		MatchConstraints: all, ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
		Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{
			Expression: `[JSONPatch{op: "replace", path: "/spec/forProvider/module", value: object.spec.forProvider.module + "# rewritten"}]`,
		}}},
	}}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: name, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: env.Namespace, MatchResources: inNamespace}}
	for _, object := range []client.Object{policy, binding} {
		require.NoError(env, env.Create(env.Context(), object))
		env.Cleanup(func() { _ = env.Delete(context.Background(), object) })
	}
	env.Eventually(func() string {
		workspace := fixture.Decode(env, env.Namespace, "{apiVersion: tf.m.upbound.io/v1beta1, kind: Workspace, metadata: {name: probe}, spec: {forProvider: {source: Inline, module: 'a'}}}")
		err := env.Create(env.Context(), workspace, client.DryRunAll)
		module, _, _ := unstructured.NestedString(workspace.Object, "spec", "forProvider", "module")
		return fixture.Unless(module != "a", "the policy has no effect yet: %v", err)
	})
}

// awaitUntrusted waits until the API server uses the webhook, or does not any more: it learns both a moment late.
func awaitUntrusted(env *fixture.Environment, used bool) {
	env.Helper()
	env.Eventually(func() string {
		refused := 0
		for _, document := range []string{fixture.CAPTControlPlane("probe"), fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "probe")} {
			if err := env.Create(env.Context(), fixture.Decode(env, env.Namespace, document), client.DryRunAll); err != nil && strings.Contains(err.Error(), "x509:") {
				refused++
			}
		}
		return fixture.Unless((refused > 0) == used, "the webhook refuses %d creates", refused)
	})
}

func trust(env *fixture.Environment) {
	require.NoError(env, removeWebhook(env.Context(), env))
	awaitUntrusted(env, false)
}

func removeWebhook(ctx context.Context, env *fixture.Environment) error {
	return client.IgnoreNotFound(env.Delete(ctx, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace}}))
}
