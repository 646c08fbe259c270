// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts manifests in Git from v1beta1 to v1beta2.
//
// Only the functions of the conversion webhook determine the converted object: there is no list of fields here. kyaml parses and prints. A file is
// converted as a whole or not at all: it is not converted when a document would lose a value or cannot be read.
package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/manifests"
	"github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/webhooks/conversion"
	"github.com/capt-provider/capt/webhooks/conversion/preserve"
)

// Message is about a line of a file.
type Message struct {
	File string
	Line int
	Text string
}

func (m Message) String() string { return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Text) }

// Result is a converted file. With problems, New is the same as Old.
type Result struct {
	Old, New           []byte
	Warnings, Problems []Message
}

// Changed reports whether the conversion changes the file.
func (r *Result) Changed() bool { return string(r.Old) != string(r.New) }

// Converter converts files.
type Converter struct {
	// Live reads an object of the cluster, nil when it does not exist. Without it, the cluster is not read.
	Live func(ctx context.Context, kind runtimeschema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)

	Schemas *schema.Schemas // Schemas are those of CAPT's kinds.

	scheme   *runtime.Scheme
	registry webhook.Registry
}

// New returns a Converter that does not read the cluster.
func New() (*Converter, error) {
	schemas, err := schema.New(crd.Definitions)
	if err != nil {
		return nil, err
	}
	scheme, registry := conversion.NewRegistry()
	return &Converter{scheme: scheme, registry: registry, Schemas: schemas}, nil
}

