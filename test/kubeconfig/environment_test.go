// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig_test runs a manager that makes tokens for kubeconfigs, on a real API server with Cluster API core.
// Terraform follows a script, and the AWS keys are made up: a token is signed without asking AWS.
package kubeconfig_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

const (
	region   = "eu-central-1"
	endpoint = "https://127.0.0.1:1"

	accessKey = "AKIDEXAMPLE"
	secretKey = "hunter2/+key"
)

// shared is a control plane whose manager has AWS keys.
var shared *fixture.Server

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, &shared, func(o *sandbox.Options) {
		o.ManagerArgs = []string{"--eks-tokens", "-v=5"} // A log with more lines can leak more.
		o.ManagerEnv = []string{
			"AWS_ACCESS_KEY_ID=" + accessKey, "AWS_SECRET_ACCESS_KEY=" + secretKey, "AWS_SESSION_TOKEN=", "AWS_PROFILE=",
			"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null",
		}
	}))
}

// environment is the namespace of one control plane.
type environment struct{ *fixture.Environment }

func newEnvironment(t *testing.T) environment {
	t.Helper()
	return environment{shared.NewEnvironment(t, terraform.ScopeNamespaced)}
}

// awaitCondition waits for a condition of the control plane and returns its message.
func (env environment) awaitCondition(conditionType string, status metav1.ConditionStatus, reason string) string {
	env.Helper()
	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.Eventually(func() string {
		missing := env.MissingCondition(controlPlane, fixture.Demo, conditionType, status, reason)
		if missing == "" && meta.FindStatusCondition(controlPlane.Status.Conditions, conditionType).ObservedGeneration != controlPlane.Generation {
			missing = "the condition is that of an older generation"
		}
		return missing
	})
	return meta.FindStatusCondition(controlPlane.Status.Conditions, conditionType).Message
}

// secret reads a Secret; nil when it does not exist.
func (env environment) secret(name string) *corev1.Secret {
	env.Helper()
	secret := &corev1.Secret{}
	if !env.Exists(secret, name) {
		return nil
	}
	return secret
}

// writes counts what the manager has written to the objects of a kind and name.
func (env environment) writes(resource, name string) int {
	env.Helper()
	manager, err := env.InstalledManagerUser()
	require.NoError(env, err)
	events, err := env.AuditEvents(audit.Filter{User: manager, Verbs: audit.Writes, Namespace: env.Namespace, Resource: resource, Name: name})
	require.NoError(env, err)
	return len(events)
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

// documents of a cluster whose template returns what a kubeconfig is made of, but none.
func (env environment) documents() []string {
	module := fmt.Sprintf(`
variable "cluster_name" { type = string }
resource "terraform_data" "eks" { input = var.cluster_name }
output "cluster_name" { value = terraform_data.eks.output }
output "cluster_endpoint" { value = %q }
output "cluster_certificate_authority_data" { value = %q }
`, endpoint, builder.CA())
	return []string{env.Template(fixture.ControlPlaneTemplate, module, "cluster_name"), fixture.Cluster(), `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTCluster
metadata: {name: demo}
spec: {region: eu-central-1, vpc: {existingID: vpc-0123456789abcdef0}}
`, controlPlane("Token")}
}

// controlPlane is not probed: nothing listens at its endpoint, and status writes are counted.
func controlPlane(source string) string {
	return fixture.CAPTControlPlane(fixture.Demo, "kubeconfig: {source: "+source+"}", "endpointProbe: Disabled")
}
