// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifest reads objects of CAPT from YAML and JSON files, with the place of each field.
package manifest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/convert"
)

// Object is an object of a manifest.
type Object struct {
	File string
	// Typed is the object in v1beta2 with defaults; nil if it is not one of CAPT's kinds, a Cluster or a Namespace, or if it has errors.
	Typed validation.Owner
	// Errors are what the API server rejects because of the schema, and unknown fields.
	Errors field.ErrorList
	// Kind is the kind that the manifest has, in its version.
	Kind runtimeschema.GroupVersionKind

	name  string
	node  *yaml.Node
	lines []string // Lines of the document.
	first int      // The line of the file on which the document begins.
}

// IsCAPT reports whether the object is of one of CAPT's kinds.
func (o *Object) IsCAPT() bool {
	return o.Kind.Group != "" && o.Kind.Group != clusterv1.GroupVersion.Group
}

// String is Kind name.
func (o *Object) String() string { return o.Kind.Kind + " " + o.name }

// pathElement is a name or an index of a field path.
var pathElement = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// isContent matches text that is more than comments and separators.
var isContent = regexp.MustCompile(`(?m)^\s*[^#\s-]`)

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
	for _, text := range o.lines[value.Line:] { // The block begins after the line with its style; its first line with text has its indentation.
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
	Problems []convert.Message // Problems are documents that cannot be read.
}

// Read reads files, and the files of directories. Objects without a namespace get that of the kubeconfig or of --namespace.
func Read(ctx context.Context, environment *cli.Environment, paths []string, recursive bool) (*Content, error) {
	converter, err := convert.New()
	if err != nil {
		return nil, err
	}
	namespace, _, err := environment.Access.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		namespace = metav1.NamespaceDefault // Without a cluster, a kubeconfig that cannot be read does not matter.
	}
	files, err := cli.ExpandPaths(paths, recursive)
	if err != nil {
		return nil, err
	}
	content, reader := &Content{Files: len(files)}, &reader{converter, namespace}
	for _, file := range files {
		data, err := environment.ReadFile(file)
		if err != nil {
			return nil, err
		}
		objects, problems := reader.read(ctx, file, data)
		content.Objects, content.Problems = append(content.Objects, objects...), append(content.Problems, problems...)
	}
	return content, nil
}

