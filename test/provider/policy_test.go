// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/test/provider/api/managed"
)

func TestPolicy(t *testing.T) {
	type actions = managed.ManagementPolicies
	const (
		all, see, found, change, remove = managed.ActionAll, managed.ActionObserve, managed.ActionCreate, managed.ActionUpdate, managed.ActionDelete
	)
	for name, tc := range map[string]struct {
		policy                                       policy
		paused, invalid, create, update, del, seeing bool
	}{
		"default":                        {policy: policy{actions: actions{all}}, create: true, update: true, del: true},
		"default, delete":                {policy: policy{actions{all}, managed.DeletionDelete}, create: true, update: true, del: true},
		"default, orphan":                {policy: policy{actions{all}, managed.DeletionOrphan}, create: true, update: true},
		"explicit delete beats orphan":   {policy: policy{actions{see, found, change, remove}, managed.DeletionOrphan}, create: true, update: true, del: true},
		"without delete, delete":         {policy: policy{actions{see, found, change}, managed.DeletionDelete}, create: true, update: true},
		"without delete":                 {policy: policy{actions: actions{see, found, change}}, create: true, update: true},
		"without update":                 {policy: policy{actions: actions{see, found, remove}}, create: true, del: true},
		"observe":                        {policy: policy{actions: actions{see}}, seeing: true},
		"observe and delete":             {policy: policy{actions: actions{see, remove}}, del: true},
		"nothing is paused":              {policy: policy{actions: actions{}}, paused: true, invalid: true},
		"all and more is not a set":      {policy: policy{actions: actions{all, see}}, invalid: true, create: true, update: true, del: true},
		"create without observe":         {policy: policy{actions: actions{found}}, invalid: true, create: true},
		"observe and update, no create":  {policy: policy{actions: actions{see, change}}, invalid: true, update: true},
		"delete without observe":         {policy: policy{actions: actions{remove}}, invalid: true, del: true},
		"the same action several times ": {policy: policy{actions: actions{see, see}}, seeing: true},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.paused, tc.policy.paused(), "paused")
			require.Equal(t, tc.invalid, tc.policy.validate() != nil, "invalid")
			require.Equal(t, tc.create, tc.policy.mayCreate(), "create")
			require.Equal(t, tc.update, tc.policy.mayUpdate(), "update")
			require.Equal(t, tc.del, tc.policy.mayDelete(), "delete")
			require.Equal(t, tc.seeing, tc.policy.observeOnly(), "observe only")
		})
	}
}
