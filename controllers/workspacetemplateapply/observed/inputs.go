// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Inputs has the objects that failed runs of Terraform used, so that a change of one causes a reconcile.
type Inputs struct {
	lock sync.Mutex
	// of has the inputs of a WorkspaceTemplateApply, as from workspace.InputKey.
	of map[types.NamespacedName][]string
}

// Set replaces the inputs of a WorkspaceTemplateApply; none removes it.
func (i *Inputs) Set(apply types.NamespacedName, inputs []string) {
	i.lock.Lock()
	defer i.lock.Unlock()
	if len(inputs) == 0 {
		delete(i.of, apply)
		return
	}
	if i.of == nil {
		i.of = map[types.NamespacedName][]string{}
	}
	i.of[apply] = inputs
}

// Users lists the WorkspaceTemplateApplies whose failed runs used an object.
func (i *Inputs) Users(input string) (users []types.NamespacedName) {
	i.lock.Lock()
	defer i.lock.Unlock()
	for apply, inputs := range i.of {
		if slices.Contains(inputs, input) {
			users = append(users, apply)
		}
	}
	return users
}
