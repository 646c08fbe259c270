// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package naming

// leaderElectionLease is the Lease of a manager that watches all namespaces and objects.
const leaderElectionLease = "capt-manager-leader-election"

// LeaderElectionLease returns the name of the Lease for leader election. Managers that watch another namespace or another value of the
// watch label need different Leases: with one Lease, only one of them would reconcile. The label value may not be a valid name, so it is
// hashed.
func LeaderElectionLease(namespace, watchFilter string) string {
	if namespace == "" && watchFilter == "" {
		return leaderElectionLease
	}
	return leaderElectionLease + "-" + hash(12, namespace+"/"+watchFilter) // A namespace has no slash.
}
