// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/crash/proxy"
	"github.com/capt-provider/capt/test/sandbox"
)

// at calls do when a call of the host comes, before the API server gets it. What is written from then on is listed.
func (p *proxied) at(c call, do func()) {
	var number atomic.Int32
	p.proxy.Arm(proxy.Target{Matches: func(r *http.Request) bool {
		if keyOf(r) == c.key && int(number.Add(1)) == c.number {
			do()
		}
		return r.Method != http.MethodGet
	}})
}

// readsOfObjects are the reads of CAPT's objects after the Lease was acquired.
func readsOfObjects(calls []call) (reads []call) {
	locked := slices.IndexFunc(calls, func(c call) bool { return c.writes && strings.Contains(c.key, "/leases") })
	for _, c := range calls[locked:] {
		if !c.writes && c.number == 1 && strings.Contains(c.key, ".cluster.x-k8s.io/v1beta2/namespaces/") && !strings.Contains(c.key, "limit=") {
			reads = append(reads, c)
		}
	}
	return reads
}

// answered reports whether every write has an answer.
func (p *proxied) answered(context.Context) (bool, error) {
	return !slices.ContainsFunc(p.proxy.Writes(), func(w proxy.Write) bool { return w.Code == 0 }), nil
}

// TestARunThatFindsAnotherAliveWritesNothing delays a read of a run, which goes on to renew its Lease meanwhile.
func TestARunThatFindsAnotherAliveWritesNothing(t *testing.T) {
	s := newScenario(t)
	s.newPlan()
	held, release := make(chan struct{}), make(chan struct{})
	s.at(readsOfObjects(s.apply.calls)[0], func() {
		close(held)
		<-release
	})
	arguments := append([]string{"apply", s.file()}, fast...)
	first := s.begin(append(arguments, "--lease-duration=5s")...)
	select {
	case <-held:
	case <-first.Ended():
		require.Fail(t, "it ended before", "%s", first)
	}
	require.Contains(t, s.Another(shared.KubeconfigOf(sandbox.Captctl)).Refused(arguments...), "another run is in progress")
	close(release)
	first.Ends(migrate.Done)
	requireEnd(t, s.apply.end, s.plan, s.apply.phase, "the first run")
	s.resume(&s.rollback, false)
}

// TestARunThatLostItsLeaseWritesNothing stops a run (SIGSTOP) for longer than its Lease. Another run takes over and completes the plan, and the
// first one writes nothing after it is continued.
func TestARunThatLostItsLeaseWritesNothing(t *testing.T) {
	s := newScenario(t)
	reads := readsOfObjects(s.apply.calls)
	if everything.shares > 0 {
		reads = of(everything, reads)
	} else {
		reads = []call{reads[0], reads[len(reads)-1]}
	}
	for _, c := range reads {
		s.newPlan()
		stopped := make(chan error, 1)
		s.at(c, func() { stopped <- s.run().Process.Signal(syscall.SIGSTOP) })
		arguments := append(append([]string{"apply", s.file()}, fast...), "--lease-duration=3s")
		first := s.begin(arguments...)
		select {
		case err := <-stopped:
			require.NoError(t, err)
		case <-first.Ended():
			require.Fail(t, "it ended before", "%s\n%s", c, first)
		}
		s.Another(shared.KubeconfigOf(sandbox.Captctl)).Run(migrate.Done, arguments...)
		requireEnd(t, s.apply.end, s.plan, s.apply.phase, c.String())
		sent := len(s.proxy.Writes())
		require.NoError(t, first.Process.Signal(syscall.SIGCONT))
		first.Ends(migrate.Partly)
		require.Contains(t, first.String(), "the lock is lost")
		require.NoError(t, wait.PollUntilContextTimeout(t.Context(), tick, timeout, true, s.answered))
		for _, write := range s.proxy.Writes()[sent:] {
			require.GreaterOrEqual(t, write.Code, http.StatusBadRequest, "%s after it was continued at %s", write, c)
		}
		s.proxy.Open()
		requireEnd(t, s.apply.end, s.plan, s.apply.phase, c.String())
		s.resume(&s.rollback, true)
	}
	t.Logf("stopped at %d reads", len(reads))
	requireHarmless(t)
}
