// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/redact"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/terraform"
)

// Difference is a field whose value in the live Workspace differs from the rendered one.
type Difference struct {
	// Field is the path, for example spec.forProvider.module. A list is one field, except for spec.forProvider.vars and env, whose
	// elements have paths such as spec.forProvider.vars[KEY] and spec.forProvider.env[NAME].
	Field string `json:"field"`
	// Live and Rendered are the redacted values, without values of environment variables; nil when the field does not exist.
	Live     any `json:"live"`
	Rendered any `json:"rendered"`
}

// Differences returns the fields of spec in which a live Workspace differs from the rendered one, sorted by path. It ignores the defaults
// of the CRDs of provider-terraform v0.18 to v1.1. If the scopes differ, the only difference is apiVersion.
func Differences(live *unstructured.Unstructured, rendered *Rendered) []Difference {
	if live.GetAPIVersion() != rendered.Object.GetAPIVersion() {
		return []Difference{{Field: "apiVersion", Live: live.GetAPIVersion(), Rendered: rendered.Object.GetAPIVersion()}}
	}
	liveSpec, _, _ := unstructured.NestedMap(live.Object, "spec")
	renderedSpec, _, _ := unstructured.NestedMap(rendered.Object.Object, "spec")
	cluster := live.GroupVersionKind() == terraform.ScopeCluster.GroupVersionKind()
	return differences("spec", withDefaults(liveSpec, cluster), withDefaults(renderedSpec, cluster))
}

// SpecDifferences returns the fields in which the contents of two templates differ, before placeholders are replaced,
// sorted by path.
func SpecDifferences(before, after *terraform.WorkspaceSpec) ([]Difference, error) {
	is, err := runtime.DefaultUnstructuredConverter.ToUnstructured(before)
	if err != nil {
		return nil, err
	}
	want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(after)
	if err != nil {
		return nil, err
	}
	return differences("spec", is, want), nil
}

// differences compares two objects field by field. Objects within them are compared in the same way.
func differences(path string, is, want map[string]any) (found []Difference) {
	keys := maps.Clone(is)
	maps.Copy(keys, want)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		field, live, rendered := path+"."+key, is[key], want[key]
		liveMap, isMap := live.(map[string]any)
		renderedMap, wantMap := rendered.(map[string]any)
		id, isKeyed := keyedLists[field]
		switch {
		case isMap && wantMap:
			found = append(found, differences(field, liveMap, renderedMap)...)
		case equality.Semantic.DeepEqual(live, rendered):
		case isKeyed:
			found = append(found, keyedDifferences(field, id, live, rendered)...)
		default:
			found = append(found, Difference{Field: field, Live: redacted(key, live), Rendered: redacted(key, rendered)})
		}
	}
	return found
}

const envField = "spec.forProvider.env"

// keyedLists are the lists that are compared element by element, so that a difference does not show the other elements, which may be
// secrets. The value is the field that identifies an element.
var keyedLists = map[string]string{"spec.forProvider.vars": "key", envField: "name"}

// keyedDifferences returns the differences of two unequal lists. If only the order differs, the values are the lists of keys.
func keyedDifferences(path, id string, live, rendered any) (found []Difference) {
	is, liveKeys := byKey(id, live)
	want, renderedKeys := byKey(id, rendered)
	for _, key := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(liveKeys, renderedKeys)))) {
		if !equality.Semantic.DeepEqual(is[key], want[key]) {
			found = append(found, Difference{Field: path + "[" + key + "]", Live: redactedElement(path, key, is[key]), Rendered: redactedElement(path, key, want[key])})
		}
	}
	if len(found) == 0 {
		return []Difference{{Field: path, Live: liveKeys, Rendered: renderedKeys}}
	}
	return found
}

// byKey returns the elements of a list by their keys, and the keys in order.
func byKey(id string, list any) (map[string]any, []string) {
	elements, _ := list.([]any)
	found, keys := make(map[string]any, len(elements)), make([]string, 0, len(elements))
	for _, element := range elements {
		fields, _ := element.(map[string]any)
		key, _ := fields[id].(string)
		found[key], keys = fields, append(keys, key)
	}
	return found, keys
}

// redactedElement returns the redacted value of a variable, or the source of an environment variable, whose value is omitted.
func redactedElement(path, key string, element any) any {
	fields, exists := element.(map[string]any)
	switch value, has := fields["value"]; {
	case !exists:
		return nil
	case path != envField:
		return redacted(key, value)
	case has:
		return "[omitted]"
	}
	return redacted(key, fields)
}