// Hub returns a valid object of one of CAPT's kinds in v1beta2, with defaults.
func (c *Converter) Hub(ctx context.Context, object *unstructured.Unstructured) (hub *unstructured.Unstructured, err error) {
	if hub = object.DeepCopy(); object.GroupVersionKind().Version != migrate.Version {
		if hub, err = conversion.Convert(ctx, c.scheme, c.registry, object, migrate.Version); err != nil {
			return nil, err
		}
	}
	newer, err := c.Schemas.Of(hub.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	defaulting.Default(hub.Object, newer.Structural())
	return hub, nil
}

// Convert converts a file, which may hold many documents.
func (c *Converter) Convert(ctx context.Context, name string, data []byte) (*Result, error) {
	result := &Result{Old: data, New: data}
	var out strings.Builder
	line := 1
	for _, part := range manifests.Split(string(data)) {
		d := &document{Converter: c, result: result, file: name, first: line}
		converted, err := d.convert(ctx, part)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		out.WriteString(converted)
		line += strings.Count(part, "\n")
	}
	byLine := func(a, b Message) int { return a.Line - b.Line }
	slices.SortStableFunc(result.Warnings, byLine)
	slices.SortStableFunc(result.Problems, byLine)
	if len(result.Problems) == 0 {
		result.New = []byte(out.String())
	}
	return result, nil
}

const byteOrderMark = "\ufeff"

// document is one YAML or JSON document of a file, and collects its messages.
type document struct {
	*Converter
	result *Result
	file   string
	first  int // The line of the file on which the document begins.
}

func (d *document) problem(line int, format string, args ...any) {
	d.result.Problems = append(d.result.Problems, Message{d.file, d.first + line - 1, fmt.Sprintf(format, args...)})
}

func (d *document) warning(line int, format string, args ...any) {
	d.result.Warnings = append(d.result.Warnings, Message{d.file, d.first + line - 1, fmt.Sprintf(format, args...)})
}

func (d *document) convert(ctx context.Context, text string) (string, error) {
	content := manifests.Normalized(text)
	have, file, err := manifests.Parse(content)
	if err != nil {
		line := d.lineOfMention(text)
		switch reason, _, _ := strings.Cut(err.Error(), "\n"); {
		case line > 0 && strings.Contains(text, "{{"):
			d.problem(line, "this document contains {{, so it is a template of Helm or another program; convert it manually")
		case line > 0:
			d.problem(line, "this is not a Kubernetes object; convert it manually (%s)", reason)
		}
		return text, nil
	}
	root := file.Content[0]
	want, err := d.convertObject(ctx, root, have)
	if err != nil || reflect.DeepEqual(have, want) {
		return text, err
	}
	if line := lineOf(root, isAnchored); line > 0 {
		d.problem(line, "YAML anchors, aliases and merge keys are not supported; write the values out")
		return text, nil
	}
	out, err := render(content, file, want)
	if err != nil {
		d.problem(root.Line, "%v; convert this document manually", err)
		return text, nil
	}
	if strings.Contains(text, "\r\n") {
		out = strings.ReplaceAll(out, "\n", "\r\n")
	}
	return text[:len(text)-len(strings.TrimPrefix(text, byteOrderMark))] + out, nil
}

func isAnchored(node *yaml.Node) bool {
	return node.Anchor != "" || node.Kind == yaml.AliasNode || node.Tag == yaml.MergeTag
}

// lineOf is the line of the first node for which a function holds; 0 if there is none. Members with some names are skipped.
func lineOf(node *yaml.Node, holds func(*yaml.Node) bool, skip ...string) int {
	if holds(node) {
		return node.Line
	}
	for i, inner := range node.Content {
		if i%2 == 1 && node.Kind == yaml.MappingNode && slices.Contains(skip, node.Content[i-1].Value) {
			continue
		}
		if line := lineOf(inner, holds, skip...); line > 0 {
			return line
		}
	}
	return 0
}

// convertObject converts an object, or each object of a List: it changes the node, and returns the values that the node has then. have are the values before.
func (d *document) convertObject(ctx context.Context, node *yaml.Node, have map[string]any) (map[string]any, error) {
	apiVersion, _ := have["apiVersion"].(string)
	name, _ := have["kind"].(string)
	kind := runtimeschema.FromAPIVersionAndKind(apiVersion, name)
	items, isList := have["items"].([]any)
	want := runtime.DeepCopyJSON(have)
	switch {
	case isList && strings.HasSuffix(name, "List"):
		return d.convertList(ctx, node, have, items)
	case d.isLegacy(apiVersion, name):
		return d.convertLegacy(ctx, node, have, kind)
	case d.isLegacy(strings.TrimSuffix(apiVersion, migrate.Version)+migrate.LegacyVersion, name):
		if err := d.addFromCluster(ctx, node, want, false); err != nil {
			return nil, err
		}
	case kind.Group == clusterv1.GroupVersion.Group && (name == "Cluster" || name == "ClusterClass"):
		d.reportPatches(node)
		d.updateReferences(want)
	default: // Fields that the API server and kubectl write for their own use are skipped.
		if line := lineOf(node, d.isMention, "ownerReferences", "managedFields", "kubectl.kubernetes.io/last-applied-configuration"); line > 0 {
			d.problem(line, "refers to v1beta1 of CAPT in a place that captctl does not convert, such as a patch; change it to v1beta2 manually")
		}
	}
	return want, rewrite(node, have, want, nil)
}

func (d *document) convertList(ctx context.Context, node *yaml.Node, have map[string]any, items []any) (map[string]any, error) {
	want, converted := maps.Clone(have), slices.Clone(items)
	if apiVersion, kind := fmt.Sprint(have["apiVersion"]), fmt.Sprint(have["kind"]); d.isLegacy(apiVersion, strings.TrimSuffix(kind, "List")) {
		want["apiVersion"], want["kind"] = versionInV1beta2(apiVersion), kindInV1beta2(kind)
	}
	for i, inner := range valueAt(node, "items").Content {
		item, ok := items[i].(map[string]any)
		if !ok {
			continue
		}
		object, err := d.convertObject(ctx, inner, item)
		if err != nil {
			return nil, err
		}
		converted[i] = object
	}
	err := rewrite(node, have, want, nil)
	want["items"] = converted
	return want, err
}

// valueAt is the value to which names lead from a mapping; an empty node if there is none.
func valueAt(node *yaml.Node, names ...string) *yaml.Node {
	for _, name := range names {
		member := yaml.NewRNode(node).Field(name)
		if member == nil {
			return &yaml.Node{}
		}
		node = member.Value.YNode()
	}
	return node
}

// isLegacy reports whether a kind is one of CAPT's in v1beta1. Other infrastructure providers have the same group.
func (d *document) isLegacy(apiVersion, kind string) bool {
	converted := runtimeschema.FromAPIVersionAndKind(apiVersion, kindInV1beta2(kind))
	_, found := d.registry.GetConverter(converted.GroupKind())
	return found && converted.Version == migrate.LegacyVersion
}

// kindInV1beta2 is a kind as v1beta2 spells it: CAPT v0.3 wrote CaptControlPlaneTemplate.
func kindInV1beta2(kind string) string {
	return strings.Replace(kind, "CaptControlPlane", "CAPTControlPlane", 1)
}

func versionInV1beta2(apiVersion string) string {
	return strings.TrimSuffix(apiVersion, migrate.LegacyVersion) + migrate.Version
}

// reportPatches reports the JSON patches of a ClusterClass that select objects of CAPT in v1beta1.
func (d *document) reportPatches(node *yaml.Node) {
	for _, patch := range valueAt(node, "spec", "patches").Content {
		for _, definition := range valueAt(patch, "definitions").Content {
			if d.isLegacy(valueAt(definition, "selector", "apiVersion").Value, valueAt(definition, "selector", "kind").Value) {
				d.problem(definition.Line, "JSON patches of objects of CAPT in v1beta1 are not converted; change paths and selector manually")
			}
		}
	}
}

// updateReferences changes the references to objects of CAPT to v1beta2: every mapping with apiVersion and kind. Selectors of patches are such mappings, too.
func (d *document) updateReferences(value any) {
	switch value := value.(type) {
	case map[string]any:
		apiVersion, _ := value["apiVersion"].(string)
		kind, _ := value["kind"].(string)
		if d.isLegacy(apiVersion, kind) {
			value["apiVersion"], value["kind"] = versionInV1beta2(apiVersion), kindInV1beta2(kind)
		}
		for _, inner := range value {
			d.updateReferences(inner)
		}
	case []any:
		for _, inner := range value {
			d.updateReferences(inner)
		}
	}
}

// isMention reports whether a node refers to v1beta1 of CAPT: as a reference, the target of a patch, or a text such as an inline patch.
func (d *document) isMention(node *yaml.Node) bool {
	kind := valueAt(node, "kind").Value
	return node.Kind == yaml.ScalarNode && d.lineOfMention(node.Value) > 0 || d.isLegacy(valueAt(node, "apiVersion").Value, kind) ||
		d.isLegacy(valueAt(node, "group").Value+"/"+valueAt(node, "version").Value, kind)
}

// lineOfMention is the first line of a text, but for comments, that names v1beta1 of CAPT, whose kind the text has; 0 if there is none.
func (d *document) lineOfMention(text string) int {
	for i, line := range strings.Split(text, "\n") {
		isComment := strings.HasPrefix(strings.TrimSpace(line), "#")
		for _, kind := range conversion.Kinds() {
			if !isComment && strings.Contains(line, kind.Group+"/"+migrate.LegacyVersion) && strings.Contains(strings.ToLower(text), strings.ToLower(kind.Kind)) {
				return i + 1
			}
		}
	}
	return 0
}

// path is the names of the fields that lead to a value.
type path []string

func (p path) String() string        { return strings.Join(p, ".") }
func (p path) with(name string) path { return append(slices.Clone(p), name) }

// convertLegacy converts an object of CAPT in v1beta1, see convertObject. It reports the values that would be lost.
func (d *document) convertLegacy(ctx context.Context, node *yaml.Node, have map[string]any, kind runtimeschema.GroupVersionKind) (map[string]any, error) {
	kind.Kind = kindInV1beta2(kind.Kind)
	o := &object{Converter: d.Converter, moves: map[string]path{}}
	o.source = map[string]any{"apiVersion": have["apiVersion"], "kind": kind.Kind, "metadata": have["metadata"], "spec": have["spec"]}
	name := fmt.Sprintf("%s %s", kind.Kind, valueAt(node, "metadata", "name").Value)
	var olderErr, newerErr error
	o.older, olderErr = d.Schemas.Of(kind)
	o.newer, newerErr = d.Schemas.Of(kind.GroupKind().WithVersion(migrate.Version))
	if err := errors.Join(olderErr, newerErr); err != nil {
		return nil, err
	}
	if !d.isConvertible(ctx, node, name, o) {
		return have, nil
	}
	converted, err := o.convert(o.source, migrate.Version)
	if err != nil {
		d.problem(node.Line, "%s: %v", name, err)
		return have, nil
	}
	want := unstructured.Unstructured{Object: runtime.DeepCopyJSON(have)}
	o.want = want.Object
	delete(o.want, "status")
	o.want["apiVersion"], o.want["kind"], o.want["spec"] = converted["apiVersion"], kind.Kind, converted["spec"]
	if want.GetAnnotations() != nil {
		annotations := (&unstructured.Unstructured{Object: converted}).GetAnnotations()
		delete(annotations, preserve.Annotation) // The conversion has read it.
		if len(annotations) == 0 {
			annotations = nil
		}
		want.SetAnnotations(annotations)
	}
	back, err := o.convert(o.want, migrate.LegacyVersion)
	if err != nil {
		return nil, fmt.Errorf("converting %s back: %w", name, err)
	}
	d.reportLost(o, node.Line, valueAt(node, "spec"), path{"spec"}, o.source["spec"], back["spec"])
	d.addSubstitution(node, name, &want)
	o.findMoves(path{"spec"}, o.source["spec"])
	o.leaveOutDefaults()
	if err := d.addFromCluster(ctx, node, o.want, true); err != nil {
		return nil, err
	}
	return o.want, rewrite(node, have, o.want, o.moves)
}

// addSubstitution sets spec.substitution and spec.passVariables where the conversion leaves a stored template as it is: a new one would get another
// default.
func (d *document) addSubstitution(node *yaml.Node, name string, template *unstructured.Unstructured) {
	if template.GetKind() == "WorkspaceTemplate" {
		_ = unstructured.SetNestedField(template.Object, string(infrav1.PassNone), "spec", "passVariables") // The spec is a map.
	}
	spec, _, _ := unstructured.NestedMap(template.Object, "spec", "template", "spec", "forProvider")
	module, _ := spec["module"].(string)
	_, found, _ := unstructured.NestedString(template.Object, "spec", "substitution")
	if found || template.GetKind() != "WorkspaceTemplate" || spec["source"] != string(terraform.SourceInline) || !terraform.HasPlaceholder(module) {
		return
	}
	if err := unstructured.SetNestedField(template.Object, string(infrav1.SubstitutionAll), "spec", "substitution"); err == nil {
		d.warning(node.Line, "%s: spec.substitution is All, in which $${name} is an escape; in CAPT v0.3, it was a dollar sign and a placeholder. Compare with captctl template render", name)
	}
}

// isConvertible reports whether an object can be converted, and adds a problem if not: it is a template of another program, or invalid in v1beta1.
func (d *document) isConvertible(ctx context.Context, node *yaml.Node, name string, o *object) bool {
	isTemplate := func(node *yaml.Node) bool { // Also in comments, which Helm does not know.
		return strings.Contains(node.Value+node.HeadComment+node.LineComment+node.FootComment, "{{")
	}
	if line := lineOf(node, isTemplate, "module"); line > 0 { // Terraform may have braces.
		d.problem(line, "%s contains {{, so it is a template of Helm or another program; convert it manually", name)
		return false
	}
	for _, err := range o.older.Validate(ctx, &unstructured.Unstructured{Object: o.source}) {
		if err.Type != field.ErrorTypeForbidden { // Of fields that exclude each other, the conversion loses some; reportLost reports them.
			d.problem(node.Line, "%s: %v; correct it, or convert it manually if it is a patch, for example of Kustomize", name, err)
			return false
		}
	}
	return true
}

// isRequired reports whether v1beta1 requires a field, so that the user cannot remove it.
func (o *object) isRequired(at path) bool {
	without := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(o.source)}
	unstructured.RemoveNestedField(without.Object, at...)
	return slices.ContainsFunc(o.older.Validate(context.Background(), without), func(err *field.Error) bool {
		return err.Type == field.ErrorTypeRequired && err.Field == at.String()
	})
}

