// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	// migrated is how many legacy clusters there are.
	migrated = 1000
	// longestLook is how many seconds check and plan may take.
	longestLook = 5
	// mostMemory is how many bytes captctl may need.
	mostMemory = 200 << 20
	// unlimited is a limit on requests that this machine does not reach.
	unlimited = 5000
)

// atRates are parts of the fleet that are migrated at a number of requests per second.
var atRates = []struct {
	namespace     string
	clusters, qps int
}{{"slow", 20, 20}, {"fast", 40, 50}}

// BenchmarkMigrate adopts 1,000 clusters of CAPT v0.3 while the manager runs, with a process for each command, and reports
//   - cold-s: how long the very first check takes. The API server has just been started, and converts everything once
//   - COMMAND-s, COMMAND-cpu-s: how long each command takes from then on, from the start of the program to its end, and its processor time;
//     more than 5 s for check or plan are a failure
//   - COMMAND-MiB: the most memory that the process had; more than 200 is a failure
//   - at-N-requests/s: how many requests apply --qps N --burst 1 sent per second, from its first to its last write of one of CAPT's objects, by the
//     audit log; 10 % more or less than N are a failure. It is measured with parts of the fleet
//   - applied-requests/s: how many they were when nothing limited it but the manager
//
// With MIGRATE_UNTIL=plan it ends before anything is written.
func BenchmarkMigrate(b *testing.B) {
	captctl, measure := build(b, "../../cmd/captctl"), build(b, "./cmd/measure")
	for b.Loop() {
		env, err := legacy.Start(b.Context(), sandbox.Options{Log: os.Stderr})
		require.NoError(b, err)
		left := migrated
		for _, part := range atRates {
			_, err = env.Create(b.Context(), fleetOf(part.clusters), legacy.NamesOf(part.namespace))
			require.NoError(b, err)
			left -= part.clusters
		}
		_, err = env.Create(b.Context(), fleetOf(left), legacy.NamesOf("fleet"))
		require.NoError(b, err)
		require.NoError(b, env.Upgrade(b.Context(), legacy.WebhooksOnly))
		m := &migration{b, env, captctl, measure, b.TempDir()}
		m.look()
		if os.Getenv("MIGRATE_UNTIL") != "plan" {
			require.NoError(b, env.StartControllers(b.Context()))
			for _, part := range atRates {
				m.limited(part.namespace, part.qps)
			}
			m.migrate()
		}
		require.NoError(b, env.Stop(context.Background()))
	}
}

// fleetOf is n clusters with nothing wrong about them but their age, made fast.
func fleetOf(n int) legacy.Fixture {
	return legacy.Fixture{Quick: true, Clusters: func(names legacy.Names) []legacy.Cluster {
		clusters := make([]legacy.Cluster, n)
		for i := range clusters {
			clusters[i] = legacy.Cluster{Namespace: names.Namespace, Name: fmt.Sprintf("%sfleet-%04d", names.Prefix, i)}
		}
		return clusters
	}}
}

// build builds a program, and returns where it is.
func build(b *testing.B, folder string) string {
	b.Helper()
	program := filepath.Join(b.TempDir(), filepath.Base(folder))
	output, err := exec.CommandContext(b.Context(), "go", "build", "-o", program, folder).CombinedOutput()
	require.NoError(b, err, string(output))
	return program
}

// migration runs commands of captctl.
type migration struct {
	*testing.B
	environment      *legacy.Environment
	captctl, measure string
	dir              string
}

func (m *migration) file(name string) string { return filepath.Join(m.dir, name) }

// look measures the commands that write nothing.
func (m *migration) look() {
	m.ReportMetric(m.run(migrate.Done, "check").Wall, "cold-s")
	for _, command := range [][]string{{"check"}, {"plan", "--out", m.file("first.json")}} {
		c := m.measured(migrate.Done, command[0], command[1:]...)
		assert.LessOrEqual(m, c.Wall, float64(longestLook), "seconds of %s", command[0])
	}
}

