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
func (w *world) newDatabase() inputs {
	w.Helper()
	in := inputs{token: secretText("token"), password: `pa"ss\/+&é` + secretText("word")}
	tfvars, err := json.Marshal(in.password) // A string of HCL, too.
	require.NoError(w, err)
	require.NoError(w, w.Create(w.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.a, Name: "inputs"},
		StringData: map[string]string{"token": in.token, "tfvars": "password = " + string(tfvars) + "\n"},
	}))
	w.apply(w.a, fmt.Sprintf(database, w.Scope))
	return in
}

// order makes a WorkspaceTemplateApply of the template, with a connection Secret.
func (w *world) order(name, word string) {
	w.Helper()
	w.apply(w.a, uses(name, w.a, "database", says(word)+"\n  writeConnectionSecretToRef: {name: "+name+"-connection}"))
}

// outcry is an error of Terraform that quotes a secret: in its first line, which is in the condition of the Workspace,
// and in an excerpt of the module further down, which is only in the compressed copy.
func outcry(summary, secret string) string {
	return fmt.Sprintf("\nError: creating RDS DB Instance: InvalidParameterValue: %s\n\n  on main.tf line 7, in resource \"aws_db_instance\" \"db\":\n   7:   password = %q\n", summary, secret)
}

// awaitOutcry waits until CAPT reports an error of Terraform, and shows that the test could fail: the Workspace itself
// shows the secret, in both places.
func (w *world) awaitOutcry(name, reason, secret string) {
	w.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	message := w.awaitCondition(apply, w.a, name, infrav1.SyncedCondition, metav1.ConditionFalse, reason)
	conditions, _, err := unstructured.NestedSlice(w.workspace(apply).Object, "status", "conditions")
	require.NoError(w, err)
	said := fmt.Sprint(conditions)
	require.NotEmpty(w, find(packed.ReplaceAllString(said, ""), secret), "the Workspace itself does not say it: %s", said)
	require.NotEmpty(w, find(unpack(said), secret), "the compressed copy does not say it")
	require.Contains(w, message, "creating RDS DB Instance", "nothing is left of what Terraform said")
	w.awaitEvents(reason)
}

// awaitEvents waits until both APIs have an Event, which come a little after what they report.
func (w *world) awaitEvents(reason string) {
	w.Helper()
	fixture.Eventually(w, 25*time.Millisecond, func() bool {
		seen := map[string]bool{}
		for _, entry := range reports.of(w.a) {
			if strings.Contains(entry.content, `"kind":"Event"`) && strings.Contains(entry.content, `"reason":"`+reason+`"`) {
				seen[entry.api] = true
			}
		}
		return len(seen) == 2
	}, "no Event reports %s", reason)
}

func TestOutputsThatAreNotListedOrSensitiveAreNotReported(t *testing.T) {
	inBothScopes(t, func(t *testing.T, w *world) {
		in := w.newDatabase()
		w.order("db", "hello")
		apply := w.awaitReady(w.a, "db")
		require.Equal(t, []string{"cluster_endpoint", "cluster_name", "vpc_id"}, slices.Sorted(maps.Keys(apply.Status.Outputs)))

		secret := &corev1.Secret{}
		w.read(secret, w.a, "db-connection")
		data, err := w.workspace(apply).MarshalJSON()
		require.NoError(t, err)
		unlisted, generated := string(secret.Data["unlisted"]), string(secret.Data["generated"])
		require.Contains(t, string(data), unlisted, "the Workspace itself does not show the output that is not listed")
		require.Equal(t, in.password, string(secret.Data["password"]))
		require.NotEmpty(t, generated)
		w.awaitEvents(infrav1.UpToDateReason)
		w.requireNotReported(in.password, in.token, unlisted, generated, string(secret.Data["nested"]))
	})
}

// The forms in which a value can be quoted are tested in api/redact. These rows prove that the controller knows the values.
func TestErrorsAreReportedWithoutTheSecretsThatTheyQuote(t *testing.T) {
	inBothScopes(t, func(_ *testing.T, w *world) {
		in := w.newDatabase()
		for name, row := range map[string]struct{ reason, summary, secret string }{
			"apply": {infrav1.ApplyFailedReason, fmt.Sprintf("MasterUserPassword %q is not valid", in.password), in.password},
			"plan":  {infrav1.PlanFailedReason, "Get \"https://db.example.com/?login=" + url.QueryEscape(in.password) + "\": no such host", in.password},
			"init":  {infrav1.PlanFailedReason, "no module at git::https://" + in.token + "@example.com", in.token},
		} {
			script := scripted.Script{}
			step := map[string]*scripted.Step{"apply": &script.Apply, "plan": &script.Plan, "init": &script.Init}[name]
			step.Stderr = outcry(row.summary, row.secret)
			w.Play(name, script)
			w.order(name, "hello")
			w.awaitOutcry(name, row.reason, row.secret)
			w.requireNotReported(row.secret)
		}
	})
}

