// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/redact"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/provider/executor"
	"github.com/capt-provider/capt/test/provider/failures"
)

func TestOneLine(t *testing.T) {
	for name, row := range map[string]struct{ message, want string }{
		"compressed output removed": {
			"create failed: Summary: bad. To see the full error run: echo \"H4sIAAAA\" | base64 -d | gunzip", "create failed: Summary: bad."},
		"older form":                {"create failed: bad: echo \"H4sIAAAA\" | base64 -d", "create failed: bad"},
		"line breaks become spaces": {"create failed:\n\n  bad\tthing\n", "create failed: bad thing"},
		"unchanged":                 {"observe failed: cannot diff", "observe failed: cannot diff"},
		"empty":                     {"", ""},
		"only compressed output":    {"echo \"H4sIAAAA\" | base64 -d | gunzip", ""},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, OneLine(row.message)) })
	}
}

func TestOneLineTruncatesAtACharacter(t *testing.T) {
	for shift := range 4 {
		got := OneLine(strings.Repeat("x", shift) + strings.Repeat("東", 40_000))
		assert.LessOrEqual(t, len(got), 1024)
		assert.True(t, utf8.ValidString(got))
		assert.True(t, strings.HasSuffix(got, "…"))
	}
}

// unknown are secrets that cannot be read.
var unknown = Secrets{Missing: errors.New("forbidden")}

// failed is the error of the provider for an output of Terraform.
func failed(prefix, stderr string) string {
	return prefix + ": " + executor.Failure(stderr).Error()
}

const (
	createFailed  = "create failed: cannot apply Terraform configuration"
	updateFailed  = "update failed: cannot apply Terraform configuration"
	planFailed    = "observe failed: cannot diff (i.e. plan) Terraform configuration"
	destroyFailed = "delete failed: cannot destroy Terraform configuration"
	initFailed    = "connect failed: cannot initialize Terraform configuration"
	command       = "captctl logs -n team-a workspacetemplateapply/demo-vpc"
)