// limited measures how fast a part of the fleet is written.
func (m *migration) limited(namespace string, qps int) {
	plan := m.file(namespace + ".json")
	m.run(migrate.Done, "plan", "--namespace", namespace, "--out", plan)
	began := time.Now()
	m.run(migrate.Done, "apply", append(m.application(plan), "--burst=1", fmt.Sprint("--qps=", qps))...)
	rate := m.rate(began)
	assert.InEpsilon(m, qps, rate, 0.1, "requests per second")
	m.Logf("--qps=%d: %.1f requests/s", qps, rate)
	m.ReportMetric(rate, fmt.Sprintf("at-%d-requests/s", qps))
}

// migrate measures the migration of all that is left, and its rollback.
func (m *migration) migrate() {
	plan, fast := m.file("plan.json"), []string{fmt.Sprint("--qps=", unlimited), fmt.Sprint("--burst=", unlimited)}
	m.run(migrate.Done, "plan", "--out", plan)
	began := time.Now()
	m.measured(migrate.Done, "apply", append(m.application(plan), fast...)...)
	m.ReportMetric(m.rate(began), "applied-requests/s")
	m.measured(migrate.Done, "status", fast...)
	m.measured(migrate.Done, "rollback", append(fast, plan, "--yes", "--concurrency=20")...)
}

func (m *migration) application(plan string) []string {
	return []string{plan, "--backup", plan + ".tar.gz", "--yes", "--concurrency=20"}
}

// rate is how many requests captctl sent per second while it wrote CAPT's objects.
func (m *migration) rate(began time.Time) float64 {
	requests, err := m.environment.Requests(sandbox.CaptctlUser)
	require.NoError(m, err)
	var sent []time.Time
	var first, last time.Time
	for i := range requests {
		request := &requests[i]
		at := request.RequestReceivedTimestamp.Time
		if at.Before(began) {
			continue
		}
		sent = append(sent, at)
		ours := slices.ContainsFunc(migrate.Kinds(), func(k migrate.Kind) bool {
			return request.ObjectRef != nil && request.ObjectRef.APIGroup == k.Group && request.ObjectRef.Resource == k.Resource
		})
		if ours && (request.Verb == "patch" || request.Verb == "update") && !strings.Contains(request.RequestURI, "dryRun=") {
			if first.IsZero() || at.Before(first) {
				first = at
			}
			if at.After(last) {
				last = at
			}
		}
	}
	require.False(m, first.IsZero(), "nothing was written")
	count := 0
	for _, at := range sent {
		if at.After(first) && !at.After(last) {
			count++
		}
	}
	return float64(count) / last.Sub(first).Seconds()
}

// cost is what cmd/measure reports.
type cost struct {
	Wall, User, System float64
	Memory             int64
}

// measured runs a command and reports what it took.
func (m *migration) measured(want migrate.Outcome, command string, arguments ...string) cost {
	m.Helper()
	c := m.run(want, command, arguments...)
	assert.LessOrEqual(m, c.Memory, int64(mostMemory), "memory of %s", command)
	m.ReportMetric(c.Wall, command+"-s")
	m.ReportMetric(c.User+c.System, command+"-cpu-s")
	m.ReportMetric(float64(c.Memory)/(1<<20), command+"-MiB")
	return c
}

// run runs a command, and returns what it took.
func (m *migration) run(want migrate.Outcome, command string, arguments ...string) (c cost) {
	m.Helper()
	took := m.file("cost.json")
	arguments = append([]string{took, m.captctl, "migrate", command, "--quiet=1s", "--kubeconfig", m.environment.KubeconfigOf(sandbox.Captctl)}, arguments...)
	process := exec.CommandContext(m.Context(), m.measure, arguments...)
	errors, err := os.Create(m.file(command + ".stderr"))
	require.NoError(m, err)
	process.Stderr = errors
	_ = process.Run() // The exit code is looked at.
	require.NoError(m, errors.Close())
	defer func() { m.Logf("captctl migrate %s: %+v", command, c) }() // A benchmark that fails reports no metrics.
	if process.ProcessState.ExitCode() != int(want) {
		text, _ := os.ReadFile(errors.Name())
		require.FailNow(m, "captctl migrate "+command, "exit code %d:\n%s", process.ProcessState.ExitCode(), text)
	}
	c = readCost(m.B, took)
	return c
}

func readCost(b *testing.B, file string) (c cost) {
	b.Helper()
	data, err := os.ReadFile(file)
	require.NoError(b, err)
	require.NoError(b, json.Unmarshal(data, &c))
	return c
}
