// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifests reads objects of CAPT from YAML and JSON files, with the place of each field, and checks them as the API server and the
// webhooks do.
package manifests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/schema"
)

// Object is an object of a manifest.
type Object struct {
	File string
	// Typed is the object in v1beta2 with defaults; nil if it is not one of CAPT's kinds, a Cluster, a MachinePool or a Namespace, or if it has errors.
	Typed validation.Owner
	// Source is the object as the manifest has it, in its version and without defaults.
	Source *unstructured.Unstructured
	// Errors are what the API server rejects because of the schema, and unknown fields.
	Errors field.ErrorList
	// Kind is the kind that the manifest has, in its version.
	Kind runtimeschema.GroupVersionKind

	name  string
	node  *yaml.Node
	text  string // Text of the document.
	first int    // The line of the file on which the document begins.
}

// IsCAPT reports whether the object is of one of CAPT's kinds.
func (o *Object) IsCAPT() bool {
	return o.Kind.Group != "" && o.Kind.Group != clusterv1.GroupVersion.Group
}

// String is Kind name.
func (o *Object) String() string { return o.Kind.Kind + " " + o.name }

// Located is a message about a field of the object, with its place.
func (o *Object) Located(field, message string) string {
	line, column := o.Position(field, message)
	return fmt.Sprintf("%s:%d:%d: %s: %s: %s", o.File, line, column, o, field, message)
}

// pathElement is a name or an index of a field path.
var pathElement = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// Position returns line and column of what a message about the field at a path is about: a line of a module in a block of text, or else the
// field, or the part of the path that the manifest has. In v1beta1, fields can be elsewhere.
func (o *Object) Position(path, message string) (line, column int) {
	value, key := o.find(path)
	within := inModule.FindStringSubmatch(message)
	if within == nil || value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 || !strings.HasSuffix(path, ".module") {
		return o.first + key.Line - 1, key.Column
	}
	line, _ = strconv.Atoi(within[1])
	column, _ = strconv.Atoi(within[2])
	for _, text := range strings.Split(o.text, "\n")[value.Line:] { // The block begins after the line with its style; its first line with text has its indentation.
		if trimmed := strings.TrimLeft(text, " "); trimmed != "" {
			column += len(text) - len(trimmed)
			break
		}
	}
	return o.first + value.Line + line - 1, column
}

// inModule matches the position within a module that messages begin with.
var inModule = regexp.MustCompile(`^(?:Invalid value: )?line (\d+), column (\d+): `)

// find returns the value at a path, and its key, or the last ones on the way to it.
func (o *Object) find(path string) (value, key *yaml.Node) {
	node, at := o.node, o.node
	for _, element := range pathElement.FindAllString(path, -1) {
		if index, err := strconv.Atoi(strings.Trim(element, "[]")); err == nil && node.Kind == yaml.SequenceNode && index < len(node.Content) {
			node = node.Content[index]
			at = node
			continue
		}
		member := yaml.NewRNode(node).Field(strings.Trim(element, `[]"`))
		if member == nil {
			break
		}
		node, at = member.Value.YNode(), member.Key.YNode()
	}
	return node, at
}

// Content is what was read from files.
type Content struct {
	Files    int
	Objects  []*Object
	Problems []Finding // Problems are documents that cannot be read.
}

// Typed returns the objects without errors, which can refer to each other.
func (c *Content) Typed() (all validation.Objects) {
	for _, object := range c.Objects {
		if object.Typed != nil {
			all = append(all, object.Typed)
		}
	}
	return all
}

// SetDefaults sets the defaults of new objects.
func (c *Content) SetDefaults() {
	for _, object := range c.Objects {
		if template, ok := object.Typed.(*infrav1.WorkspaceTemplate); ok && object.Kind.Version == infrav1.GroupVersion.Version {
			validation.SetTemplateDefaults(template)
		}
	}
}

// Rejected describes what the API server would reject because of the schema, and documents that cannot be read.
func (c *Content) Rejected() (found []string) {
	for _, object := range c.Objects {
		for _, err := range object.Errors {
			found = append(found, object.Located(err.Field, cmp.Or(err.Detail, err.Type.String())))
		}
	}
	for _, problem := range c.Problems {
		found = append(found, fmt.Sprintf("%s:%d: %s", problem.File, problem.Line, problem.Message))
	}
	return found
}

// isContent matches text that is more than comments and separators.
var isContent = regexp.MustCompile(`(?m)^\s*[^#\s-]`)

// Decoder decodes objects of CAPT's kinds, Clusters, MachinePools and Namespaces.
type Decoder struct {
	Scheme  *runtime.Scheme
	Schemas *schema.Schemas
	// Hub converts an object to the newest version, with defaults.
	Hub func(context.Context, *unstructured.Unstructured) (*unstructured.Unstructured, error)
	// Namespace is that of objects without one.
	Namespace string
}

// Read adds the objects of a document that begins on a line of a file.
func (d *Decoder) Read(ctx context.Context, content *Content, file string, line int, text string) {
	have, document, err := Parse(text)
	switch {
	case err == nil:
		for _, found := range d.objectsOf(ctx, have, document.Content[0]) {
			found.File, found.first, found.text = file, line, text
			content.Objects = append(content.Objects, found)
		}
	case isContent.MatchString(text):
		problem := Finding{File: file, Line: line, Level: LevelWarning, Message: "this is not a Kubernetes object, and was not checked: " + strings.SplitN(err.Error(), "\n", 2)[0]}
		switch _, invalid := sigsyaml.YAMLToJSONStrict([]byte(Normalized(text))); {
		case strings.Contains(text, "{{"):
			problem.Message = "this document contains {{, so it is a template of Helm or another program, and was not checked"
		case invalid != nil:
			problem.Level, problem.Message = LevelError, "this document cannot be read: "+strings.Join(strings.Fields(invalid.Error()), " ")
		}
		content.Problems = append(content.Problems, problem)
	}
}