// Outputs that Terraform made up are known from the connection Secret, also while the Workspace is changed and destroyed.
func TestErrorsAreReportedWithoutTheSensitiveOutputsThatTheyQuote(t *testing.T) {
	for _, output := range []string{"generated", "nested"} {
		t.Run(output, func(t *testing.T) {
			w := newWorld(t, terraform.ScopeNamespaced)
			w.newDatabase()
			w.order("db", "before")
			apply := w.awaitReady(w.a, "db")
			connection := &corev1.Secret{}
			w.read(connection, w.a, "db-connection")
			secret := string(connection.Data[output])
			var nested struct{ Password string }
			if json.Unmarshal(connection.Data[output], &nested) == nil {
				secret = nested.Password
			}
			require.NotEmpty(t, secret)

			w.Play("db", scripted.Script{Apply: scripted.Step{Stderr: outcry(secret+" is not valid", secret)}})
			w.order("db", "after")
			w.awaitOutcry("db", infrav1.ApplyFailedReason, secret)

			w.Play("db", scripted.Script{Destroy: scripted.Step{Stderr: outcry(secret+" is still in use", secret)}})
			require.NoError(t, w.Delete(t.Context(), apply))
			w.awaitCondition(apply, w.a, "db", infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.DestroyFailedReason)
			w.awaitEvents(infrav1.DestroyFailedReason)
			w.requireNotReported(secret)
			w.Play("db", scripted.Script{})
			w.awaitGone(apply, w.a, "db")
		})
	}
}

// The error stays as it was reported while Terraform is at work again; the Secret that it quotes may be gone by then, or hold
// another value.
func TestASecretThatIsReplacedOrDeletedIsStillNotReported(t *testing.T) {
	for name, change := range map[string]func(w *world, secret *corev1.Secret) error{
		"deleted": func(w *world, secret *corev1.Secret) error { return w.Delete(w.Context(), secret) },
		"replaced": func(w *world, secret *corev1.Secret) error {
			secret.Data["token"] = []byte("another value")
			return w.Update(w.Context(), secret)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, terraform.ScopeNamespaced)
			in := w.newDatabase()
			w.Play("db", scripted.Script{Plan: scripted.Step{Stderr: outcry(in.token+" was rejected", in.token)}})
			w.order("db", "hello")
			w.awaitOutcry("db", infrav1.PlanFailedReason, in.token)
			// From now on, nothing more is heard of Terraform.
			w.Play("db", scripted.Script{Init: scripted.Step{Hang: true}, Plan: scripted.Step{Hang: true}})

			secret := &corev1.Secret{}
			w.read(secret, w.a, "inputs")
			require.NoError(t, change(w, secret))
			w.apply(w.a, uses("db", w.a, "database", says("hello")+"\n  writeConnectionSecretToRef: {name: db-connection}\n  deletionPolicy: Retain"))
			apply := &infrav1.WorkspaceTemplateApply{}
			w.await(apply, w.a, "db", func() string {
				if apply.Status.ObservedGeneration != apply.Generation || apply.Spec.DeletionPolicy != infrav1.DeletionPolicyRetain {
					return "the controller has not looked again"
				}
				return ""
			})
			w.Play("db", scripted.Script{})
			w.requireNotReported(in.token)
		})
	}
}

func TestOwnersReportNoMoreThanTheirWorkspaces(t *testing.T) {
	w := newWorld(t, terraform.ScopeNamespaced)
	in := w.newDatabase()
	broken := scripted.Script{Apply: scripted.Step{Stderr: outcry(in.token+" was rejected", in.token)}}
	w.Play(fixture.VPC, broken)
	w.Play(fixture.ControlPlane, broken)
	w.apply(w.a, cluster("demo"), captCluster("demo", "{template: {ref: {name: database}}}"), controlPlane("demo", "database", w.a))
	w.awaitCondition(&infrav1.CAPTCluster{}, w.a, "demo", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ApplyFailedReason)

	w.Play(fixture.VPC, scripted.Script{})
	owner := &controlplanev1.CAPTControlPlane{}
	w.awaitCondition(owner, w.a, "demo", controlplanev1.WorkspaceReadyCondition, metav1.ConditionFalse, infrav1.ApplyFailedReason)

	// What Terraform calls a kubeconfig is none, and is not quoted in the error.
	w.Play(fixture.ControlPlane, scripted.Script{})
	w.awaitCondition(owner, w.a, "demo", controlplanev1.KubeconfigReadyCondition, metav1.ConditionFalse, controlplanev1.KubeconfigInvalidReason)
	connection := &corev1.Secret{}
	w.read(connection, w.a, "demo-eks-connection")
	require.NotEmpty(t, connection.Data["kubeconfig"])
	w.awaitEvents(controlplanev1.KubeconfigInvalidReason)
	w.requireNotReported(in.token, in.password, string(connection.Data["kubeconfig"]), string(connection.Data["generated"]), string(connection.Data["unlisted"]))
}
