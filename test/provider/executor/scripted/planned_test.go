// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package scripted_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/terraform/planlog"
	"github.com/capt-provider/capt/test/provider/executor"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/provider/executor/tofu"
	"github.com/capt-provider/capt/test/sandbox/binaries"
)

// planned is a module before and after a change. Canaries are values that no log of changes may have.
const (
	beforeChange = `
variable "secret" {
  type      = string
  sensitive = true
}
variable "plain" { type = string }
resource "terraform_data" "updated" { input = var.plain }
resource "terraform_data" "replaced" {
  input            = var.secret
  triggers_replace = ["canary-one"]
}
resource "terraform_data" "gone" { input = "canary-gone" }
resource "terraform_data" "same" { input = "canary-same" }
output "plain" { value = terraform_data.updated.input }
output "dropped" { value = "canary-dropped" }
`
	afterChange = `
variable "secret" {
  type      = string
  sensitive = true
}
variable "plain" { type = string }
resource "terraform_data" "updated" { input = "${var.plain}-canary-changed" }
resource "terraform_data" "replaced" {
  input            = var.secret
  triggers_replace = ["canary-two"]
}
resource "terraform_data" "same" { input = "canary-same" }
resource "terraform_data" "new" { input = "canary-new" }
output "plain" { value = terraform_data.updated.input }
output "added" { value = "canary-added" }
`
	// A check, which only OpenTofu knows, writes a warning with a value.
	check = `
check "plain" {
  assert {
    condition     = var.plain == ""
    error_message = "It is ${var.plain}."
  }
}
`
)

// executors are the scripted one and OpenTofu.
func executors(t *testing.T) map[string]executor.Factory {
	t.Helper()
	path, err := binaries.Built(t.Context(), os.Stderr, binaries.Tofu)
	require.NoError(t, err)
	ours, err := scripted.New(t.TempDir())
	require.NoError(t, err)
	return map[string]executor.Factory{"scripted": ours, "opentofu": tofu.New(tofu.Options{Binary: path, WorkDir: t.TempDir()})}
}

// plan plans a module, and returns what is logged.
func plan(t *testing.T, factory executor.Factory, of types.NamespacedName, module string, args []string, before func(e executor.Executor, o executor.RunOptions)) (string, error) {
	t.Helper()
	e, err := factory.Open(t.Context(), executor.Module{UID: "uid", Key: of, Files: map[string][]byte{"main.tf": []byte(module)}})
	require.NoError(t, err)
	require.NoError(t, e.Init(t.Context(), nil))
	require.NoError(t, e.SelectWorkspace(t.Context(), "ours"))
	log := &strings.Builder{}
	o := executor.RunOptions{
		Vars: []executor.Var{{Key: "secret", Value: "canary-secret"}, {Key: "plain", Value: "canary-plain"}}, Args: args,
		Log: func(text string) {
			quoted, err := json.Marshal(text)
			require.NoError(t, err)
			fmt.Fprintf(log, `{"level":"info","ts":%q,"msg":%s,"request":{"name":"w"},"operation":"plan"}`+"\n", time.Now().Format(time.RFC3339Nano), quoted)
		},
	}
	before(e, o)
	log.Reset()
	_, err = e.Plan(t.Context(), o)
	return log.String(), err
}

