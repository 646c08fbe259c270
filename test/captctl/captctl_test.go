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

// Package captctl_test runs the commands of captctl on a fleet that the older CAPT left, on a real API server. What they print is kept in
// files, so that a person can judge whether it can be acted upon without reading source.
package captctl_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/cmd/captctl/command"
	"github.com/capt-provider/capt/cmd/captctl/planfile"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

// shared is an API server with a fleet of which much is ambiguous, upgraded.
var shared *legacy.World

// fixtures of the fleet: some are clear, and of some nobody but a person can tell.
var fixtures = []string{
	"reference-empty-hand-made-fixed-name", "helpers-present", "cluster-paused", "equal-names-in-two-namespaces", "x-and-x-apply",
	"two-claimants", "deletion-in-progress", "templates-in-default-with-secret", "status-wiped",
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w, err := legacy.Start(ctx, sandbox.Options{Log: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, "Starting the sandbox:", err)
		return 1
	}
	defer func() {
		if err := w.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "Stopping the sandbox:", err)
		}
	}()
	shared = w
	if err := build(ctx, w); err != nil {
		fmt.Fprintln(os.Stderr, "Making the fleet:", err)
		return 1
	}
	return m.Run()
}

func build(ctx context.Context, w *legacy.World) error {
	for _, name := range fixtures {
		if _, err := w.Create(ctx, legacy.Named()[name], legacy.NamesOf(name)); err != nil {
			return fmt.Errorf("fixture %s: %w", name, err)
		}
	}
	return w.Upgrade(ctx)
}

// captctl runs a command as its user, and returns what it printed.
func captctl(t *testing.T, arguments ...string) (out string, err error) {
	t.Helper()
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	arguments = append([]string{"--kubeconfig", shared.KubeconfigOf(sandbox.Captctl)}, arguments...)
	err = command.New("captctl", arguments, streams).ExecuteContext(t.Context())
	t.Logf("captctl %v: %v\n%s", arguments, err, stderr)
	return stdout.String(), err
}

var (
	uids      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	moments   = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\dZ| UTC)`)
	checksums = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
)

// golden compares what was printed with a file, in which UIDs are numbered and moments have no digits. UPDATE_GOLDEN=1 writes it anew;
// read the difference.
func golden(t *testing.T, name, printed, folder string, ids ...string) {
	t.Helper()
	numbers := map[string]string{}
	printed = uids.ReplaceAllStringFunc(printed, func(uid string) string {
		if numbers[uid] == "" {
			numbers[uid] = fmt.Sprintf("00000000-0000-0000-0000-%012d", len(numbers)+1)
		}
		return numbers[uid]
	})
	printed = moments.ReplaceAllStringFunc(printed, func(at string) string { return regexp.MustCompile(`\d`).ReplaceAllString(at, "0") })
	printed = checksums.ReplaceAllString(printed, strings.Repeat("0", 64))
	printed = strings.ReplaceAll(printed, folder, "FOLDER")
	for _, id := range ids {
		printed = strings.ReplaceAll(printed, id, "000000000000")
	}
	path := filepath.Join("testdata", name+".golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(printed), 0o600))
	}
	expected, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(expected), printed)
}

func TestAPersonCanDecideFromWhatIsPrintedAndCarryItOut(t *testing.T) {
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }

	// What is there?
	for name, arguments := range map[string][]string{
		"inspect": nil, "inspect-wide": {"-o", "wide"}, "inspect-tree": {"--tree"}, "inspect-dot": {"-o", "dot"}, "inspect-mermaid": {"-o", "mermaid"},
	} {
		out, err := captctl(t, append([]string{"migrate", "inspect"}, arguments...)...)
		require.NoError(t, err)
		golden(t, name, out, folder)
	}

	// Not all of it is clear.
	out, err := captctl(t, "migrate", "plan", "--out", file("unclear.json"))
	require.Equal(t, migrate.NeedsDecision, migrate.OutcomeOf(err))
	unclear := read(t, file("unclear.json"))
	golden(t, "plan-unclear", out, folder, unclear.ID)
	_, err = captctl(t, "migrate", "apply", file("unclear.json"), "--backup", file("backup"), "--journal-dir", folder, "--quiet", "1ms")
	require.Equal(t, migrate.NeedsDecision, migrate.OutcomeOf(err), "%v", err)

	// A person decides: here, to leave all of that alone.
	decide(t, file("decisions.yaml"), unclear)
	out, err = captctl(t, "migrate", "plan", "--out", file("plan.json"), "--decisions", file("decisions.yaml"))
	require.Equal(t, migrate.Pending, migrate.OutcomeOf(err), "%v", err)
	plan := read(t, file("plan.json"))
	golden(t, "plan", out, folder, plan.ID)
	for name, arguments := range map[string][]string{"show": nil, "show-diff": {"--diff"}} {
		out, err := captctl(t, append([]string{"migrate", "show", file("plan.json")}, arguments...)...)
		require.NoError(t, err)
		golden(t, name, out, folder, plan.ID)
	}

	// Can it be done? Then it is.
	_, err = captctl(t, "migrate", "preflight", "--phase", "adopt,storage,backup,finalize", "--quiet", "1ms")
	require.NoError(t, err)
	apply := []string{"migrate", "apply", file("plan.json"), "--backup", file("backup"), "--journal-dir", folder, "--quiet", "1ms"}
	_, err = captctl(t, append(apply, "--dry-run=server")...)
	require.NoError(t, err)
	first := plan.Units[0].Owner
	_, err = captctl(t, append(apply, "--canary", first.Namespace+"/"+first.Name)...)
	require.NoError(t, err)
	for _, arguments := range [][]string{
		{"migrate", "verify", file("plan.json")}, {"migrate", "status", plan.ID}, {"migrate", "backup", "verify", file("backup")}, apply,
		{"migrate", "resume", plan.ID, "--journal-dir", folder, "--quiet", "1ms"},
	} {
		_, err = captctl(t, arguments...)
		require.NoError(t, err, arguments)
	}

	// There is a way back, and forth again, until finalize.
	_, err = captctl(t, "migrate", "rollback", plan.ID, "--journal-dir", folder, "--quiet", "1ms")
	require.NoError(t, err)
	_, err = captctl(t, "migrate", "verify", file("plan.json"))
	require.Equal(t, migrate.NotVerified, migrate.OutcomeOf(err))
	_, err = captctl(t, apply...)
	require.NoError(t, err)
	out, err = captctl(t, "migrate", "finalize", file("plan.json"), "--yes", "--quiet", "1ms")
	require.NoError(t, err)
	golden(t, "finalize", out, folder)
	_, err = captctl(t, "migrate", "rollback", plan.ID, "--journal-dir", folder, "--quiet", "1ms")
	require.Error(t, err, "that was the point of no return")
}

func read(t *testing.T, file string) *migrate.Plan {
	t.Helper()
	plan, err := planfile.Read(file, nil)
	require.NoError(t, err)
	return plan
}

// decide leaves every owner alone about which there is an open finding.
func decide(t *testing.T, file string, plan *migrate.Plan) {
	t.Helper()
	decisions := migrate.Decisions{APIVersion: migrate.APIVersion, Kind: "Decisions"}
	seen := map[types.UID]bool{}
	for _, finding := range plan.Undecided() {
		if !seen[finding.Object.UID] {
			seen[finding.Object.UID] = true
			decisions.Owners = append(decisions.Owners, migrate.OwnerDecision{UID: finding.Object.UID, Skip: true, Reason: "nobody knows"})
		}
	}
	data, err := yaml.Marshal(decisions)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o600))
}
