// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"fmt"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
)

// VPCReplaced returns the condition that is True while Terraform reports another VPC than the one that the cluster was created in.
func VPCReplaced(captCluster *infrav1.CAPTCluster) engine.Condition {
	vpc := captCluster.Status.VPC
	if vpc.ReplacedBy == "" {
		return engine.False(infrav1.VPCReplacedCondition, infrav1.VPCNotReplacedReason, "")
	}
	return engine.True(infrav1.VPCReplacedCondition, infrav1.VPCReplacedReason, fmt.Sprintf(
		"Terraform reports VPC %[1]s for CAPTCluster %[2]s, but the control plane was created in %[3]s and cannot move. "+
			"Check first whether %[3]s still exists: aws ec2 describe-vpcs --vpc-ids %[3]s. "+
			"If it exists, import it into the Terraform state before you revert the change that replaced it. "+
			"If it does not exist, revert nothing, because Terraform would create a third VPC: recreate the control plane in %[1]s (docs/troubleshooting.md#a-replaced-vpc)",
		vpc.ReplacedBy, captCluster.Name, vpc.ID))
}