func TestMessages(t *testing.T) {
	const corrected = ". Correct the WorkspaceTemplate or the variables. Complete text: " + command
	samples := map[string]string{}
	for _, sample := range failures.Samples() {
		samples[sample.Class+"/"+sample.Name] = sample.Stderr
	}
	for name, row := range map[string]struct{ prefix, want string }{
		"Config/variable-validation":               {planFailed, `Terraform plan failed: variable "azs" (main.tf line 1): Invalid value for variable: EKS needs subnets in at least two availability zones` + corrected},
		"Config/required-variable":                 {planFailed, `Terraform plan failed: variable "cluster_version" (main.tf line 1): No value for required variable: The root module input variable "cluster_version" is not set, and has no default value` + corrected},
		"Config/unsupported-argument":              {planFailed, `Terraform plan failed: resource "aws_eks_cluster" "this" (main.tf line 12): Unsupported argument: An argument named "kubernetes_version" is not expected here` + corrected},
		"Config/resource-precondition":             {planFailed, `Terraform plan failed: resource "aws_eks_cluster" "this" (main.tf line 18): Resource precondition failed: The control plane needs subnets in two availability zones: set the variable "subnets"` + corrected},
		"Config/resource-postcondition-boxed":      {planFailed, `Terraform plan failed: data "aws_ami" "node" (main.tf line 26): Resource postcondition failed: Nodes need an image for arm64` + corrected},
		"Config/output-precondition":               {planFailed, `Terraform plan failed: output "cluster_endpoint" (outputs.tf line 4): Module output value precondition failed: EKS returned no endpoint` + corrected},
		"Config/check-block-beside-an-error":       {planFailed, `Terraform plan failed: vpc.auto.tfvars line 1: Invalid value for input variable: The given value is not suitable for var.single_nat_gateway declared at main.tf:7,1-30: a bool is required` + corrected},
		"Config/syntax-only-second-error-explains": {initFailed, `Terraform init failed: Terraform encountered problems during initialisation, including problems with the configuration, described below: The Terraform configuration must be valid before initialization so that Terraform can determine which modules and providers need to be installed.; resource "terraform_data" "this" (main.tf line 2): Invalid multi-line string: Quoted strings may not be split over multiple lines. To produce a multi-line string, either use the \n escape to represent a newline character or use the "heredoc" multi-line template syntax (2 of 3 errors). Correct the module in the WorkspaceTemplate, or the backend in the ProviderConfig. Complete text: ` + command},
		"Auth/sts-expired-token":                   {planFailed, `Terraform plan failed: provider["registry.terraform.io/hashicorp/aws"] (main.tf line 9): Retrieving AWS account details: validating provider credentials: retrieving caller identity from STS: operation error STS: GetCallerIdentity, ExpiredToken: The security token included in the request is expired. The credentials were rejected or lack a permission. Correct the credentials of the ProviderConfig. provider-terraform retries. Complete text: ` + command},
		"Lock/kubernetes-backend-tofu":             {updateFailed, `Terraform apply failed: Error acquiring the state lock: Error message: the state is already locked by another tofu client Lock Info: ID: 3b8c0f3e-cc52-4390-b7a5-ae1faa9d0102 Path: Operation: OperationTypeApply Who: provider@provider-terraform-7d9c8b6f5-x2x4k Version: 1.12.6 Created: 2026-01-01 03:00:00.000000001 +0000 UTC Info. Another run holds the lock of the Terraform state. provider-terraform retries. It was taken at 2026-01-01T03:00:00Z by provider@provider-terraform-7d9c8b6f5-x2x4k. If the run that took it has ended, because there is no Pod provider-terraform-7d9c8b6f5-x2x4k any more, or it was restarted since (captctl describe checks this), remove the lock: terraform force-unlock 3b8c0f3e-cc52-4390-b7a5-ae1faa9d0102 (docs/provider-terraform.md, A lock that a run has left). Complete text: ` + command},
		"Quota/vpc-limit":                          {createFailed, `Terraform apply failed: module.vpc.aws_vpc.this[0] (.terraform/modules/vpc/main.tf line 29): creating EC2 VPC: operation error EC2: CreateVpc, VpcLimitExceeded: The maximum number of VPCs has been reached. A limit of the AWS account is reached. Request an increase, or delete resources that are not needed. provider-terraform retries. Complete text: ` + command},
		"Timeout/eks-addon-only-detail-explains":   {updateFailed, `Terraform apply failed: aws_eks_addon.this["coredns"] (main.tf line 40): creating EKS Add-On (demo:coredns): waiting for EKS Add-On (demo:coredns) create: timeout while waiting for state to become 'ACTIVE' (last state: 'DEGRADED', timeout: 20m0s). The operation exceeded its timeout. provider-terraform retries. If the error persists, raise --timeout of provider-terraform, or the timeouts in the module. Complete text: ` + command},
		"Interrupted/killed-without-a-word":        {createFailed, `Terraform apply failed: Terraform printed no error; it was probably killed, for example because provider-terraform reached its memory limit. The run was interrupted before it saved its state, for example because provider-terraform was stopped or ran out of memory. provider-terraform retries. If the error persists, compare the state with AWS. Complete text: ` + command},
		"Config/eks-fargate-already-exists-sdk-v1": {createFailed, `Terraform apply failed: aws_eks_fargate_profile.this (main.tf line 14): error creating EKS Fargate Profile (demo:apps): ResourceInUseException: A Fargate Profile already exists with this name in this cluster. A resource with this name exists, but is not in the Terraform state: an interrupted run, another cluster or another client has created it. Import it into the state, delete it, or use another name. provider-terraform retries. Complete text: ` + command},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, samples, name)
			assert.Equal(t, row.want, Explain(failed(row.prefix, samples[name]), Secrets{}, command).Message)
		})
	}
}

