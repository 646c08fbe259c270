// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/migrate"
)

// decided are decisions by the UID that they are about.
type decided struct {
	owners     map[types.UID]migrate.OwnerDecision
	workspaces map[types.UID]migrate.WorkspaceDecision
}

func byUID(d *migrate.Decisions) decided {
	by := decided{owners: map[types.UID]migrate.OwnerDecision{}, workspaces: map[types.UID]migrate.WorkspaceDecision{}}
	if d == nil {
		return by
	}
	for _, decision := range d.Owners {
		by.owners[decision.UID] = decision
	}
	for _, decision := range d.Workspaces {
		by.workspaces[decision.UID] = decision
	}
	return by
}
