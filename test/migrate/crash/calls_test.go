// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/capt-provider/capt/test/crash/proxy"
)

// call is a request of a run: the number-th of its key.
type call struct {
	// key is method and URI, with PLAN for the ID of a plan, which differs from run to run.
	key    string
	number int
	// kind is method and resource.
	kind   string
	writes bool
}

func (c call) String() string { return fmt.Sprintf("%s (%d)", c.key, c.number) }

const renews = " renews"

// timed reports whether such a call depends on time: the lock is renewed, objects are read until the manager has reported them, a write is sent
// again after a conflict with the manager, and the manager may be the first to write a status.
func (c call) timed() bool {
	return strings.HasSuffix(c.key, renews) || c.number > 1 || strings.Contains(c.key, "/status?")
}

var planID = regexp.MustCompile(`capt-migrate-[0-9a-f]{12}`)

func keyOf(r *http.Request) string {
	key := r.Method + " " + planID.ReplaceAllString(r.URL.RequestURI(), "PLAN")
	if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/leases/") {
		key += purpose(r)
	}
	return key
}

// purpose of a write of the Lease.
func purpose(r *http.Request) string {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	lease := &coordinationv1.Lease{}
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, lease); err != nil {
		return err.Error()
	}
	switch {
	case ptr.Deref(lease.Spec.HolderIdentity, "") == "":
		return " releases"
	case lease.Spec.RenewTime.Equal(lease.Spec.AcquireTime):
		return " acquires"
	}
	return renews
}

// recorder lists the calls of a run.
type recorder struct {
	mutex sync.Mutex
	calls []call
}

// Matches records a request.
func (r *recorder) Matches(request *http.Request) bool {
	c := call{key: keyOf(request), number: 1}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, earlier := range r.calls {
		if earlier.key == c.key {
			c.number++
		}
	}
	if strings.HasSuffix(c.key, renews) && c.number > 1 {
		return false
	}
	c.writes = request.Method != http.MethodGet && !strings.Contains(request.URL.Path, "selfsubject") && !request.URL.Query().Has("dryRun")
	write := proxy.Write{Path: request.URL.Path}
	c.kind = request.Method + " " + write.Resource() + strings.TrimPrefix(c.key, request.Method+" "+planID.ReplaceAllString(request.URL.RequestURI(), "PLAN"))
	if !c.writes && request.Method != http.MethodGet {
		c.kind += " (read)"
	}
	r.calls = append(r.calls, c)
	return true
}

// interruption is what happens to a run at a call.
type interruption struct {
	call
	proxy.Moment
}

func (f interruption) String() string { return string(f.Moment) + " " + f.call.String() }

// together is how many runs of one plan are killed at most, one after the other. A plan that was interrupted often takes another way than one that was
// interrupted once, so chains are short.
const together = 6

// interruptions are what happens to the runs of each plan. With CAPT_CRASH, that is everything at each call, or this process's share of it. Without
// CAPT_CRASH it is, of each kind of call, something at the first one and at the last one.
func interruptions(calls []call) (chosen [][]interruption) {
	if everything.shares > 0 {
		return of(everything, chains(calls))
	}
	var kinds []string
	of := map[string][]call{}
	for _, c := range calls {
		if of[c.kind] == nil {
			kinds = append(kinds, c.kind)
		}
		if of[c.kind] == nil || !c.timed() {
			of[c.kind] = append(of[c.kind], c)
		}
	}
	for i, kind := range kinds {
		first, last := of[kind][0], of[kind][len(of[kind])-1]
		if !first.writes { // Nothing differs from one read to the next but what was written before.
			chosen = append(chosen, []interruption{{last, []proxy.Moment{proxy.Before, proxy.After}[i%2]}})
			continue
		}
		chosen = append(chosen, []interruption{{first, proxy.Before}}, []interruption{{last, proxy.After}})
		if middle := of[kind][len(of[kind])/2]; i%2 == 0 {
			chosen = append(chosen, []interruption{{middle, proxy.Lost}})
		}
	}
	return chosen
}

// chains are all interruptions of a run: it is killed before each call, after each call that writes, and each answer to a write is lost. A run that is
// killed after a read leaves what one leaves that is killed before the next call. The calls of a chain are in their order, because the run that resumes
// makes most later calls, but no write again. A run that does not get an answer goes on to its end, so a chain has at most one of these, at its end.
func chains(calls []call) (chosen [][]interruption) {
	type at struct {
		interruption
		index int
	}
	var kills, lost []at
	for i, c := range calls {
		kills = append(kills, at{interruption{c, proxy.Before}, i})
		if c.writes {
			kills, lost = append(kills, at{interruption{c, proxy.After}, i}), append(lost, at{interruption{c, proxy.Lost}, i})
		}
	}
	for chunk := range slices.Chunk(kills, together) {
		var chain []interruption
		for _, kill := range chunk {
			chain = append(chain, kill.interruption)
		}
		end := chunk[len(chunk)-1]
		next := slices.IndexFunc(lost, func(l at) bool { return l.index > end.index || l.index == end.index && end.Moment == proxy.Before })
		if next >= 0 {
			chain, lost = append(chain, lost[next].interruption), slices.Delete(lost, next, next+1)
		}
		chosen = append(chosen, chain)
	}
	for _, l := range lost {
		chosen = append(chosen, []interruption{l.interruption})
	}
	return chosen
}

// countWrites of calls.
func countWrites(calls []call) (writes int) {
	return len(slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return !c.writes }))
}
