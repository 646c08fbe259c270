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
		"Terraform replaced VPC %s of CAPTCluster %s by %s, but the control plane was created in the first one and cannot move. "+
			"Revert the change that replaced it, so that Terraform has %s again, or recreate the control plane in the other one (docs/troubleshooting.md#a-replaced-vpc)",
		vpc.ID, captCluster.Name, vpc.ReplacedBy, vpc.ID))
}
