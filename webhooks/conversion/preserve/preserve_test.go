// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package preserve

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
)

type cluster = infrav1beta1.CAPTCluster

// forgetful are rules that convert only the region and the conditions with the reasons Forgotten and Changed.
func forgetful(in, out *cluster) {
	out.Spec.Region = in.Spec.Region
	for _, c := range in.Status.Conditions {
		if c.Reason != "Changed" {
			c.Reason = "Forgotten"
		}
		out.Status.Conditions = append(out.Status.Conditions, c)
	}
}

func convert(t *testing.T, in *cluster) *cluster {
	t.Helper()
	out := &cluster{}
	require.NoError(t, New(forgetful, forgetful).Convert(in, out))
	return out
}

func full() *cluster {
	return &cluster{
		Spec: infrav1beta1.CAPTClusterSpec{Region: "r", ExistingVPCID: ptr.To("vpc-1"), VPCConfig: &infrav1beta1.VPCConfig{}},
		Status: infrav1beta1.CAPTClusterStatus{Conditions: []metav1.Condition{
			{Type: "A", Reason: "One"}, {Type: "example.com/B~", Reason: "Two"},
		}},
	}
}

func TestLostFieldsAreRestored(t *testing.T) {
	there := convert(t, full())
	assert.Nil(t, there.Spec.ExistingVPCID)
	back := convert(t, there)
	back.Annotations = nil
	assert.Equal(t, full(), back)
}

// Elements of lists are found by their key.
func TestChangedFieldsAreNotRestored(t *testing.T) {
	there := convert(t, full())
	there.Status.Conditions[0].Reason = "Changed"
	back := convert(t, there)
	assert.Equal(t, "Changed", back.Status.Conditions[0].Reason)
	assert.Equal(t, "Two", back.Status.Conditions[1].Reason)

	there = convert(t, full())
	conditions := there.Status.Conditions
	conditions[0], conditions[1] = conditions[1], conditions[0]
	back = convert(t, there)
	assert.Equal(t, "Two", back.Status.Conditions[0].Reason)
	assert.Equal(t, "One", back.Status.Conditions[1].Reason)
}

func TestTheAnnotationHasOnlyWhatIsLost(t *testing.T) {
	assert.Nil(t, convert(t, &cluster{Spec: infrav1beta1.CAPTClusterSpec{Region: "r"}}).Annotations)
	in := &cluster{Spec: infrav1beta1.CAPTClusterSpec{Region: "r", ExistingVPCID: ptr.To("<vpc>")}}
	assert.Equal(t, `{"fields":[{"path":"/spec/existingVpcId","is":"<vpc>"}]}`, convert(t, in).Annotations[Annotation])
}

func TestInvalidLostFieldsAreIgnored(t *testing.T) {
	for _, f := range []field{
		{Path: "/spec/vpcConfig/name", Is: []byte(`"x"`)},            // The parent does not exist.
		{Path: "/spec/region", Is: []byte(`7`)},                      // Not a number.
		{Path: "/spec/region/deeper", Is: []byte(`7`)},               // Not an object.
		{Path: "/spec/nowhere", Is: []byte(`7`)},                     // There is no such field.
		{Path: "/status/conditions/A", Was: "other"},                 // The element has changed.
		{Path: "/status/conditions/Z/reason", Is: []byte(`"x"`)},     // There is no such element.
		{Path: "/metadata/name", Is: []byte(`"stolen"`)}, {Path: ""}, // Not a part of spec or status.
	} {
		out := &cluster{Status: infrav1beta1.CAPTClusterStatus{Conditions: []metav1.Condition{{Type: "A"}}}}
		before := out.DeepCopy()
		restoreAll([]field{f}, shapeOf(reflect.TypeFor[cluster]()), reflect.ValueOf(out).Elem())
		assert.Equal(t, before, out, f.Path)
	}
}
