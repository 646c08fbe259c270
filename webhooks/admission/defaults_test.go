// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func recorded(uid string) *infrav1.WorkspaceTemplateApply {
	return builder.WorkspaceTemplateApply("demo", builder.WithWorkspaceName("w"), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		if uid != "" {
			apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{APIVersion: "v", Kind: "k", Name: "w", UID: "theirs"}
		}
	}))
}

// Status decides which owner a Workspace has, so that only clients that may write status can change it.
func TestAWriteInAnOlderVersionCannotReachStatus(t *testing.T) {
	for name, row := range map[string]struct {
		old, written client.Object
		version      string
		want         []string
	}{
		"a new object that brings a status":    {nil, recorded("theirs"), "v1beta1", []string{"/status"}},
		"a change that brings one":             {recorded(""), recorded("theirs"), "v1beta1", []string{"/status"}},
		"a change that wipes it":               {recorded("ours"), recorded(""), "v1beta1", []string{"/status"}},
		"a change that leaves it":              {recorded("ours"), recorded("ours"), "v1beta1", nil},
		"in the hub the API server sees to it": {recorded("ours"), recorded(""), "v1beta2", nil},
	} {
		t.Run(name, func(t *testing.T) {
			defaulter := workspaceTemplateApplyDefaults(newWorld(t))
			defaulter.decoder = admission.NewDecoder(builder.Scheme())
			r := request(t, row.old, row.written)
			r.RequestKind = &metav1.GroupVersionKind{Group: r.Kind.Group, Version: row.version, Kind: r.Kind.Kind}
			response := defaulter.Handle(t.Context(), r)
			require.True(t, response.Allowed)
			var paths []string
			for _, patch := range response.Patches {
				paths = append(paths, patch.Path)
			}
			assert.Equal(t, row.want, paths)
		})
	}
}

func TestOnlyTheMigrationRemovesImmutableFields(t *testing.T) {
	for name, row := range map[string]struct {
		options, version, want string
	}{
		"a user":                    {`{"fieldManager":"kubectl"}`, "v1beta2", "w"},
		"a manager without options": {``, "v1beta2", "w"},
		"captctl":                   {`{"kind":"UpdateOptions","fieldManager":"captctl"}`, "v1beta2", ""},
		"captctl in a version which does not have it": {`{"fieldManager":"captctl"}`, "v1beta1", "w"},
	} {
		t.Run(name, func(t *testing.T) {
			defaulter := workspaceTemplateApplyDefaults(newWorld(t))
			defaulter.decoder = admission.NewDecoder(builder.Scheme())
			r := request(t, builder.WorkspaceTemplateApply("demo", builder.WithWorkspaceName("w")), builder.WorkspaceTemplateApply("demo"))
			r.RequestKind = &metav1.GroupVersionKind{Group: r.Kind.Group, Version: row.version, Kind: r.Kind.Kind}
			r.Options.Raw = []byte(row.options)
			response := defaulter.Handle(t.Context(), r)
			require.True(t, response.Allowed)
			kept := ""
			for _, patch := range response.Patches {
				kept, _ = patch.Value.(string)
			}
			assert.Equal(t, row.want, kept)
		})
	}
}
