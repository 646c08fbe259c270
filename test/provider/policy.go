// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"slices"

	"github.com/capt-provider/capt/test/provider/api/managed"
)

// policy is what the provider may do with a Workspace's resources.
type policy struct {
	actions managed.ManagementPolicies
	// deletion is empty in the namespaced scope, which has no deletionPolicy.
	deletion managed.DeletionPolicy
}

func (p policy) has(actions ...managed.ManagementAction) bool {
	return slices.ContainsFunc(actions, func(a managed.ManagementAction) bool { return slices.Contains(p.actions, a) })
}

func (p policy) is(actions ...managed.ManagementAction) bool {
	return p.has(actions...) && !slices.ContainsFunc(p.actions, func(a managed.ManagementAction) bool { return !slices.Contains(actions, a) })
}

func (p policy) paused() bool      { return len(p.actions) == 0 }
func (p policy) mayCreate() bool   { return p.has(managed.ActionCreate, managed.ActionAll) }
func (p policy) mayUpdate() bool   { return p.has(managed.ActionUpdate, managed.ActionAll) }
func (p policy) observeOnly() bool { return p.is(managed.ActionObserve) }

// mayDelete weighs deletionPolicy against managementPolicies: the one that is not the default wins.
func (p policy) mayDelete() bool {
	if p.deletion == managed.DeletionOrphan {
		return p.has(managed.ActionDelete) && !p.is(managed.ActionAll)
	}
	return p.has(managed.ActionDelete, managed.ActionAll)
}

// validate allows the sets that crossplane-runtime supports: everything, Observe with or without Delete, and every
// set that has both Observe and Create.
func (p policy) validate() error {
	switch {
	case p.is(managed.ActionAll), p.is(managed.ActionObserve):
		return nil
	case p.has(managed.ActionAll):
	case p.has(managed.ActionObserve) && p.has(managed.ActionCreate):
		return nil
	case p.has(managed.ActionObserve) && p.has(managed.ActionDelete) && p.is(managed.ActionObserve, managed.ActionDelete):
		return nil
	}
	return fmt.Errorf("`spec.managementPolicies` is set to a non-supported value: %v", p.actions)
}
