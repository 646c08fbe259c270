// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostile_test sends random requests of a user who has the role edit in one namespace to a real API server with CAPT's webhooks, policies and
// manager, and requires that nothing of other namespaces changes, and that nothing unapproved reaches Terraform.
//
// CAPT_HOSTILE_SEED repeats the requests of a run, and CAPT_HOSTILE_REQUESTS is how many there are. CAPT_HOSTILE_LOG is a file for all of them.
// CAPT_HOSTILE_WITHOUT leaves out parts of admission, because each invariant holds without one of them: webhooks, policies; or attacks that are known to
// succeed, to find what else does: conversion-data, revisions.
package hostile_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/dynamic"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/metrics"
	"github.com/capt-provider/capt/webhooks/conversion"
)

// shared is the control plane of all tests of the package.
var shared *fixture.Server

func TestMain(m *testing.M) {
	if os.Getenv("CAPT_HOSTILE_WITHOUT") != "" {
		os.Exit(fixture.Main(m, &shared, fixture.Own))
	}
	os.Exit(fixture.Main(m, &shared))
}

const (
	requestsOfASample = 400
	requestsOfAll     = 20000
	// leastAccepted is the share of requests, in percent, that must be accepted: a run whose requests are rejected proves nothing.
	leastAccepted = 30
)

func TestRequestsOfOneNamespaceChangeNothingOfAnother(t *testing.T) {
	// make test must not depend on luck. make test-slow draws a seed.
	seed, count := number("CAPT_HOSTILE_SEED", 1), number("CAPT_HOSTILE_REQUESTS", requestsOfASample)
	if fixture.AllCombinations() {
		seed, count = number("CAPT_HOSTILE_SEED", rand.Uint64()), number("CAPT_HOSTILE_REQUESTS", requestsOfAll)
	}
	fmt.Printf("CAPT_HOSTILE_SEED=%d CAPT_HOSTILE_REQUESTS=%d\n", seed, count)
	f := newFleet(t, fmt.Sprintf("hostile-%d-", seed%1e6))
	f.removeAdmission()
	r := newRun(f, seed)
	began := r.health()
	for range count {
		r.step()
		if len(r.guard.found()) > 0 {
			break
		}
	}
	fmt.Print(r.summary())
	r.requireNothingFound()
	r.awaitRest()
	r.guard.compare()
	r.requireNoWrites()
	r.requireNothingFound()
	f.requireRollout()
	require.Equal(t, began, r.health(), "the manager was restarted, or a reconcile panicked")
	r.requireAccepted(count >= requestsOfAll)
}

func number(variable string, otherwise uint64) uint64 {
	if value, err := strconv.ParseUint(os.Getenv(variable), 10, 64); err == nil {
		return value
	}
	return otherwise
}

// run is one run of the generator.
type run struct {
	*fleet
	*generator
	seed     uint64
	guard    *guard
	client   dynamic.Interface
	began    time.Time
	requests []*request
	log      *os.File
}

func newRun(f *fleet, seed uint64) *run {
	f.Helper()
	root, err := binaries.Root()
	require.NoError(f, err)
	words, err := readVocabulary(root)
	require.NoError(f, err)
	all := kinds(f)
	require.NoError(f, readSchemas(f.Context(), f.Client, all))
	scheme, registry := conversion.NewRegistry()
	r := &run{fleet: f, seed: seed, client: f.hostileClient(), guard: newGuard(f), began: time.Now()}
	r.generator = &generator{
		rand: rand.New(rand.NewPCG(seed, 0)), vocabulary: words, fleet: f, kinds: all, stored: r.guard.read, scheme: scheme, registry: registry,
		places: map[schema.GroupVersionKind][]place{}, turn: map[schema.GroupVersionKind]int{}, tried: map[combination]int{},
	}
	if path := os.Getenv("CAPT_HOSTILE_LOG"); path != "" {
		r.log, err = os.Create(path)
		require.NoError(f, err)
	}
	return r
}

// step sends the next request.
func (r *run) step() {
	next := r.request()
	next.number = len(r.requests) + 1
	next.send(r.Context(), r.client, r.a)
	r.requests = append(r.requests, next)
	if r.log != nil {
		fmt.Fprintln(r.log, next)
	}
	if next.accepted() && next.subresource == "" {
		r.tried[combination{next.kind.Kind, next.version, next.verb}]++
	}
	if next.failed() {
		r.guard.report(fmt.Sprintf("a request failed: %s", next), next.name)
	}
}

// health changes when the manager is restarted, or a reconcile panics.
func (r *run) health() string {
	r.Helper()
	m, err := metrics.Read(r.Context(), r.MetricsURL(sandbox.Manager))
	require.NoError(r, err)
	return fmt.Sprintf("started at %.0f, %.0f panics", m.Sum("process_start_time_seconds"), m.Sum("controller_runtime_reconcile_panics_total"))
}

// awaitRest waits until CAPT writes nothing in the namespace of the hostile user.
func (r *run) awaitRest() {
	r.Helper()
	const silence = 10 * time.Second
	user, err := r.InstalledManagerUser()
	require.NoError(r, err)
	began := time.Now()
	fixture.Eventually(r, silence/5, func() string {
		since := time.Now().Add(-silence)
		if since.Before(began) {
			return "the last request was a moment ago"
		}
		for _, event := range fixture.AuditEvents(r, r.Sandbox, audit.Filter{User: user, Verbs: audit.Writes, Since: since}) {
			if written(&event) && (strings.Contains(event.RequestURI, r.a) || strings.Contains(event.RequestURI, r.p)) {
				return fmt.Sprintf("the manager still writes: %s %s", event.Verb, event.RequestURI)
			}
		}
		return ""
	})
}

