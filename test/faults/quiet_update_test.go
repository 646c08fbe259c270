// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// silent is a module whose outputs do not show what was applied.
const silent = `
variable "cidr" {
  type = string
}
resource "terraform_data" "vpc" {
  input = var.cidr
}
output "cidr" {
  value = "10.0.0.0/16"
}
`

// Before v1 such an update moves neither a condition nor an output.
func TestAnUpdateThatChangesNoOutputIsReportedWhenItIsApplied(t *testing.T) {
	withAnyProvider(t, func(w *world) {
		w.user(w.templateWith(templateName, sandbox.ProviderConfigName, silent), workspaceTemplateApply("demo", before))
		first := w.awaitReady("demo", before)
		w.play("demo", scripted.Script{Apply: scripted.Step{Hang: true}})
		w.user(workspaceTemplateApply("demo", after))
		w.awaitOperation("demo", scripted.Apply, 2)
		w.awaitNotReady("demo", infrav1.ProvisioningReason, "has not reported on it yet")
		require.Never(w, func() bool { return w.ready("demo") }, 1500*time.Millisecond, tick, "Ready although the update is not applied")

		w.clearScript("demo")
		last := w.awaitReady("demo", before)
		require.NotEqual(w, first.Status.LastAppliedRevision, last.Status.LastAppliedRevision)
		// The next look of the provider shows again what it had shown before the update.
		w.edit("demo", `{"metadata":{"annotations":{"example.com/touched":"yes"}}}`)
		w.awaitWorkspace("demo", func(workspace *unstructured.Unstructured) string {
			if checksum, _, _ := unstructured.NestedString(workspace.Object, "status", "atProvider", "checksum"); checksum == "" {
				return "the provider has not looked again"
			}
			return ""
		})
		require.Never(w, func() bool { return !w.ready("demo") }, 1500*time.Millisecond, tick, "what was reported as applied stays so")
		require.Len(w, w.writes("demo"), 2, "one to make it, and one to change it")
		w.end("demo")
	})
}

// A field that the CRD does not have is found by the API server only. It is asked once.
func TestARefusedUpdateIsReportedAndNotSentAgain(t *testing.T) {
	inEitherScope(t, func(w *world) {
		w.user(w.template(), workspaceTemplateApply("demo", before))
		w.awaitReady("demo", before)
		w.user(strings.Replace(w.template(), "source: Inline", "source: Inline\n        modul: misspelled", 1))
		w.awaitNotReady("demo", infrav1.WorkspaceRejectedReason, "modul", "Correct the WorkspaceTemplate")
		sent := len(w.writes("demo"))
		require.Never(w, func() bool { return len(w.writes("demo")) > sent }, 2*time.Second, 10*tick, "a refused write was sent again")

		w.user(w.template())
		w.awaitReady("demo", before)
		require.EqualValues(w, 1, w.workspace("demo").GetGeneration(), "nothing of it was ever written")
		w.end("demo")
	})
}
