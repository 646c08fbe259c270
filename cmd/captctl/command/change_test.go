/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package command

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/crds"
	"github.com/capt-provider/capt/migrate/preflight"
)

// planned is the file of a plan for the fleet that rewrites objects only.
func planned(t *testing.T, w *world) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan.json")
	_, _, err := w.run(t, "migrate", "plan", "--scope", "storage", "--out", file)
	require.Equal(t, migrate.Pending, migrate.OutcomeOf(err), "%v", err)
	return file
}

func idOf(t *testing.T, file string) string {
	t.Helper()
	var plan migrate.Plan
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &plan))
	return plan.ID
}

func TestAPlanIsCarriedOutOnceAndItsStateIsShown(t *testing.T) {
	w := fleet()
	file, folder := planned(t, w), t.TempDir()
	apply := []string{"migrate", "apply", file, "--backup", filepath.Join(folder, "backup"), "--journal-dir", folder, "--older-manager", "a/b", "--qps", "7", "--burst", "9"}

	out, errOut, err := w.run(t, append(apply, "--dry-run=server")...)
	require.NoError(t, err)
	assert.Contains(t, out, "(dry run: nothing was kept)")
	assert.Contains(t, errOut, "of 2 (100 %)", "progress is lines on standard error")
	out, _, err = w.run(t, "migrate", "status")
	require.NoError(t, err)
	assert.Equal(t, "No plan was begun in this cluster.\n\nNobody has the lock.\n", out)

	out, _, err = w.run(t, apply...)
	require.NoError(t, err)
	assert.Regexp(t, `storage +2 `, out)
	assert.Equal(t, []types.NamespacedName{{Namespace: "a", Name: "b"}}, w.asked.OlderManagers)
	assert.ElementsMatch(t, []preflight.Phase{preflight.Backup, preflight.Storage}, w.asked.Phases)
	assert.InDelta(t, 7, w.config.QPS, 0)
	assert.Equal(t, 9, w.config.Burst)

	out, _, err = w.run(t, "migrate", "status")
	require.NoError(t, err)
	assert.Regexp(t, idOf(t, file)+` +apply +Ended +Done`, out)
	out, errOut, err = w.run(t, "migrate", "status", idOf(t, file), "-o", "json")
	require.NoError(t, err)
	assert.Contains(t, out, `"kind": "Status"`)
	assert.Empty(t, errOut)

	out, errOut, err = w.run(t, append(apply, "-o", "json")...)
	require.NoError(t, err)
	assert.Contains(t, out, `"kind": "Result"`)
	assert.Empty(t, errOut, "a program sees no progress")
	out, _, err = w.run(t, "migrate", "verify", file)
	require.NoError(t, err)
	assert.Contains(t, out, "OK      WorkspacesUntouched")
	for _, command := range []string{"resume", "rollback"} {
		_, _, err = w.run(t, "migrate", command, idOf(t, file), "--journal-dir", folder)
		require.NoError(t, err, command)
	}

	out, _, err = w.run(t, "migrate", "backup", "verify", filepath.Join(folder, "backup"))
	require.NoError(t, err)
	assert.Contains(t, out, "OK: every file is there")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "backup", "more"), nil, 0o600))
	_, _, err = w.run(t, "migrate", "backup", "verify", filepath.Join(folder, "backup"))
	assert.Equal(t, migrate.NotVerified, migrate.OutcomeOf(err))
}

func TestAPromiseThatWasNotKeptIsShownAndHasAnExitCode(t *testing.T) {
	w := fleet()
	file := planned(t, w)
	require.NoError(t, w.connected.Delete(t.Context(), w.objects[3]))
	out, errOut, err := w.run(t, "migrate", "verify", file, "-o", "json")
	assert.Equal(t, migrate.NotVerified, migrate.OutcomeOf(err))
	assert.Empty(t, errOut)
	assert.Contains(t, out, `"kind": "VerifyReport"`)
	assert.Contains(t, out, `"ok": false`)
}

func TestFinalizeProvesFirst(t *testing.T) {
	w := fleet()
	file := planned(t, w)
	_, _, err := w.run(t, "migrate", "finalize", file, "--yes")
	assert.Equal(t, migrate.NotVerified, migrate.OutcomeOf(err), "the definitions of this world are not CAPT's: %v", err)
	assert.Equal(t, []preflight.Phase{preflight.Storage, preflight.Finalize}, w.asked.Phases)
}

func TestPlansOfTheClusterAreCompleted(t *testing.T) {
	w := fleet()
	file := planned(t, w)
	_, _, err := w.run(t, "migrate", "apply", file, "--backup", filepath.Join(t.TempDir(), "b"), "--journal-dir", t.TempDir())
	require.NoError(t, err)
	for _, command := range []string{"status", "resume", "rollback"} {
		out, _, err := w.run(t, cobra.ShellCompRequestCmd, "migrate", command, "")
		require.NoError(t, err)
		assert.Equal(t, idOf(t, file)+"\n:4\n", out)
	}
	out, _, err := w.run(t, cobra.ShellCompRequestCmd, "migrate", "inspect", "-n", "")
	require.NoError(t, err)
	assert.Equal(t, "capt-system\ndefault\nkube-system\n:4\n", out)
	out, _, err = w.run(t, cobra.ShellCompRequestCmd, "migrate", "rollback", "x", "--object", "")
	require.NoError(t, err)
	assert.Contains(t, out, "CAPTControlPlane/\n")
}

