// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/redact"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/provider/failures"
)

const boxed = "Initializing the backend...\n" +
	"\x1b[31m╷\x1b[0m\n│ \x1b[1mWarning: Deprecated\x1b[0m\n│ \n│ Use another argument.\n╵\n" +
	"╷\n│ Error: Invalid value for variable\n│ \n│   on main.tf line 5:\n│    5: variable \"zones\" {\n│     ├────────────────\n│     │ var.zones is [\"a\"]\n│ \n│ Must have two zones.\n╵\n" +
	"╷\n│ Error: second\n╵\n╷\n│ Error: third\n╵\n"

const complete = `Initializing the backend...

Warning: Deprecated

Use another argument.

Error: Invalid value for variable

  on main.tf line 5:
   5: variable "zones" {
    var.zones is ["a"]

Must have two zones.

Error: second

Error: third`

func TestTextIsComplete(t *testing.T) {
	plain := "\nError: first\n\n  with aws_vpc.this,\n  on main.tf line 1:\n\nDetail\nof it.\n\n\nError: second\n"
	for name, row := range map[string]struct{ message, want string }{
		"boxes":             {failed(planFailed, boxed), complete},
		"no boxes":          {failed(updateFailed, plain), "Error: first\n\n  with aws_vpc.this,\n  on main.tf line 1:\n\nDetail\nof it.\n\nError: second"},
		"of the provider":   {`connect failed: cannot get ProviderConfig: ProviderConfig "aws" not found`, `cannot get ProviderConfig: ProviderConfig "aws" not found`},
		"no output":         {failed(updateFailed, ""), "Terraform printed no error; it was probably killed, for example because provider-terraform reached its memory limit"},
		"not compressed":    {"update failed: cannot apply Terraform configuration: Terraform encountered an error. Summary: bad thing", "bad thing"},
		"truncated at once": {failed(updateFailed, plain)[:len(updateFailed)+130], "first."},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, Text(row.message, Secrets{})) })
	}
}

// The part of a secret at the end of a truncated text is not recognized.
func TestATruncatedTextEndsBeforeItsLastLine(t *testing.T) {
	stderr := "Error: it is raining\n" + strings.Repeat(strings.Repeat("very ", 200)+"much\n", maxUnpacked/1000)
	text := Text(failed(updateFailed, stderr), Secrets{})
	assert.True(t, strings.HasSuffix(text, "much\n…"), text[len(text)-40:])
}

func TestTextOfEverySampleHasEachLine(t *testing.T) {
	for _, sample := range failures.Samples() {
		text := strings.Join(strings.Fields(Text(failed(updateFailed, sample.Stderr), Secrets{})), " ")
		for _, one := range diagnostics(redact.Text(sample.Stderr, nil)) {
			for line := range strings.Lines(one) {
				if words := strings.Trim(strings.Join(strings.Fields(line), " "), "│╷╵├─ "); words != "" && !strings.ContainsAny(line, "=[]") {
					assert.Contains(t, text, words, sample.Name)
				}
			}
		}
		assert.False(t, strings.ContainsAny(text, "│╷╵├"), sample.Name)
	}
}

func TestTextHasNoSecrets(t *testing.T) {
	const secret = "s3cret horse battery"
	for name, stderr := range map[string]string{
		"summary":        "Error: no " + secret + "\n",
		"before":         "using " + secret + "\nError: no\n",
		"wrapped":        "Error: no\n\nit was s3cret horse\nbattery today\n",
		"boxed":          "╷\n│ Error: no\n│\n│ it was s3cret\n│ horse battery\n╵\n",
		"colored":        "Error: no\n\nit was s3cret \x1b[1mhorse\x1b[0m battery\n",
		"in a value":     "╷\n│ Error: no\n│   on main.tf line 1:\n│    1: x\n│     ├────\n│     │ var.x is \"s3cret\n│     │ horse battery\"\n╵\n",
		"second error":   "Error: no\n\nError: not either\n\n" + secret + "\n",
		"in the warning": "Warning: " + secret + "\n\nError: no\n",
	} {
		t.Run(name, func(t *testing.T) {
			text := Text(failed(updateFailed, stderr), Secrets{Values: [][]byte{[]byte(secret)}})
			for word := range strings.FieldsSeq(secret) {
				assert.NotContains(t, text, word)
			}
			assert.Contains(t, text, "Error: no")
			assert.Empty(t, Text(failed(updateFailed, stderr), unknown))
		})
	}
}

// A sensitive output, or a value from a Secret, that is in the spec or in another output is not a secret, unless its name says so.
func TestWhatEveryReaderKnowsIsReadable(t *testing.T) {
	key := func(name string) *terraform.KeyReference { return &terraform.KeyReference{Name: "inputs", Key: name} }
	workspace := &terraform.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo-blue-vpc"}}
	workspace.Spec.ForProvider.Module = "variable \"engine\" {\n  default = \"postgres\"\n}\n"
	workspace.Spec.ForProvider.VarFiles = []terraform.VarFile{{SecretKeyRef: key("tfvars")}}
	workspace.Spec.ForProvider.Env = []terraform.EnvVar{{Name: "TF_VAR_owner", SecretKeyRef: key("owner")}, {Name: "TF_VAR_db_password", SecretKeyRef: key("value")}}
	workspace.Spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "outputs"}
	secrets := map[string]map[string][]byte{
		"inputs":  {"tfvars": []byte("engine = \"postgres\"\ntoken = \"hunter22\"\n"), "owner": []byte("engine"), "value": []byte("team-a")},
		"outputs": {"cluster_name": []byte("demo-blue"), "db_passwords": []byte(`["postgres"]`), "kubeconfig": []byte("a-kubeconfig")},
	}
	found := SecretsOf(workspace, func(name types.NamespacedName) (*corev1.Secret, error) {
		return &corev1.Secret{Data: secrets[name.Name]}, nil
	})
	require.NoError(t, found.Missing)
	say := func(text string) string {
		return Explain(failed(updateFailed, "Error: "+text+"\n"), found, "").Message
	}
	assert.Contains(t, say("creating EKS Cluster (demo-blue) with engine"), "creating EKS Cluster (demo-blue) with engine", "names and identifiers")
	assert.Contains(t, say("hunter22 of a-kubeconfig"), "[redacted] of [redacted]")
	assert.Contains(t, say("password team-a"), "password [redacted]", "its name says that it is a secret")
	assert.Contains(t, say("refused postgres"), "refused [redacted]", "it is also a password")

	delete(secrets["outputs"], "db_passwords")
	found = SecretsOf(workspace, func(name types.NamespacedName) (*corev1.Secret, error) {
		return &corev1.Secret{Data: secrets[name.Name]}, nil
	})
	assert.Contains(t, say("postgres is not supported"), "postgres is not supported")
}
