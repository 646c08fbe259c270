// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package move_test

import (
	"strings"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
)

// documents are those of a Cluster named demo with Workspaces of a scope. Their ProviderConfig is the same on both sides: what is configured is
// part of what Terraform plans.
func documents(scope terraform.Scope) *fixture.World {
	return &fixture.World{Namespace: "shared", Scope: scope}
}

// controlPlaneModule is that of the fixture, which follows the version as well.
var controlPlaneModule = strings.Replace(fixture.ControlPlaneModule, "${var.tags}", "${var.tags} ${var.kubernetes_version}", 1) +
	"variable \"kubernetes_version\" { type = string }\n"

func controlPlaneTemplate(scope terraform.Scope, module string) string {
	return documents(scope).Template(fixture.ControlPlaneTemplate, module, "cluster_name", "tags", "kubernetes_version")
}

// everything is all documents of a Cluster with version 1.34.
func everything(scope terraform.Scope) []string {
	return []string{
		documents(scope).VPCTemplate(fixture.VPCModule), controlPlaneTemplate(scope, controlPlaneModule), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo),
		strings.Replace(fixture.CAPTControlPlane(fixture.Demo), "v1.35.0", "v1.34.0", 1),
	}
}

// alone is a WorkspaceTemplateApply that belongs to no Cluster.
func alone() string {
	return fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "alone", "variables: {vpc_name: alone}", "writeConnectionSecretToRef: {name: alone-outputs}")
}
