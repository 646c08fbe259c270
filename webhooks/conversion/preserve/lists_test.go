// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package preserve

import (
	"strconv"
	"testing"
	"time"

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

// A user can write a list of 20,000 elements into one object, and an annotation with a field for each. A list of twice the length took four times as long.
func TestTheTimeOfAConversionGrowsWithTheLengthOfListsOnly(t *testing.T) {
	for name, rules := range map[string]func(in, out *cluster){"restored fields": forgetful, "removed elements": unasked} {
		t.Run(name, func(t *testing.T) {
			const short, factor = 2_000, 10
			roundTrip := func(elements int) time.Duration {
				converter, object := New(rules, rules), long(elements)
				fastest := time.Hour
				for range 5 {
					there, back := &cluster{}, &cluster{}
					start := time.Now()
					require.NoError(t, converter.Convert(object, there))
					require.NoError(t, converter.Convert(there, back))
					fastest = min(fastest, time.Since(start))
					require.NotEmpty(t, there.Status.ConversionData)
				}
				return fastest
			}
			one := roundTrip(short)
			assert.Less(t, roundTrip(factor*short), factor*factor*one/3, "%d elements take %s", short, one)
		})
	}
}

func TestRemovedElementsOfLists(t *testing.T) {
	converter := New(func(in, out *cluster) { unasked(in, out) }, func(in, out *cluster) { in.DeepCopyInto(out) })
	object := &cluster{}
	for _, kind := range []string{"A", "B", "C"} {
		object.Status.Conditions = append(object.Status.Conditions, metav1.Condition{Type: kind})
	}
	there, back := &cluster{}, &cluster{}
	require.NoError(t, converter.Convert(object, there))
	require.Len(t, there.Status.Conditions, 6)
	there.Status.Conditions[3].Reason = "Changed" // Another client changed an element that would be removed.
	require.NoError(t, New(func(in, out *cluster) { in.DeepCopyInto(out) }, func(in, out *cluster) { in.DeepCopyInto(out) }).Convert(there, back))
	var kinds []string
	for _, c := range back.Status.Conditions {
		kinds = append(kinds, c.Type)
	}
	assert.Equal(t, []string{"A", "B", "AddedB", "C"}, kinds)
}
