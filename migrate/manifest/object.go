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
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubejson "sigs.k8s.io/json"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/webhooks/conversion"
	"github.com/capt-provider/capt/webhooks/conversion/carry"
)

var infraGroup, controlPlaneGroup = infrav1.GroupVersion.Group, controlplanev1.GroupVersion.Group

const (
	legacyVersion   = migrate.LegacyVersion
	clusterAPIGroup = "cluster.x-k8s.io"
	// olderTemplate is how the older CAPT spelled CAPTControlPlaneTemplate.
	olderTemplate, template = "CaptControlPlaneTemplate", "CAPTControlPlaneTemplate"
)

// object is one object of a document, which is the document itself unless that is a List.
type object struct {
	node  *yaml.Node
	value map[string]any
	gvk   schema.GroupVersionKind
}

func (d *document) object(node *yaml.Node) (object, bool) {
	value, ok := d.values[node].(map[string]any)
	apiVersion, kind := textOf(value["apiVersion"]), textOf(value["kind"])
	version, err := schema.ParseGroupVersion(apiVersion)
	if !ok || err != nil {
		return object{}, false
	}
	return object{node: node, value: value, gvk: version.WithKind(kind)}, true
}

// line of an object, counted in the file.
func (d *document) line(node *yaml.Node) int { return d.first + node.Line - 1 }

// name of an object for people.
func (o object) name() string {
	metadata, _ := o.value["metadata"].(map[string]any)
	return o.gvk.Kind + " " + textOf(metadata["name"])
}

func textOf(value any) string {
	text, _ := value.(string)
	return text
}

// want is what an object, or each object of a List, becomes. known tells whether it is of a kind that is rewritten.
func (r *rewriter) want(d *document, node *yaml.Node) (want *part, known bool, err error) {
	o, ok := d.object(node)
	switch {
	case !ok:
		return nil, false, nil
	case o.isList():
		return r.wantList(d, o)
	case o.gvk.Group == infraGroup || o.gvk.Group == controlPlaneGroup:
		return r.wantOurs(d, o)
	case o.gvk.Group == clusterAPIGroup && (o.gvk.Kind == "Cluster" || o.gvk.Kind == "ClusterClass"):
		value, err := d.referring(o)
		if err != nil {
			return nil, true, err
		}
		return (&builder{document: d, root: node}).build(nil, value), true, nil
	}
	return nil, false, nil
}

func (o object) isList() bool {
	_, items := o.value["items"].([]any)
	return items && strings.HasSuffix(o.gvk.Kind, "List")
}

// wantList rewrites the items of a List. A list of one of our kinds changes its own version, too.
func (r *rewriter) wantList(d *document, o object) (*part, bool, error) {
	value := maps.Clone(o.value)
	if migrate.IsOlder(textOf(value["apiVersion"])) {
		value["apiVersion"] = o.gvk.Group + "/" + migrate.Version
		if o.gvk.Kind == olderTemplate+"List" {
			value["kind"] = template + "List"
		}
	}
	_, list := member(o.node, "items")
	items := make([]any, len(list.Content))
	parts := make([]*part, len(list.Content))
	anyKnown := false
	for i, item := range list.Content {
		want, known, err := r.want(d, item)
		if err != nil {
			return nil, false, err
		}
		if !known {
			want = (&builder{document: d, root: item}).build(nil, d.values[item])
		}
		anyKnown = anyKnown || known
		parts[i], items[i] = want, want.value
	}
	value["items"] = items
	want := (&builder{document: d, root: o.node}).build(nil, value)
	for _, p := range want.parts {
		if p.name == "items" && p.parts != nil {
			p.parts = parts
		}
	}
	return want, anyKnown, nil
}