// reportLost reports the values of v1beta1 that a conversion to v1beta2 and back does not return. have and back are the values at the path before and after.
func (d *document) reportLost(o *object, line int, node *yaml.Node, at path, have, back any) {
	table, isTable := have.(map[string]any)
	list, isList := have.([]any)
	backTable, _ := back.(map[string]any)
	backList, _ := back.([]any)
	switch {
	case isEmpty(have) || reflect.DeepEqual(have, back):
	case isTable && back != nil:
		for _, name := range slices.Sorted(maps.Keys(table)) {
			if member := yaml.NewRNode(node).Field(name); member != nil {
				d.reportLost(o, member.Key.YNode().Line, member.Value.YNode(), at.with(name), table[name], backTable[name])
			}
		}
	case isList && len(list) == len(backList) && len(node.Content) == len(list):
		for i, element := range node.Content {
			d.reportLost(o, element.Line, element, at.with(fmt.Sprint(i)), list[i], backList[i])
		}
	default:
		d.reportLostField(o, line, at, have, back)
	}
}

// reportLostField reports one lost value: as a warning if v1beta1 requires the field, so that the user cannot remove it, else as a problem.
func (d *document) reportLostField(o *object, line int, at path, have, back any) {
	switch {
	case !isEmpty(back):
		d.problem(line, "%s: v1beta2 does not allow the value %s, and would change it to %s; correct it", at, abridged(have), abridged(back))
	case strings.HasPrefix(at[len(at)-1], "$"):
		d.problem(line, "%s: this is a patch, not an object; convert it manually", at)
	case o.isRequired(at):
		d.warning(line, "%s: removed, because v1beta2 has no such field (its value was %s)", at, abridged(have))
	case o.older.Similar(at) != "" && o.older.Similar(at) != at[len(at)-1]: // CAPT v0.3 dropped it.
		d.problem(line, "%s: there is no such field, so it had no effect; did you mean %s? (its value is %s)", at, o.older.Similar(at), abridged(have))
	default:
		d.problem(line, "%s: cannot be set in v1beta2: there is no such field, or other fields exclude it; remove it (its value is %s)", at, abridged(have))
	}
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case []any:
		return len(value) == 0
	case map[string]any:
		return !slices.ContainsFunc(slices.Collect(maps.Values(value)), func(inner any) bool { return !isEmpty(inner) })
	}
	return value == nil || value == "" || value == false || value == int64(0)
}

