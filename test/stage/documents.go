// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"fmt"
	"strings"

	"github.com/capt-provider/capt/api/terraform"
)

// Names of what the Cluster of a World consists of.
const (
	// Demo is the name of the Cluster, of its CAPTCluster and of its CAPTControlPlane.
	Demo = "demo"
	// VPC and ControlPlane are the names of their WorkspaceTemplateApplies.
	VPC          = "demo-vpc"
	ControlPlane = "demo-eks-controlplane-apply"
	// VPCTemplate and ControlPlaneTemplate are the names of their WorkspaceTemplates.
	VPCTemplate          = "vpc"
	ControlPlaneTemplate = "eks"
)

// Modules of the templates.
const (
	// VPCModule makes a VPC of words alone.
	VPCModule = `
variable "vpc_name" { type = string }
resource "terraform_data" "vpc" { input = var.vpc_name }
output "vpc_id" { value = "vpc-0${substr(md5(terraform_data.vpc.output), 0, 8)}" }
output "availability_zones" { value = ["eu-central-1a", "eu-central-1b"] }
`
	// ControlPlaneModule makes a control plane of words alone: its endpoint leads nowhere.
	ControlPlaneModule = `
variable "cluster_name" { type = string }
variable "tags" { type = string }
resource "terraform_data" "eks" { input = "${var.cluster_name} ${var.tags}" }
output "cluster_endpoint" { value = "https://127.0.0.1:1" }
output "kubeconfig" {
  sensitive = true
  value = jsonencode({
    apiVersion = "v1", kind = "Config", current-context = "eks"
    contexts = [{ name = "eks", context = { cluster = "eks", user = "eks" } }]
    clusters = [{ name = "eks", cluster = { server = "https://127.0.0.1:1" } }]
    users = [{ name = "eks", user = { token = "words" } }]
  })
}
`
)

// ProviderConfig is that of the World, named as its namespace.
func (w *World) ProviderConfig() string {
	kind, group := w.providerConfigKind()
	return fmt.Sprintf("{apiVersion: %s/v1beta1, kind: %s, metadata: {name: %s}, spec: {pluginCache: false}}", group, kind, w.Namespace)
}

func (w *World) providerConfigKind() (kind, group string) {
	if w.Scope == terraform.ScopeCluster {
		return "ProviderConfig", "tf.upbound.io"
	}
	return "ClusterProviderConfig", "tf.m.upbound.io"
}

// Template is a WorkspaceTemplate with a module and the variables that it is given.
func (w *World) Template(name, module string, variables ...string) string {
	kind, _ := w.providerConfigKind()
	var vars strings.Builder
	for _, variable := range variables {
		fmt.Fprintf(&vars, "\n        - {key: %s, value: '${%s}'}", variable, variable)
	}
	return fmt.Sprintf(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata: {name: %s}
spec:
  workspaceScope: %s
  template:
    spec:
      providerConfigRef: {kind: %s, name: %s}
      forProvider:
        source: Inline
        module: |%s
        vars:%s
`, name, w.Scope, kind, w.Namespace, strings.ReplaceAll(module, "\n", "\n          "), vars.String())
}

// Templates are those of the VPC and of the control plane, as most tests have them.
func (w *World) Templates() []string {
	return []string{w.VPCTemplate(VPCModule), w.ControlPlaneTemplate(ControlPlaneModule)}
}

// VPCTemplate is the template of the VPC with a module.
func (w *World) VPCTemplate(module string) string { return w.Template(VPCTemplate, module, "vpc_name") }

// ControlPlaneTemplate is the template of the control plane with a module.
func (w *World) ControlPlaneTemplate(module string) string {
	return w.Template(ControlPlaneTemplate, module, "cluster_name", "tags")
}

// Cluster is the Cluster; more are lines of its spec.
func Cluster(more ...string) string { return ClusterOf(Demo, Demo, more...) }

// ClusterOf is the Cluster, with a CAPTCluster and a CAPTControlPlane of other names.
func ClusterOf(captCluster, controlPlane string, more ...string) string {
	return fmt.Sprintf(`
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTCluster, name: %s}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: CAPTControlPlane, name: %s}%s
`, captCluster, controlPlane, indented(more))
}

// CAPTCluster makes its VPC from the template; more are lines of that.
func CAPTCluster(name string, more ...string) string {
	return fmt.Sprintf(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTCluster
metadata: {name: %s}
spec:
  region: eu-central-1
  vpc: {template: {ref: {name: vpc}%s}}
`, name, strings.Join(append([]string{""}, more...), ", "))
}

// CAPTControlPlane is made from the template; more are lines of its spec.
func CAPTControlPlane(name string, more ...string) string {
	return fmt.Sprintf(`
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: CAPTControlPlane
metadata: {name: %s}
spec:
  version: v1.35.0
  workspaceTemplateRef: {name: eks}%s
`, name, indented(more))
}

// Everything is all documents of a cluster.
func (w *World) Everything() []string {
	return append(w.Templates(), Cluster(), CAPTCluster(Demo), CAPTControlPlane(Demo))
}

func indented(lines []string) string {
	var text strings.Builder
	for _, line := range lines {
		text.WriteString("\n  " + line)
	}
	return text.String()
}
