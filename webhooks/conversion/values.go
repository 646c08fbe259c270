// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
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

const (
	// noReasonReported replaces a reason that is missing; Cluster API uses the same reason.
	noReasonReported = "NoReasonReported"

	// The limits of conditions in the CRDs of v1beta2.
	maxConditions, maxTypeLength, maxReasonLength, maxMessageLength = 32, 316, 1024, 32768
)

var (
	conditionType   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`)
	conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)
	notInReason     = regexp.MustCompile(`[^A-Za-z0-9_,:]+`)
)

// conditionsToHub corrects conditions that the CRDs of CAPT v0.3 allowed and v1beta2 does not allow: an empty reason gets a default, and of
// two conditions with the same type the first is used.
func conditionsToHub(in []metav1.Condition) []metav1.Condition {
	if len(in) == 0 {
		return nil
	}
	out := make([]metav1.Condition, 0, min(len(in)+1, maxConditions)) // With capacity for the condition that withCondition may add.
	for _, c := range in {
		if len(out) == maxConditions {
			break
		}
		if !isValidType(c.Type) || meta.FindStatusCondition(out, c.Type) != nil {
			continue
		}
		c.Status = validStatus(c.Status)
		c.Reason = validReason(c.Reason)
		c.Message = validMessage(c.Message)
		c.ObservedGeneration = max(c.ObservedGeneration, 0)
		out = append(out, c)
	}
	if len(out) == 0 { // No condition was valid. Return nil, because omitempty drops an empty list.
		return nil
	}
	return out
}

func crossplaneConditionsToHub(in []infrav1beta1.Condition) []metav1.Condition {
	return conditionsToHub(convertList(in, func(c infrav1beta1.Condition) metav1.Condition {
		return metav1.Condition{
			Type: c.Type, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: deref(c.Message),
			LastTransitionTime: c.LastTransitionTime, ObservedGeneration: deref(c.ObservedGeneration),
		}
	}))
}

func crossplaneConditionsToSpoke(in []metav1.Condition) []infrav1beta1.Condition {
	return convertList(in, func(c metav1.Condition) infrav1beta1.Condition {
		return infrav1beta1.Condition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: optional(c.Message),
			LastTransitionTime: c.LastTransitionTime, ObservedGeneration: optional(c.ObservedGeneration),
		}
	})
}

// withCondition sets a condition that is a separate field in v1beta1, which has no transition time: an existing condition keeps its own.
func withCondition(conditions []metav1.Condition, c metav1.Condition) []metav1.Condition {
	if existing := meta.FindStatusCondition(conditions, c.Type); existing != nil {
		existing.Status, existing.Reason, existing.Message = c.Status, c.Reason, c.Message
		return conditions
	}
	if len(conditions) == maxConditions {
		conditions = conditions[:maxConditions-1]
	}
	return append(conditions, c)
}

// failureCondition returns a condition of a given type and status for failureReason and failureMessage; ok is false when both are empty.
func failureCondition(conditionType string, status metav1.ConditionStatus, reason, message *string, since metav1.Time) (_ metav1.Condition, ok bool) {
	if deref(reason) == "" && deref(message) == "" {
		return metav1.Condition{}, false
	}
	return metav1.Condition{
		Type: conditionType, Status: status, LastTransitionTime: since,
		Reason: validReason(deref(reason)), Message: validMessage(deref(message)),
	}, true
}

func isValidType(s string) bool {
	return len(s) <= maxTypeLength && (isWord(s) || conditionType.MatchString(s))
}

func validStatus(s metav1.ConditionStatus) metav1.ConditionStatus {
	switch s {
	case metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown:
		return s
	default:
		return metav1.ConditionUnknown
	}
}

// validReason removes the characters that a reason must not have; if none are left, it returns noReasonReported.
func validReason(s string) string {
	if len(s) <= maxReasonLength && (isWord(s) || conditionReason.MatchString(s)) {
		return s
	}
	s = strings.TrimLeft(notInReason.ReplaceAllString(s, ""), "0123456789_,:")
	s = strings.TrimRight(s[:min(len(s), maxReasonLength)], ",:")
	if s == "" {
		return noReasonReported
	}
	return s
}

// validMessage truncates a message to the limit of the CRD, in characters and not in bytes.
func validMessage(s string) string {
	if len(s) <= maxMessageLength {
		return s
	}
	if characters := []rune(s); len(characters) > maxMessageLength {
		return string(characters[:maxMessageLength])
	}
	return s
}

// isWord reports whether s is a letter followed by letters and digits, as nearly all types and reasons are.
func isWord(s string) bool {
	for i := range len(s) {
		letter := 'a' <= s[i]|0x20 && s[i]|0x20 <= 'z'
		digit := '0' <= s[i] && s[i] <= '9'
		if !letter && (i == 0 || !digit) {
			return false
		}
	}
	return s != ""
}
