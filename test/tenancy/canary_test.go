// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// database is a WorkspaceTemplate that takes a password from a file of variables and a token from the environment, and
// gives the password back in every way that should stay hidden: as a sensitive output, even though the template asks for it
// to be shown, and within one. The value that it generates is only in the connection Secret.
const database = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata: {name: database}
spec:
  workspaceScope: %s
  publishOutputs: [password, generated, nested]
  template:
    spec:
      providerConfigRef: {name: sandbox}
      forProvider:
        source: Inline
        module: |
          variable "password" {
            type      = string
            sensitive = true
          }
          variable "word" {
            type    = string
            default = "none"
          }
          resource "random_password" "db" {}
          output "cluster_name" { value = "demo" }
          output "vpc_id" { value = "vpc-0demo" }
          output "cluster_endpoint" { value = "https://127.0.0.1:1" }
          output "unlisted" { value = "unlisted-${md5("demo")}" }
          output "password" {
            value     = var.password
            sensitive = true
          }
          output "nested" {
            value     = { user = "admin", password = "nested-${sha256("demo")}" }
            sensitive = true
          }
          output "generated" {
            value     = random_password.db.result
            sensitive = true
          }
          output "kubeconfig" {
            value     = random_password.db.bcrypt_hash
            sensitive = true
          }
        vars: [{key: word, value: '${word}'}]
        varFiles: [{source: SecretKey, format: HCL, secretKeyRef: {name: inputs, key: tfvars}}]
        env: [{name: DB_TOKEN, secretKeyRef: {name: inputs, key: token}}]
`

// inputs are the Secret values that a Workspace of the template takes: a plain one, and one that is written in another way
// wherever it is quoted.
type inputs struct{ token, password string }

// newDatabase makes the template and its Secret in the tenant's namespace.
func (env *environment) newDatabase() inputs {
	env.Helper()
	in := inputs{token: secretText("token"), password: `pa"ss\/+&é` + secretText("word")}
	tfvars, err := json.Marshal(in.password) // A string of HCL, too.
	require.NoError(env, err)
	require.NoError(env, env.Create(env.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.a, Name: "inputs"},
		StringData: map[string]string{"token": in.token, "tfvars": "password = " + string(tfvars) + "\n"},
	}))
	env.apply(env.a, fmt.Sprintf(database, env.Scope))
	return in
}

// order makes a WorkspaceTemplateApply of the template, with a connection Secret.
func (env *environment) order(name, word string) {
	env.Helper()
	env.apply(env.a, uses(name, env.a, "database", says(word)+"\n  writeConnectionSecretToRef: {name: "+name+"-connection}"))
}

// errorWithSecret is an error of Terraform that quotes a secret: in its first line, which is in the condition of the Workspace,
// and in an excerpt of the module further down, which is only in the compressed copy.
func errorWithSecret(summary, secret string) string {
	return fmt.Sprintf("\nError: creating RDS DB Instance: InvalidParameterValue: %s\n\n  on main.tf line 7, in resource \"aws_db_instance\" \"db\":\n   7:   password = %q\n", summary, secret)
}

// awaitErrorWithSecret waits until CAPT reports an error of Terraform, and shows that the test could fail: the Workspace itself
// shows the secret, in both places.
func (env *environment) awaitErrorWithSecret(name, reason, secret string) {
	env.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	message := env.awaitCondition(apply, env.a, name, infrav1.SyncedCondition, metav1.ConditionFalse, reason)
	conditions, _, err := unstructured.NestedSlice(fixture.WorkspaceOf(env, env, apply).Object, "status", "conditions")
	require.NoError(env, err)
	said := fmt.Sprint(conditions)
	require.NotEmpty(env, find(packed.ReplaceAllString(said, ""), secret), "the Workspace itself does not say it: %s", said)
	require.NotEmpty(env, find(unpack(said), secret), "the compressed copy does not say it")
	require.Contains(env, message, "creating RDS DB Instance", "nothing is left of what Terraform said")
	env.awaitEvents(reason)
}