func TestTheLogOfAPlanIsThatOfOpenTofuAndHasNoValues(t *testing.T) {
	results := map[string]*planlog.Changes{}
	for name, factory := range executors(t) {
		_, err := plan(t, factory, key, beforeChange, nil, func(e executor.Executor, o executor.RunOptions) {
			o.Args = nil
			require.NoError(t, e.Apply(t.Context(), o))
		})
		require.NoError(t, err)
		module := afterChange
		if name == "opentofu" {
			module += check
		}
		log, err := plan(t, factory, key, module, []string{"-json"}, func(executor.Executor, executor.RunOptions) {})
		require.NoError(t, err)
		changes, err := planlog.Read(strings.NewReader(log), "w", time.Time{})
		require.NoError(t, err, log)
		require.NotContains(t, fmt.Sprintf("%+v", changes), "canary")
		changes.Time = time.Time{}
		results[name] = changes
	}
	data := func(name string, action planlog.Action, reason string) planlog.Resource {
		return planlog.Resource{Address: "terraform_data." + name, Type: "terraform_data", Action: action, Reason: reason}
	}
	want := &planlog.Changes{
		Counts: planlog.Counts{Create: 1, Update: 1, Replace: 1, Delete: 1}, Total: 4,
		Resources: []planlog.Resource{
			data("replaced", planlog.Replace, "cannot_update"), data("gone", planlog.Delete, "delete_because_no_resource_config"),
			data("updated", planlog.Update, ""), data("new", planlog.Create, ""),
		},
		Destroys:    []string{"terraform_data"},
		OutputTotal: 3, Outputs: []planlog.Output{{Name: "added", Action: planlog.Create}, {Name: "dropped", Action: planlog.Delete}, {Name: "plain", Action: planlog.Update}},
	}
	require.Equal(t, want, results["scripted"])
	want.Warnings = 1
	require.Equal(t, want, results["opentofu"])
}

// What is logged, and what the error has, of plans without changes and of those that fail.
func TestWhatIsLoggedOfOtherPlans(t *testing.T) {
	none := func(executor.Executor, executor.RunOptions) {}
	for name, factory := range executors(t) {
		log, err := plan(t, factory, key, beforeChange, []string{"-json"}, func(e executor.Executor, o executor.RunOptions) {
			o.Args = nil
			require.NoError(t, e.Apply(t.Context(), o))
		})
		require.NoError(t, err)
		require.Empty(t, log, "%s: no changes", name)

		broken := afterChange + `output "broken" { value = terraform_data.missing.id }`
		log, err = plan(t, factory, key, broken, []string{"-json"}, none)
		require.ErrorContains(t, err, "Summary: . To see", name)
		require.Contains(t, log, `"msg":"","request"`, name)
		log, err = plan(t, factory, key, broken, nil, none)
		require.ErrorContains(t, err, "Summary: Reference to undeclared resource", name)
		require.Contains(t, log, `Error: Reference to undeclared resource`, name)

		log, err = plan(t, factory, key, afterChange, nil, none)
		require.NoError(t, err)
		require.Contains(t, log, "Plan: 2 to add, 1 to change, 2 to destroy.", name)
		_, err = planlog.Read(strings.NewReader(log), "w", time.Time{})
		require.ErrorContains(t, err, "without -json", name)
	}
}

func TestWhatAChangeThatCannotBeEvaluatedLogs(t *testing.T) {
	dir := t.TempDir()
	ours, err := scripted.New(dir)
	require.NoError(t, err)
	changesOf := func(of types.NamespacedName, module string) *planlog.Changes {
		log, err := plan(t, ours, of, module, []string{"-json"}, func(executor.Executor, executor.RunOptions) {})
		require.NoError(t, err)
		changes, err := planlog.Read(strings.NewReader(log), "w", time.Time{})
		require.NoError(t, err, log)
		return changes
	}
	preview := types.NamespacedName{Namespace: key.Namespace, Name: "preview"}
	const variables = "variable \"secret\" {}\nvariable \"plain\" {}\n"
	_, err = plan(t, ours, key, variables+`module "vpc" { source = "x" }`, nil, func(e executor.Executor, o executor.RunOptions) { require.NoError(t, e.Apply(t.Context(), o)) })
	require.NoError(t, err)
	vpc := planlog.Resource{Address: "module.vpc.terraform_data.this", Type: "terraform_data", Action: planlog.Update}
	require.Equal(t, []planlog.Resource{vpc}, changesOf(preview, variables+`module "vpc" { source = "y" }`).Resources)
	for _, drifting := range []types.NamespacedName{key, preview} {
		require.NoError(t, scripted.At(dir).SetScript(drifting, scripted.Script{Drift: "changed by hand"}))
		drifted := changesOf(preview, variables+`module "vpc" { source = "x" }`)
		require.Equal(t, [][]planlog.Resource{{vpc}, {vpc}}, [][]planlog.Resource{drifted.Resources, drifted.Drift})
		require.NoError(t, scripted.At(dir).SetScript(key, scripted.Script{}))
	}
}