// objectsOf returns the object of a document, or those of a List.
func (d *Decoder) objectsOf(ctx context.Context, have map[string]any, node *yaml.Node) (objects []*Object) {
	items, isList := have["items"].([]any)
	if kind, _ := have["kind"].(string); !isList || !strings.HasSuffix(kind, "List") {
		return d.objectOf(ctx, have, node)
	}
	nodes := elements(node)
	for i := range items {
		inner := node // An alias has no position of its own.
		if len(nodes) == len(items) {
			inner = nodes[i]
		}
		if item, ok := items[i].(map[string]any); ok {
			objects = append(objects, d.objectsOf(ctx, item, inner)...)
		}
	}
	return objects
}

// objectOf returns the object of a document; none if it is of another kind.
func (d *Decoder) objectOf(ctx context.Context, have map[string]any, node *yaml.Node) []*Object {
	source, cluster := &unstructured.Unstructured{Object: have}, clusterv1.GroupVersion.WithKind("Cluster")
	o := &Object{Kind: source.GroupVersionKind(), Source: source.DeepCopy(), name: source.GetName(), node: node}
	switch _, err := d.Schemas.Of(o.Kind); {
	case o.Kind == cluster, o.Kind == clusterv1.GroupVersion.WithKind("MachinePool"), o.Kind == corev1.SchemeGroupVersion.WithKind("Namespace"):
		d.setTyped(o, source)
	case o.Kind == cluster.GroupKind().WithVersion("v1beta1"):
		d.setHub(ctx, o, source)
	case err == nil:
		d.decode(ctx, o, source)
	case looksLikeCAPT(o.Kind):
		o.Errors = append(o.Errors, field.NotSupported(field.NewPath("kind"), o.Kind.Kind+" of "+o.Kind.GroupVersion().String(), d.Schemas.Kinds()))
	default:
		return nil
	}
	if o.Typed != nil && o.Typed.GetNamespace() == "" && o.Kind.Kind != "Namespace" {
		o.Typed.SetNamespace(d.Namespace)
	}
	return []*Object{o}
}

// elements are the nodes of the items of a List; none if they are elsewhere, through an alias.
func elements(node *yaml.Node) []*yaml.Node {
	if items := yaml.NewRNode(node).Field("items"); items != nil {
		return items.Value.YNode().Content
	}
	return nil
}

// looksLikeCAPT reports whether a kind that does not exist was probably meant to be one of CAPT's.
func looksLikeCAPT(kind runtimeschema.GroupVersionKind) bool {
	name := strings.ToLower(kind.Kind)
	return strings.HasSuffix(kind.Group, ".cluster.x-k8s.io") && (strings.HasPrefix(name, "capt") || strings.HasPrefix(name, "workspacetemplate"))
}

// decode validates an object of CAPT with its schema, and decodes it in v1beta2.
func (d *Decoder) decode(ctx context.Context, o *Object, source *unstructured.Unstructured) {
	schema, err := d.Schemas.Of(o.Kind)
	if err != nil {
		return // The kind was found before.
	}
	if o.Errors = append(unknownFields(source.Object, schema), schema.Validate(ctx, source)...); len(o.Errors) > 0 {
		return
	}
	hub := d.setHub(ctx, o, source)
	if hub == nil {
		return
	}
	if newer, err := d.Schemas.Of(hub.GroupVersionKind()); err == nil && newer != schema { // The webhooks do the same for a write in v1beta1.
		if o.Errors = newer.Validate(ctx, hub); len(o.Errors) > 0 {
			o.Typed = nil
		}
	}
}

// setHub converts and decodes an object; it returns nil if that fails.
func (d *Decoder) setHub(ctx context.Context, o *Object, source *unstructured.Unstructured) *unstructured.Unstructured {
	hub, err := d.Hub(ctx, source)
	if err != nil {
		o.Errors = append(o.Errors, field.InternalError(field.NewPath("spec"), err))
		return nil
	}
	d.setTyped(o, hub)
	return hub
}

func (d *Decoder) setTyped(o *Object, source *unstructured.Unstructured) {
	object, err := d.Scheme.New(source.GroupVersionKind())
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(source.Object, object)
	}
	if err != nil {
		o.Errors = append(o.Errors, field.InternalError(field.NewPath("spec"), fmt.Errorf("decoding: %w", err)))
		return
	}
	o.Typed, _ = object.(validation.Owner)
}

// unknownFields are the fields that the API server would drop. kubectl rejects them.
func unknownFields(object map[string]any, schema *schema.Schema) (errs field.ErrorList) {
	pruned := pruning.PruneWithOptions(runtime.DeepCopyJSON(object), schema.Structural(), true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	slices.Sort(pruned)
	for _, path := range pruned {
		err := &field.Error{Type: field.ErrorTypeForbidden, Field: path, Detail: "unknown field"}
		if similar := schema.Similar(strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) })); similar != "" {
			err.Detail += "; did you mean " + similar + "?"
		}
		errs = append(errs, err)
	}
	return errs
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

// Normalized returns a document without byte order mark, with the line breaks that kyaml reads.
func Normalized(text string) string {
	return strings.ReplaceAll(strings.TrimPrefix(text, byteOrderMark), "\r\n", "\n")
}

// Parse reads an object in two forms: its values as kubectl reads them (for example, "yes" is true), and its nodes.
func Parse(text string) (map[string]any, *yaml.Node, error) {
	text = Normalized(text)
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
