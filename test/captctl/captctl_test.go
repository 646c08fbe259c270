// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package captctl_test runs captctl migrate on a fleet of CAPT v0.3, on a real API server with the real manager. What the commands print is
// kept in files: a reviewer can check that it says what to do.
package captctl_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/command"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/migrate/host"
	"github.com/capt-provider/capt/test/sandbox"
)

// shared is a management cluster of CAPT v0.3.
var shared *legacy.Environment

// fixtures of the fleet: some are clear, in some the evidence does not decide.
var fixtures = []string{"helpers-present", "templates-in-default", "equal-names-in-two-namespaces", "two-claimants", "control-plane-templates"}

// first is the Cluster that is adopted first.
const first = "helpers-present/helpers-present-demo"

func TestMain(m *testing.M) { os.Exit(fixture.Suite{Start: start}.Run(m)) }

func start(ctx context.Context, _ string, keep func(*sandbox.Sandbox)) (err error) {
	if shared, err = legacy.Start(ctx, sandbox.Options{Log: os.Stderr}); err != nil {
		return err
	}
	keep(shared.Sandbox)
	for _, name := range fixtures {
		if _, err := shared.Create(ctx, legacy.Named()[name], legacy.NamesOf(name)); err != nil {
			return fmt.Errorf("fixture %s: %w", name, err)
		}
	}
	for _, deployment := range legacy.Deployments(1) {
		if err := shared.Admin.Create(ctx, deployment); err != nil {
			return err
		}
	}
	return nil
}

// user runs captctl, and compares what is printed with files.
type user struct {
	*testing.T
	// dir is for plans and backups.
	dir string
}

func (u *user) file(name string) string { return filepath.Join(u.dir, name) }

// run runs a command and compares what is on the terminal at its end with a file.
func (u *user) run(name string, want migrate.Outcome, arguments ...string) {
	u.Helper()
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	line := "captctl migrate " + strings.Join(arguments, " ")
	arguments = append([]string{"migrate", "--kubeconfig", shared.KubeconfigOf(sandbox.Captctl)}, arguments...)
	err := command.New("captctl", arguments, streams).ExecuteContext(u.Context())
	u.Logf("%s: %v\n%s", line, err, stderr)
	require.Equal(u, want, migrate.OutcomeOf(err), "%s: %v", line, err)
	printed := "$ " + line + "\n" + stdout.String()
	if err != nil {
		printed += cli.Line(err) + "\n"
	}
	u.golden(name, fmt.Sprintf("%sexit code %d\n", printed, want))
}

var (
	uids      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	moments   = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(Z| UTC)`)
	checksums = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	ages      = regexp.MustCompile(`\b(\d+[ms])+ ago`)
	plans     = regexp.MustCompile(`(^|[^-0-9a-f])[0-9a-f]{12}\b`)
	writes    = regexp.MustCompile(`(Applied|RolledBack) +\d{1,2} +`)
	columns   = regexp.MustCompile(`(\S) {2,}`)
	digits    = regexp.MustCompile(`\d`)
)

// golden compares what was printed with a file, in which UIDs are numbered, and times and plan IDs are zero. UPDATE_GOLDEN=1 writes the file;
// read the difference.
func (u *user) golden(name, printed string) {
	u.Helper()
	host, err := os.Hostname()
	require.NoError(u, err)
	numbers := map[string]string{}
	printed = strings.ReplaceAll(printed, u.dir, "DIR")
	printed = uids.ReplaceAllStringFunc(printed, func(uid string) string {
		if numbers[uid] == "" {
			numbers[uid] = fmt.Sprintf("00000000-0000-0000-0000-%012d", len(numbers)+1)
		}
		return numbers[uid]
	})
	printed = moments.ReplaceAllStringFunc(printed, func(at string) string { return digits.ReplaceAllString(at, "0") })
	printed = checksums.ReplaceAllString(printed, strings.Repeat("0", 64))
	// The manager may write a status before captctl does: a reconcile that began before the pause.
	printed = writes.ReplaceAllString(printed, "$1  N  ")
	if ages.MatchString(printed) { // They set the width of their columns.
		printed = columns.ReplaceAllString(ages.ReplaceAllString(printed, "0s ago"), "$1  ")
	}
	printed = strings.ReplaceAll(printed, host, "HOST")
	printed = plans.ReplaceAllString(printed, "${1}000000000000")
	path := filepath.Join("testdata", name+".golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(u, os.WriteFile(path, []byte(printed), 0o600))
	}
	expected, err := os.ReadFile(path)
	require.NoError(u, err)
	assert.Equal(u, string(expected), printed)
}

func TestTheSixCommandsOnAFleetOfCAPTv03(t *testing.T) {
	u := &user{T: t, dir: t.TempDir()}
	u.run("check-untouched", migrate.NeedsDecision, "check", "--quiet=1ms")
	u.upgrade()
	u.run("check-installed", migrate.NeedsDecision, "check", "--quiet=1ms", "-o", "wide")

	u.run("plan-undecided", migrate.NeedsDecision, "plan", "--out", u.file("undecided.json"))
	u.skip(u.read("undecided.json"), "decisions.yaml")
	u.run("plan", migrate.Done, "plan", "--out", u.file("plan.json"), "--decisions", u.file("decisions.yaml"))
	u.run("show-diff", migrate.Done, "show", u.file("plan.json"), "--diff")

	apply := []string{"apply", u.file("plan.json"), "--quiet=1ms", "--backup", u.file("backup.tar.gz")}
	u.run("apply-unconfirmed", migrate.Failed, apply...)
	u.run("apply-dry-run", migrate.Done, append(apply, "--dry-run=server")...)
	apply = append(apply, "--yes")
	u.run("apply-cluster", migrate.Done, append(apply, "--cluster", first)...)
	u.run("apply", migrate.Done, apply...)
	u.run("status", migrate.Done, "status", "--quiet=1ms")

	u.run("rollback", migrate.Done, "rollback", "--cluster", first, "--quiet=1ms", "--yes")
	u.run("status-rolled-back", migrate.Pending, "status", "--quiet=1ms", "--detailed-exitcode")
}

// upgrade does what check prints: stop CAPT v0.3, delete the renamed kind, install this version.
func (u *user) upgrade() {
	for _, deployment := range legacy.Deployments(0) {
		require.NoError(u, shared.Admin.Update(u.Context(), deployment))
	}
	_, err := shared.TakeTemplates(u.Context())
	require.NoError(u, err)
	require.NoError(u, shared.Upgrade(u.Context()))
	host.Settled(u.T, shared.Sandbox, func() map[string]string { return host.Fleet(u.T, shared.Admin) })
}

func (u *user) read(name string) *plan.Plan {
	u.Helper()
	file, err := os.Open(u.file(name))
	require.NoError(u, err)
	defer func() { _ = file.Close() }()
	p, err := plan.Read(file)
	require.NoError(u, err)
	return p
}

// skip writes decisions that leave everything undecided as it is.
func (u *user) skip(p *plan.Plan, name string) {
	decisions := migrate.Decisions{APIVersion: migrate.APIVersion, Kind: "Decisions"}
	for _, finding := range p.Undecided() {
		for _, object := range finding.Objects() {
			decisions.Owners = append(decisions.Owners, migrate.OwnerDecision{UID: object.UID, Skip: true, Reason: "not decided yet"})
		}
	}
	data, err := yaml.Marshal(decisions)
	require.NoError(u, err)
	require.NoError(u, os.WriteFile(u.file(name), data, 0o600))
}
