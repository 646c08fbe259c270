// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package naming_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/capt-provider/capt/api/naming"
)

func TestEachShardHasItsOwnLease(t *testing.T) {
	assert.Equal(t, "capt-manager-leader-election", naming.LeaderElectionLease("", ""), "upgrades keep their Lease")
	long := strings.Repeat("x", 63)
	seen := map[string]bool{}
	for _, shard := range [][2]string{
		{"", ""}, {"a", ""}, {"", "a"}, {"a", "b"}, {"b", "a"}, {"a-b", ""}, {"", "a-b"}, {"", "Under_score.1"}, {long, long}, {long, ""}, {"", long},
	} {
		name := naming.LeaderElectionLease(shard[0], shard[1])
		assert.Empty(t, validation.NameIsDNSSubdomain(name, false), name)
		assert.False(t, seen[name], "%v shares %s", shard, name)
		seen[name] = true
		assert.Equal(t, name, naming.LeaderElectionLease(shard[0], shard[1]), "every replica of a shard finds the same")
	}
}
