// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// deref returns the value of an optional field; the zero value if it is absent.
func deref[T any](p *T) T {
	var zero T
	return ptr.Deref(p, zero)
}

// optional is the reverse of deref: the zero value becomes absent.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// convertList converts a list element by element. An empty list becomes nil, because omitempty of v1beta2 drops an empty list.
func convertList[From, To any](in []From, convert func(From) To) []To {
	if len(in) == 0 {
		return nil
	}
	out := make([]To, len(in))
	for i := range in {
		out[i] = convert(in[i])
	}
	return out
}

// convertRequiredList is convertList for a field that both versions require: in JSON, an empty list differs from an absent one, which is
// null and removed by the API server.
func convertRequiredList[From, To any](in []From, convert func(From) To) []To {
	if in != nil && len(in) == 0 {
		return []To{}
	}
	return convertList(in, convert)
}

// convertPointer converts the target of a pointer; nil stays nil.
func convertPointer[From, To any](in *From, convert func(From) To) *To {
	if in == nil {
		return nil
	}
	out := convert(*in)
	return &out
}

// copyPointer returns a pointer to a shallow copy; nil stays nil. The value must not have pointers.
func copyPointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// copyMap copies a map whose values have the same type in both versions. An empty map becomes nil, as in convertList.
func copyMap[K comparable, V any](in map[K]V) map[K]V {
	if len(in) == 0 {
		return nil
	}
	return maps.Clone(in)
}

// copyList copies a list whose elements have the same type in both versions and no pointers. An empty list becomes nil, as in convertList.
func copyList[T any](in []T) []T {
	if len(in) == 0 {
		return nil
	}
	return slices.Clone(in)
}

// convertStrings converts between lists of different string types.
func convertStrings[To, From ~string](in []From) []To {
	return convertList(in, func(s From) To { return To(s) })
}

func templateRefToHub(in infrav1beta1.WorkspaceTemplateReference) infrav1.WorkspaceTemplateReference {
	return infrav1.WorkspaceTemplateReference{Name: in.Name, Namespace: deref(in.Namespace)}
}

func templateRefToSpoke(in infrav1.WorkspaceTemplateReference) infrav1beta1.WorkspaceTemplateReference {
	return infrav1beta1.WorkspaceTemplateReference{Name: in.Name, Namespace: optional(in.Namespace)}
}

func applyRefToHub(name *string) infrav1.WorkspaceTemplateApplyReference {
	return infrav1.WorkspaceTemplateApplyReference{Name: deref(name)}
}

func applyRefToSpoke(ref infrav1.WorkspaceTemplateApplyReference) *string {
	return optional(ref.Name)
}

// deletionPolicyToHub converts the field that retains a Workspace to a policy. Absent has the same meaning in both versions.
func deletionPolicyToHub(retain *bool) infrav1.DeletionPolicy {
	switch {
	case retain == nil:
		return ""
	case *retain:
		return infrav1.DeletionPolicyRetain
	}
	return infrav1.DeletionPolicyDelete
}

func deletionPolicyToSpoke(policy infrav1.DeletionPolicy) *bool {
	if policy == "" {
		return nil
	}
	retain := policy == infrav1.DeletionPolicyRetain
	return &retain
}

// statusToHub converts a bool to the status of a condition; absent stays absent.
func statusToHub(b *bool) metav1.ConditionStatus {
	if b == nil {
		return ""
	}
	return infrav1.ConditionStatus(*b)
}

func statusToSpoke(status metav1.ConditionStatus) *bool {
	if status == "" {
		return nil
	}
	b := status == metav1.ConditionTrue
	return &b
}
