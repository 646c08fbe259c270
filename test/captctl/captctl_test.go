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

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/command"
	"github.com/capt-provider/capt/cmd/captctl/planfile"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

// shared is an API server with a fleet of which much is ambiguous, and with the older definitions.
var shared *legacy.World

// fixtures of the fleet: some are clear, and of some nobody but a person can tell.
var fixtures = []string{
	"reference-empty-hand-made-fixed-name", "helpers-present", "cluster-paused", "equal-names-in-two-namespaces", "x-and-x-apply",
	"two-claimants", "deletion-in-progress", "templates-in-default-with-secret", "status-wiped", "control-plane-templates",
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
	return nil
}

// person runs captctl, one command after another, and what is printed is compared with files.
type person struct {
	*testing.T
	// folder is for backups, journals and plans.
	folder string
}

func (p *person) file(name string) string { return filepath.Join(p.folder, name) }

// run runs a command as the user of captctl, and compares what a person sees at its end with a file.
func (p *person) run(name string, want migrate.Outcome, arguments ...string) {
	p.Helper()
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	line := "captctl migrate " + strings.Join(arguments, " ")
	arguments = append([]string{"migrate", "--kubeconfig", shared.KubeconfigOf(sandbox.Captctl)}, arguments...)
	err := command.New("captctl", arguments, streams).ExecuteContext(p.Context())
	p.Logf("%s: %v\n%s", line, err, stderr)
	require.Equal(p, want, migrate.OutcomeOf(err), "%s: %v", line, err)
	printed := "$ " + line + "\n" + stdout.String()
	if err != nil {
		printed += cli.Line(err) + "\n"
	}
	p.golden(name, fmt.Sprintf("%sexit code %d\n", printed, want))
}

