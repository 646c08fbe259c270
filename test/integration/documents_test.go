// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"strings"
)

// vpcModule is the smallest module that a VPC template can have.
const vpcModule = `
variable "vpc_name" {
  type = string
}
resource "terraform_data" "vpc" {
  input = var.vpc_name
}
output "vpc_id" {
  value = "vpc-0${substr(md5(terraform_data.vpc.output), 0, 8)}"
}
output "availability_zones" {
  value = ["eu-central-1a", "eu-central-1b"]
}
`

// controlPlaneModule makes a control plane of words alone: its endpoint leads nowhere.
const controlPlaneModule = `
variable "cluster_name" {
  type = string
}
variable "kubernetes_version" {
  type = string
}
resource "terraform_data" "eks" {
  input = { name = var.cluster_name, version = var.kubernetes_version }
}
output "cluster_name" {
  value = terraform_data.eks.output.name
}
output "cluster_endpoint" {
  value = "https://127.0.0.1:1"
}
output "kubeconfig" {
  sensitive = true
  value = yamlencode({
    apiVersion      = "v1"
    kind            = "Config"
    current-context = "eks"
    contexts        = [{ name = "eks", context = { cluster = "eks", user = "eks" } }]
    clusters        = [{ name = "eks", cluster = { server = "https://127.0.0.1:1" } }]
    users           = [{ name = "eks", user = { token = "canary-token" } }]
  })
}
`

// template is a WorkspaceTemplate with a module, its variables, and a ClusterProviderConfig.
func template(name, module, providerConfig string, variables ...string) string {
	var vars strings.Builder
	for _, variable := range variables {
		fmt.Fprintf(&vars, "\n        - {key: %s, value: '${%s}'}", variable, variable)
	}
	if vars.Len() == 0 {
		vars.WriteString(" []")
	}
	return fmt.Sprintf(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata:
  name: %s
spec:
  template:
    spec:
      providerConfigRef: {kind: ClusterProviderConfig, name: %s}
      forProvider:
        source: Inline
        module: |%s
        vars:%s
`, name, providerConfig, strings.ReplaceAll(module, "\n", "\n          "), vars.String())
}

func vpcTemplate() string {
	return template("vpc", vpcModule, "sandbox", "vpc_name")
}

func controlPlaneTemplate() string {
	return template("eks", controlPlaneModule, "sandbox", "cluster_name", "kubernetes_version")
}

func cluster(name string) string {
	return fmt.Sprintf(`
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata:
  name: %[1]s
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTCluster, name: %[1]s}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: CAPTControlPlane, name: %[1]s}
`, name)
}

func captCluster(name string) string {
	return fmt.Sprintf(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTCluster
metadata:
  name: %s
spec:
  region: eu-central-1
  vpc: {template: {ref: {name: vpc}}}
`, name)
}

func controlPlane(name, version string) string {
	return fmt.Sprintf(`
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: CAPTControlPlane
metadata:
  name: %s
spec:
  version: %s
  workspaceTemplateRef: {name: eks}
`, name, version)
}

// everything is all documents of a cluster.
func everything(name, version string) []string {
	return []string{vpcTemplate(), controlPlaneTemplate(), cluster(name), captCluster(name), controlPlane(name, version)}
}