// written reports whether a request changed something. What is rejected is sent again with a backoff.
func written(event *auditv1.Event) bool {
	return event.ResponseStatus != nil && event.ResponseStatus.Code < 300
}

// requireNoWrites requires that no client wrote an object of others, apart from the status of the platform's templates. The provider looks at each
// Workspace every ten minutes.
func (r *run) requireNoWrites() {
	r.Helper()
	clusterWide := map[string]bool{}
	for _, t := range r.targets {
		clusterWide[t.name] = t.namespace == ""
	}
	for _, event := range fixture.AuditEvents(r, r.Sandbox, audit.Filter{Verbs: audit.Writes, Since: r.began}) {
		object := event.ObjectRef
		// A health probe that is late on a busy machine is reported, and the status is as before in the end.
		timed := object != nil && object.Subresource == "status" &&
			(event.User.Username == sandbox.ProviderUser || object.Resource == "captcontrolplanes" || changesWithTime(object.Resource, object.Name))
		if object == nil || !written(&event) || object.Resource == "events" || timed {
			continue
		}
		theirs := object.Namespace == r.b
		switch object.Namespace {
		case "":
			theirs = object.Resource == "workspaces" && clusterWide[object.Name]
		case r.p:
			theirs = object.Subresource != "status"
		}
		if theirs {
			r.guard.report(fmt.Sprintf("%s wrote: %s %s", event.User.Username, event.Verb, event.RequestURI), object.Name)
		}
	}
}

// requireNothingFound fails with what happened, and the last requests that may be the cause.
func (r *run) requireNothingFound() {
	r.Helper()
	found := r.guard.found()
	if len(found) == 0 {
		return
	}
	var text strings.Builder
	for _, v := range found[:min(len(found), 8)] {
		fmt.Fprintf(&text, "\n%s\nAccepted requests to objects that were given its name or UID:\n%s", shortened(v.text, 3000), r.about(v))
	}
	fmt.Fprintf(&text, "\nThe last requests:\n%s", last(r.requests, 8))
	require.Fail(r, fmt.Sprintf("%d violations with CAPT_HOSTILE_SEED=%d", len(found), r.seed), text.String())
}

// about lists the last accepted requests to the objects that may have caused a violation.
func (r *run) about(v violation) string {
	objects, requests := map[string]bool{}, []*request(nil)
	for _, q := range slices.Backward(r.requests) {
		object, line := q.kind.Kind+" "+q.name, q.String()
		if !q.accepted() {
			continue
		}
		if len(objects) < 2 && slices.ContainsFunc(v.about, func(part string) bool { return strings.Contains(line, part) }) {
			objects[object] = true
		}
		if objects[object] && len(requests) < 12 {
			requests = append([]*request{q}, requests...)
		}
	}
	return last(requests, 12)
}

func last(requests []*request, n int) string {
	var text strings.Builder
	for _, q := range requests[max(0, len(requests)-n):] {
		fmt.Fprintln(&text, shortened(q.String(), 2000))
	}
	return text.String()
}

// summary prints how many requests were accepted.
func (r *run) summary() string {
	codes, slowest := map[string]int{}, time.Duration(0)
	for _, q := range r.requests {
		name := strconv.Itoa(q.code)
		if q.forbidden() {
			name = "403 by RBAC"
		}
		codes[name]++
		slowest = max(slowest, q.took)
	}
	text := fmt.Sprintf("%d requests in %s, the slowest in %s, answers %v, %d versions of Workspaces\n",
		len(r.requests), time.Since(r.began).Round(time.Second), slowest.Round(time.Millisecond), codes, r.guard.workspaces)
	for _, k := range r.kinds {
		for _, version := range k.versions {
			text += fmt.Sprintf("  %-26s %-8s", k.Kind, version)
			for _, v := range verbs() {
				text += fmt.Sprintf(" %s %d", v, r.tried[combination{k.Kind, version, v}])
			}
			text += "\n"
		}
	}
	return text
}

// requireAccepted requires that enough requests were accepted, and each kind in each version with each verb for one object: all of these in a long run, most of
// them in a short one.
func (r *run) requireAccepted(all bool) {
	r.Helper()
	accepted := len(slices.DeleteFunc(slices.Clone(r.requests), func(q *request) bool { return !q.accepted() }))
	fmt.Printf("%d%% of the requests were accepted\n", 100*accepted/len(r.requests))
	require.GreaterOrEqual(r, 100*accepted/len(r.requests), leastAccepted, "percent of the requests were accepted")
	var missing []combination
	combinations := 0
	for _, k := range r.kinds {
		for _, version := range k.versions {
			for _, v := range verbs() {
				if !k.permitted || v == removeCollection { // One protected object among them is enough to reject it.
					continue
				}
				combinations++
				if c := (combination{k.Kind, version, v}); r.tried[c] == 0 {
					missing = append(missing, c)
				}
			}
		}
	}
	if all {
		require.Empty(r, missing, "kinds, versions and verbs of which no request was accepted")
	} else if len(r.requests) >= requestsOfASample {
		require.Less(r, len(missing), combinations/2, "kinds, versions and verbs of which no request was accepted: %v", missing)
	}
}
