// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate/check"
)

// The roles are read from config/rbac/captctl.yaml, so that what they grant is pinned here.
func TestTheRolesGrantNoMoreThanTheCommandsWrite(t *testing.T) {
	list := func(roles ...string) (found []string) {
		rights, err := check.Rights("capt-system", roles...)
		require.NoError(t, err)
		for _, right := range rights {
			found = append(found, right.String())
		}
		return found
	}
	rights, err := check.Rights("capt-system", check.RoleReader, check.RoleJournalReader)
	require.NoError(t, err)
	require.NotEmpty(t, rights)
	for _, right := range rights {
		assert.Contains(t, []string{"get", "list"}, right.Verb, right)
		assert.NotEqual(t, "secrets", right.Resource)
	}
	const infrastructure, controlPlane = ".infrastructure.cluster.x-k8s.io", ".controlplane.cluster.x-k8s.io"
	assert.ElementsMatch(t, []string{
		"patch captclusters" + infrastructure, "patch workspacetemplates" + infrastructure, "create workspacetemplates" + infrastructure,
		"patch workspacetemplateapplies" + infrastructure, "patch workspacetemplateapplies/status" + infrastructure, "patch captcontrolplanes" + controlPlane,
		"list leases.coordination.k8s.io", "create leases.coordination.k8s.io in namespace capt-system", "update leases.coordination.k8s.io in namespace capt-system",
		"create configmaps in namespace capt-system", "update configmaps in namespace capt-system",
		"migrate guards.capt.cluster.x-k8s.io",
	}, list(check.RoleWriter, check.RoleJournal))
	assert.Equal(t, []string{"patch clusters.cluster.x-k8s.io"}, list(check.RoleEndpoints))
	assert.Len(t, list(check.RoleOwners), 3)
}
