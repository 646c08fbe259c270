// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
)

// complete is a Workspace with every reference there is, all to objects that the tenant has in its own namespace, too. What
// it reads it gives back, as an output that is shown and one that is not.
func complete() *terraform.WorkspaceSpec {
	key := func(key string) *terraform.KeyReference { return &terraform.KeyReference{Name: "canary", Key: key} }
	return &terraform.WorkspaceSpec{
		ProviderConfigRef:          &terraform.ProviderConfigReference{Name: "sandbox"},
		WriteConnectionSecretToRef: &terraform.SecretReference{Name: "connection"},
		ForProvider: terraform.WorkspaceParameters{
			Source: terraform.SourceInline,
			Module: `
variable "stolen" {
  type    = string
  default = "nothing"
}
output "cluster_name" {
  value = var.stolen
}
output "hidden" {
  value     = var.stolen
  sensitive = true
}`,
			VarFiles: []terraform.VarFile{
				{Source: "ConfigMapKey", ConfigMapKeyRef: key("tfvars")},
				{Source: "SecretKey", SecretKeyRef: key("tfvars")},
			},
			Env: []terraform.EnvVar{
				{Name: "FROM_CONFIGMAP", ConfigMapKeyRef: key("value")},
				{Name: "FROM_SECRET", SecretKeyRef: key("value")},
			},
		},
	}
}

// reference is a field of a Workspace that refers to an object of a namespace. Key is not valid where there is none.
type reference struct{ Namespace, Name, Key reflect.Value }

// references finds all fields that name a namespace, by their path, whatever the code under test knows of them.
func references(value reflect.Value, path string) map[string]reference {
	found := map[string]reference{}
	merge := func(value reflect.Value, path string) {
		for path, reference := range references(value, path) {
			found[path] = reference
		}
	}
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			merge(value.Elem(), path)
		}
	case reflect.Slice:
		for i := range value.Len() {
			merge(value.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Struct:
		if namespace := value.FieldByName("Namespace"); namespace.IsValid() {
			found[path] = reference{namespace, value.FieldByName("Name"), value.FieldByName("Key")}
		}
		for i := range value.NumField() {
			name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			merge(value.Field(i), strings.TrimPrefix(path+"."+name, "."))
		}
	default:
	}
	return found
}

// fill gives every pointer and every list of a type something to hold.
func fill(value reflect.Value) {
	switch value.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(value.Elem())
	case reflect.Slice:
		if value.Type().Elem().Kind() != reflect.Uint8 {
			value.Set(reflect.MakeSlice(value.Type(), 1, 1))
			fill(value.Index(0))
		}
	case reflect.Struct:
		for i := range value.NumField() {
			if value.Type().Field(i).IsExported() {
				fill(value.Field(i))
			}
		}
	default:
	}
}

var index = regexp.MustCompile(`\[\d+\]`)

// kinds are paths without the numbers in them.
func kinds(paths []string) []string {
	for i, path := range paths {
		paths[i] = index.ReplaceAllString(path, "[]")
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func pathsOf(spec *terraform.WorkspaceSpec) (known []string) {
	for _, reference := range spec.References(nil) {
		known = append(known, strings.TrimPrefix(reference.Path.String(), "<nil>."))
	}
	return known
}

// A reference that is new in the type must become known to the rules, and a part of the table below.
func TestTheTableHasEveryReferenceOfAWorkspace(t *testing.T) {
	filled := &terraform.WorkspaceSpec{}
	fill(reflect.ValueOf(filled).Elem())
	var all, covered []string
	for path := range references(reflect.ValueOf(filled), "") {
		all = append(all, path)
	}
	for path := range references(reflect.ValueOf(complete()), "") {
		covered = append(covered, path)
	}
	require.NotEmpty(t, all)
	require.Equal(t, kinds(all), kinds(pathsOf(filled)), "References does not know them all")
	require.Equal(t, kinds(all), kinds(covered), "the table does not have them all")
}

// ways are those in which a tenant may try to make a reference lead into the other namespace.
var ways = []struct {
	name string
	// theirs reports whether the template is one of the other namespace, which permits the tenant to use it.
	theirs bool
	// change makes the reference, and says with which variables. It returns nil where a reference has no such part.
	change func(w *world, to reference) map[string]string
}{
	{"literally, in a template of the tenant", false, func(w *world, to reference) map[string]string {
		to.Namespace.SetString(w.b)
		return map[string]string{}
	}},
	{"by a variable, in a template of the tenant", false, func(w *world, to reference) map[string]string {
		to.Namespace.SetString("${where}")
		return map[string]string{"where": w.b}
	}},
	{"by a variable, in a template of the other namespace", true, func(w *world, to reference) map[string]string {
		to.Namespace.SetString("${where}")
		return map[string]string{"where": w.b}
	}},
	{"by half a variable, in a template of the other namespace", true, func(w *world, to reference) map[string]string {
		to.Namespace.SetString(w.b[:3] + "${rest}")
		return map[string]string{"rest": w.b[3:]}
	}},
	{"by the name, in a template of the other namespace", true, func(w *world, to reference) map[string]string {
		to.Namespace.SetString(w.b)
		to.Name.SetString("${what}")
		return map[string]string{"what": "canary"}
	}},
	{"by the key, in a template of the other namespace", true, func(w *world, to reference) map[string]string {
		if !to.Key.IsValid() {
			return nil
		}
		key := to.Key.String()
		to.Namespace.SetString(w.b)
		to.Key.SetString("${which}")
		return map[string]string{"which": key}
	}},
}

func TestNoReferenceLeadsIntoAnotherNamespace(t *testing.T) {
	for _, scope := range terraform.Scopes() {
		w := newWorld(t)
		before := w.secrets(w.b)
		count := 0
		for path := range references(reflect.ValueOf(complete()), "") {
			for _, way := range ways {
				spec := complete()
				variables := way.change(w, references(reflect.ValueOf(spec), "")[path])
				if variables == nil {
					continue // It has no key.
				}
				t.Run(fmt.Sprintf("%s/%s/%s", scope, path, way.name), func(t *testing.T) {
					w := &world{T: t, Client: w.Client, a: w.a, b: w.b, canary: w.canary}
					count++
					name := fmt.Sprintf("try-%d", count)
					w.tries(name, scope, way.theirs, spec, variables)
					message := w.awaitRefused(name, infrav1.RenderedCondition, infrav1.TemplateInvalidReason)
					require.Contains(t, message, "spec.template.spec."+path+".namespace: Forbidden")
				})
			}
		}
		w.requireNothingLeaked()
		require.Equal(t, before, w.secrets(w.b))
	}
}

// tries lets the tenant use a template that is its own or of the other namespace.
func (w *world) tries(name string, scope terraform.Scope, theirs bool, spec *terraform.WorkspaceSpec, variables map[string]string) {
	w.Helper()
	template := &infrav1.WorkspaceTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.a, Name: name},
		Spec: infrav1.WorkspaceTemplateSpec{
			WorkspaceScope: scope, Template: infrav1.WorkspaceTemplateResource{Spec: *spec},
			AllowedNamespaces: infrav1.AllowedNamespaces{Names: []string{w.a}},
		},
	}
	if theirs {
		template.Namespace = w.b
	}
	require.NoError(w, w.Create(w.Context(), template))
	require.NoError(w, w.Create(w.Context(), &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.a, Name: name},
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef: infrav1.WorkspaceTemplateReference{Name: name, Namespace: template.Namespace}, Variables: variables,
		},
	}))
}