// wantOurs is for objects of CAPT's own kinds.
func (r *rewriter) wantOurs(d *document, o object) (*part, bool, error) {
	kind := o.gvk.Kind
	if kind == olderTemplate {
		kind = template
	}
	rules, known := kinds[kind]
	switch {
	case !known:
		return nil, false, nil
	case hasDirectives(o.value):
		return nil, true, notUnderstood(d.line(o.node), "this is a patch of %s, with directives: rewrite it by hand", o.name())
	case !migrate.IsOlder(o.gvk.GroupVersion().String()) && o.gvk.Version == migrate.Version:
		return r.wantAdopted(d, o, rules)
	case o.gvk.Version != legacyVersion:
		return nil, false, nil
	}
	if lack := rules.lacks(o.value, rules.required); lack != "" {
		return nil, true, notUnderstood(d.line(o.node), "%s has no %s, so that it is a part of an object, such as a patch of Kustomize: rewrite it by hand", o.name(), lack)
	}
	if err := d.refuseTemplates(o, rules); err != nil {
		return nil, true, err
	}
	value, err := d.convert(o, kind)
	if err != nil {
		return nil, true, err
	}
	r.adopt(d, o, schema.GroupKind{Group: o.gvk.Group, Kind: kind}, value)
	b := &builder{document: d, root: o.node, rules: rules}
	b.leaveOutDefaults(value)
	want := b.build(nil, value)
	r.tellLost(d, o, b, want)
	return want, true, nil
}

// wantAdopted is for objects that are in v1beta2 already.
func (r *rewriter) wantAdopted(d *document, o object, rules rules) (*part, bool, error) {
	b := &builder{document: d, root: o.node}
	value := deepCopy(o.value).(map[string]any)
	if rules.lacks(o.value, rules.requiredToday) == "" && d.refuseTemplates(o, rules) == nil {
		r.adopt(d, o, o.gvk.GroupKind(), value)
	}
	return b.build(nil, value), true, nil
}

// convert does what the conversion webhook does. Metadata is the manifest's own, but for the annotations that only mean
// something to conversion; status does not belong into a manifest.
func (d *document) convert(o object, kind string) (map[string]any, error) {
	scheme, registry := conversion.NewRegistry()
	source := maps.Clone(o.value)
	source["kind"] = kind
	delete(source, "status")
	data, err := json.Marshal(source)
	if err != nil {
		return nil, err
	}
	today := schema.GroupVersionKind{Group: o.gvk.Group, Version: migrate.Version, Kind: kind}
	from, err := scheme.New(today.GroupKind().WithVersion(legacyVersion))
	if err != nil {
		return nil, err
	}
	to, err := scheme.New(today)
	if err != nil {
		return nil, err
	}
	if err := kubejson.UnmarshalCaseSensitivePreserveInts(data, from); err != nil {
		return nil, notUnderstood(d.line(o.node), "%s is none that v1beta1 allows: %s", o.name(), firstLine(err))
	}
	to.GetObjectKind().SetGroupVersionKind(today)
	converter, found := registry.GetConverter(today.GroupKind())
	if !found {
		return nil, fmt.Errorf("%s can not be converted", kind)
	}
	if err := converter.ConvertObject(context.Background(), from, to); err != nil {
		return nil, fmt.Errorf("converting %s: %w", o.name(), err)
	}
	encoded, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	converted, err := decode(encoded)
	if err != nil {
		return nil, err
	}
	result := converted.(map[string]any)
	value := map[string]any{"apiVersion": today.GroupVersion().String(), "kind": kind, "spec": result["spec"]}
	if metadata := metadataOf(o.value["metadata"], result["metadata"]); metadata != nil {
		value["metadata"] = metadata
	}
	return value, nil
}

// metadataOf is the manifest's metadata, less annotations that conversion has taken for itself.
func metadataOf(source, converted any) any {
	metadata, ok := deepCopy(source).(map[string]any)
	if !ok {
		return source
	}
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		return metadata
	}
	left, _ := converted.(map[string]any)["annotations"].(map[string]any)
	for name := range annotations {
		if _, stays := left[name]; !stays || name == carry.Annotation {
			delete(annotations, name)
		}
	}
	if len(annotations) == 0 && len(source.(map[string]any)["annotations"].(map[string]any)) > 0 {
		delete(metadata, "annotations")
	}
	return metadata
}

// deepCopy of JSON.
func deepCopy(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for name, inner := range value {
			out[name] = deepCopy(inner)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i := range value {
			out[i] = deepCopy(value[i])
		}
		return out
	}
	return value
}
