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

package manifest

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capt-provider/capt/migrate"
)

// referring is what a Cluster or a ClusterClass becomes: its references to our objects name v1beta2. In the versions of
// Cluster API in which a reference names no version, there is nothing to do.
func (d *document) referring(o object) (map[string]any, error) {
	value := deepCopy(o.value).(map[string]any)
	changed := referTo(value)
	if o.gvk.Kind == "ClusterClass" {
		if err := d.refusePatches(o); err != nil {
			return nil, err
		}
	}
	if changed {
		if err := d.refuseTemplates(o, rules{}); err != nil {
			return nil, err
		}
	}
	return value, nil
}

// referTo changes every reference: a mapping with apiVersion and kind. The selectors of patches look the same.
func referTo(value any) (changed bool) {
	switch value := value.(type) {
	case map[string]any:
		if kind, found := value["kind"].(string); found && migrate.IsOlder(textOf(value["apiVersion"])) {
			version, _ := schema.ParseGroupVersion(textOf(value["apiVersion"]))
			value["apiVersion"], changed = version.Group+"/"+migrate.Version, true
			if kind == olderTemplate {
				value["kind"] = template
			}
		}
		for _, inner := range value {
			changed = referTo(inner) || changed
		}
	case []any:
		for _, inner := range value {
			changed = referTo(inner) || changed
		}
	}
	return changed
}

// refusePatches refuses a ClusterClass with patches of fields that are elsewhere in v1beta2, and values of another shape: the
// patches are a program, which a person has to read.
func (d *document) refusePatches(o object) error {
	_, patches := at(o.node, "spec", "patches")
	for _, patch := range elements(patches) {
		_, definitions := at(patch, "definitions")
		for _, definition := range elements(definitions) {
			if err := d.refuseMoved(o, definition); err != nil {
				return err
			}
		}
	}
	return nil
}

// elements of a list; none of anything else.
func elements(node *yaml.Node) []*yaml.Node {
	if node == nil || node.Kind != yaml.SequenceNode {
		return nil
	}
	return node.Content
}

func (d *document) refuseMoved(o object, definition *yaml.Node) error {
	_, version := at(definition, "selector", "apiVersion")
	_, kind := at(definition, "selector", "kind")
	if version == nil || kind == nil || !migrate.IsOlder(version.Value) {
		return nil
	}
	_, operations := at(definition, "jsonPatches")
	for _, operation := range elements(operations) {
		_, path := at(operation, "path")
		if path == nil || !staysInPlace(strings.Split(strings.TrimPrefix(path.Value, "/"), "/")) {
			return notUnderstood(d.line(operation), "%s patches a field of a %s that is elsewhere, or of another shape, in v1beta2: rewrite the ClusterClass by hand, references and patches together", o.name(), kind.Value)
		}
	}
	return nil
}

// staysInPlace tells whether a field of a template in v1beta1 is the same in v1beta2.
func staysInPlace(path []string) bool {
	field := strings.Join(path, ".") + "."
	same := []string{"metadata.", "spec.template.metadata.", "spec.template.spec.workspaceTemplateRef.", "spec.template.spec.additionalTags."}
	return slices.ContainsFunc(same, func(prefix string) bool { return strings.HasPrefix(field, prefix) })
}