func TestReasonsAndAdvice(t *testing.T) {
	for name, row := range map[string]struct {
		message, reason string
		class           Class
		parts           []string
	}{
		"permissions": {failed(destroyFailed, "Error: deleting EKS Cluster (demo): AccessDeniedException: no\n"),
			infrav1.DestroyFailedReason, ClassAuth, []string{"Terraform destroy failed: deleting EKS Cluster", "lacks a permission"}},
		"registry": {failed(initFailed, "Error: Failed to query available provider packages\n\ndial tcp: lookup registry.opentofu.org: no such host\n"),
			infrav1.PlanFailedReason, ClassNetwork, []string{"Terraform init failed: ", "AWS, a registry or the backend is not reachable"}},
		"unknown": {failed(updateFailed, "Error: it is raining\n"),
			infrav1.ApplyFailedReason, ClassUnknown, []string{"Terraform apply failed: it is raining. provider-terraform retries"}},
		"truncated output": {failed(updateFailed, "Error: it is raining\n")[:len(updateFailed)+96],
			infrav1.ApplyFailedReason, ClassUnknown, []string{"Terraform apply failed: it is raining. provider-terraform retries"}},
		"no ProviderConfig": {`connect failed: cannot get ProviderConfig: ProviderConfig.tf.upbound.io "aws" not found`,
			infrav1.ProviderConfigFailedReason, ClassConfig, []string{`cannot use the ProviderConfig: cannot get ProviderConfig: ProviderConfig.tf.upbound.io "aws" not found. Create or correct the ProviderConfig`}},
		"no module": {`connect failed: cannot get remote Terraform module: error downloading 'https://github.com/demo/vpc.git': bad response code: 404`,
			infrav1.PlanFailedReason, ClassConfig, []string{"cannot fetch the module: cannot get remote Terraform module: error downloading 'https://github.com/demo/vpc.git'", "Correct the address"}},
		"no Secret of env": {`connect failed: cannot resolve variables: Secret "demo-env" not found`,
			infrav1.PlanFailedReason, ClassConfig, []string{`cannot read the environment variables: cannot resolve variables: Secret "demo-env" not found. A Secret or ConfigMap in env of the Workspace`}},
		"no Error": {failed("connect failed: cannot select Terraform workspace", "Workspace \"demo\" already exists\n"),
			infrav1.PlanFailedReason, ClassNetwork, []string{`backend of its state: Workspace "demo" already exists. The backend could not be read`}},
		"no disk": {`connect failed: cannot write Terraform configuration main.tf: write /tf/1/main.tf: no space left on device`,
			infrav1.PlanFailedReason, ClassProviderPod, []string{"cannot prepare the run", "The disk of provider-terraform is full"}},
		"interrupted create": {"cannot determine creation result - remove the crossplane.io/external-create-pending annotation if it is safe to proceed",
			infrav1.CreateInterruptedReason, ClassInterrupted, []string{"waits until its annotation crossplane.io/external-create-pending is removed", "conditions Recovering of the owner", "change another annotation in the same command"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Explain(row.message, Secrets{}, command)
			assert.Equal(t, row.reason, got.Reason)
			assert.Equal(t, row.class, got.Class)
			for _, part := range row.parts {
				assert.Contains(t, got.Message, part)
			}
		})
	}
}

func TestEveryErrorKeepsItsCause(t *testing.T) {
	for _, sample := range failures.Samples() {
		t.Run(sample.Name, func(t *testing.T) {
			got := Explain(failed(updateFailed, sample.Stderr), Secrets{}, command)
			assert.Equal(t, Class(sample.Class), got.Class)
			assert.Equal(t, infrav1.ApplyFailedReason, got.Reason)
			assert.LessOrEqual(t, len(got.Message), maxMessageLength)
			assert.True(t, strings.HasSuffix(got.Message, command))
			for _, wrapper := range []string{"echo ", "base64", "update failed", "Terraform encountered an error", "StatusCode"} {
				assert.NotContains(t, got.Message, wrapper)
			}
			if first := diagnostics(sample.Stderr)[0]; first != "" {
				assert.Contains(t, got.Message, strings.Fields(first)[1])
			}
		})
	}
}

