// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	_ "embed" // For the first part of docs/captctl-output.md.
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/api/graph"
	"github.com/capt-provider/capt/api/validation/manifests"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/diff"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
	"github.com/capt-provider/capt/cmd/captctl/migration"
	"github.com/capt-provider/capt/cmd/captctl/planning/request"
	"github.com/capt-provider/capt/cmd/captctl/template"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/installation"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
)

// module of the types that are described here.
const module = "github.com/capt-provider/capt/"

// kinds of documents that captctl prints or reads.
var kinds = []struct {
	name string
	of   reflect.Type
	from string
}{
	{"ClusterList", reflect.TypeFor[fleet.ClusterList](), "`captctl get` prints it; with `--watch`, one document after another."},
	{"RetainedList", reflect.TypeFor[fleet.RetainedList](), "`captctl get --retained` prints it; with `--watch`, one document after another."},
	{"ClusterDescription", reflect.TypeFor[fleet.Description](), "`captctl describe` prints it; with `--watch`, one document after another."},
	{"Tree", reflect.TypeFor[fleet.Tree](), "`captctl tree` prints it; with `--watch`, one document after another."},
	{"Impact", reflect.TypeFor[graph.Impact](), "`captctl tree --impact` prints it; with `--watch`, one document after another."},
	{"TerraformErrors", reflect.TypeFor[fleet.TerraformErrors](), "`captctl logs` prints it; with `--follow`, one document after another: the first one, and one for each further error."},
	{"TerraformRuns", reflect.TypeFor[fleet.TerraformRuns](), "`captctl run` prints it."},
	{"Diff", reflect.TypeFor[diff.Diff](), "`captctl diff` prints it."},
	{"WorkspacePlans", reflect.TypeFor[request.Document](), "`captctl plan` prints it."},
	{"ValidationReport", reflect.TypeFor[manifests.Report](), "`captctl validate` prints it."},
	{"TemplateTest", reflect.TypeFor[template.Test](), "`captctl template test` prints it."},
	{"TemplateList", reflect.TypeFor[template.List](), "`captctl template list` prints it; with `--watch`, one document after another."},
	{"TemplateStatus", reflect.TypeFor[template.Status](), "`captctl template status` prints it; with `--watch`, one document after another."},
	{"TemplatePlan", reflect.TypeFor[template.Plan](), "`captctl template plan` prints it."},
	{"InstallationReport", reflect.TypeFor[installation.Report](), "`captctl check` prints it."},
	{"Check", reflect.TypeFor[migration.Check](), "`captctl migrate check` prints it."},
	{"Plan", reflect.TypeFor[plan.Plan](), "`captctl migrate plan --out` writes it, `plan` and `show` print it, `apply` and `rollback` read it."},
	{"Decisions", reflect.TypeFor[migrate.Decisions](), "Users write it, in YAML or JSON, for `captctl migrate plan --decisions`."},
	{"Result", reflect.TypeFor[apply.Result](), "`captctl migrate apply` and `rollback` print it."},
	{"Status", reflect.TypeFor[status.Status](), "`captctl migrate status` prints it; with `--watch`, one document after another."},
	{"Version", reflect.TypeFor[cli.Version](), "`captctl version` prints it."},
}

//go:embed captctl-output.md.tmpl
var aboutOutput string

// outputDocument describes each kind and every type below it.
func outputDocument(repository string) (string, error) {
	w := &writer{comments: &comments{repository: repository, packages: map[string]*doc.Package{}}, described: map[reflect.Type]bool{}}
	w.WriteString(strings.ReplaceAll(aboutOutput, "API-VERSION", migrate.APIVersion))
	for _, kind := range kinds {
		fmt.Fprintf(w, "\n## %s\n\n%s %s\n", kind.name, kind.from, sentence(w.comments.of(kind.of)))
		w.fields(kind.of, kind.name)
		w.rest()
	}
	return w.String(), w.comments.err
}

// writer describes types, each once.
type writer struct {
	strings.Builder
	comments  *comments
	described map[reflect.Type]bool
	queue     []reflect.Type
}

func (w *writer) rest() {
	for len(w.queue) > 0 {
		next := w.queue[0]
		w.queue = w.queue[1:]
		if w.described[next] {
			continue
		}
		w.described[next] = true
		fmt.Fprintf(w, "\n### %s\n\n%s\n", title(next), sentence(w.comments.of(next)))
		if next.Kind() == reflect.Struct {
			w.fields(next, "")
			continue
		}
		fmt.Fprint(w, "\n| value | meaning |\n|---|---|\n")
		for _, value := range w.comments.values(next) {
			fmt.Fprintf(w, "| `%s` | %s |\n", value.name, value.text)
		}
	}
}

