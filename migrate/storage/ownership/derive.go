/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package ownership

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capt-provider/capt/migrate"
)

// deriver tells which fields of an object in v1beta2 come from which values of it in v1beta1.
type deriver struct {
	world      *world
	kind       runtimeschema.GroupKind
	structural *schema.Structural
	// older is the object in v1beta1, and today what is made of it.
	older, today map[string]any
	// fields are those of the object as it is stored.
	fields map[place]field
	// live is the object as it is stored.
	live map[string]any
	// derived are answers that were given before: most entries of an object speak of the same values.
	derived map[place][]field
}

func newDeriver(live *unstructured.Unstructured) (*deriver, error) {
	d := &deriver{world: known(), kind: live.GroupVersionKind().GroupKind(), live: content(live), derived: map[place][]field{}}
	var err error
	if d.structural, err = d.world.structural(d.kind); err != nil {
		return nil, err
	}
	d.fields = fieldsOf(d.structural, d.live)
	older, ok, err := d.world.convert(d.live, d.kind, migrate.LegacyVersion)
	if err != nil {
		return nil, err
	}
	if !ok { // The kind never had another version, so whatever wrote the entry meant these fields.
		d.older, d.today = d.live, d.live
		return d, nil
	}
	d.older = older
	d.today, err = d.convert()
	return d, err
}

// convert makes v1beta2 of the v1beta1 object as it is at the moment.
func (d *deriver) convert() (map[string]any, error) {
	converted, _, err := d.world.convert(d.older, d.kind, migrate.Version)
	return converted, err
}

// set translates a set of fields. Metadata is the same in both versions.
func (d *deriver) set(older *fieldpath.Set) *fieldpath.Set {
	set := fieldpath.NewSet()
	older.Iterate(func(path fieldpath.Path) {
		if name := path[0].FieldName; name != nil && *name == "metadata" {
			set.Insert(path.Copy())
		}
	})
	for _, at := range owned(older, d.older) {
		for _, found := range d.from(at) {
			set.Insert(found.path)
			for _, element := range found.elements {
				set.Insert(element)
			}
		}
	}
	return set
}

// from are the fields that come from a value in v1beta1: in spec from spec, and in status from status, since they are written
// by different managers. A value of which none comes by the rules of conversion is one that means the same in both versions, if
// it is there in both.
func (d *deriver) from(at place) []field {
	if known, ok := d.derived[at]; ok {
		return known
	}
	var found []field
	for _, place := range d.places(at) {
		if field, ok := d.fields[place]; ok && split(place)[0] == split(at)[0] {
			found = append(found, field)
		}
	}
	if field, ok := d.fields[at]; ok && len(found) == 0 && equal(lookup(d.older, at), lookup(d.live, at)) {
		found = append(found, field)
	}
	d.derived[at] = found
	return found
}

// places are those in v1beta2 at which something changes when a value in v1beta1 does.
func (d *deriver) places(at place) []place {
	was := lookup(d.older, at)
	defer func() { set(d.older, at, was) }()
	switch was.(type) {
	case map[string]any, []any:
		return d.placesOfEmpty(at)
	}
	for _, other := range alternatives(was) {
		set(d.older, at, other)
		if changed, err := d.convert(); err == nil {
			if found := differences(d.today, changed); len(found) > 0 {
				return found
			}
		} // A value that can not be there, for example a time that is none, tells nothing.
	}
	return nil
}

// placesOfEmpty are those that would not be there without an empty list or map.
func (d *deriver) placesOfEmpty(at place) (found []place) {
	set(d.older, at, nil)
	changed, err := d.convert()
	if err != nil {
		return nil
	}
	left := map[string]bool{}
	for _, field := range fieldsOf(d.structural, changed) {
		left[field.path.String()] = true
	}
	for place, field := range fieldsOf(d.structural, d.today) {
		if !left[field.path.String()] {
			found = append(found, place)
		}
	}
	return found
}

// alternatives are other values of the same type, the likeliest to be understood first.
func alternatives(value any) []any {
	switch value := value.(type) {
	case bool:
		return []any{!value}
	case int64:
		return []any{value + 1, int64(1), int64(2)} // Conversion limits some numbers.
	case float64:
		return []any{value + 1, float64(1), float64(2)}
	case string:
		if when, err := time.Parse(time.RFC3339, value); err == nil {
			return []any{when.Add(time.Hour).Format(time.RFC3339), value + "x"}
		}
		return []any{value + "x", "x"}
	}
	return nil
}

// differences are the places at which two objects both have a value, and not the same. What is missing in one of them is
// nobody's: that public networks mean nothing without a public endpoint does not make them part of that field.
func differences(a, b map[string]any) (found []place) {
	for _, part := range []string{"spec", "status"} {
		found = append(found, compare(a[part], b[part], place("").key(part))...)
	}
	return found
}

func compare(a, b any, at place) (found []place) {
	switch a := a.(type) {
	case nil:
		return nil
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			for name := range a {
				found = append(found, compare(a[name], b[name], at.key(name))...)
			}
		}
		return found
	case []any:
		b, _ := b.([]any)
		for i := range min(len(a), len(b)) {
			found = append(found, compare(a[i], b[i], at.index(i))...)
			if len(found) > 0 && len(a) > len(b) {
				return found // One element less: all that follows has moved up, and is the same.
			}
		}
		return found
	}
	if b == nil || equal(a, b) {
		return nil
	}
	return []place{at}
}

func equal(a, b any) bool {
	switch a.(type) {
	case map[string]any, []any:
		return false
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

var unescaper = strings.NewReplacer("~1", "/", "~0", "~")

func split(at place) []string {
	parts := strings.Split(string(at), "/")[1:]
	for i := range parts {
		parts[i] = unescaper.Replace(parts[i])
	}
	return parts
}

// lookup returns what is at a place; nil when nothing is.
func lookup(object map[string]any, at place) any {
	var content any = object
	for _, part := range split(at) {
		switch parent := content.(type) {
		case map[string]any:
			content = parent[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(parent) {
				return nil
			}
			content = parent[i]
		default:
			return nil
		}
	}
	return content
}

// set puts another value to a place that exists; nil removes a key of a map.
func set(object map[string]any, at place, content any) {
	parts := split(at)
	parent := lookup(object, at[:strings.LastIndex(string(at), "/")])
	if len(parts) == 1 {
		parent = object
	}
	last := parts[len(parts)-1]
	switch parent := parent.(type) {
	case map[string]any:
		if content == nil {
			delete(parent, last)
			return
		}
		parent[last] = content
	case []any:
		if i, err := strconv.Atoi(last); err == nil && i < len(parent) {
			parent[i] = content
		}
	}
}