// A run of which the state could not be saved is dangerous, whichever error came first; a lock has what is needed to remove it.
func TestStatesAndLocks(t *testing.T) {
	const notSaved = "Error: Failed to save state\n\nError saving state: data: Too long: must have at most 1048576 bytes\n"
	got := Explain(failed(createFailed, "Error: creating EC2 VPC: VpcLimitExceeded: The maximum\n\n"+notSaved), Secrets{}, command)
	assert.True(t, got.Unsaved)
	assert.Equal(t, ClassConfig, got.Class, "no recovery")
	assert.Contains(t, got.Message, "VpcLimitExceeded: The maximum; Failed to save state: Error saving state: data: Too long: must have at most 1048576 bytes. Resources that")
	assert.False(t, Explain(failed(destroyFailed, notSaved), Secrets{}, command).Unsaved, "the next run finds that they are gone")

	const id = "3b8c0f3e-cc52-4390-b7a5-ae1faa9d0102"
	held := failed(updateFailed, "Error: Error acquiring the state lock\n\nError message: the state is already locked by another tofu client\nLock Info:\n  ID:        "+id+
		"\n  Who:       provider@provider-terraform-1\n  Created:   2026-01-01 03:00:00.000000001 +0000 UTC\n")
	for _, secrets := range []Secrets{{}, unknown} {
		got = Explain(held, secrets, command)
		assert.Equal(t, Lock{ID: id, Created: time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC), Holder: "provider@provider-terraform-1"}, got.Lock)
		assert.Contains(t, got.Message, "It was taken at 2026-01-01T03:00:00Z by provider@provider-terraform-1. If the run that took it has ended, because there is no Pod provider-terraform-1 any more")
		assert.Contains(t, got.Message, "terraform force-unlock "+id)
	}
	assert.Contains(t, got.Message, "details omitted")
}

// Nothing was read, so that no value can be in the message.
func TestErrorsBeforeTerraformAreNotOmitted(t *testing.T) {
	for _, message := range []string{
		`connect failed: cannot resolve variables: Secret "demo-env" not found`,
		`connect failed: cannot get credentials: cannot get credentials secret: Secret "aws" not found`,
		`connect failed: cannot get remote Terraform module: bad response code: 404`,
	} {
		assert.Contains(t, Explain(message, unknown, "").Message, strings.TrimPrefix(message, "connect failed: "))
	}
	quoted := failed(updateFailed, "Error: hunter22\n\nconnect failed: cannot resolve variables: no\n")
	assert.NotContains(t, Explain(quoted, unknown, "").Message, "hunter22")
}

// No value can be in the message, because nothing was read.
func TestAMissingSecretOfVarFilesIsNamed(t *testing.T) {
	const why = `cannot determine Terraform options: cannot get tfvars: secrets "demo-vpc-connection" not found`
	for operation, reason := range map[string]string{"observe": infrav1.PlanFailedReason, "create": infrav1.ApplyFailedReason, "update": infrav1.ApplyFailedReason, "delete": infrav1.DestroyFailedReason} {
		got := Explain(operation+" failed: "+why, unknown, command)
		assert.Equal(t, reason, got.Reason)
		assert.Contains(t, got.Message, "in varFiles of the Workspace cannot be read. Recreate it")
		assert.Contains(t, got.Message, `secrets "demo-vpc-connection" not found`)
	}
	quoted := Explain(failed(updateFailed, "Error: hunter22 cannot apply failed: "+why+"\n"), unknown, command)
	assert.NotContains(t, quoted.Message, "demo-vpc-connection", "the text of Terraform is omitted")
}

func TestSecretsAreRedactedBeforeTheMessageIsTruncated(t *testing.T) {
	secret := strings.Repeat("s3cret value\n with  blanks ", 20)
	message := "update failed: " + strings.Repeat("x", 750) + " " + secret
	got := Explain(message, Secrets{Values: [][]byte{[]byte(secret)}}, "")
	assert.NotContains(t, got.Message, "s3cret")
	assert.Contains(t, got.Message, redact.Placeholder)
}

// Terraform wraps lines and draws boxes in the middle of values.
func TestSecretsInTheOutputAreRedacted(t *testing.T) {
	const secret = "s3cret horse battery"
	for name, stderr := range map[string]string{
		"summary": "Error: no " + secret + "\n",
		"wrapped": "Error: no\n\nit was s3cret horse\nbattery today\n",
		"boxed":   "╷\n│ Error: no\n│\n│ it was s3cret\n│ horse battery\n╵\n",
		"excerpt": "Error: no\n\n  on main.tf line 1:\n   1: password = \"" + secret + "\"\n    │ var.x is \"" + secret + "\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			got := Explain(failed(updateFailed, stderr), Secrets{Values: [][]byte{[]byte(secret)}}, command)
			for word := range strings.FieldsSeq(secret) {
				assert.NotContains(t, got.Message, word)
			}
			assert.Contains(t, got.Message, "no")
		})
	}
}