// awaitEvents waits until both APIs have an Event, which come a little after what they report.
func (env *environment) awaitEvents(reason string) {
	env.Helper()
	fixture.EventuallyTrue(env, 25*time.Millisecond, func() bool {
		seen := map[string]bool{}
		for _, entry := range reports.of(env.a) {
			if strings.Contains(entry.content, `"kind":"Event"`) && strings.Contains(entry.content, `"reason":"`+reason+`"`) {
				seen[entry.api] = true
			}
		}
		return len(seen) == 2
	}, "no Event reports %s", reason)
}

func TestOutputsThatAreNotListedOrSensitiveAreNotReported(t *testing.T) {
	inBothScopes(t, func(t *testing.T, env *environment) {
		in := env.newDatabase()
		env.order("db", "hello")
		apply := env.awaitReady(env.a, "db")
		require.Equal(t, []string{"cluster_endpoint", "cluster_name", "vpc_id"}, slices.Sorted(maps.Keys(apply.Status.Outputs)))

		secret := &corev1.Secret{}
		env.read(secret, env.a, "db-connection")
		data, err := fixture.WorkspaceOf(env, env, apply).MarshalJSON()
		require.NoError(t, err)
		unlisted, generated := string(secret.Data["unlisted"]), string(secret.Data["generated"])
		require.Contains(t, string(data), unlisted, "the Workspace itself does not show the output that is not listed")
		require.Equal(t, in.password, string(secret.Data["password"]))
		require.NotEmpty(t, generated)
		env.awaitEvents(infrav1.UpToDateReason)
		env.requireNotReported(in.password, in.token, unlisted, generated, string(secret.Data["nested"]))
	})
}

// The forms in which a value can be quoted are tested in api/redact. These rows prove that the controller knows the values.
func TestErrorsAreReportedWithoutTheSecretsThatTheyQuote(t *testing.T) {
	inBothScopes(t, func(_ *testing.T, env *environment) {
		in := env.newDatabase()
		for name, row := range map[string]struct{ reason, summary, secret string }{
			"apply": {infrav1.ApplyFailedReason, fmt.Sprintf("MasterUserPassword %q is not valid", in.password), in.password},
			"plan":  {infrav1.PlanFailedReason, "Get \"https://db.example.com/?login=" + url.QueryEscape(in.password) + "\": no such host", in.password},
			"init":  {infrav1.PlanFailedReason, "no module at git::https://" + in.token + "@example.com", in.token},
		} {
			script := scripted.Script{}
			step := map[string]*scripted.Step{"apply": &script.Apply, "plan": &script.Plan, "init": &script.Init}[name]
			step.Stderr = errorWithSecret(row.summary, row.secret)
			env.SetScript(name, script)
			env.order(name, "hello")
			env.awaitErrorWithSecret(name, row.reason, row.secret)
			env.requireNotReported(row.secret)
		}
	})
}

// Outputs that Terraform made up are known from the connection Secret, also while the Workspace is changed and destroyed.
func TestErrorsAreReportedWithoutTheSensitiveOutputsThatTheyQuote(t *testing.T) {
	for _, output := range []string{"generated", "nested"} {
		t.Run(output, func(t *testing.T) {
			env := newEnvironment(t, terraform.ScopeNamespaced)
			env.newDatabase()
			env.order("db", "before")
			apply := env.awaitReady(env.a, "db")
			connection := &corev1.Secret{}
			env.read(connection, env.a, "db-connection")
			secret := string(connection.Data[output])
			var nested struct{ Password string }
			if json.Unmarshal(connection.Data[output], &nested) == nil {
				secret = nested.Password
			}
			require.NotEmpty(t, secret)

			env.SetScript("db", scripted.Script{Apply: scripted.Step{Stderr: errorWithSecret(secret+" is not valid", secret)}})
			env.order("db", "after")
			env.awaitErrorWithSecret("db", infrav1.ApplyFailedReason, secret)

			env.SetScript("db", scripted.Script{Destroy: scripted.Step{Stderr: errorWithSecret(secret+" is still in use", secret)}})
			require.NoError(t, env.Delete(t.Context(), apply))
			env.awaitCondition(apply, env.a, "db", infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.DestroyFailedReason)
			env.awaitEvents(infrav1.DestroyFailedReason)
			env.requireNotReported(secret)
			env.SetScript("db", scripted.Script{})
			env.awaitGone(apply, env.a, "db")
		})
	}
}

