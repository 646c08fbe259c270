// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

func shared(allowed infrav1.AllowedNamespaces) *infrav1.WorkspaceTemplate {
	return builder.WorkspaceTemplate("vpc", builder.WithNamespace("shared"), builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.AllowedNamespaces = allowed
	}))
}

var blue = infrav1.AllowedNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "blue"}}}

func TestNamespacesThatMayUseATemplate(t *testing.T) {
	for name, row := range map[string]struct {
		allowed   infrav1.AllowedNamespaces
		namespace string
		labels    labels.Set // Nil when the namespace does not exist.
		want      bool
	}{
		"its own namespace":                {infrav1.AllowedNamespaces{}, "shared", nil, true},
		"its own, though others are named": {infrav1.AllowedNamespaces{Names: []string{"other"}}, "shared", nil, true},
		"no other namespace by default":    {infrav1.AllowedNamespaces{}, "team", labels.Set{}, false},
		"one that is named":                {infrav1.AllowedNamespaces{Names: []string{"team"}}, "team", nil, true},
		"names are not patterns":           {infrav1.AllowedNamespaces{Names: []string{"te*"}}, "team", nil, false},
		"every namespace":                  {infrav1.AllowedNamespaces{Names: []string{"*"}}, "team", nil, true},
		"one whose labels match":           {blue, "team", labels.Set{"team": "blue"}, true},
		"one whose labels do not":          {blue, "team", labels.Set{"team": "red"}, false},
		"one that is gone":                 {blue, "team", nil, false},
		"a name or a label":                {infrav1.AllowedNamespaces{Names: []string{"team"}, Selector: blue.Selector}, "team", labels.Set{}, true},
		"no namespace, when the selector is invalid": {infrav1.AllowedNamespaces{Selector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Resembles"}},
		}}, "team", labels.Set{"team": "blue"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := validation.PermitsNamespace(shared(row.allowed), row.namespace, func() (labels.Set, error) { return row.labels, nil })
			require.NoError(t, err)
			assert.Equal(t, row.want, got)
		})
	}
}

func TestUnreadableLabelsPermitNoNamespace(t *testing.T) {
	cause := errors.New("no route to host")
	got, err := validation.PermitsNamespace(shared(blue), "team", func() (labels.Set, error) { return nil, cause })
	require.ErrorIs(t, err, cause)
	assert.False(t, got)
}

func TestLabelsAreReadOnlyWhenTheyMatter(t *testing.T) {
	never := func() (labels.Set, error) {
		t.Error("the labels do not matter here")
		return nil, nil
	}
	for _, allowed := range []infrav1.AllowedNamespaces{{}, {Names: []string{"team"}}, {Names: []string{"other"}}} {
		_, err := validation.PermitsNamespace(shared(allowed), "team", never)
		require.NoError(t, err)
	}
}
