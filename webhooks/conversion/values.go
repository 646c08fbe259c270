// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"maps"
	"reflect"
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

// copier sets a value from another one. Values are strings, optional bools and statuses, times, JSON, structs, lists, and maps of strings.
type copier func(from, to reflect.Value)

// fieldsOfSameNames returns a function that sets the fields of spec and status that both versions have by the same name. Create it once per process,
// because it analyzes the types by reflection. An optional value is a pointer in v1beta1, and in v1beta2 its zero value; an empty list or map
// becomes nil, because omitempty drops it.
func fieldsOfSameNames[From, To any]() func(in *From, out *To) {
	convert := copierOf(reflect.TypeFor[From](), reflect.TypeFor[To]())
	return func(in *From, out *To) { convert(reflect.ValueOf(in).Elem(), reflect.ValueOf(out).Elem()) }
}

func copierOf(from, to reflect.Type) copier {
	isStatus := func(t reflect.Type) bool { return t == reflect.TypeFor[metav1.ConditionStatus]() }
	switch {
	case from == reflect.TypeFor[*bool]() && isStatus(to):
		return func(f, t reflect.Value) { t.SetString(string(statusToHub(f.Interface().(*bool)))) }
	case isStatus(from) && to == reflect.TypeFor[*bool]():
		return func(f, t reflect.Value) { t.Set(reflect.ValueOf(statusToSpoke(metav1.ConditionStatus(f.String())))) }
	case from.Kind() == reflect.Pointer:
		return copierOfPointer(from, to)
	case to.Kind() == reflect.Pointer:
		return copierToPointer(from, to)
	case from.Kind() == reflect.String:
		return func(f, t reflect.Value) { t.SetString(f.String()) }
	case from == to && from.Comparable(): // Without pointers; a time has unexported fields.
		return func(f, t reflect.Value) { t.Set(f) }
	case from.Kind() == reflect.Struct:
		return copierOfStruct(from, to)
	case from.Kind() == reflect.Slice:
		return copierOfSlice(from, to)
	}
	return copierOfMap(from, to)
}

// copierOfMap copies maps of strings. Variables are strings in v1beta1 only.
func copierOfMap(from, to reflect.Type) copier {
	switch variables := reflect.TypeFor[infrav1.Variables](); variables {
	case to:
		return func(f, t reflect.Value) {
			t.Set(reflect.ValueOf(infrav1.TextVariables(copyMap(f.Interface().(map[string]string)))))
		}
	case from:
		return func(f, t reflect.Value) {
			t.Set(reflect.ValueOf(copyMap(f.Interface().(infrav1.Variables).Texts())))
		}
	}
	return func(f, t reflect.Value) { t.Set(reflect.ValueOf(copyMap(f.Interface().(map[string]string)))) }
}

func copierToPointer(from, to reflect.Type) copier {
	convert := copierOf(from, to.Elem())
	return func(f, t reflect.Value) {
		if f.IsZero() {
			return
		}
		target := reflect.New(to.Elem())
		if convert(f, target.Elem()); !target.Elem().IsZero() {
			t.Set(target)
		}
	}
}

func copierOfSlice(from, to reflect.Type) copier {
	convert := copierOf(from.Elem(), to.Elem())
	return func(f, t reflect.Value) {
		if f.Len() == 0 {
			return
		}
		t.Set(reflect.MakeSlice(to, f.Len(), f.Len()))
		if from == to && from.Elem().Comparable() {
			reflect.Copy(t, f)
			return
		}
		for i := range f.Len() {
			convert(f.Index(i), t.Index(i))
		}
	}
}

func copierOfPointer(from, to reflect.Type) copier {
	isPointer := to.Kind() == reflect.Pointer
	if isPointer {
		to = to.Elem()
	}
	convert := copierOf(from.Elem(), to)
	return func(f, t reflect.Value) {
		if f.IsNil() {
			return
		}
		if isPointer {
			t.Set(reflect.New(to))
			t = t.Elem()
		}
		convert(f.Elem(), t)
	}
}

// copierOfStruct skips embedded structs, which are the metadata, and what package preserve stores.
func copierOfStruct(from, to reflect.Type) copier {
	type field struct {
		from, to int
		convert  copier
	}
	var fields []field
	for i := range to.NumField() {
		target := to.Field(i)
		if source, found := from.FieldByName(target.Name); found && !target.Anonymous && target.Name != "ConversionData" {
			fields = append(fields, field{source.Index[0], i, copierOf(source.Type, target.Type)})
		}
	}
	return func(f, t reflect.Value) {
		for i := range fields {
			fields[i].convert(f.Field(fields[i].from), t.Field(fields[i].to))
		}
	}
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

// failureCondition returns condition Failed for failureReason and failureMessage of v1beta1; ok is false when both are empty.
func failureCondition(reason, message *string, since metav1.Time) (_ metav1.Condition, ok bool) {
	if deref(reason) == "" && deref(message) == "" {
		return metav1.Condition{}, false
	}
	return metav1.Condition{
		Type: infrav1.FailedCondition, Status: metav1.ConditionTrue, LastTransitionTime: since,
		Reason: validReason(deref(reason)), Message: validMessage(deref(message)),
	}, true
}

func failureToSpoke(conditions []metav1.Condition) (reason, message *string) {
	failed := meta.FindStatusCondition(conditions, infrav1.FailedCondition)
	if failed == nil || failed.Status != metav1.ConditionTrue {
		return nil, nil
	}
	return optional(failed.Reason), optional(failed.Message)
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
