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
