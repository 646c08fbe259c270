// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// comments are those of the source, by type.
type comments struct {
	repository string
	packages   map[string]*doc.Package
	err        error
}

func newComments(repository string) *comments {
	return &comments{repository: repository, packages: map[string]*doc.Package{}}
}

// of is the comment of a type.
func (c *comments) of(of reflect.Type) string {
	if found := c.find(of); found != nil {
		return withoutMarkers(found.Doc)
	}
	return ""
}

// withoutMarkers removes the markers of code generators.
func withoutMarkers(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "+") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// value of an enumeration.
type value struct{ name, text string }

// values of an enumeration, with the description of each after its name.
func (c *comments) values(of reflect.Type) (found []value) {
	described := c.find(of)
	if described == nil {
		return nil
	}
	for _, group := range described.Consts {
		for _, spec := range group.Decl.Specs {
			constant, ok := spec.(*ast.ValueSpec)
			if !ok || len(constant.Values) != 1 {
				continue
			}
			literal, ok := constant.Values[0].(*ast.BasicLit)
			if !ok {
				continue
			}
			name, err := strconv.Unquote(literal.Value)
			if err != nil {
				name = literal.Value
			}
			text := constant.Comment.Text()
			if _, after, ok := strings.Cut(constant.Doc.Text(), " "); ok {
				text = after
			}
			if before, after, ok := strings.Cut(constant.Doc.Text(), ": "); ok && !strings.Contains(before, " ") {
				text = after
			}
			found = append(found, value{name, cell(text)})
		}
	}
	return found
}

// field is the comment of a field; one comment may describe several fields, and stands before the first of them.
func (c *comments) field(of reflect.Type, name string) string {
	described := c.find(of)
	if described == nil {
		return ""
	}
	structure, ok := described.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType)
	if !ok {
		return ""
	}
	last := ""
	for _, field := range structure.Fields.List {
		text := withoutMarkers(cmp.Or(field.Doc.Text(), field.Comment.Text()))
		if text == "" && len(field.Names) > 0 && mentions(last, field.Names[0].Name) {
			text = last
		}
		for _, known := range field.Names {
			if known.Name == name {
				return text
			}
		}
		last = text
	}
	return ""
}

// mentions reports whether a comment is also about a field, as in "For and Against are the evidence".
func mentions(comment, name string) bool { return strings.Contains(comment, " and "+name+" ") }

// find is a type in the documentation of its package.
func (c *comments) find(of reflect.Type) *doc.Type {
	read, err := c.read(of.PkgPath())
	if err != nil {
		c.err = errors.Join(c.err, err)
		return nil
	}
	for _, described := range read.Types {
		if described.Name == of.Name() {
			return described
		}
	}
	c.err = errors.Join(c.err, fmt.Errorf("there is no comment about %s.%s", of.PkgPath(), of.Name()))
	return nil
}

func (c *comments) read(path string) (*doc.Package, error) {
	if read := c.packages[path]; read != nil {
		return read, nil
	}
	sources, err := filepath.Glob(filepath.Join(c.repository, filepath.FromSlash(strings.TrimPrefix(path, module)), "*.go"))
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, source, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	read, err := doc.NewFromFiles(set, files, path)
	if err != nil {
		return nil, fmt.Errorf("reading the comments of %s: %w", path, err)
	}
	c.packages[path] = read
	return read, nil
}
