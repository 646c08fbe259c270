// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validate

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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/cmd/captctl/cluster"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/convert"
)

// object is an object of a manifest.
type object struct {
	file string
	// typed is the object in v1beta2 with defaults; nil if it is not one of CAPT's kinds, a Cluster or a Namespace, or if it has errors.
	typed validation.Owner
	// errors are what the API server rejects because of the schema, and unknown fields.
	errors field.ErrorList

	kind  runtimeschema.GroupVersionKind
	name  string
	node  *yaml.Node
	first int // The line of the file on which the document begins.
}

// isCAPT reports whether the object is of one of CAPT's kinds.
func (o *object) isCAPT() bool {
	return o.kind.Group != "" && o.kind.Group != clusterv1.GroupVersion.Group
}

// String is Kind name.
func (o *object) String() string { return o.kind.Kind + " " + o.name }

// pathElement is a name or an index of a field path.
var pathElement = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// isContent matches text that is more than comments and separators.
var isContent = regexp.MustCompile(`(?m)^\s*[^#\s-]`)

// position returns line and column of the field at a path, or of the part of the path that the manifest has. In v1beta1, fields can be
// elsewhere.
func (o *object) position(path string) (line, column int) {
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

// reader reads manifests.
type reader struct {
	*convert.Converter
	// namespace is that of objects without one.
	namespace string
}

// read reads the objects of CAPT's kinds, Clusters and Namespaces of a file. Problems are documents that cannot be read.
func (r *reader) read(ctx context.Context, name string, data []byte) (objects []*object, problems []convert.Message) {
	line := 1
	for _, part := range convert.Split(string(data)) {
		have, file, err := convert.Parse(part)
		switch {
		case err == nil:
			for _, found := range r.objectsOf(ctx, have, file.Content[0]) {
				found.file, found.first = name, line
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
func (r *reader) objectsOf(ctx context.Context, have map[string]any, node *yaml.Node) (objects []*object) {
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
func (r *reader) objectOf(ctx context.Context, have map[string]any, node *yaml.Node) []*object {
	source := &unstructured.Unstructured{Object: have}
	o := &object{kind: source.GroupVersionKind(), name: source.GetName(), node: node}
	switch {
	case o.kind == corev1.SchemeGroupVersion.WithKind("Namespace"):
		o.setTyped(source, &corev1.Namespace{})
	case o.kind == clusterv1.GroupVersion.WithKind("Cluster").GroupKind().WithVersion(migrate.LegacyVersion):
		hub, err := migrate.ClusterToHub(source)
		if err != nil {
			o.errors = append(o.errors, field.InternalError(field.NewPath("spec"), err))
			return []*object{o}
		}
		o.setTyped(hub, &clusterv1.Cluster{})
	case o.kind == clusterv1.GroupVersion.WithKind("Cluster"):
		o.setTyped(source, &clusterv1.Cluster{})
	default:
		if _, err := r.Schemas.Of(o.kind); err == nil {
			r.decode(ctx, o, source)
		} else if looksLikeCAPT(o.kind) {
			o.errors = append(o.errors, field.NotSupported(field.NewPath("kind"), o.kind.Kind+" of "+o.kind.GroupVersion().String(), r.Schemas.Kinds()))
		} else {
			return nil
		}
	}
	if o.typed != nil && o.typed.GetNamespace() == "" && o.kind.Kind != "Namespace" {
		o.typed.SetNamespace(r.namespace)
	}
	return []*object{o}
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
func (r *reader) decode(ctx context.Context, o *object, source *unstructured.Unstructured) {
	schema, err := r.Schemas.Of(o.kind)
	if err != nil {
		return // The kind was found before.
	}
	o.errors = append(unknownFields(source.Object, schema.Structural()), schema.Validate(ctx, source)...)
	if len(o.errors) > 0 {
		return
	}
	hub, err := r.Hub(ctx, source)
	if err != nil {
		o.errors = append(o.errors, field.InternalError(field.NewPath("spec"), err))
		return
	}
	if newer, err := r.Schemas.Of(hub.GroupVersionKind()); err == nil && newer != schema { // The webhooks do the same for a write in v1beta1.
		if o.errors = newer.Validate(ctx, hub); len(o.errors) > 0 {
			return
		}
	}
	typed, err := cluster.Scheme().New(hub.GroupVersionKind())
	if err != nil {
		return
	}
	if owner, ok := typed.(validation.Owner); ok {
		o.setTyped(hub, owner)
	}
}

func (o *object) setTyped(source *unstructured.Unstructured, typed validation.Owner) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(source.Object, typed); err != nil {
		o.errors = append(o.errors, field.InternalError(field.NewPath("spec"), fmt.Errorf("decoding: %w", err)))
		return
	}
	o.typed = typed
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
