// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/webhooks/conversion"
)

// Object is an object of a manifest.
type Object struct {
	File string
	// Typed is the object in v1beta2 with defaults; nil if it is not one of CAPT's kinds, a Cluster or a Namespace, or if it has Errors.
	Typed validation.Owner
	// Errors are what the API server rejects because of the schema, and unknown fields.
	Errors field.ErrorList

	kind  runtimeschema.GroupVersionKind
	name  string
	node  *yaml.Node
	first int // The line of the file on which the document begins.
}

// IsCAPT reports whether the object is of one of CAPT's kinds.
func (o *Object) IsCAPT() bool {
	return o.kind.Group != "" && o.kind.Group != clusterv1.GroupVersion.Group
}

// String is Kind name.
func (o *Object) String() string { return o.kind.Kind + " " + o.name }

// pathElement is a name or an index of a field path.
var pathElement = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// isContent matches text that is more than comments and separators.
var isContent = regexp.MustCompile(`(?m)^\s*[^#\s-]`)

// Position returns line and column of the field at a path, or of the part of the path that the manifest has. In v1beta1, fields can be
// elsewhere.
func (o *Object) Position(path string) (line, column int) {
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
	return o.first + at.Line - 1, at.Column
}

// Read reads the objects of CAPT's kinds, Clusters and Namespaces of a file. Objects without a namespace get the given one. Problems are
// documents that cannot be read.
func (c *Converter) Read(ctx context.Context, name string, data []byte, namespace string) (objects []*Object, problems []Message) {
	line := 1
	for _, part := range split(string(data)) {
		content := strings.ReplaceAll(strings.TrimPrefix(part, byteOrderMark), "\r\n", "\n")
		have, file, err := parse(content)
		switch {
		case err == nil:
			for _, object := range c.objectsOf(ctx, have, file.Content[0], namespace) {
				object.File, object.first = name, line
				objects = append(objects, object)
			}
		case isContent.MatchString(content):
			text := "this is not a Kubernetes object, and was not checked: " + strings.SplitN(err.Error(), "\n", 2)[0]
			if strings.Contains(content, "{{") {
				text = "this document contains {{, so it is a template of Helm or another program, and was not checked"
			}
			problems = append(problems, Message{name, line, text})
		}
		line += strings.Count(part, "\n")
	}
	return objects, problems
}

// objectsOf returns the object of a document, or those of a List.
func (c *Converter) objectsOf(ctx context.Context, have map[string]any, node *yaml.Node, namespace string) (objects []*Object) {
	if items, isList := have["items"].([]any); isList {
		for i, inner := range valueAt(node, "items").Content {
			if item, ok := items[i].(map[string]any); ok {
				objects = append(objects, c.objectsOf(ctx, item, inner, namespace)...)
			}
		}
		return objects
	}
	source := &unstructured.Unstructured{Object: have}
	o := &Object{kind: source.GroupVersionKind(), name: source.GetName(), node: node}
	switch {
	case o.kind == corev1.SchemeGroupVersion.WithKind("Namespace"):
		o.decode(source, &corev1.Namespace{})
	case o.kind == clusterv1.GroupVersion.WithKind("Cluster"):
		o.decode(source, &clusterv1.Cluster{})
	default:
		if _, err := c.schemas.Of(o.kind); err == nil {
			c.read(ctx, o, source)
		} else if looksLikeCAPT(o.kind) {
			o.Errors = append(o.Errors, field.NotSupported(field.NewPath("kind"), o.kind.Kind+" of "+o.kind.GroupVersion().String(), c.schemas.Kinds()))
		} else {
			return nil
		}
	}
	if o.Typed != nil && o.Typed.GetNamespace() == "" && o.kind.Kind != "Namespace" {
		o.Typed.SetNamespace(namespace)
	}
	return []*Object{o}
}

// looksLikeCAPT reports whether a kind that does not exist was probably meant to be one of CAPT's.
func looksLikeCAPT(kind runtimeschema.GroupVersionKind) bool {
	name := strings.ToLower(kind.Kind)
	return strings.HasSuffix(kind.Group, ".cluster.x-k8s.io") && (strings.HasPrefix(name, "capt") || strings.HasPrefix(name, "workspacetemplate"))
}

// read validates an object of CAPT with its schema, and decodes it in v1beta2.
func (c *Converter) read(ctx context.Context, o *Object, source *unstructured.Unstructured) {
	schema, err := c.schemas.Of(o.kind)
	if err != nil {
		return // The kind was found before.
	}
	o.Errors = append(unknownFields(source.Object, schema.Structural()), schema.Validate(ctx, source)...)
	if len(o.Errors) > 0 {
		return
	}
	hub := source
	if o.kind.Version != migrate.Version {
		if hub, err = conversion.Convert(ctx, c.scheme, c.registry, source, migrate.Version); err != nil {
			o.Errors = append(o.Errors, field.InternalError(field.NewPath("spec"), err))
			return
		}
	}
	newer, err := c.schemas.Of(hub.GroupVersionKind())
	if err != nil {
		return
	}
	defaulting.Default(hub.Object, newer.Structural())
	typed, err := c.scheme.New(hub.GroupVersionKind())
	if err != nil {
		return
	}
	if owner, ok := typed.(validation.Owner); ok {
		o.decode(hub, owner)
	}
}

func (o *Object) decode(source *unstructured.Unstructured, typed validation.Owner) {
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
