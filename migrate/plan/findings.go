// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/capt-provider/capt/migrate"
)

// FindingsOf returns the findings about the objects of a unit.
func (p *Plan) FindingsOf(unit *Unit) (found []migrate.Finding) {
	objects := unit.Objects()
	for _, finding := range p.Findings {
		if slices.ContainsFunc(finding.Objects(), func(object migrate.ObjectRef) bool { return slices.Contains(objects, object) }) {
			found = append(found, finding)
		}
	}
	return found
}