func TestNothingIsWrittenWhenPreflightFails(t *testing.T) {
	w := fleet()
	file := planned(t, w)
	w.preflight = func() (*preflight.Report, error) {
		return &preflight.Report{Checks: []preflight.Check{{Name: preflight.CheckPermissions, Status: preflight.Failed, Message: "you may not"}}}, migrate.NotPermitted.Errorf("you may not")
	}
	for _, command := range [][]string{{"apply", file, "--backup", t.TempDir()}, {"finalize", file, "--yes"}} {
		_, _, err := w.run(t, append([]string{"migrate"}, command...)...)
		assert.Equal(t, migrate.NotPermitted, migrate.OutcomeOf(err), "%v", err)
	}
	out, _, err := w.run(t, "migrate", "preflight", "--phase", "inspect,crds")
	assert.Equal(t, migrate.NotPermitted, migrate.OutcomeOf(err))
	assert.Contains(t, out, "Failed   permissions: you may not", "the report is printed all the same")
	assert.Equal(t, []preflight.Phase{preflight.Inspect, preflight.Definitions}, w.asked.Phases)
}

// The lock itself tells whether another run is at work, and waits for one that died.
func TestALockDoesNotKeepARunFromTryingToTakeIt(t *testing.T) {
	w := fleet()
	file := planned(t, w)
	w.preflight = func() (*preflight.Report, error) {
		return &preflight.Report{}, migrate.Locked.Errorf("another run has it")
	}
	_, _, err := w.run(t, "migrate", "apply", file, "--backup", filepath.Join(t.TempDir(), "b"), "--journal-dir", t.TempDir())
	require.NoError(t, err)
	_, _, err = w.run(t, "migrate", "preflight")
	assert.Equal(t, migrate.Locked, migrate.OutcomeOf(err))
	_, _, err = w.run(t, "migrate", "finalize", file, "--yes")
	assert.Equal(t, migrate.Locked, migrate.OutcomeOf(err), "it takes no lock, and a run that is taken back meanwhile could not be")
}

func TestDefinitionsAreReplacedAsAsked(t *testing.T) {
	w := fleet()
	var asked crds.Options
	w.replace = func(_ context.Context, options crds.Options) (*crds.Report, error) {
		asked = options
		return &crds.Report{TypeMeta: metav1.TypeMeta{Kind: "x"}, Found: crds.Older, Steps: []crds.Step{{Name: crds.StepExport, Message: "2 objects"}}, Next: "install the CRDs"},
			migrate.Pending.Errorf("something is left")
	}
	out, _, err := w.run(t, "migrate", "crds", "--backup", "folder", "--dry-run", "--restore", "--remove-finalizer", "a/b")
	assert.Equal(t, migrate.Pending, migrate.OutcomeOf(err))
	assert.Equal(t, "The definition is: Older\n  to do  Export: 2 objects\nNext: install the CRDs\n", out)
	assert.Equal(t, "folder", asked.Backup)
	assert.True(t, asked.DryRun && asked.Restore)
	assert.Equal(t, []string{"a/b"}, asked.RemoveFinalizers)
	w.replace = func(context.Context, crds.Options) (*crds.Report, error) { return nil, errors.New("no answer") }
	_, _, err = w.run(t, "migrate", "crds", "--backup", "folder")
	assert.EqualError(t, err, "no answer")
}

func TestFlagsThatMakeNoSenseAreRefusedBeforeAnythingIsAsked(t *testing.T) {
	file := planned(t, fleet())
	for complaint, arguments := range map[string][]string{
		"say --yes if that is what you want":                      {"finalize", file},
		"--workers must be at least 1":                            {"apply", file, "--workers", "0"},
		"--max-failures must not be negative":                     {"apply", file, "--max-failures", "-1"},
		"--qps must be more than 0":                               {"apply", file, "--qps", "0"},
		"--burst must be at least 1":                              {"resume", "x", "--burst", "0"},
		"4 workers and --qps 0.5 do not go together":              {"apply", file, "--qps", "0.5"},
		"--dry-run=client is captctl migrate show":                {"apply", file, "--dry-run=client"},
		`--dry-run is none or server, not "some"`:                 {"rollback", "x", "--dry-run=some"},
		`--canary "demo": this is not of the form NAMESPACE/NAME`: {"apply", file, "--canary", "demo"},
		`--older-manager "a/b/c": this is not of the form`:        {"preflight", "--older-manager", "a/b/c"},
		"--quiet must be more than 0":                             {"preflight", "--quiet", "0s"},
		"--journal-namespace must not be empty":                   {"preflight", "--journal-namespace", ""},
		`there is no phase "some"; use some of inspect, crds`:     {"preflight", "--phase", "some"},
		"--backup is required":                                    {"crds"},
	} {
		w := fleet()
		_, _, err := w.run(t, append([]string{"migrate"}, arguments...)...)
		require.ErrorContains(t, err, complaint)
		assert.Equal(t, migrate.Failed, migrate.OutcomeOf(err))
		assert.Nil(t, w.config, "no cluster was asked")
	}
}
