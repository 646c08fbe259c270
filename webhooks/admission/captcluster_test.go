// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/webhooks/admission/lookup"
)

// nameless has a name that the API server will make.
func nameless(object client.Object) {
	object.SetGenerateName(object.GetName() + "-")
	object.SetName("")
}

// unborn takes away what the API server has not set yet when it asks for defaults.
func unborn(object client.Object) { object.SetUID("") }

// legacy is what CAPT v0.3 made.
var legacy = builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)

func TestANewCAPTClusterRefersToWhatItWillHave(t *testing.T) {
	for name, row := range map[string]struct {
		there  []client.Object
		object []builder.Option
		want   string // Empty for no reference.
	}{
		"nothing is there":                        {nil, nil, "demo-vpc"},
		"one of another namespace":                {[]client.Object{builder.WorkspaceTemplateApply("demo-vpc", builder.WithNamespace("x"))}, nil, "demo-vpc"},
		"one of another name":                     {[]client.Object{builder.WorkspaceTemplateApply("demo")}, nil, "demo-vpc"},
		"one that it could mean":                  {[]client.Object{builder.WorkspaceTemplateApply("demo-vpc")}, nil, ""},
		"one that belongs to another":             {[]client.Object{builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(builder.CAPTCluster("other")))}, nil, ""},
		"the user chose":                          {nil, []builder.Option{builder.WithApplyRef("by-hand")}, "by-hand"},
		"the user chose an existing one":          {[]client.Object{builder.WorkspaceTemplateApply("demo-vpc")}, []builder.Option{builder.WithApplyRef("demo-vpc")}, "demo-vpc"},
		"one CAPT v0.3 left":                      {[]client.Object{builder.WorkspaceTemplateApply("by-hand", legacy)}, nil, ""},
		"CAPT v0.3's, of another owner":           {[]client.Object{builder.WorkspaceTemplateApply("x", legacy, builder.OwnedBy(builder.CAPTCluster("x")))}, nil, "demo-vpc"},
		"CAPT v0.3's, of another namespace":       {[]client.Object{builder.WorkspaceTemplateApply("x", legacy, builder.WithNamespace("x"))}, nil, "demo-vpc"},
		"CAPT v0.3's, adopted":                    {[]client.Object{builder.WorkspaceTemplateApply("x", legacy, builder.WithWorkspaceName("x"))}, nil, "demo-vpc"},
		"its VPC exists, so that nothing is made": {nil, []builder.Option{builder.WithExistingVPC("vpc-1")}, ""},
		"its name is not made yet":                {nil, []builder.Option{nameless}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			object := builder.CAPTCluster("demo", append(row.object, unborn)...)
			got := defaulted(t, captClusterDefaults(newWorld(t, row.there...)), nil, object)
			want := object.DeepCopy()
			want.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{}
			if row.want != "" {
				builder.WithApplyRef(row.want)(want)
			}
			assert.Equal(t, want, got)
		})
	}
}

// A manifest that never had the reference replaces the object: kubectl replace, and GitOps tools.
func TestACAPTClusterKeepsItsReference(t *testing.T) {
	w := newWorld(t)
	old := builder.CAPTCluster("demo", builder.WithApplyRef("by-hand"))
	assert.Equal(t, old, defaulted(t, captClusterDefaults(w), old, builder.CAPTCluster("demo")))

	other := builder.CAPTCluster("demo", builder.WithApplyRef("other"))
	assert.Equal(t, other, defaulted(t, captClusterDefaults(w), old, other), "the schema refuses it, and reports why")

	without := builder.CAPTCluster("demo")
	assert.Equal(t, without, defaulted(t, captClusterDefaults(w), without, without), "an older object waits for the user, or for the controller")
}

func TestDefaultsOfACAPTClusterNeedALook(t *testing.T) {
	w := lookup.Reader{Reader: failing{}}
	err := referVPC(t.Context(), w, builder.CAPTCluster("demo"))
	require.ErrorIs(t, err, errFailing)
	require.NoError(t, referVPC(t.Context(), w, builder.CAPTCluster("demo", builder.WithApplyRef("by-hand"))))
}
