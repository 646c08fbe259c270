// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package audit reads the audit log of a sandbox's API server. Every component has a user of its own there, so a
// test can count who wrote what.
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

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Policy records every request once, when it has been answered (a watch: when it has begun), with user, verb, object
// and outcome but no bodies. The log is written before the answer is sent, so a write that has returned is in it.
const Policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: None
  nonResourceURLs: ["/readyz*", "/livez*", "/healthz*", "/version", "/openapi*", "/api", "/api/*", "/apis", "/apis/*"]
  verbs: [get]
- level: Metadata
`

// Writes are the verbs that change something.
var Writes = []string{"create", "update", "patch", "delete", "deletecollection"}

// Filter selects events. An empty field selects all.
type Filter struct {
	User        string
	Verbs       []string
	Group       string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	// Since leaves out what was received earlier.
	Since time.Time
}

// Match says whether an event passes the filter.
func (f Filter) Match(event *auditv1.Event) bool {
	object := event.ObjectRef
	if object == nil {
		object = &auditv1.ObjectReference{}
	}
	for _, pair := range [][2]string{
		{f.User, event.User.Username},
		{f.Group, object.APIGroup},
		{f.Resource, object.Resource},
		{f.Subresource, object.Subresource},
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

// Read returns the events of a log that pass the filter, in the order in which they were answered. The last line may
// still be being written and is then left out.
func Read(path string, filter Filter) ([]auditv1.Event, error) {
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
		event := auditv1.Event{}
		if err := json.Unmarshal(bytes.TrimSpace(line), &event); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, number, err)
		}
		if filter.Match(&event) {
			events = append(events, event)
		}
	}
}
