// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package carry

import (
	"reflect"
	"slices"
)

// differences lists the fields of spec and status in which have is not want.
func (s *shape) differences(have, want reflect.Value) ([]loss, error) {
	var c comparison
	err := c.compareMembers(nil, s, have, want)
	return c.lost, err
}

// comparison walks through what is not equal in two objects, and collects what has to be carried. Nearly everything is
// equal.
type comparison struct {
	lost []loss
}

// compare values that are not equal.
func (c *comparison) compare(at *place, s *shape, have, want reflect.Value) error {
	switch {
	case s.members != nil:
		return c.compareMembers(at, s, have, want)
	case have.Kind() == reflect.Pointer && s.elem.members != nil && !have.IsNil() && !want.IsNil():
		return c.compareMembers(at, s.elem, have.Elem(), want.Elem())
	case have.Kind() == reflect.Slice:
		return c.compareLists(at, s, have, want)
	default:
		return c.lose(at, have, want)
	}
}

func (c *comparison) compareMembers(at *place, s *shape, have, want reflect.Value) error {
	for i := range s.members {
		m := &s.members[i]
		h, w := have.Field(m.index), want.Field(m.index)
		if m.equal(h, w) {
			continue
		}
		if err := c.compare(&place{at, m.name}, m.shape, h, w); err != nil {
			return err
		}
	}
	return nil
}

// compareLists compares element by element where that is safe: where every element is identified, and want is have, less
// some elements, in the same order. Another list is carried as a whole.
func (c *comparison) compareLists(at *place, s *shape, have, want reflect.Value) error {
	haveKeys, ok := s.elem.keys(have)
	wantKeys, alsoOK := s.elem.keys(want)
	if !ok || !alsoOK || have.IsNil() != want.IsNil() || !isSubsequence(wantKeys, haveKeys) {
		return c.lose(at, have, want)
	}
	next := 0
	for i, k := range haveKeys {
		if next == len(wantKeys) || wantKeys[next] != k {
			if err := c.loseElement(&place{at, k}, have.Index(i)); err != nil {
				return err
			}
			continue
		}
		h, w := have.Index(i), want.Index(next)
		next++
		if s.elem.equal(h, w) {
			continue
		}
		if err := c.compare(&place{at, k}, s.elem, h, w); err != nil {
			return err
		}
	}
	return nil
}

// lose notes that want, as a whole, has to be carried.
func (c *comparison) lose(at *place, have, want reflect.Value) error {
	was, err := fingerprint(have)
	c.lost = append(c.lost, loss{field: field{Path: at.path(), Was: was}, Is: want.Addr().Interface()})
	return err
}

// loseElement notes that a list should not have that element.
func (c *comparison) loseElement(at *place, element reflect.Value) error {
	was, err := fingerprint(element)
	c.lost = append(c.lost, loss{field: field{Path: at.path(), Was: was}})
	return err
}

// place is where in two objects a comparison is.
type place struct {
	parent *place
	name   string
}

// path to the place. Embedded structs, which have no name, are not part of it.
func (p *place) path() string {
	switch {
	case p == nil:
		return ""
	case p.name == "":
		return p.parent.path()
	default:
		return p.parent.path() + "/" + escaper.Replace(p.name)
	}
}

// keys of the elements of a list; ok is false when two are the same, or one has none.
func (s *shape) keys(list reflect.Value) (found []string, ok bool) {
	found = make([]string, 0, list.Len())
	for i := range list.Len() {
		k := s.keyOf(list.Index(i))
		if k == "" || slices.Contains(found, k) {
			return nil, false
		}
		found = append(found, k)
	}
	return found, true
}

func isSubsequence(part, all []string) bool {
	for _, k := range all {
		if len(part) > 0 && part[0] == k {
			part = part[1:]
		}
	}
	return len(part) == 0
}
