// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package managedfields

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

const us = "capt-test"

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

func TestLostManagedFieldsAreRecognised(t *testing.T) {
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
			assert.Equal(t, row.lost, Lost(live, us))
		})
	}
}

func TestOnlyOwnFieldsAreRestored(t *testing.T) {
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
	require.NoError(t, Restore(t.Context(), c, live, us))
	require.Len(t, patches, 1)
	assert.Contains(t, patches[0], `"resourceVersion":"7"`, "another write in the meantime wins")
	require.Len(t, live.ManagedFields, 3)
	assert.JSONEq(t, remaining, live.ManagedFields[0].FieldsV1.GetRawString())
	assert.JSONEq(t, ours, live.ManagedFields[2].FieldsV1.GetRawString())

	require.NoError(t, Restore(t.Context(), c, live, us))
	require.Len(t, patches, 1, "what is restored is not written again")

	live.SetManagedFields([]metav1.ManagedFieldsEntry{entry(beforeFirstApply, update, "", ours), entry(us, apply, "", ours)})
	require.NoError(t, Restore(t.Context(), c, live, us))
	require.Len(t, live.ManagedFields, 1, "an entry without fields goes")
}