// redacted returns a value with its strings redacted.
func redacted(name string, value any) any {
	switch value := value.(type) {
	case string:
		return redact.Value(name, value)
	case map[string]any:
		out := make(map[string]any, len(value))
		for key := range value {
			out[key] = redacted(key, value[key])
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i := range value {
			out[i] = redacted(name, value[i])
		}
		return out
	}
	return value
}

// withDefaults returns a copy of a spec with the defaults of the CRDs of provider-terraform.
func withDefaults(spec map[string]any, cluster bool) map[string]any {
	spec = runtime.DeepCopyJSON(spec)
	if spec == nil {
		spec = map[string]any{}
	}
	setDefault(spec, "managementPolicies", []any{string(terraform.ManageAll)})
	config := map[string]any{"name": defaultProviderConfig}
	if cluster {
		setDefault(spec, "deletionPolicy", "Delete")
	} else {
		config["kind"] = DefaultProviderConfigKind
	}
	setDefault(spec, "providerConfigRef", config)
	if parameters, ok := spec["forProvider"].(map[string]any); ok {
		setDefault(parameters, "entrypoint", "")
	}
	return spec
}

func setDefault(fields map[string]any, name string, value any) {
	if _, ok := fields[name]; !ok {
		fields[name] = value
	}
}

// For returns what to apply to a live Workspace. Its external name is the name of its state and is never changed, and an adopted Workspace
// keeps all its metadata.
func (r *Rendered) For(live *unstructured.Unstructured) *unstructured.Unstructured {
	want := &unstructured.Unstructured{Object: maps.Clone(r.Object.Object)} // Its metadata is changed, and nothing else.
	want.Object["metadata"] = runtime.DeepCopyJSONValue(r.Object.Object["metadata"])
	annotations, claim := live.GetAnnotations(), want.GetAnnotations()[naming.ClaimAnnotation]
	switch name := annotations[ExternalNameAnnotation]; {
	case annotations[naming.ClaimAnnotation] != claim:
		want.SetAnnotations(nil)
	case name != "":
		want.SetAnnotations(map[string]string{ExternalNameAnnotation: name, naming.ClaimAnnotation: claim})
	}
	return want
}

// ReferenceTo returns a reference to a live Workspace, for status.
func ReferenceTo(live *unstructured.Unstructured) *infrav1.WorkspaceReference {
	return &infrav1.WorkspaceReference{
		APIVersion: live.GetAPIVersion(), Kind: live.GetKind(), Name: live.GetName(), Namespace: live.GetNamespace(), UID: live.GetUID(),
		ExternalName: live.GetAnnotations()[ExternalNameAnnotation],
	}
}

// SpecOf returns the spec of a live Workspace.
func SpecOf(live *unstructured.Unstructured) (*terraform.WorkspaceSpec, error) {
	spec, _ := live.Object["spec"].(map[string]any)
	typed := &terraform.WorkspaceSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, typed); err != nil {
		return nil, fmt.Errorf("reading Workspace %s: %w", live.GetName(), err)
	}
	return typed, nil
}

// LimitsActions reports whether the template, or what is retained, limits what the provider may do.
func (r *Rendered) LimitsActions() bool {
	_, found, _ := unstructured.NestedFieldNoCopy(r.Object.Object, "spec", "managementPolicies")
	return found
}

// Differs reports whether applying the rendered Workspace would change the live one.
func (r *Rendered) Differs(live *unstructured.Unstructured) bool {
	return ssa.Differs(live, r.For(live), naming.WorkspaceTemplateApplyFieldManager)
}

// Changes returns the fields of spec that applying the rendered Workspace would change, sorted by path. In contrast to Differences, fields
// that other clients set and that are not rendered are kept, and are not returned.
func (r *Rendered) Changes(live *unstructured.Unstructured) []Difference {
	applied := ssa.Applied(live, r.For(live), naming.WorkspaceTemplateApplyFieldManager)
	before, _, _ := unstructured.NestedMap(live.Object, "spec")
	after, _, _ := unstructured.NestedMap(applied.Object, "spec")
	return differences("spec", before, after)
}

// Content returns the fields of spec of a new Workspace, as differences from nothing.
func (r *Rendered) Content() []Difference {
	spec, _, _ := unstructured.NestedMap(r.Object.Object, "spec")
	return differences("spec", map[string]any{"forProvider": map[string]any{}}, spec)
}
