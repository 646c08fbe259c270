// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capt-provider/capt/migrate"
)

// identities are the fields by which adopted objects know each other. CAPT v0.3 has written some of them itself.
var identities = []path{{"spec", "workspaceTemplateApplyRef"}, {"spec", "workspaceName"}}

// adopt adds what the adoption wrote into the object in the cluster, so that the manifest says it, too.
func (d *document) adopt(ctx context.Context, node *yaml.Node, want map[string]any, legacy bool) error {
	if d.Live == nil {
		return nil
	}
	manifest := unstructured.Unstructured{Object: want}
	kind := runtimeschema.FromAPIVersionAndKind(manifest.GetAPIVersion(), manifest.GetKind())
	live, err := d.Live(ctx, kind, manifest.GetNamespace(), manifest.GetName())
	if err != nil {
		return err
	}
	if live == nil {
		d.warning(node.Line, "%s %s is not in the cluster, so that nothing was added from there", kind.Kind, manifest.GetName())
		return nil
	}
	fields := writtenByMigration(live)
	if legacy || len(fields) > 0 {
		fields = append(fields, identities...)
	}
	_, hasEndpoint, _ := unstructured.NestedMap(want, "spec", "controlPlaneEndpoint")
	for _, at := range fields {
		value, found, _ := unstructured.NestedFieldCopy(live.Object, at...)
		// The endpoint of a manifest is repaired; one without an endpoint leaves it to the controller.
		if found && (hasEndpoint || at[1] != "controlPlaneEndpoint") {
			d.add(node.Line, want, at, value)
		}
	}
	return nil
}

// add sets a field of a manifest as it is in the cluster. Strings that only the manifest has in a list stay there.
func (d *document) add(line int, want map[string]any, at path, value any) {
	before, found, _ := unstructured.NestedFieldNoCopy(want, at...)
	if _, isStrings, err := unstructured.NestedStringSlice(want, at...); isStrings && err == nil {
		all := slices.Clone(before.([]any))
		list, _ := value.([]any)
		for _, one := range list {
			if !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
		value = all
	}
	if err := unstructured.SetNestedField(want, value, at...); err != nil {
		d.warning(line, "%s could not be added from the cluster: %v", at, err)
	} else if found && abridged(before) != abridged(value) {
		d.warning(line, "%s was %s; it is %s now, as in the cluster", at, abridged(before), abridged(value))
	}
}

// writtenByMigration are the fields of the spec that captctl has written last, according to the API server. A list stands for its elements.
func writtenByMigration(live *unstructured.Unstructured) (written []path) {
	for _, entry := range live.GetManagedFields() {
		set := fieldpath.NewSet()
		if entry.Manager != migrate.FieldManager || entry.Subresource != "" || entry.FieldsV1 == nil || entry.APIVersion != live.GetAPIVersion() ||
			set.FromJSON(entry.FieldsV1.GetRawReader()) != nil {
			continue
		}
		for element := range set.Leaves().All() {
			var at path
			for i := 0; i < len(element) && element[i].FieldName != nil; i++ {
				at = append(at, *element[i].FieldName)
			}
			if len(at) > 1 && at[0] == "spec" {
				written = append(written, at)
			}
		}
	}
	return slices.CompactFunc(written, slices.Equal)
}
