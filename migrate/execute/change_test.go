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

package execute

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/migrate"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	found := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal([]byte(text), &found.Object))
	return found
}

func operations(t *testing.T, text string) (found []migrate.Operation) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &found))
	return found
}

// A WorkspaceTemplateApply whose status was wiped gets it back from two sides.
func TestWhetherAChangeOfStatusWasMadeIsReadFromTheStatus(t *testing.T) {
	step := &migrate.Step{
		Subresource: "status", Precondition: migrate.Precondition{UID: "u"},
		Patch:   operations(t, `[{"op":"test","path":"/status/workspaceName","value":"w"},{"op":"add","path":"/status/workspaceRef","value":{"name":"w"}}]`),
		Inverse: operations(t, `[{"op":"test","path":"/status/workspaceRef","value":{"name":"w"}},{"op":"remove","path":"/status/workspaceRef"}]`),
	}
	for name, row := range map[string]struct {
		status      string
		forth, back verdict
	}{
		"as it was":                {`{"workspaceName":"w"}`, due, made},
		"written":                  {`{"workspaceName":"w","workspaceRef":{"name":"w"}}`, made, due},
		"written, and went on":     {`{"workspaceName":"w","workspaceRef":{"name":"w"},"ready":true}`, made, due},
		"written by somebody else": {`{"workspaceName":"w","workspaceRef":{"name":"x"}}`, stale, stale},
		"about something else":     {`{"workspaceName":"x"}`, stale, stale},
		"wiped":                    {`{}`, stale, stale},
	} {
		t.Run(name, func(t *testing.T) {
			live := object(t, `{"apiVersion":"v1","kind":"K","metadata":{"uid":"u","name":"n"},"status":`+row.status+`}`)
			for c, want := range map[*change]verdict{forth(step): row.forth, back(step): row.back} {
				got, why, err := c.judge(live)
				require.NoError(t, err)
				assert.Equal(t, want, got, why)
			}
		})
	}
}

func TestTwoChangesOfOneObjectKnowOfEachOther(t *testing.T) {
	live := func(spec string) *unstructured.Unstructured {
		return object(t, `{"apiVersion":"v1","kind":"K","metadata":{"uid":"u","name":"n"},"spec":`+spec+`}`)
	}
	stages := []string{`{}`, `{"a":1}`, `{"a":1,"b":2}`}
	var hashes []string
	for _, spec := range stages {
		hash, err := migrate.ContentHash(live(spec))
		require.NoError(t, err)
		hashes = append(hashes, hash)
	}
	steps := []migrate.Step{
		{Precondition: migrate.Precondition{UID: "u", Hash: hashes[0], After: hashes[1]}},
		{Precondition: migrate.Precondition{UID: "u", Hash: hashes[1], After: hashes[2]}},
	}
	forward := []*change{forth(&steps[0]), forth(&steps[1])}
	backward := []*change{back(&steps[1]), back(&steps[0])}
	chain(forward)
	chain(backward)
	for stage, want := range [][4]verdict{{due, early, made, made}, {made, due, made, due}, {made, made, due, early}} {
		var got [4]verdict
		for i, c := range append(append([]*change{}, forward...), backward...) {
			verdict, _, err := c.judge(live(stages[stage]))
			require.NoError(t, err)
			got[i] = verdict
		}
		assert.Equal(t, want, got, stages[stage])
	}
	verdict, why, err := forward[0].judge(live(`{"c":3}`))
	require.NoError(t, err)
	assert.Equal(t, stale, verdict)
	assert.Equal(t, "its spec or its owners changed", why)
}

func TestAPatchTestsThatTheObjectIsTheOneThatWasRead(t *testing.T) {
	c := forth(&migrate.Step{Patch: operations(t, `[{"op":"add","path":"/spec/a","value":1}]`)})
	data, err := c.guarded(object(t, `{"metadata":{"uid":"u","resourceVersion":"7"}}`))
	require.NoError(t, err)
	assert.JSONEq(t, `[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/spec/a","value":1}]`, string(data))
}