func abridged(value any) string {
	const most = 100
	data, _ := json.Marshal(value)
	if text := []rune(string(data)); len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(data)
}

// object is the conversion of one object.
type object struct {
	*Converter
	older, newer *schema.Schema  // Of v1beta1 and of v1beta2.
	source, want map[string]any  // The object in v1beta1, and in v1beta2.
	moves        map[string]path // moves has, for the paths of fields of want, their paths in source if those differ.
}

func (o *object) convert(object map[string]any, version string) (map[string]any, error) {
	converted, err := conversion.Convert(context.Background(), o.scheme, o.registry, &unstructured.Unstructured{Object: object}, version)
	if err != nil {
		return nil, err
	}
	return converted.Object, nil
}

// findMoves returns the path in want of a field of source, and adds it to moves if it differs; nil if the field is in several places, or in none. To
// find a scalar, its value is changed and the object is converted again.
func (o *object) findMoves(at path, value any) path {
	if same, found, _ := unstructured.NestedFieldNoCopy(o.want, at...); found && reflect.DeepEqual(same, value) {
		return at
	}
	var to path
	if table, ok := value.(map[string]any); ok && len(table) > 0 {
		to = o.findParent(at, table)
	} else {
		to = o.findMove(at, value)
	}
	if _, taken := o.moves[to.String()]; to != nil && !taken {
		o.moves[to.String()] = at
	}
	return to
}

