// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"

	"github.com/capt-provider/capt/migrate/plan"
)

// readme of an archive.
func readme(p *plan.Plan) string {
	return fmt.Sprintf(`# Backup of plan %[1]s

captctl wrote this archive before the first write of plan %[1]s, in the management cluster whose namespace kube-system has the UID
%[2]s.

- objects/KIND.GROUP/NAMESPACE/NAME.json: CAPT's objects, Clusters and Workspaces, as they were, without managedFields and resourceVersion.
  Workspaces that are cluster-wide are in objects/*/_cluster.
- provider-configs.json: to which ProviderConfigs the Workspaces refer, and how many. Secrets and ProviderConfigs are not in the archive.
- plan.json: the plan, and what it writes. backup.json: what the archive contains. SHA256SUMS: checksums of all entries (sha256sum -c).

Keep the archive private: variables of Workspaces may contain credentials.

## To undo the migration

    captctl migrate rollback %[1]s

reverts the fields that the plan wrote, and nothing else. It does not need this archive.

## To restore an object

1. Stop CAPT and provider-terraform (scale their Deployments to 0), so that nothing acts on objects that are only half restored.
2. An object that still exists: compare it (kubectl diff -f FILE), then kubectl replace -f FILE. kubectl refuses if it was recreated since.
   Its status, if it has to be restored too: kubectl replace --subresource=status -f FILE.
3. An object that was deleted gets a new UID: kubectl create -f FILE. Remove metadata.ownerReferences before, or set their UIDs to those of the
   owners that exist now: otherwise the garbage collector deletes the object again, and what it manages in the cloud may be destroyed.
   A Workspace keeps the annotation crossplane.io/external-name, by which its Terraform state is found.
4. Start provider-terraform and CAPT, and look at captctl migrate status.
`, p.ID, p.ClusterUID)
}
