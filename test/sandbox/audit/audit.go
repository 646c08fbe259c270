// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package audit reads the audit log of a sandbox's API server. Every component has its own user there, so tests can count
// the writes of each.
package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Policy logs every request once, when its response is complete (for a watch: when it has started), with user, verb, object
// and status code but no bodies. The log is written before the response is sent, so it contains every write that returned.
const Policy = head + `
- level: None
  nonResourceURLs: ["/readyz*", "/livez*", "/healthz*", "/version", "/openapi*", "/api", "/api/*", "/apis", "/apis/*"]
  verbs: [get]
- level: Metadata
`

// OnlyWrites is a Policy without requests that change nothing, which are many.
const OnlyWrites = head + `
- level: None
  verbs: [get, list, watch]
- level: Metadata
`

const head = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:`

// Writes are the verbs that change objects.
var Writes = []string{"create", "update", "patch", "delete", "deletecollection"}

// Filter selects events. An empty field matches all.
type Filter struct {
	User      string
	Verbs     []string
	Group     string
	Resource  string
	Namespace string
	Name      string
	// Since excludes requests that were received earlier.
	Since time.Time
}

// Match reports whether an event matches the filter.
func (f Filter) Match(event *auditv1.Event) bool {
	object := event.ObjectRef
	if object == nil {
		object = &auditv1.ObjectReference{}
	}
	for _, pair := range [][2]string{
		{f.User, event.User.Username},
		{f.Group, object.APIGroup},
		{f.Resource, object.Resource},
		{f.Namespace, object.Namespace},
		{f.Name, object.Name},
	} {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	if len(f.Verbs) > 0 && !slices.Contains(f.Verbs, event.Verb) {
		return false
	}
	return !event.RequestReceivedTimestamp.Time.Before(f.Since)
}

// lines selects the lines of a log that may match a filter. Decoding all lines would take most of the time of tests that read a log often.
type lines struct {
	// all of these texts are in a matching line, and one of the verbs.
	all, verbs [][]byte
	since      []byte
}

func (f Filter) lines() (lines, error) {
	l := lines{since: []byte(f.Since.UTC().Format(metav1.RFC3339Micro))}
	for _, value := range []string{f.User, f.Group, f.Resource, f.Namespace, f.Name} {
		if value == "" {
			continue
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			return lines{}, err
		}
		l.all = append(l.all, quoted)
	}
	for _, verb := range f.Verbs {
		l.verbs = append(l.verbs, []byte(`"verb":"`+verb+`"`))
	}
	return l, nil
}

func (l lines) mayMatch(line []byte) bool {
	contained := func(part []byte) bool { return bytes.Contains(line, part) }
	for _, part := range l.all {
		if !contained(part) {
			return false
		}
	}
	_, received, found := bytes.Cut(line, []byte(`"requestReceivedTimestamp":"`))
	old := found && bytes.Compare(received[:min(len(received), len(l.since))], l.since) < 0
	return !old && (len(l.verbs) == 0 || slices.ContainsFunc(l.verbs, contained))
}

// Read returns the matching events of a log in the order of their responses. An incomplete last line is ignored.
func Read(path string, filter Filter) ([]auditv1.Event, error) {
	lines, err := filter.lines()
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	reader := bufio.NewReaderSize(file, 1<<20)
	var events []auditv1.Event
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return nil, err
		}
		if !lines.mayMatch(line) {
			continue
		}
		event := auditv1.Event{}
		if err := json.Unmarshal(bytes.TrimSpace(line), &event); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, number, err)
		}
		if filter.Match(&event) {
			events = append(events, event)
		}
	}
}
