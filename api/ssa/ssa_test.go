// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/test/builder"
)

const us = "capt-test"

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	// As a client reads it: whole numbers are integers.
	require.NoError(t, u.UnmarshalJSON(append([]byte(`{"apiVersion":"v1","kind":"Test",`), data[1:]...)))
	return u
}

func TestDiffers(t *testing.T) {
	for name, row := range map[string]struct {
		live, want string
		differs    bool
	}{
		"the same":                         {`{spec: {a: x, b: 1, c: true}}`, `{spec: {a: x, b: 1, c: true}}`, false},
		"more than is wanted":              {`{spec: {a: x, other: y}, status: {z: 1}}`, `{spec: {a: x}}`, false},
		"another value":                    {`{spec: {a: x}}`, `{spec: {a: y}}`, true},
		"another number":                   {`{spec: {a: 1}}`, `{spec: {a: 2}}`, true},
		"a field is missing":               {`{spec: {a: x}}`, `{spec: {a: x, b: y}}`, true},
		"a deep field is missing":          {`{spec: {a: {}}}`, `{spec: {a: {b: {c: x}}}}`, true},
		"text where a map is wanted":       {`{spec: x}`, `{spec: {a: x}}`, true},
		"a map where text is wanted":       {`{spec: {a: {b: x}}}`, `{spec: {a: x}}`, true},
		"an empty map that is wanted":      {`{spec: {}}`, `{spec: {a: {}}}`, true},
		"atomic list, the same":            {`{spec: {args: [x, y]}}`, `{spec: {args: [x, y]}}`, false},
		"atomic list, another order":       {`{spec: {args: [y, x]}}`, `{spec: {args: [x, y]}}`, true},
		"atomic list with one more":        {`{spec: {args: [x, y, z]}}`, `{spec: {args: [x, y]}}`, true},
		"atomic list of maps with a more":  {`{spec: {vars: [{key: a, value: x, extra: y}]}}`, `{spec: {vars: [{key: a, value: x}]}}`, true},
		"map list in another order":        {`{spec: {items: [{name: b}, {name: a}]}}`, `{spec: {items: [{name: a}, {name: b}]}}`, false},
		"map list with one of others":      {`{spec: {items: [{name: a}, {name: theirs}]}}`, `{spec: {items: [{name: a}]}}`, false},
		"map list, item with a more":       {`{spec: {items: [{name: a, theirs: x}]}}`, `{spec: {items: [{name: a}]}}`, false},
		"map list, item is missing":        {`{spec: {items: [{name: a}]}}`, `{spec: {items: [{name: a}, {name: b}]}}`, true},
		"map list, item is different":      {`{spec: {items: [{name: a, keys: [x]}]}}`, `{spec: {items: [{name: a, keys: [y]}]}}`, true},
		"map list is missing":              {`{spec: {}}`, `{spec: {items: [{name: a}]}}`, true},
		"set, with one of others":          {`{spec: {items: [a, theirs]}}`, `{spec: {items: [a]}}`, false},
		"set, an item is missing":          {`{spec: {items: [theirs]}}`, `{spec: {items: [a]}}`, true},
		"set in a map list, with a more":   {`{spec: {items: [{name: a, items: [x, theirs]}]}}`, `{spec: {items: [{name: a, items: [x]}]}}`, false},
		"map list is missing, none wanted": {`{spec: {}}`, `{spec: {items: []}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.differs, Differs(object(t, row.live), object(t, row.want), us, "items"))
		})
	}
}

// owned is a live object with everything below, and what a manager set of it.
func owned(t *testing.T, manager, subresource, fields string) *unstructured.Unstructured {
	t.Helper()
	live := object(t, `{metadata: {annotations: {ours: x}}, spec: {
  a: x, b: y, variables: {cluster_name: demo, gone: x}, args: [x],
  items: [{name: kept}, {name: gone, keys: [k]}]}}`)
	live.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: manager, Subresource: subresource, Operation: metav1.ManagedFieldsOperationApply,
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)},
	}})
	return live
}

func TestAFieldThatIsNoLongerWantedDiffers(t *testing.T) {
	const want = `{spec: {a: x, variables: {cluster_name: demo}, items: [{name: kept}]}}`
	for name, row := range map[string]struct {
		fields  string
		differs bool
	}{
		"only what is wanted":          {`{"f:spec": {"f:a": {}, "f:variables": {"f:cluster_name": {}}, "f:items": {"k:{\"name\":\"kept\"}": {".": {}, "f:name": {}}}}}`, false},
		"nothing":                      {`{}`, false},
		"a field":                      {`{"f:spec": {"f:a": {}, "f:b": {}}}`, true},
		"a key of a map":               {`{"f:spec": {"f:variables": {"f:cluster_name": {}, "f:gone": {}}}}`, true},
		"an item of a map list":        {`{"f:spec": {"f:items": {"k:{\"name\":\"gone\"}": {".": {}, "f:name": {}, "f:keys": {}}}}}`, true},
		"a field of a map list's item": {`{"f:spec": {"f:items": {"k:{\"name\":\"kept\"}": {".": {}, "f:name": {}, "f:keys": {}}}}}`, true},
		"a whole atomic list":          {`{"f:spec": {"f:args": {}}}`, true},
		"an annotation":                {`{"f:metadata": {"f:annotations": {"f:ours": {}}}}`, true},
		"an item of a set":             {`{"f:spec": {"f:args": {"v:\"x\"": {}}}}`, true},
		"an invalid entry":             {`{"k:no JSON": {}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.differs, Differs(owned(t, us, "", row.fields), object(t, want), us, "items"))
		})
	}
}