var (
	uids      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	moments   = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\dZ| UTC)`)
	checksums = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	ages      = regexp.MustCompile(`\b(\d+[ms])+ ago`)
	plans     = regexp.MustCompile(`(^|[^-0-9a-f])[0-9a-f]{12}\b`)
)

// golden compares what was printed with a file, in which UIDs are numbered, and moments and IDs of plans have no digits. UPDATE_GOLDEN=1 writes it anew;
// read the difference.
func (p *person) golden(name, printed string) {
	p.Helper()
	host, err := os.Hostname()
	require.NoError(p, err)
	numbers := map[string]string{}
	printed = strings.ReplaceAll(printed, p.folder, "FOLDER")
	printed = uids.ReplaceAllStringFunc(printed, func(uid string) string {
		if numbers[uid] == "" {
			numbers[uid] = fmt.Sprintf("00000000-0000-0000-0000-%012d", len(numbers)+1)
		}
		return numbers[uid]
	})
	printed = moments.ReplaceAllStringFunc(printed, func(at string) string { return regexp.MustCompile(`\d`).ReplaceAllString(at, "0") })
	printed = checksums.ReplaceAllString(printed, strings.Repeat("0", 64))
	printed = ages.ReplaceAllString(printed, "0s ago")
	printed = strings.ReplaceAll(printed, " on "+host+";", " on HOST;")
	printed = plans.ReplaceAllString(printed, "${1}000000000000")
	path := filepath.Join("testdata", name+".golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(p, os.WriteFile(path, []byte(printed), 0o600))
	}
	expected, err := os.ReadFile(path)
	require.NoError(p, err)
	assert.Equal(p, string(expected), printed)
}

func TestAPersonCanDecideFromWhatIsPrintedAndCarryItOut(t *testing.T) {
	p := &person{T: t, folder: t.TempDir()}
	p.upgrade()
	p.look()
	plan := p.decide()
	p.carryOut(plan)
	p.goBackAndForth(plan)
}

// upgrade replaces the definition whose kind has changed.
func (p *person) upgrade() {
	crds := []string{"crds", "--backup", p.file("backup-crds")}
	p.run("crds-dry-run", migrate.Pending, append(crds, "--dry-run")...)
	p.run("crds-deleted", migrate.Done, crds...)
	require.NoError(p, shared.Upgrade(p.Context()))
	p.run("crds-created", migrate.Done, crds...)
	p.run("crds-done", migrate.Done, crds...)
}

// look finds out what is there.
func (p *person) look() {
	for name, arguments := range map[string][]string{
		"inspect": nil, "inspect-wide": {"-o", "wide"}, "inspect-tree": {"--tree"}, "inspect-dot": {"-o", "dot"}, "inspect-mermaid": {"-o", "mermaid"},
	} {
		p.run(name, migrate.Done, append([]string{"inspect"}, arguments...)...)
	}
}

// decide decides what is not clear: here, to leave all of that alone.
func (p *person) decide() *migrate.Plan {
	p.run("plan-unclear", migrate.NeedsDecision, "plan", "--out", p.file("unclear.json"))
	unclear := p.read("unclear.json")
	p.run("apply-unclear", migrate.NeedsDecision, "apply", p.file("unclear.json"), "--backup", p.file("backup"), "--journal-dir", p.folder, "--quiet", "1ms")

	leave(p.T, p.file("decisions.yaml"), unclear)
	p.run("plan", migrate.Pending, "plan", "--out", p.file("plan.json"), "--decisions", p.file("decisions.yaml"))
	return p.read("plan.json")
}

// carryOut does what was decided, after a look at it from all sides.
func (p *person) carryOut(plan *migrate.Plan) {
	p.run("show", migrate.Done, "show", p.file("plan.json"))
	p.run("show-diff", migrate.Done, "show", p.file("plan.json"), "--diff")
	p.run("preflight", migrate.Done, "preflight", "--phase", "adopt,storage,backup,finalize", "--quiet", "1ms")
	p.run("preflight-wide", migrate.Done, "preflight", "--phase", "adopt,storage,backup,finalize", "--quiet", "1ms", "-o", "wide")
	p.run("verify-before", migrate.NotVerified, "verify", p.file("plan.json"))

	apply, first := p.apply(), plan.Units[0].Owner
	p.run("apply-dry-run", migrate.Done, append(apply, "--dry-run=server")...)
	p.run("finalize-too-early", migrate.NotVerified, "finalize", p.file("plan.json"), "--yes", "--quiet", "1ms")
	p.run("apply", migrate.Done, append(apply, "--canary", first.Namespace+"/"+first.Name)...)
	p.run("apply-again", migrate.Done, apply...)
	p.run("resume", migrate.Done, p.again("resume", plan)...)
	p.run("status", migrate.Done, "status", plan.ID)
	p.run("backup-verify", migrate.Done, "backup", "verify", p.file("backup"))
	p.run("verify", migrate.Done, "verify", p.file("plan.json"))
}

// goBackAndForth shows that there is a way back, and forth again, until finalize.
func (p *person) goBackAndForth(plan *migrate.Plan) {
	back := p.again("rollback", plan)
	p.run("rollback-dry-run", migrate.Done, append(back, "--dry-run=server")...)
	p.run("rollback", migrate.Done, back...)
	p.run("status-rolled-back", migrate.Done, "status", plan.ID)
	p.run("verify-rolled-back", migrate.NotVerified, "verify", p.file("plan.json"))
	p.run("apply-anew", migrate.Done, p.apply()...)
	p.run("finalize", migrate.Done, "finalize", p.file("plan.json"), "--yes", "--quiet", "1ms")
	p.run("finalize-again", migrate.Done, "finalize", p.file("plan.json"), "--yes", "--quiet", "1ms")
	p.run("rollback-too-late", migrate.Failed, back...)
}

func (p *person) apply() []string {
	return []string{"apply", p.file("plan.json"), "--backup", p.file("backup"), "--journal-dir", p.folder, "--quiet", "1ms"}
}

// again is a command that goes on with what apply has begun.
func (p *person) again(command string, plan *migrate.Plan) []string {
	return []string{command, plan.ID, "--journal-dir", p.folder, "--quiet", "1ms"}
}

func (p *person) read(name string) *migrate.Plan {
	p.Helper()
	plan, err := planfile.Read(p.file(name), nil)
	require.NoError(p, err)
	return plan
}

// leave decides to leave every owner alone about which there is an open finding.
func leave(t *testing.T, file string, plan *migrate.Plan) {
	t.Helper()
	decisions := migrate.Decisions{APIVersion: migrate.APIVersion, Kind: "Decisions"}
	seen := map[types.UID]bool{}
	for _, finding := range plan.Undecided() {
		for _, owner := range finding.Objects() {
			if !seen[owner.UID] {
				seen[owner.UID] = true
				decisions.Owners = append(decisions.Owners, migrate.OwnerDecision{UID: owner.UID, Skip: true, Reason: "nobody knows"})
			}
		}
	}
	data, err := yaml.Marshal(decisions)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o600))
}
