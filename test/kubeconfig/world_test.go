// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig_test runs a manager that makes tokens for kubeconfigs, on a real API server with Cluster API core.
// Terraform follows a script, and the AWS keys are made up: a token is signed without asking AWS.
package kubeconfig_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

const (
	// patience is how long a story waits for one of its steps, on a machine that has much else to do.
	patience = 5 * time.Minute
	region   = "eu-central-1"
	endpoint = "https://127.0.0.1:1"

	accessKey = "AKIDEXAMPLE"
	secretKey = "hunter2/+key"
)

// world is a management cluster of one test.
type world struct {
	*testing.T
	client.Client
	*sandbox.Sandbox
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s, err := sandbox.Start(t.Context(), sandbox.Options{
		ClusterAPI: true, Provider: true, Manager: true, AuditLog: true,
		ProviderArgs: []string{"--executor=scripted", "--script-dir=" + t.TempDir()},
		ManagerArgs:  []string{"--eks-tokens", "-v=5"}, // What tells more can leak more.
		ManagerEnv: []string{
			"AWS_ACCESS_KEY_ID=" + accessKey, "AWS_SECRET_ACCESS_KEY=" + secretKey, "AWS_SESSION_TOKEN=", "AWS_PROFILE=",
			"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null",
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Logs(sandbox.Manager, 40))
		}
		require.NoError(t, s.Stop(context.Background()))
	})
	c, err := client.New(s.Config(), client.Options{Scheme: controllers.Scheme()})
	require.NoError(t, err)
	return &world{T: t, Client: c, Sandbox: s}
}

// user applies YAML documents in a namespace, as a user would.
func (w *world) user(namespace string, documents ...string) {
	w.Helper()
	for _, document := range documents {
		object := &unstructured.Unstructured{}
		require.NoError(w, yaml.Unmarshal([]byte(document), &object.Object), document)
		object.SetNamespace(namespace)
		require.NoError(w, w.Apply(w.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user"), client.ForceOwnership), document)
	}
}

// insist waits until lack returns "": what is still missing.
func (w *world) insist(lack func() string) {
	w.Helper()
	missing := ""
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		missing = lack()
		return missing == "", nil
	})
	require.NoError(w, err, missing)
}

// await waits until a condition of the control plane of a namespace has a status and a reason.
func (w *world) await(namespace, conditionType string, status metav1.ConditionStatus, reason string) *metav1.Condition {
	w.Helper()
	var condition *metav1.Condition
	w.insist(func() string {
		controlPlane := &controlplanev1.CAPTControlPlane{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: "demo"}, controlPlane); err != nil {
			return err.Error()
		}
		condition = meta.FindStatusCondition(controlPlane.Status.Conditions, conditionType)
		if condition == nil || condition.Status != status || condition.Reason != reason || condition.ObservedGeneration != controlPlane.Generation {
			return fmt.Sprintf("%s: %s is %v", namespace, conditionType, condition)
		}
		return ""
	})
	return condition
}

// secret reads a Secret; nil when it does not exist.
func (w *world) secret(namespace, name string) *corev1.Secret {
	w.Helper()
	secret := &corev1.Secret{}
	err := w.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret)
	if client.IgnoreNotFound(err) == nil && err != nil {
		return nil
	}
	require.NoError(w, err)
	return secret
}

// writes counts what the manager has written to the objects of a kind and name in a namespace.
func (w *world) writes(namespace, resource, name string) int {
	w.Helper()
	events, err := w.AuditEvents(audit.Filter{User: sandbox.ManagerUser, Verbs: audit.Writes, Namespace: namespace, Resource: resource, Name: name})
	require.NoError(w, err)
	return len(events)
}

func (w *world) namespace(name string) string {
	w.Helper()
	require.NoError(w, w.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	return name
}

// madeAt is the kubeconfig that the manager makes at a time: the same keys, cluster and second make the same token.
func madeAt(t *testing.T, at time.Time) []byte {
	t.Helper()
	keys := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey}, nil
	})
	token, _, err := kubeconfig.NewAWS(clocktesting.NewFakePassiveClock(at), false, config.WithCredentialsProvider(keys)).Token(t.Context(), "demo", region)
	require.NoError(t, err)
	data, err := kubeconfig.ForToken("demo", endpoint, builder.CA(), token)
	require.NoError(t, err)
	return data
}

// template is a WorkspaceTemplate with a module that has variables.
func template(name, module string, variables ...string) string {
	vars := strings.Builder{}
	for _, variable := range variables {
		fmt.Fprintf(&vars, "\n        - {key: %s, value: '${%s}'}", variable, variable)
		module = fmt.Sprintf("variable %q {\n  type = string\n}\n", variable) + module
	}
	return fmt.Sprintf(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata: {name: %s}
spec:
  template:
    spec:
      providerConfigRef: {kind: ClusterProviderConfig, name: %s}
      forProvider:
        source: Inline
        module: |
          %s
        vars:%s
`, name, sandbox.ProviderConfigName, strings.ReplaceAll(module, "\n", "\n          "), vars.String())
}

// documents of a cluster whose template returns what a kubeconfig is made of, but none.
func documents() []string {
	module := fmt.Sprintf(`
resource "terraform_data" "eks" {
  input = var.cluster_name
}
output "cluster_name" {
  value = terraform_data.eks.output
}
output "cluster_endpoint" {
  value = %q
}
output "cluster_certificate_authority_data" {
  value = %q
}
`, endpoint, builder.CA())
	return []string{template("eks", module, "cluster_name"), `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTCluster, name: demo}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: CAPTControlPlane, name: demo}
`, `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTCluster
metadata: {name: demo}
spec: {region: eu-central-1, vpc: {existingID: vpc-0123456789abcdef0}}
`, controlPlane("Token")}
}

func controlPlane(source string) string {
	return fmt.Sprintf(`
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: CAPTControlPlane
metadata: {name: demo}
spec: {version: v1.35.0, workspaceTemplateRef: {name: eks}, kubeconfig: {source: %s}}
`, source)
}
