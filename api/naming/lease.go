// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package naming

// leaderElectionLease is the Lease of a manager that watches everything.
const leaderElectionLease = "capt-manager-leader-election"

// LeaderElectionLease is the name of the Lease that managers contend for. Managers of different shards, by namespace or by the value
// of the watch label, have different ones: with one Lease, only one shard would be reconciled. The value of a label need not
// be a valid name, so it is hashed.
func LeaderElectionLease(namespace, watchFilter string) string {
	if namespace == "" && watchFilter == "" {
		return leaderElectionLease
	}
	return leaderElectionLease + "-" + hash(12, namespace+"/"+watchFilter) // A namespace has no slash.
}
