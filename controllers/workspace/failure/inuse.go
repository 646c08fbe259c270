// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// inUseCode is what EC2 answers when something else uses what is to be deleted.
const inUseCode = "DependencyViolation"

// namedResources is how many resources a message names.
const namedResources = 10

// networkID is the ID of a resource of EC2's networks. It is not confidential.
var networkID = regexp.MustCompile(`\b(?:vpc|vpce|subnet|sg|eni|igw|eigw|nat|rtb|acl|eipalloc)-[0-9a-f]{8}(?:[0-9a-f]{9})?\b`)

// inUseAdvice names what could not be destroyed because something else uses it, in all errors of the run; empty when there is no
// such error.
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
	return fmt.Sprintf("Terraform could not destroy; it is tried again. Something that is not in the Terraform state still uses %s, mostly load balancers, "+
		"network interfaces or security groups that workloads left behind. Delete those as docs/deletion.md (Leftovers in the VPC) shows:", named)
}
