// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
	"github.com/capt-provider/capt/test/specimens"
)

func TestEveryRuleOfTheSchemas(t *testing.T) {
	schemas, err := schema.New(crd.Definitions)
	require.NoError(t, err)
	all, err := specimens.All()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, specimen := range all {
		kind := specimen.GroupVersionKind()
		s, err := schemas.Of(kind)
		require.NoError(t, err)
		var errs field.ErrorList
		if specimen.Old == nil {
			errs = s.Validate(t.Context(), object(t, kind, string(specimen.Spec)))
		} else {
			errs = s.ValidateUpdate(t.Context(), object(t, kind, string(specimen.Spec)), object(t, kind, string(specimen.Old)))
		}
		var fields []string
		for _, err := range errs {
			fields = append(fields, err.Field)
		}
		slices.Sort(fields)
		require.Equal(t, specimen.Refused, slices.Compact(fields), "%s %s, before %s: %v", kind, specimen.Spec, specimen.Old, errs)
	}
}
