// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts manifests in Git from v1beta1 to v1beta2.
//
// Only the functions of the conversion webhook determine the converted object: there is no list of fields here. kyaml parses and prints. A file is
// converted as a whole or not at all: it is not converted when a document would lose a value or cannot be read.
package convert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/webhooks/conversion"
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
	for _, part := range Split(string(data)) {
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

var separator = regexp.MustCompile(`(?m)^` + byteOrderMark + `?(---|\.\.\.)[^\S\n]*(#.*)?$\n?`)

// Split separates the documents of a file from the lines between them (--- or ...). Documents are the elements with an even index. A document that
// begins on the same line as its separator is not found, which is rare.
func Split(data string) []string {
	var parts []string
	end := 0
	for _, at := range separator.FindAllStringIndex(data, -1) {
		parts = append(parts, data[end:at[0]], data[at[0]:at[1]])
		end = at[1]
	}
	return append(parts, data[end:])
}

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
	content := normalized(text)
	have, file, err := Parse(content)
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

// normalized returns a document without byte order mark, with the line breaks that kyaml reads.
func normalized(text string) string {
	return strings.ReplaceAll(strings.TrimPrefix(text, byteOrderMark), "\r\n", "\n")
}

// Parse reads an object in two forms: its values as kubectl reads them (for example, "yes" is true), and its nodes.
func Parse(text string) (map[string]any, *yaml.Node, error) {
	text = normalized(text)
	data, err := sigsyaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, nil, err
	}
	object, file := map[string]any{}, &yaml.Node{}
	if err := errors.Join(utiljson.Unmarshal(data, &object), yaml.Unmarshal([]byte(text), file)); err != nil {
		return nil, nil, err
	}
	if len(file.Content) == 0 {
		return nil, nil, errors.New("it is empty")
	}
	return object, file, nil
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
