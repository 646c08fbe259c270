// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/webhooks/conversion"
)

// isLegacy reports whether a kind is one of CAPT's in v1beta1. The group alone does not say: other infrastructure providers have
// the same one.
func (d *document) isLegacy(apiVersion, kind string) bool {
	converted := runtimeschema.FromAPIVersionAndKind(apiVersion, spelled(kind))
	_, found := d.registry.GetConverter(converted.GroupKind())
	return found && converted.Version == migrate.LegacyVersion
}

// spelled is a kind as v1beta2 spells it: CAPT v0.3 wrote CaptControlPlaneTemplate.
func spelled(kind string) string {
	return strings.Replace(kind, "CaptControlPlane", "CAPTControlPlane", 1)
}

// today is an apiVersion in v1beta2.
func today(apiVersion string) string {
	return strings.TrimSuffix(apiVersion, migrate.LegacyVersion) + migrate.Version
}

// referring converts a Cluster or a ClusterClass: the references to objects of CAPT name v1beta2.
func (d *document) referring(node *yaml.Node, have map[string]any) (map[string]any, error) {
	for _, patch := range elements(valueAt(node, "spec", "patches")) {
		for _, definition := range elements(valueAt(patch, "definitions")) {
			if d.isLegacy(valueAt(definition, "selector", "apiVersion").Value, valueAt(definition, "selector", "kind").Value) {
				d.problem(definition.Line, "JSON patches of objects of CAPT in v1beta1 are not converted; change paths and selector by hand")
			}
		}
	}
	want := runtime.DeepCopyJSON(have)
	d.refer(want)
	return want, rewrite(node, have, want, nil)
}

// refer changes every mapping with apiVersion and kind. Selectors of patches are such mappings, too.
func (d *document) refer(value any) {
	switch value := value.(type) {
	case map[string]any:
		apiVersion, _ := value["apiVersion"].(string)
		kind, _ := value["kind"].(string)
		if d.isLegacy(apiVersion, kind) {
			value["apiVersion"], value["kind"] = today(apiVersion), spelled(kind)
		}
		for _, inner := range value {
			d.refer(inner)
		}
	case []any:
		for _, inner := range value {
			d.refer(inner)
		}
	}
}

// isMention reports whether a node means v1beta1 of CAPT: as a reference, the target of a patch, or a text such as an inline patch.
func (d *document) isMention(node *yaml.Node) bool {
	kind := valueAt(node, "kind").Value
	return node.Kind == yaml.ScalarNode && d.mentioned(node.Value) > 0 || d.isLegacy(valueAt(node, "apiVersion").Value, kind) ||
		d.isLegacy(valueAt(node, "group").Value+"/"+valueAt(node, "version").Value, kind)
}

// mentioned is the first line of a text, but for comments, that names v1beta1 of a group in which the text has a kind of CAPT; 0 if
// there is none.
func (d *document) mentioned(text string) int {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for kind := range maps.Keys(conversion.Constructors()) {
			if strings.Contains(line, kind.Group+"/"+migrate.LegacyVersion) && strings.Contains(strings.ToLower(text), strings.ToLower(kind.Kind)) {
				return number
			}
		}
	}
	return 0
}
