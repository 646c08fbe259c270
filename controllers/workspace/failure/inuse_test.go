// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// leftovers are errors of the AWS provider when load balancers of a deleted cluster are still in its VPC.
const leftovers = `
Error: deleting EC2 Subnet (subnet-0aaaaaaaaaaaaaaa1): operation error EC2: DeleteSubnet, https response error StatusCode: 400, RequestID: 1f3f, api error DependencyViolation: The subnet 'subnet-0aaaaaaaaaaaaaaa1' has dependencies and cannot be deleted.

Error: deleting EC2 Internet Gateway (igw-0ccccccccccccccc3): detaching EC2 Internet Gateway (igw-0ccccccccccccccc3) from VPC (vpc-0bbbbbbbbbbbbbbb2): api error DependencyViolation: Network vpc-0bbbbbbbbbbbbbbb2 has some mapped public address(es). Please unmap those public address(es) before detaching the gateway.

Error: deleting Security Group (sg-0ddddddddddddddd4): api error InvalidGroup.InUse: it is in use
`

func TestSafety28LeftoversAreReported(t *testing.T) {
	for name, unknown := range map[string]bool{"secrets are known": false, "secrets cannot be read": true} {
		t.Run(name, func(t *testing.T) {
			got := Explain(failed(destroyFailed, leftovers), Secrets{Incomplete: unknown}, "")
			assert.Equal(t, infrav1.DestroyFailedReason, got.Reason)
			assert.Equal(t, ClassConfig, got.Class)
			assert.Contains(t, got.Message, "still use igw-0ccccccccccccccc3, subnet-0aaaaaaaaaaaaaaa1, vpc-0bbbbbbbbbbbbbbb2, usually load balancers",
				"of all errors, sorted")
			assert.Contains(t, got.Message, "Delete them as described in docs/deletion.md (Leftovers in the VPC).")
			assert.Equal(t, !unknown, strings.Contains(got.Message, "has dependencies and cannot be deleted"))
		})
	}
}

func TestSafety28OnlyLeftoversGetThisAdvice(t *testing.T) {
	const advice = "not in the Terraform state"
	violation := "Error: deleting EC2 VPC: DependencyViolation: it has dependencies\n"
	assert.Contains(t, Explain(failed(destroyFailed, violation), Secrets{}, "").Message, "still use it, usually", "no IDs in the error")
	assert.NotContains(t, Explain(failed(updateFailed, violation), Secrets{}, "").Message, advice, "not a destroy")
	assert.NotContains(t, Explain(failed(destroyFailed, "Error: deleting EKS Cluster: ResourceInUseException: it has node groups\n"), Secrets{}, "").Message, advice)
	assert.NotContains(t, Explain(failed(destroyFailed, "Error: AccessDeniedException: no\n"+violation), Secrets{}, "").Message, advice, "permissions come first")

	var many strings.Builder
	for i := range 12 {
		fmt.Fprintf(&many, "Error: deleting EC2 Subnet (subnet-%08x): DependencyViolation: in use\n", 11-i)
	}
	got := Explain(failed(destroyFailed, many.String()), Secrets{}, "")
	assert.Contains(t, got.Message, "use subnet-00000000, subnet-00000001,")
	assert.Contains(t, got.Message, "subnet-00000009 and 2 more, usually")
	assert.LessOrEqual(t, len(got.Message), maxMessageLength)
}