// The error stays as it was reported while Terraform is at work again; the Secret that it quotes may be gone by then, or hold
// another value.
func TestASecretThatIsReplacedOrDeletedIsStillNotReported(t *testing.T) {
	for name, change := range map[string]func(env *environment, secret *corev1.Secret) error{
		"deleted": func(env *environment, secret *corev1.Secret) error { return env.Delete(env.Context(), secret) },
		"replaced": func(env *environment, secret *corev1.Secret) error {
			secret.Data["token"] = []byte("another value")
			return env.Update(env.Context(), secret)
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, terraform.ScopeNamespaced)
			in := env.newDatabase()
			env.SetScript("db", scripted.Script{Plan: scripted.Step{Stderr: errorWithSecret(in.token+" was rejected", in.token)}})
			env.order("db", "hello")
			env.awaitErrorWithSecret("db", infrav1.PlanFailedReason, in.token)
			// From now on, nothing more is heard of Terraform.
			env.SetScript("db", scripted.Script{Init: scripted.Step{Hang: true}, Plan: scripted.Step{Hang: true}})

			secret := &corev1.Secret{}
			env.read(secret, env.a, "inputs")
			require.NoError(t, change(env, secret))
			env.apply(env.a, uses("db", env.a, "database", says("hello")+"\n  writeConnectionSecretToRef: {name: db-connection}\n  deletionPolicy: Retain"))
			apply := &infrav1.WorkspaceTemplateApply{}
			env.await(apply, env.a, "db", func() string {
				return fixture.Unless(apply.Status.ObservedGeneration == apply.Generation && apply.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain,
					"the controller has not looked again")
			})
			env.SetScript("db", scripted.Script{})
			env.requireNotReported(in.token)
		})
	}
}

func TestOwnersReportNoMoreThanTheirWorkspaces(t *testing.T) {
	env := newEnvironment(t, terraform.ScopeNamespaced)
	in := env.newDatabase()
	broken := scripted.Script{Apply: scripted.Step{Stderr: errorWithSecret(in.token+" was rejected", in.token)}}
	env.SetScript(fixture.VPC, broken)
	env.SetScript(fixture.ControlPlane, broken)
	env.apply(env.a, fixture.ClusterNamed("demo"), fixture.CAPTClusterWith("demo", "{template: {ref: {name: database}}}"), controlPlane("demo", "database", env.a))
	env.awaitCondition(&infrav1.CAPTCluster{}, env.a, "demo", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ApplyFailedReason)

	env.SetScript(fixture.VPC, scripted.Script{})
	owner := &controlplanev1.CAPTControlPlane{}
	env.awaitCondition(owner, env.a, "demo", controlplanev1.WorkspaceReadyCondition, metav1.ConditionFalse, infrav1.ApplyFailedReason)

	// What Terraform calls a kubeconfig is none, and is not quoted in the error.
	env.SetScript(fixture.ControlPlane, scripted.Script{})
	env.awaitCondition(owner, env.a, "demo", controlplanev1.KubeconfigReadyCondition, metav1.ConditionFalse, controlplanev1.KubeconfigInvalidReason)
	connection := &corev1.Secret{}
	env.read(connection, env.a, "demo-eks-connection")
	require.NotEmpty(t, connection.Data["kubeconfig"])
	env.awaitEvents(controlplanev1.KubeconfigInvalidReason)
	env.requireNotReported(in.token, in.password, string(connection.Data["kubeconfig"]), string(connection.Data["generated"]), string(connection.Data["unlisted"]))
}
