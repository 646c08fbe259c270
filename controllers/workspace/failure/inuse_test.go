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

// Errors as the AWS provider of Terraform prints them when load balancers of a deleted cluster are still in its VPC.
const leftovers = `
Error: deleting EC2 Subnet (subnet-0aaaaaaaaaaaaaaa1): operation error EC2: DeleteSubnet, https response error StatusCode: 400, RequestID: 1f3f, api error DependencyViolation: The subnet 'subnet-0aaaaaaaaaaaaaaa1' has dependencies and cannot be deleted.

Error: deleting EC2 Internet Gateway (igw-0ccccccccccccccc3): detaching EC2 Internet Gateway (igw-0ccccccccccccccc3) from VPC (vpc-0bbbbbbbbbbbbbbb2): api error DependencyViolation: Network vpc-0bbbbbbbbbbbbbbb2 has some mapped public address(es). Please unmap those public address(es) before detaching the gateway.

Error: deleting Security Group (sg-0ddddddddddddddd4): api error InvalidGroup.InUse: it is in use
`

const destroyFailed = "delete failed: cannot destroy Terraform configuration"

func TestSafety28WhatLeftoversBlockIsNamed(t *testing.T) {
	for name, unknown := range map[string]bool{"secrets are known": false, "secrets cannot be read": true} {
		t.Run(name, func(t *testing.T) {
			got := Tell(failed(destroyFailed, leftovers), nil, unknown)
			assert.Equal(t, infrav1.DestroyFailedReason, got.Reason)
			assert.Equal(t, ClassConfig, got.Class)
			assert.Contains(t, got.Message, "still uses igw-0ccccccccccccccc3, subnet-0aaaaaaaaaaaaaaa1, vpc-0bbbbbbbbbbbbbbb2, mostly load balancers",
				"also those of the errors after the first, in one order")
			assert.Contains(t, got.Message, "Delete those as docs/deletion.md (Leftovers in the VPC) shows:")
			assert.Equal(t, !unknown, strings.Contains(got.Message, "has dependencies and cannot be deleted"))
		})
	}
}

func TestSafety28OnlyLeftoversGetThisAdvice(t *testing.T) {
	const advice = "not in the Terraform state"
	violation := "Error: deleting EC2 VPC: DependencyViolation: it has dependencies\n"
	assert.Contains(t, Tell(failed(destroyFailed, violation), nil, false).Message, "still uses it, mostly", "the error names none")
	assert.NotContains(t, Tell(failed("update failed: cannot apply Terraform configuration", violation), nil, false).Message, advice, "it is no destroy")
	assert.NotContains(t, Tell(failed(destroyFailed, "Error: deleting EKS Cluster: ResourceInUseException: it has node groups\n"), nil, false).Message, advice)
	assert.NotContains(t, Tell(failed(destroyFailed, "Error: AccessDeniedException: no\n"+violation), nil, false).Message, advice, "rights come first")

	var many strings.Builder
	for i := range 12 {
		fmt.Fprintf(&many, "Error: deleting EC2 Subnet (subnet-%08x): DependencyViolation: in use\n", 11-i)
	}
	got := Tell(failed(destroyFailed, many.String()), nil, false)
	assert.Contains(t, got.Message, "uses subnet-00000000, subnet-00000001,")
	assert.Contains(t, got.Message, "subnet-00000009 and 2 more, mostly")
	assert.LessOrEqual(t, len(got.Message), maxMessageLength)
}