// SetDefaults sets the defaults of new objects.
func (c *Content) SetDefaults() {
	for _, object := range c.Objects {
		if template, ok := object.Typed.(*infrav1.WorkspaceTemplate); ok && !migrate.IsOlder(object.Kind.GroupVersion().String()) {
			validation.SetDefaultSubstitution(template)
		}
	}
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

// reader reads manifests.
type reader struct {
	*convert.Converter
	// namespace is that of objects without one.
	namespace string
}

// read reads the objects of CAPT's kinds, Clusters and Namespaces of a file. Problems are documents that cannot be read.
func (r *reader) read(ctx context.Context, name string, data []byte) (objects []*Object, problems []convert.Message) {
	line := 1
	for _, part := range convert.Split(string(data)) {
		have, file, err := convert.Parse(part)
		switch {
		case err == nil:
			for _, found := range r.objectsOf(ctx, have, file.Content[0]) {
				found.File, found.first, found.lines = name, line, strings.Split(part, "\n")
				objects = append(objects, found)
			}
		case isContent.MatchString(part):
			text := "this is not a Kubernetes object, and was not checked: " + strings.SplitN(err.Error(), "\n", 2)[0]
			if strings.Contains(part, "{{") {
				text = "this document contains {{, so it is a template of Helm or another program, and was not checked"
			}
			problems = append(problems, convert.Message{File: name, Line: line, Text: text})
		}
		line += strings.Count(part, "\n")
	}
	return objects, problems
}

// objectsOf returns the object of a document, or those of a List.
func (r *reader) objectsOf(ctx context.Context, have map[string]any, node *yaml.Node) (objects []*Object) {
	items, isList := have["items"].([]any)
	if kind, _ := have["kind"].(string); !isList || !strings.HasSuffix(kind, "List") {
		return r.objectOf(ctx, have, node)
	}
	nodes := elements(node)
	for i := range items {
		inner := node // An alias has no position of its own.
		if len(nodes) == len(items) {
			inner = nodes[i]
		}
		if item, ok := items[i].(map[string]any); ok {
			objects = append(objects, r.objectsOf(ctx, item, inner)...)
		}
	}
	return objects
}

// objectOf returns the object of a document; none if it is of another kind.
func (r *reader) objectOf(ctx context.Context, have map[string]any, node *yaml.Node) []*Object {
	source := &unstructured.Unstructured{Object: have}
	o := &Object{Kind: source.GroupVersionKind(), name: source.GetName(), node: node}
	switch {
	case o.Kind == corev1.SchemeGroupVersion.WithKind("Namespace"):
		o.setTyped(source, &corev1.Namespace{})
	case o.Kind == clusterv1.GroupVersion.WithKind("Cluster").GroupKind().WithVersion(migrate.LegacyVersion):
		hub, err := migrate.ClusterToHub(source)
		if err != nil {
			o.Errors = append(o.Errors, field.InternalError(field.NewPath("spec"), err))
			return []*Object{o}
		}
		o.setTyped(hub, &clusterv1.Cluster{})
	case o.Kind == clusterv1.GroupVersion.WithKind("Cluster"):
		o.setTyped(source, &clusterv1.Cluster{})
	default:
		if _, err := r.Schemas.Of(o.Kind); err == nil {
			r.decode(ctx, o, source)
		} else if looksLikeCAPT(o.Kind) {
			o.Errors = append(o.Errors, field.NotSupported(field.NewPath("kind"), o.Kind.Kind+" of "+o.Kind.GroupVersion().String(), r.Schemas.Kinds()))
		} else {
			return nil
		}
	}
	if o.Typed != nil && o.Typed.GetNamespace() == "" && o.Kind.Kind != "Namespace" {
		o.Typed.SetNamespace(r.namespace)
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
func (r *reader) decode(ctx context.Context, o *Object, source *unstructured.Unstructured) {
	schema, err := r.Schemas.Of(o.Kind)
	if err != nil {
		return // The kind was found before.
	}
	o.Errors = append(unknownFields(source.Object, schema.Structural()), schema.Validate(ctx, source)...)
	if len(o.Errors) > 0 {
		return
	}
	hub, err := r.Hub(ctx, source)
	if err != nil {
		o.Errors = append(o.Errors, field.InternalError(field.NewPath("spec"), err))
		return
	}
	if newer, err := r.Schemas.Of(hub.GroupVersionKind()); err == nil && newer != schema { // The webhooks do the same for a write in v1beta1.
		if o.Errors = newer.Validate(ctx, hub); len(o.Errors) > 0 {
			return
		}
	}
	typed, err := cli.Scheme().New(hub.GroupVersionKind())
	if err != nil {
		return
	}
	if owner, ok := typed.(validation.Owner); ok {
		o.setTyped(hub, owner)
	}
}

func (o *Object) setTyped(source *unstructured.Unstructured, typed validation.Owner) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(source.Object, typed); err != nil {
		o.Errors = append(o.Errors, field.InternalError(field.NewPath("spec"), fmt.Errorf("decoding: %w", err)))
		return
	}
	o.Typed = typed
}

// unknownFields are the fields that the API server would drop. kubectl rejects them.
func unknownFields(object map[string]any, structural *structuralschema.Structural) (errs field.ErrorList) {
	pruned := pruning.PruneWithOptions(runtime.DeepCopyJSON(object), structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	slices.Sort(pruned)
	for _, path := range pruned {
		errs = append(errs, &field.Error{Type: field.ErrorTypeForbidden, Field: path, Detail: "unknown field"})
	}
	return errs
}