// What the author of a template says in so many words about its own namespace is the author's word. It also shows that what
// is refused elsewhere would have leaked: the value arrives, and the scan finds it.
func TestATemplateMaySayLiterallyWhatOfItsOwnNamespaceIsUsed(t *testing.T) {
	w := newWorld(t)
	spec := complete()
	spec.ForProvider.VarFiles[1].SecretKeyRef.Namespace = w.b
	w.tries("given", terraform.ScopeCluster, true, spec, nil)
	require.Equal(t, w.canary, w.awaitReady(w.a, "given").Status.Outputs[terraform.OutputClusterName])
	objects := w.everything(w.a)
	for _, kind := range []string{"WorkspaceTemplateApply.infrastructure.cluster.x-k8s.io given", "Secret. connection"} {
		require.NotEmpty(t, find(objects[kind], w.canary), kind)
	}
}

func TestAFluxSourceIsOneOfTheTenantOrTheWordOfTheTemplate(t *testing.T) {
	for _, scope := range terraform.Scopes() {
		w := newWorld(t)
		count := 0
		for name, row := range map[string]struct {
			theirs         bool
			module         string
			where, refused string
		}{
			"literally, in a template of the tenant":                  {false, "GitRepository::OTHER/modules", "", "yes"},
			"by a variable, in a template of the tenant":              {false, "GitRepository::${x}/modules", "OTHER", "yes"},
			"all of it by a variable, in a template of the tenant":    {false, "${x}", "GitRepository::OTHER/modules", "yes"},
			"with more colons, in a template of the tenant":           {false, "GitRepository::${x}/modules", "TENANT::OTHER", "yes"},
			"with more slashes, in a template of the tenant":          {false, "GitRepository::${x}", "TENANT/../OTHER/modules", "yes"},
			"by a variable, in a template of the other namespace":     {true, "GitRepository::${x}/modules", "OTHER", "yes"},
			"by the name, in a template of the other namespace":       {true, "GitRepository::OTHER/${x}", "modules", "yes"},
			"literally, in a template of the other namespace":         {true, "GitRepository::OTHER/modules", "", ""},
			"of the tenant, by a variable, in any template":           {true, "GitRepository::${x}/modules", "TENANT", ""},
			"of the tenant, literally, in a template of the tenant's": {false, "GitRepository::TENANT/modules", "", ""},
		} {
			t.Run(fmt.Sprintf("%s/%s", scope, name), func(t *testing.T) {
				w := &world{T: t, Client: w.Client, a: w.a, b: w.b, canary: w.canary}
				in := func(text string) string {
					return strings.NewReplacer("TENANT", w.a, "OTHER", w.b).Replace(text)
				}
				spec := complete()
				spec.ForProvider.Source, spec.ForProvider.Module = terraform.SourceFlux, in(row.module)
				count++
				try := fmt.Sprintf("try-%d", count)
				w.tries(try, scope, row.theirs, spec, map[string]string{"x": in(row.where)})
				if row.refused == "" {
					w.awaitCondition(&infrav1.WorkspaceTemplateApply{}, w.a, try, infrav1.RenderedCondition, metav1.ConditionTrue, infrav1.RenderedReason)
					return
				}
				message := w.awaitRefused(try, infrav1.RenderedCondition, infrav1.TemplateInvalidReason)
				require.Contains(t, message, "must be Kind::"+w.a+"/name")
			})
		}
	}
}