func TestWithoutAllSecretsTheTextIsOmitted(t *testing.T) {
	got := Explain(failed(updateFailed, "Error: VpcLimitExceeded: for hunter22\n"), unknown, command)
	assert.Equal(t, ClassQuota, got.Class)
	assert.NotContains(t, got.Message, "hunter22")
	assert.Contains(t, got.Message, "details omitted: they may contain credentials")
}

// leftovers are errors of the AWS provider when load balancers of a deleted cluster are still in its VPC.
const leftovers = `
Error: deleting EC2 Subnet (subnet-0aaaaaaaaaaaaaaa1): operation error EC2: DeleteSubnet, https response error StatusCode: 400, RequestID: 1f3f, api error DependencyViolation: The subnet 'subnet-0aaaaaaaaaaaaaaa1' has dependencies and cannot be deleted.

Error: deleting EC2 Internet Gateway (igw-0ccccccccccccccc3): detaching EC2 Internet Gateway (igw-0ccccccccccccccc3) from VPC (vpc-0bbbbbbbbbbbbbbb2): api error DependencyViolation: Network vpc-0bbbbbbbbbbbbbbb2 has some mapped public address(es). Please unmap those public address(es) before detaching the gateway.

Error: deleting Security Group (sg-0ddddddddddddddd4): api error InvalidGroup.InUse: it is in use
`

func TestLeftoversAreReported(t *testing.T) {
	for name, secrets := range map[string]Secrets{"secrets are known": {}, "secrets cannot be read": unknown} {
		t.Run(name, func(t *testing.T) {
			got := Explain(failed(destroyFailed, leftovers), secrets, "")
			assert.Equal(t, infrav1.DestroyFailedReason, got.Reason)
			assert.Equal(t, ClassConfig, got.Class)
			assert.Contains(t, got.Message, "still use igw-0ccccccccccccccc3, sg-0ddddddddddddddd4, subnet-0aaaaaaaaaaaaaaa1, vpc-0bbbbbbbbbbbbbbb2, usually load balancers",
				"of all errors, sorted")
			assert.Contains(t, got.Message, "Delete them as described in docs/deletion-reference.md (Leftovers in the VPC).")
			assert.Equal(t, secrets.Missing == nil, strings.Contains(got.Message, "has dependencies and cannot be deleted"))
		})
	}
}

func TestOnlyLeftoversGetThisAdvice(t *testing.T) {
	const advice = "not in the Terraform state"
	violation := "Error: deleting EC2 VPC: DependencyViolation: it has dependencies\n"
	assert.Contains(t, Explain(failed(destroyFailed, violation), Secrets{}, "").Message, "still use it, usually", "no IDs in the error")
	assert.NotContains(t, Explain(failed(updateFailed, violation), Secrets{}, "").Message, advice, "not a destroy")
	assert.NotContains(t, Explain(failed(destroyFailed, "Error: deleting EKS Cluster: ResourceInUseException: it has node groups\n"), Secrets{}, "").Message, advice)
	assert.NotContains(t, Explain(failed(destroyFailed, "Error: AccessDeniedException: no\n"+violation), Secrets{}, "").Message, advice, "permissions come first")

	var many strings.Builder
	for i := range 12 {
		fmt.Fprintf(&many, "Error: deleting EC2 Subnet (subnet-%08x): DependencyViolation: in use\n", 11-i)
	}
	got := Explain(failed(destroyFailed, many.String()), Secrets{}, "")
	assert.Contains(t, got.Message, "use subnet-00000000, subnet-00000001,")
	assert.Contains(t, got.Message, "subnet-00000009 and 2 more, usually")
	assert.LessOrEqual(t, len(got.Message), maxMessageLength)
}

