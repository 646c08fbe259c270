// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package preserve

import "reflect"

// differences returns the fields of spec and status in which have, the result of the reverse rules, differs from want, the source.
func (s *shape) differences(have, want reflect.Value) ([]loss, error) {
	var c comparison
	err := c.compareMembers(nil, s, have, want)
	return c.lost, err
}

// comparison compares two objects and collects the lost fields. It is optimized for objects that are nearly equal.
type comparison struct {
	lost []loss
}

// compare collects the lost fields of two values that are not equal.
func (c *comparison) compare(at *place, s *shape, have, want reflect.Value) error {
	switch {
	case s.members != nil:
		return c.compareMembers(at, s, have, want)
	case have.Kind() == reflect.Pointer && s.elem.members != nil && !have.IsNil() && !want.IsNil():
		return c.compareMembers(at, s.elem, have.Elem(), want.Elem())
	case have.Kind() == reflect.Slice:
		return c.compareLists(at, s, have, want)
	default:
		return c.recordLoss(at, have, want)
	}
}

// compareMembers compares two structs member by member.
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

// compareLists compares lists element by element, if all elements have unique keys and the elements of want are a subset of those of have
// in the same order. Any other list is one lost field.
func (c *comparison) compareLists(at *place, s *shape, have, want reflect.Value) error {
	haveKeys, ok := s.elem.keys(have)
	wantKeys, alsoOK := s.elem.keys(want)
	if !ok || !alsoOK || have.IsNil() != want.IsNil() || !isSubsequence(wantKeys, haveKeys) {
		return c.recordLoss(at, have, want)
	}
	next := 0
	for i, k := range haveKeys {
		if next == len(wantKeys) || wantKeys[next] != k {
			if err := c.recordExtraElement(&place{at, k}, have.Index(i)); err != nil {
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

// recordLoss adds want, as a whole, to the lost fields.
func (c *comparison) recordLoss(at *place, have, want reflect.Value) error {
	was, err := fingerprint(have)
	c.lost = append(c.lost, loss{field: field{Path: at.path(), Was: was}, Is: want.Addr().Interface()})
	return err
}

// recordExtraElement records that the list must not have an element.
func (c *comparison) recordExtraElement(at *place, element reflect.Value) error {
	was, err := fingerprint(element)
	c.lost = append(c.lost, loss{field: field{Path: at.path(), Was: was}})
	return err
}

// place is the current position of a comparison.
type place struct {
	parent *place
	name   string
}

// path returns the path of the place as a JSON pointer. Embedded structs have no name and are not part of it.
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

// keys returns the keys of the elements of a list; ok is false when two are the same, or one is empty.
func (s *shape) keys(list reflect.Value) (found []string, ok bool) {
	found = make([]string, 0, list.Len())
	known := make(map[string]struct{}, list.Len())
	for i := range list.Len() {
		k := s.key(list.Index(i))
		if _, again := known[k]; k == "" || again {
			return nil, false
		}
		found, known[k] = append(found, k), struct{}{}
	}
	return found, true
}

// isSubsequence reports whether all has the elements of part in the same order.
func isSubsequence(part, all []string) bool {
	for _, k := range all {
		if len(part) > 0 && part[0] == k {
			part = part[1:]
		}
	}
	return len(part) == 0
}