// findParent returns the path of the mapping of want that has all fields of a mapping of source; nil if there is none.
func (o *object) findParent(at path, table map[string]any) path {
	var parent path
	for _, name := range slices.Sorted(maps.Keys(table)) {
		to := o.findMoves(at.with(name), table[name])
		switch {
		case to == nil:
		case parent == nil:
			parent = to[:len(to)-1]
		case !slices.Equal(parent, to[:len(to)-1]):
			parent = path{}
		}
	}
	if len(parent) <= len(at) && slices.Equal(parent, at[:len(parent)]) {
		return nil // The fields are in several mappings, or the mapping has not moved.
	}
	return parent
}

// findMove returns the path in want of a field of source that is not a mapping; nil if it is not found.
func (o *object) findMove(at path, value any) path {
	changed := runtime.DeepCopyJSON(o.source)
	switch value := value.(type) {
	case bool:
		_ = unstructured.SetNestedField(changed, !value, at...)
	case int64:
		_ = unstructured.SetNestedField(changed, value+1, at...)
	case string:
		_ = unstructured.SetNestedField(changed, value+"x", at...)
	default:
		unstructured.RemoveNestedField(changed, at...)
	}
	converted, err := o.convert(changed, migrate.Version)
	if err != nil {
		return nil
	}
	found := differences(path{"spec"}, o.want["spec"], converted["spec"])
	if len(found) == 1 {
		return found[0]
	}
	for _, to := range found {
		if now, _, _ := unstructured.NestedFieldNoCopy(o.want, to...); reflect.DeepEqual(now, value) {
			return to
		}
	}
	return nil
}