func TestFieldsOfOtherManagersDoNotDiffer(t *testing.T) {
	const fields = `{"f:spec": {"f:b": {}, "f:variables": {"f:gone": {}}}}`
	want := object(t, `{spec: {a: x}}`)
	assert.True(t, Differs(owned(t, us, "", fields), want, us), "the fields are of consequence when they are ours")
	assert.False(t, Differs(owned(t, "kubectl", "", fields), want, us), "another manager")
	assert.False(t, Differs(owned(t, us, "status", fields), want, us), "a subresource")
}

func TestOwnedItemsOfAnAtomicListDoNotDiffer(t *testing.T) {
	live := owned(t, us, "", `{"f:spec": {"f:args": {"v:\"x\"": {}}}}`)
	assert.False(t, Differs(live, object(t, `{spec: {args: [x]}}`), us))
}

func TestUnstructuredOmitsServerSideFields(t *testing.T) {
	apply := builder.WorkspaceTemplateApply("demo-vpc", builder.UpToDate(nil))
	apply.CreationTimestamp = metav1.Time{}
	u, err := Unstructured(apply)
	require.NoError(t, err)
	assert.NotContains(t, u.Object, "status")
	assert.NotContains(t, u.Object["metadata"], "creationTimestamp")
	assert.Equal(t, "WorkspaceTemplateApply", u.GetKind())
	name, _, _ := unstructured.NestedString(u.Object, "spec", "templateRef", "name")
	assert.Equal(t, "vpc", name)
}

func TestAppliedIsWhatAnApplyLeaves(t *testing.T) {
	live := owned(t, us, "", `{"f:spec": {"f:a": {}, "f:b": {}, "f:variables": {"f:gone": {}}, "f:args": {}}}`)
	before := live.DeepCopy()
	applied := Applied(live, object(t, `{spec: {a: z, variables: {new: x}, more: {c: y}}}`), us)
	assert.Equal(t, object(t, `{spec: {a: z, variables: {cluster_name: demo, new: x}, more: {c: y}, items: [{name: kept}, {name: gone, keys: [k]}]}}`).Object["spec"], applied.Object["spec"])
	assert.Equal(t, before, live, "the live object is not modified")
	assert.False(t, Differs(applied, object(t, `{spec: {a: z, variables: {new: x}, more: {c: y}}}`), "another"))
	assert.Equal(t, live, Applied(live, object(t, `{spec: {a: x}}`), "another"), "nothing of another manager is removed")
}
