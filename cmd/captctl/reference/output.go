// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/diff"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
	"github.com/capt-provider/capt/cmd/captctl/impact"
	"github.com/capt-provider/capt/cmd/captctl/rollouts"
	"github.com/capt-provider/capt/cmd/captctl/template"
	"github.com/capt-provider/capt/cmd/captctl/validate"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
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
	{"ClusterDescription", reflect.TypeFor[fleet.Description](), "`captctl describe` prints it; with `--watch`, one document after another."},
	{"Tree", reflect.TypeFor[fleet.Tree](), "`captctl tree` prints it; with `--watch`, one document after another."},
	{"Impact", reflect.TypeFor[impact.Impact](), "`captctl tree --impact` prints it; with `--watch`, one document after another."},
	{"TerraformErrors", reflect.TypeFor[fleet.TerraformErrors](), "`captctl logs` prints it; with `--follow`, one document after another: the first one, and one for each further error."},
	{"Diff", reflect.TypeFor[diff.Diff](), "`captctl diff` prints it."},
	{"ValidationReport", reflect.TypeFor[validate.Report](), "`captctl validate` prints it."},
	{"TemplateTest", reflect.TypeFor[template.Test](), "`captctl template test` prints it."},
	{"TemplateStatus", reflect.TypeFor[rollouts.Status](), "`captctl template status` prints it; with `--watch`, one document after another."},
	{"Check", reflect.TypeFor[view.Check](), "`captctl migrate check` prints it."},
	{"Plan", reflect.TypeFor[plan.Plan](), "`captctl migrate plan --out` writes it, `plan` and `show` print it, `apply` and `rollback` read it."},
	{"Decisions", reflect.TypeFor[migrate.Decisions](), "Users write it, in YAML or JSON, for `captctl migrate plan --decisions`."},
	{"Result", reflect.TypeFor[apply.Result](), "`captctl migrate apply` and `rollback` print it."},
	{"Status", reflect.TypeFor[status.Status](), "`captctl migrate status` prints it; with `--watch`, one document after another."},
	{"Version", reflect.TypeFor[cli.Version](), "`captctl version` prints it."},
}

const aboutOutput = `# What captctl prints for programs

<!-- Written by make generate from the Go types and their comments. -->

With ` + "`-o json`" + ` and ` + "`-o yaml`" + ` every command prints one document with ` + "`apiVersion: " + migrate.APIVersion + "`" + ` and a
` + "`kind`" + `. Within this version fields are added, but neither changed nor removed: a program should ignore fields that it does not
know. A field that is not required is left out when it is empty.

Tables and messages may change at any time; so may the texts in ` + "`message`, `why`, `evidence`, `step`, `for` and `against`" + `.
Programs should use ` + "`state`, `phase`, `outcome`, `severity`, `reason`" + ` and the exit code, which ` + "`captctl migrate --help`" + ` lists.
The reasons of findings are listed in [migration.md](migration.md#decisions).

The hash of a Workspace is a SHA-256 of its spec, labels, annotations and finalizers.
`

// outputDocument describes each kind and every type below it.
func outputDocument(repository string) (string, error) {
	w := &writer{comments: newComments(repository), described: map[reflect.Type]bool{}}
	w.WriteString(aboutOutput)
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

// rest describes the types of fields.
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
			w.rows(field.Type, "")
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