// differences returns the paths of the fields of one that other has with another value, or does not have.
func differences(at path, one, other any) (found []path) {
	table, isTable := one.(map[string]any)
	others, bothTables := other.(map[string]any)
	switch {
	case one == nil || reflect.DeepEqual(one, other):
		return nil
	case !isTable || !bothTables:
		return []path{at}
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		found = append(found, differences(at.with(name), table[name], others[name])...)
	}
	return found
}

// leaveOutDefaults removes from want the fields that the conversion added and that the API server sets by default.
func (o *object) leaveOutDefaults() {
	defaulted := func() any {
		object := runtime.DeepCopyJSON(o.want)
		defaulting.Default(object, o.newer.Structural())
		return object["spec"]
	}
	want := defaulted()
	var visit func(at path, table map[string]any)
	visit = func(at path, table map[string]any) {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			value, at := table[name], at.with(name)
			_, moved := o.moves[at.String()]
			_, stated, _ := unstructured.NestedFieldNoCopy(o.source, at...)
			if inner, isTable := value.(map[string]any); isTable {
				visit(at, inner)
			} else if !moved && !stated && (len(table) > 1 || len(at) == 2) {
				delete(table, name)
				if !reflect.DeepEqual(defaulted(), want) {
					table[name] = value
				}
			}
		}
	}
	if spec, ok := o.want["spec"].(map[string]any); ok {
		visit(path{"spec"}, spec)
	}
}

// identities are the fields with which adopted objects refer to each other. CAPT v0.3 itself has written some of them.
var identities = []path{{"spec", "workspaceTemplateApplyRef"}, {"spec", "workspaceName"}}

// addFromCluster adds the fields that the adoption wrote into the object in the cluster, so that applying the manifest does not revert them.
func (d *document) addFromCluster(ctx context.Context, node *yaml.Node, want map[string]any, legacy bool) error {
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
		d.warning(node.Line, "%s %s is not in the cluster, so nothing was added from there", kind.Kind, manifest.GetName())
		return nil
	}
	fields := writtenByMigration(live)
	if legacy || len(fields) > 0 {
		fields = append(fields, identities...)
	}
	_, hasEndpoint, _ := unstructured.NestedMap(want, "spec", "controlPlaneEndpoint")
	for _, at := range fields {
		value, found, _ := unstructured.NestedFieldCopy(live.Object, at...)
		// An endpoint in the manifest is replaced. A manifest without an endpoint gets none, because the controller writes it.
		if found && (hasEndpoint || at[1] != "controlPlaneEndpoint") {
			d.setFromCluster(node.Line, want, at, value)
		}
	}
	return nil
}

// setFromCluster sets a field of a manifest as it is in the cluster. Strings that only the manifest has in a list stay there.
func (d *document) setFromCluster(line int, want map[string]any, at path, value any) {
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

// writtenByMigration are the fields of the spec that captctl has written last, according to the API server. A list includes its elements.
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
