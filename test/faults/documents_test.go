// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"strings"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

// templateName is the name of the template of a world.
const templateName = "net"

// module creates two resources, and its output is its variable.
const module = `
variable "cidr" {
  type = string
}
resource "terraform_data" "vpc" {
  input = var.cidr
}
resource "terraform_data" "subnet" {
  input = var.cidr
}
output "cidr" {
  value = terraform_data.vpc.output
}
`

// template is a WorkspaceTemplate of the world's scope; more are lines of its Workspace's spec.
func (w *world) template(more ...string) string {
	return w.templateWith(templateName, sandbox.ProviderConfigName, module, more...)
}

func (w *world) templateWith(name, providerConfig, module string, more ...string) string {
	kind := "ClusterProviderConfig"
	if w.scope == terraform.ScopeCluster {
		kind = "ProviderConfig"
	}
	var lines strings.Builder
	for _, line := range more {
		lines.WriteString("\n      " + line)
	}
	return fmt.Sprintf(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata:
  name: %s
spec:
  workspaceScope: %s
  publishOutputs: [cidr]
  template:
    spec:%s
      providerConfigRef: {kind: %s, name: %s}
      forProvider:
        source: Inline
        module: |%s
        vars:
        - {key: cidr, value: '${cidr}'}
`, name, w.scope, lines.String(), kind, providerConfig, strings.ReplaceAll(module, "\n", "\n          "))
}

// workspaceTemplateApply uses the template of the world; more are lines of its spec.
func workspaceTemplateApply(name, cidr string, more ...string) string {
	return fixture.WorkspaceTemplateApply(templateName, name, append([]string{"variables: {cidr: " + cidr + "}"}, more...)...)
}
