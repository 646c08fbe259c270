// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts manifests in Git from v1beta1 to v1beta2.
//
// What an object becomes is decided by the functions of the conversion webhook alone: there is no list of fields here. kyaml parses
// and prints. A file is converted as a whole or not at all: it is not converted when a document would lose something or cannot be read.
package convert

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
	"github.com/capt-provider/capt/webhooks/conversion"
)

// Message is about a line of a file.
type Message struct {
	File string
	Line int
	Text string
}

func (m Message) String() string { return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Text) }

// Result is a converted file. With problems, New is what the file was.
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

	scheme   *runtime.Scheme
	registry webhook.Registry
	schemas  *schema.Schemas
}

// New returns a Converter that does not read the cluster.
func New() (*Converter, error) {
	schemas, err := schema.New(crd.Definitions)
	if err != nil {
		return nil, err
	}
	scheme, registry := conversion.NewRegistry()
	return &Converter{scheme: scheme, registry: registry, schemas: schemas}, nil
}

// Convert converts a file, which may hold many documents.
func (c *Converter) Convert(ctx context.Context, name string, data []byte) (*Result, error) {
	result := &Result{Old: data, New: data}
	var out strings.Builder
	line := 1
	for _, part := range split(string(data)) {
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

// split separates the documents of a file from the lines between them. A document that begins on such a line is part of it,
// and is not found; neither is it common.
func split(data string) []string {
	var parts []string
	end := 0
	for _, at := range separator.FindAllStringIndex(data, -1) {
		parts = append(parts, data[end:at[0]], data[at[0]:at[1]])
		end = at[1]
	}
	return append(parts, data[end:])
}
