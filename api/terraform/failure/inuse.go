// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// inUseCode is the error code of EC2 for a resource that other resources still use.
const inUseCode = "DependencyViolation"

// namedResources limits how many resources a message names.
const namedResources = 10

// networkID matches IDs of network resources of EC2. They are not confidential.
var networkID = regexp.MustCompile(`\b(?:vpc|vpce|subnet|sg|eni|igw|eigw|nat|rtb|acl|eipalloc)-[0-9a-f]{8}(?:[0-9a-f]{9})?\b`)

// inUseAdvice names the resources that cannot be destroyed because others use them, from all errors of the run; empty when there are none.
func inUseAdvice(message string) string {
	output, _ := unpack(message)
	var ids []string
	found := false
	for _, text := range append(diagnostics(output), withoutTail(message)) {
		if strings.Contains(text, inUseCode) {
			found = true
			ids = append(ids, networkID.FindAllString(text, -1)...)
		}
	}
	if !found {
		return ""
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	named := "it"
	if more := len(ids) - namedResources; more > 0 {
		named = fmt.Sprintf("%s and %d more", strings.Join(ids[:namedResources], ", "), more)
	} else if len(ids) > 0 {
		named = strings.Join(ids, ", ")
	}
	return fmt.Sprintf("Resources that are not in the Terraform state still use %s, usually load balancers, network interfaces or security groups that workloads created. "+
		"Delete them as described in docs/deletion.md (Leftovers in the VPC). "+retries, named)
}
