// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
)

// Names that every life of a test has in common.
const (
	templateName = "vpc"
	applyName    = "demo"
	// legacyWorkspace is one that the naming scheme would not give.
	legacyWorkspace = "of-an-older-capt"
	// connectionSecret receives the outputs. That it is in the namespace is how an adopted Workspace is known to belong there.
	connectionSecret = "outputs"
)

// template is a WorkspaceTemplate whose module creates one resource, and outputs its range.
func template(scope terraform.Scope) string {
	kind := "ClusterProviderConfig"
	if scope == terraform.ScopeCluster {
		kind = "ProviderConfig"
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
    spec:
      providerConfigRef: {kind: %s, name: sandbox}
      writeConnectionSecretToRef: {name: %s}
      forProvider:
        source: Inline
        module: |
          variable "cidr" {
            type = string
          }
          resource "terraform_data" "vpc" {
            input = var.cidr
          }
          output "cidr" {
            value = terraform_data.vpc.output
          }
        vars:
        - {key: cidr, value: '${cidr}'}
`, templateName, scope, kind, connectionSecret)
}

// workspaceTemplateApply uses the template; more are lines of its spec.
func workspaceTemplateApply(cidr string, more ...string) string {
	return fixture.WorkspaceTemplateApply(templateName, applyName, append([]string{"variables: {cidr: " + cidr + "}"}, more...)...)
}

// adopted is a WorkspaceTemplateApply of CAPT v0.3 that a user declares to have a Workspace.
func adopted(cidr string, workspace types.UID) string {
	metadata := fmt.Sprintf("metadata: {finalizers: [%s], annotations: {%s: %q}, ", infrav1.LegacyWorkspaceTemplateApplyFinalizer, naming.AdoptWorkspaceAnnotation, workspace)
	return strings.Replace(workspaceTemplateApply(cidr, "workspaceName: "+legacyWorkspace), "metadata: {", metadata, 1)
}
