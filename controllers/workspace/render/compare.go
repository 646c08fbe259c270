/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package render

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capt-provider/capt/api/terraform"
)

// Difference is a field of a Workspace that is not as it was rendered.
type Difference struct {
	// Field is its path, for example spec.forProvider.module; lists are compared as a whole.
	Field string `json:"field"`
	// Live and Rendered are its values; nil when it is not there.
	Live     any `json:"live"`
	Rendered any `json:"rendered"`
}

// Differences are the fields in which the spec of a live Workspace is not exactly as rendered, but for what the CRDs of
// provider-terraform v0.18 to v1.1 fill in, sorted by path. Another scope is a difference of apiVersion.
func Differences(live *unstructured.Unstructured, rendered *Rendered) []Difference {
	if live.GetAPIVersion() != rendered.Object.GetAPIVersion() {
		return []Difference{{Field: "apiVersion", Live: live.GetAPIVersion(), Rendered: rendered.Object.GetAPIVersion()}}
	}
	is, _, _ := unstructured.NestedMap(live.Object, "spec")
	want, _, _ := unstructured.NestedMap(rendered.Object.Object, "spec")
	cluster := live.GroupVersionKind() == terraform.ScopeCluster.GroupVersionKind()
	return differences("spec", withDefaults(is, cluster), withDefaults(want, cluster))
}

func differences(path string, is, want map[string]any) (found []Difference) {
	keys := maps.Clone(is)
	maps.Copy(keys, want)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		field, live, rendered := path+"."+key, is[key], want[key]
		liveMap, isMap := live.(map[string]any)
		renderedMap, wantMap := rendered.(map[string]any)
		switch {
		case isMap && wantMap:
			found = append(found, differences(field, liveMap, renderedMap)...)
		case !equality.Semantic.DeepEqual(live, rendered):
			found = append(found, Difference{Field: field, Live: live, Rendered: rendered})
		}
	}
	return found
}

// withDefaults adds what the CRDs fill in.
func withDefaults(spec map[string]any, cluster bool) map[string]any {
	spec = runtime.DeepCopyJSON(spec)
	if spec == nil {
		spec = map[string]any{}
	}
	fill(spec, "managementPolicies", []any{string(terraform.ManageAll)})
	config := map[string]any{"name": defaultProviderConfig}
	if cluster {
		fill(spec, "deletionPolicy", "Delete")
	} else {
		config["kind"] = DefaultProviderConfigKind
	}
	fill(spec, "providerConfigRef", config)
	if parameters, ok := spec["forProvider"].(map[string]any); ok {
		fill(parameters, "entrypoint", "")
	}
	return spec
}

func fill(fields map[string]any, name string, value any) {
	if _, ok := fields[name]; !ok {
		fields[name] = value
	}
}
