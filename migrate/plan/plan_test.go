// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

func object(t *testing.T, document string) map[string]any {
	t.Helper()
	decoded := map[string]any{}
	require.NoError(t, utiljson.Unmarshal([]byte(document), &decoded))
	return decoded
}

func TestFieldIsSetAndReverted(t *testing.T) {
	controller := `{"uid":"1","kind":"CAPTCluster","controller":true}`
	for name, row := range map[string]struct {
		field         plan.Field
		before, after string
	}{
		"new field":               {plan.Field{Path: "/spec/workspaceName", After: raw(`"vpc"`)}, `{"spec":{"a":1}}`, `{"spec":{"a":1,"workspaceName":"vpc"}}`},
		"other value":             {plan.Field{Path: "/spec/policy", Before: raw(`"Delete"`), After: raw(`"Retain"`)}, `{"spec":{"policy":"Delete"}}`, `{"spec":{"policy":"Retain"}}`},
		"first of status":         {plan.Field{Path: "/status/ref", After: raw(`{"uid":"1"}`)}, `{"spec":{}}`, `{"spec":{},"status":{"ref":{"uid":"1"}}}`},
		"annotation with a slash": {plan.Field{Path: "/metadata/annotations/a~1b", After: raw(`""`)}, `{"metadata":{"name":"x"}}`, `{"metadata":{"name":"x","annotations":{"a/b":""}}}`},
		"element of a new list":   {plan.Field{Path: "/spec/allowed/names", Element: true, After: raw(`"a"`)}, `{"spec":{"x":1}}`, `{"spec":{"x":1,"allowed":{"names":["a"]}}}`},
		"one more element":        {plan.Field{Path: "/names", Element: true, After: raw(`"b"`)}, `{"names":["a"]}`, `{"names":["a","b"]}`},
		"element by key":          {plan.Field{Path: "/owners", Element: true, Key: "uid", After: raw(controller)}, `{"owners":[{"uid":"0"}]}`, `{"owners":[{"uid":"0"},` + controller + `]}`},
		"element in place":        {plan.Field{Path: "/owners", Element: true, Key: "uid", Before: raw(`{"uid":"1"}`), After: raw(controller)}, `{"owners":[{"uid":"1"},{"uid":"2"}]}`, `{"owners":[` + controller + `,{"uid":"2"}]}`},
		"numbers":                 {plan.Field{Path: "/port", Before: raw(`443`), After: raw(`6443`)}, `{"port":443}`, `{"port":6443}`},
	} {
		t.Run(name, func(t *testing.T) {
			live := object(t, row.before)
			requireState(t, plan.Pending, row.field, live)
			require.NoError(t, row.field.Set(live))
			requireState(t, plan.Applied, row.field, live)
			requireEqual(t, row.after, live)
			require.NoError(t, row.field.Revert(live))
			requireEqual(t, row.before, live)
		})
	}
}

func TestFieldState(t *testing.T) {
	ref := plan.Field{Path: "/status/ref", After: raw(`{"uid":"1","name":"x"}`)}
	policy := plan.Field{Path: "/spec/policy", Before: raw(`"Delete"`), After: raw(`"Retain"`)}
	owner := plan.Field{Path: "/owners", Element: true, Key: "uid", Before: raw(`{"uid":"1"}`), After: raw(`{"uid":"1","controller":true}`)}
	for name, row := range map[string]struct {
		field plan.Field
		live  string
		want  plan.FieldState
	}{
		"the manager added a field":      {ref, `{"status":{"ref":{"uid":"1","name":"x","generation":3}}}`, plan.Applied},
		"another reference":              {ref, `{"status":{"ref":{"uid":"2","name":"x"}}}`, plan.Changed},
		"neither before nor after":       {policy, `{"spec":{"policy":"Orphan"}}`, plan.Changed},
		"removed by another client":      {policy, `{"spec":{}}`, plan.Changed},
		"the element is gone":            {owner, `{"owners":[]}`, plan.Changed},
		"the element moved":              {owner, `{"owners":[{"uid":"2"},{"uid":"1","controller":true}]}`, plan.Applied},
		"the element was changed":        {owner, `{"owners":[{"uid":"1","name":"y"}]}`, plan.Changed},
		"the list is not a list":         {owner, `{"owners":"x"}`, plan.Changed},
		"the parent is not an object":    {ref, `{"status":"x"}`, plan.Pending},
		"an element that was to be kept": {owner, `{"owners":[{"uid":"1"}]}`, plan.Pending},
	} {
		t.Run(name, func(t *testing.T) { requireState(t, row.want, row.field, object(t, row.live)) })
	}
}

func TestFieldOfAnotherTypeIsNotWritten(t *testing.T) {
	field := plan.Field{Path: "/status/ref", After: raw(`{}`)}
	require.ErrorContains(t, field.Set(object(t, `{"status":"x"}`)), "status is not a map")
	_, err := (&plan.Field{Path: "/a", After: raw(`{`)}).State(nil)
	require.ErrorContains(t, err, "field /a: reading before and after")
}

func TestAnEditedPlanIsRejected(t *testing.T) {
	p := &plan.Plan{ClusterUID: "uid", Units: []plan.Unit{{
		Object: migrate.ObjectRef{Kind: "Cluster", Namespace: "team-a", Name: "demo"},
		Steps:  []plan.Step{{Why: "test", Fields: []plan.Field{{Path: "/spec/a", After: raw(`{"b":1}`)}}}},
	}}}
	require.NoError(t, p.Seal())
	var file bytes.Buffer
	require.NoError(t, p.Write(&file))
	read, err := plan.Read(strings.NewReader(file.String()))
	require.NoError(t, err)
	assert.Equal(t, p, read)
	assert.Equal(t, "team-a/demo", read.Units[0].Name())

	_, err = plan.Read(strings.NewReader(strings.Replace(file.String(), "/spec/a", "/spec/b", 1)))
	require.ErrorContains(t, err, "checksum is wrong")
	_, err = plan.Read(strings.NewReader(`{"kind":"List"}`))
	require.ErrorContains(t, err, "not those of a plan")
	_, err = plan.Read(strings.NewReader(`{"unknown":1}`))
	require.ErrorContains(t, err, "reading the plan")
	_, err = plan.Read(strings.NewReader("apiVersion: v1"))
	require.ErrorContains(t, err, "it is not a plan in JSON")
}

func raw(value string) json.RawMessage { return json.RawMessage(value) }

func requireState(t *testing.T, want plan.FieldState, field plan.Field, live map[string]any) {
	t.Helper()
	got, err := field.State(live)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func requireEqual(t *testing.T, want string, live map[string]any) {
	t.Helper()
	got, err := json.Marshal(live)
	require.NoError(t, err)
	require.JSONEq(t, want, string(got))
}
