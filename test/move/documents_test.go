// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package move_test

import (
	"fmt"
	"strings"
)

// providerConfigs are the same on both sides: what is configured is part of what Terraform plans.
var providerConfigs = []string{`
apiVersion: tf.m.upbound.io/v1beta1
kind: ClusterProviderConfig
metadata: {name: shared}
spec: {pluginCache: false}
`, `
apiVersion: tf.upbound.io/v1beta1
kind: ProviderConfig
metadata: {name: shared}
spec: {pluginCache: false}
`}

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
    users           = [{ name = "eks", user = { token = "token" } }]
  })
}
`

// template is a WorkspaceTemplate with a module and its variables.
func template(name, scope, module string, variables ...string) string {
	var vars strings.Builder
	for _, variable := range variables {
		fmt.Fprintf(&vars, "\n        - {key: %s, value: '${%s}'}", variable, variable)
	}
	kind := map[string]string{"Namespaced": "ClusterProviderConfig", "Cluster": "ProviderConfig"}[scope]
	return fmt.Sprintf(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata:
  name: %s
spec:
  workspaceScope: %s
  template:
    spec:
      providerConfigRef: {kind: %s, name: shared}
      forProvider:
        source: Inline
        module: |%s
        vars:%s
`, name, scope, kind, strings.ReplaceAll(module, "\n", "\n          "), vars.String())
}

func vpcTemplate(scope string) string { return template("vpc", scope, vpcModule, "vpc_name") }

// everything is all documents of a Cluster named demo, with Workspaces of a scope.
func everything(scope string) []string {
	return []string{
		vpcTemplate(scope), template("eks", scope, controlPlaneModule, "cluster_name", "kubernetes_version"), `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTCluster, name: demo}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: CAPTControlPlane, name: demo}
`, `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTCluster
metadata: {name: demo}
spec:
  region: eu-central-1
  vpc: {template: {ref: {name: vpc}}}
`, `
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: CAPTControlPlane
metadata: {name: demo}
spec:
  version: v1.34.0
  workspaceTemplateRef: {name: eks}
`}
}

// alone is a WorkspaceTemplateApply that belongs to no Cluster.
const alone = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplateApply
metadata: {name: alone}
spec:
  templateRef: {name: vpc}
  variables: {vpc_name: alone}
  writeConnectionSecretToRef: {name: alone-outputs}
`