// fields of a type; kind is that of a whole document.
func (w *writer) fields(of reflect.Type, kind string) {
	fmt.Fprint(w, "\n| field | type | required | meaning |\n|---|---|---|---|\n")
	w.rows(of, kind)
}

func (w *writer) rows(of reflect.Type, kind string) {
	for _, field := range reflect.VisibleFields(of) {
		if len(field.Index) > 1 || !field.IsExported() || field.Tag.Get("json") == "-" {
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Type == reflect.TypeFor[metav1.TypeMeta]() {
			if kind != "" {
				kind = "`" + kind + "`"
			}
			fmt.Fprintf(w, "| `apiVersion` | string | yes | `%s` |\n| `kind` | string | yes | %s |\n", migrate.APIVersion, kind)
			continue
		}
		if field.Anonymous && name == "" {
			w.rows(field.Type, kind)
			continue
		}
		required := "yes"
		if strings.Contains(options, "omit") {
			required = "no"
		}
		fmt.Fprintf(w, "| `%s` | %s | %s | %s |\n", cmp.Or(name, field.Name), w.typeOf(field.Type), required, cell(w.comments.field(of, field.Name)))
	}
}

// typeOf names a type, and queues it for description if it is of this module.
func (w *writer) typeOf(of reflect.Type) string {
	switch of {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[time.Time]():
		return "time, RFC 3339"
	case reflect.TypeFor[metav1.Duration]():
		return "duration, for example 15m0s"
	case reflect.TypeFor[json.RawMessage]():
		return "any JSON"
	}
	switch of.Kind() {
	case reflect.Pointer:
		return w.typeOf(of.Elem())
	case reflect.Slice:
		return "list of " + w.typeOf(of.Elem())
	case reflect.Map:
		return "map of " + w.typeOf(of.Elem()) + " by " + w.typeOf(of.Key())
	case reflect.Interface:
		return "any JSON"
	case reflect.Bool:
		return "boolean"
	default:
	}
	if strings.HasPrefix(of.PkgPath(), module) {
		w.queue = append(w.queue, of)
		return "[" + title(of) + "](#" + strings.ToLower(title(of)) + ")"
	}
	switch of.Kind() {
	case reflect.String:
		return "string"
	case reflect.Struct:
		return of.Name() + " of Kubernetes"
	default:
		return "number"
	}
}

// title distinguishes types of one name by their packages.
func title(of reflect.Type) string {
	folder := path.Base(of.PkgPath())
	if folder == "migrate" || folder == "render" || folder == "v1beta2" {
		return of.Name()
	}
	return strings.ToUpper(folder[:1]) + folder[1:] + of.Name()
}

func sentence(text string) string { return strings.Join(strings.Fields(text), " ") }

// cell is text for a table.
func cell(text string) string { return strings.ReplaceAll(sentence(text), "|", `\|`) }

// comments are those of the source, by type.
type comments struct {
	repository string
	packages   map[string]*doc.Package
	err        error
}

func (c *comments) of(of reflect.Type) string {
	return withoutMarkers(c.find(of).Doc)
}

func withoutMarkers(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "+") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

type value struct{ name, text string }

// values of an enumeration, with the description of each after its name.
func (c *comments) values(of reflect.Type) (found []value) {
	for _, group := range c.find(of).Consts {
		for _, spec := range group.Decl.Specs {
			constant := spec.(*ast.ValueSpec) //nolint:forcetypeassert // A group of constants has nothing else.
			if len(constant.Values) != 1 {
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
	last := ""
	for _, field := range c.fields(of) {
		text := withoutMarkers(cmp.Or(field.Doc.Text(), field.Comment.Text()))
		if text == "" && len(field.Names) > 0 && strings.Contains(last, " and "+field.Names[0].Name+" ") { // As in "For and Against are the evidence".
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

func (c *comments) fields(of reflect.Type) []*ast.Field {
	for _, spec := range c.find(of).Decl.Specs {
		if structure, ok := spec.(*ast.TypeSpec).Type.(*ast.StructType); ok {
			return structure.Fields.List
		}
	}
	return nil
}

// find is a type in the documentation of its package; without anything if there is none, which is an error.
func (c *comments) find(of reflect.Type) *doc.Type {
	read, err := c.read(of.PkgPath())
	if err == nil {
		for _, described := range read.Types {
			if described.Name == of.Name() {
				return described
			}
		}
		err = fmt.Errorf("there is no comment about %s.%s", of.PkgPath(), of.Name())
	}
	c.err = errors.Join(c.err, err)
	return &doc.Type{Decl: &ast.GenDecl{}}
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
