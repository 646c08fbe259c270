// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
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

const (
	apply  = metav1.ManagedFieldsOperationApply
	update = metav1.ManagedFieldsOperationUpdate
)

func entry(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, Subresource: subresource, APIVersion: infrav1.GroupVersion.String(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
}

const (
	ours      = `{"f:spec":{"f:variables":{"f:ours":{}},"f:waitForSecrets":{"k:{\"name\":\"s\"}":{".":{},"f:name":{}}}}}`
	all       = `{"f:spec":{".":{},"f:variables":{".":{},"f:ours":{},"f:theirs":{}},"f:waitForSecrets":{".":{},"k:{\"name\":\"s\"}":{".":{},"f:name":{},"f:theirs":{}}}}}`
	remaining = `{"f:spec":{"f:variables":{"f:theirs":{}},"f:waitForSecrets":{"k:{\"name\":\"s\"}":{"f:theirs":{}}}}}`
)

func TestSafety27LostManagedFieldsAreRecognised(t *testing.T) {
	for name, row := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		lost    bool
	}{
		"nothing is recorded":                         {nil, true},
		"recorded from the first apply on, by others": {[]metav1.ManagedFieldsEntry{entry(beforeFirstApply, update, "", all), entry("flux", apply, "", `{}`)}, true},
		"ours, but what was before keeps it":          {[]metav1.ManagedFieldsEntry{entry(beforeFirstApply, update, "", all), entry(us, apply, "", ours)}, true},
		"ours":                                        {[]metav1.ManagedFieldsEntry{entry(us, apply, "", ours)}, false},
		"ours, and the rest of what was before":       {[]metav1.ManagedFieldsEntry{entry(beforeFirstApply, update, "", remaining), entry(us, apply, "", ours)}, false},
		"written by others, and never applied by us":  {[]metav1.ManagedFieldsEntry{entry("manager", update, "", all)}, false},
		"an own update is not an apply":               {[]metav1.ManagedFieldsEntry{entry(us, update, "", all)}, false},
		"what was before cannot be decoded":           {[]metav1.ManagedFieldsEntry{entry(beforeFirstApply, update, "", `{"k:no JSON":{}}`), entry(us, apply, "", ours)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			live := builder.WorkspaceTemplateApply("demo")
			live.SetManagedFields(row.entries)
			assert.Equal(t, row.lost, ManagedFieldsLost(live, us))
		})
	}
}

func TestSafety27OnlyOwnFieldsAreRestored(t *testing.T) {
	var patches []string
	c := fake.NewClientBuilder().WithScheme(builder.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
			data, err := patch.Data(obj)
			patches = append(patches, string(data))
			return err
		},
	}).Build()
	live := builder.WorkspaceTemplateApply("demo", builder.WithResourceVersion("7"))
	live.SetManagedFields([]metav1.ManagedFieldsEntry{entry(beforeFirstApply, update, "", all), entry("flux", apply, "", `{}`), entry(us, apply, "", ours)})
	require.NoError(t, RestoreManagedFields(t.Context(), c, live, us))
	require.Len(t, patches, 1)
	assert.Contains(t, patches[0], `"resourceVersion":"7"`, "another write in the meantime wins")
	require.Len(t, live.ManagedFields, 3)
	assert.JSONEq(t, remaining, live.ManagedFields[0].FieldsV1.GetRawString())
	assert.JSONEq(t, ours, live.ManagedFields[2].FieldsV1.GetRawString())

	require.NoError(t, RestoreManagedFields(t.Context(), c, live, us))
	require.Len(t, patches, 1, "what is restored is not written again")

	live.SetManagedFields([]metav1.ManagedFieldsEntry{entry(beforeFirstApply, update, "", ours), entry(us, apply, "", ours)})
	require.NoError(t, RestoreManagedFields(t.Context(), c, live, us))
	require.Len(t, live.ManagedFields, 1, "an entry without fields goes")
}
