// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package preserve

import (
	"reflect"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// long is an object with a list of which every element loses a field.
func long(elements int) *cluster {
	object := &cluster{}
	for i := range elements {
		object.Status.Conditions = append(object.Status.Conditions, metav1.Condition{Type: "T" + strconv.Itoa(i), Reason: "Lost"})
	}
	return object
}

// unasked are rules that add an element for each, which the other direction must remove.
func unasked(in, out *cluster) {
	for _, c := range in.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, c, metav1.Condition{Type: "Added" + c.Type})
	}
}

// whole are rules that lose nothing.
func whole(in, out *cluster) { in.DeepCopyInto(out) }

// A user can write a list of 20,000 elements into one object, and an annotation with a field for each. A list of twice the length took four times as long.
func TestTheStepsOfAConversionGrowWithTheLengthOfListsOnly(t *testing.T) {
	steps, condition := 0, shapeOf(reflect.TypeFor[metav1.Condition]())
	key := condition.key
	condition.key = func(element reflect.Value) string { steps++; return key(element) } // To find an element, its key is read.
	defer func() { condition.key = key }()
	for name, row := range map[string]struct{ there, reverse, back func(in, out *cluster) }{
		"restored fields": {forgetful, forgetful, forgetful}, "removed elements": {unasked, whole, whole},
	} {
		t.Run(name, func(t *testing.T) {
			const short = 500
			roundTrip := func(elements int) (visited, allocations float64) {
				converter, reverse, object := New(row.there, row.reverse), New(row.back, row.there), long(elements)
				steps = 0
				allocations = testing.AllocsPerRun(1, func() { // It runs twice.
					there, back := &cluster{}, &cluster{}
					require.NoError(t, converter.Convert(object, there))
					require.NoError(t, reverse.Convert(there, back))
					require.NotEmpty(t, there.Status.ConversionData)
					require.Equal(t, elements, len(back.Status.Conditions)) // Not Len, which prints all of them.
				})
				return float64(steps), allocations
			}
			visited, allocations := roundTrip(short)
			twiceVisited, twiceAllocations := roundTrip(2 * short)
			assert.GreaterOrEqual(t, visited, float64(short))
			assert.InDelta(t, 2*visited, twiceVisited, visited/10)
			assert.InDelta(t, 2*allocations, twiceAllocations, allocations/2)
		})
	}
}

func TestRemovedElementsOfLists(t *testing.T) {
	converter := New(unasked, whole)
	object := &cluster{}
	for _, kind := range []string{"A", "B", "C"} {
		object.Status.Conditions = append(object.Status.Conditions, metav1.Condition{Type: kind})
	}
	there, back := &cluster{}, &cluster{}
	require.NoError(t, converter.Convert(object, there))
	require.Len(t, there.Status.Conditions, 6)
	there.Status.Conditions[3].Reason = "Changed" // Another client changed an element that would be removed.
	require.NoError(t, New(whole, whole).Convert(there, back))
	var kinds []string
	for _, c := range back.Status.Conditions {
		kinds = append(kinds, c.Type)
	}
	assert.Equal(t, []string{"A", "B", "AddedB", "C"}, kinds)
}