// A cluster has several ProviderConfigs, Secrets and working directories.
func TestAdviceNamesWhatItIsAbout(t *testing.T) {
	workspace := &terraform.Workspace{}
	workspace.Namespace, workspace.UID = "team-a", "6f1c"
	workspace.Spec.ProviderConfigRef = &terraform.ProviderConfigReference{Name: "aws", Kind: "ClusterProviderConfig"}
	key := func(namespace, name string) *terraform.KeyReference {
		return &terraform.KeyReference{Namespace: namespace, Name: name, Key: "k"}
	}
	workspace.Spec.ForProvider.VarFiles = []terraform.VarFile{{SecretKeyRef: key("", "vars")}, {ConfigMapKeyRef: key("", "vars")}}
	workspace.Spec.ForProvider.Env = []terraform.EnvVar{{Name: "A", Value: "b"}, {Name: "TOKEN", SecretKeyRef: key("", "tokens")}, {Name: "TOKEN_2", SecretKeyRef: key("", "tokens")}}
	for message, want := range map[string]string{
		`connect failed: cannot resolve variables: Secret "tokens" not found`:                                                   "Secret team-a/tokens is read by spec.template.spec.forProvider.env[1].secretKeyRef, spec.template.spec.forProvider.env[2].secretKeyRef of the WorkspaceTemplate. ",
		`connect failed: cannot resolve variables: couldn't find key k in Secret team-a/tokens`:                                 "Secret team-a/tokens is read by spec.template.spec.forProvider.env[1].secretKeyRef",
		`observe failed: cannot determine Terraform options: cannot get tfvars: ConfigMap "vars" not found`:                     "ConfigMap team-a/vars is read by spec.template.spec.forProvider.varFiles[1].configMapKeyRef of the WorkspaceTemplate. ",
		`delete failed: cannot determine Terraform options: cannot get tfvars: Secret "vars" not found`:                         "Secret team-a/vars is read by spec.template.spec.forProvider.varFiles[0].secretKeyRef of the WorkspaceTemplate. ",
		`connect failed: cannot resolve variables: Secret "other" not found`:                                                    "found. A Secret or ConfigMap in env of the Workspace",
		failed(initFailed, "Error: Backend configuration changed\n\nA change in the backend configuration has been detected\n"): "The backend in the ProviderConfig (ClusterProviderConfig aws) is not the one with which the working directory of this Workspace was initialized. If it is the right one and has the state, remove the directory /tf/6f1c in the Pod",
		failed(planFailed, "Error: ExpiredToken: expired\n"):                                                                    "Correct the credentials of the ProviderConfig (ClusterProviderConfig aws).",
	} {
		secrets := SecretsOf(workspace, func(name types.NamespacedName) (*corev1.Secret, error) {
			return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name.Name)
		})
		if !strings.Contains(message, "Error: ") {
			require.Error(t, secrets.Missing)
		}
		assert.Contains(t, Explain(message, secrets, command).Message, want)
	}
}

func TestAnAdviceNamesTheWorkspaceAndItsConnectionSecret(t *testing.T) {
	workspace := &terraform.Workspace{}
	workspace.Namespace, workspace.Name = "team-a", "demo-vpc"
	workspace.Spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "demo-vpc-connection"}
	secrets := Secrets{workspace: workspace}
	assert.Contains(t, Explain(`cannot create or update connection secret: refusing to modify uncontrolled secret of type "Opaque"`, secrets, "").Message,
		"kubectl delete secret -n team-a demo-vpc-connection.")
	assert.Contains(t, Explain("observe failed: external resource does not exist", secrets, "").Message, "kubectl edit workspace.tf.m.upbound.io -n team-a demo-vpc")
	workspace.Namespace = ""
	assert.Contains(t, Explain("observe failed: external resource does not exist", secrets, "").Message, "kubectl edit workspace.tf.upbound.io demo-vpc")
}

func TestAnErrorInTheConfigurationOfAProviderConfig(t *testing.T) {
	const text = "Error: Invalid multi-line string\n\n  on %s line 10, in locals:\n  10:   owner = \"team\n\nQuoted strings may not be split over multiple lines.\n"
	for file, want := range map[string]Object{"crossplane-provider-config.tf": ObjectProviderConfig, "main.tf": ObjectTemplate} {
		report := Explain(failed(initFailed, fmt.Sprintf(text, file)), Secrets{}, "")
		assert.Equal(t, want, report.Object, report.Message)
		assert.Equal(t, ClassConfig, report.Class)
		assert.Equal(t, want == ObjectProviderConfig, strings.Contains(report.Message, "not a part of the module"), report.Message)
	}
}
