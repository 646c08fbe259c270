// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

// clusterModule pretends to make a cluster, and says that it is the one of the sandbox: Cluster API connects to it.
var clusterModule = sync.OnceValue(func() string {
	kubeconfig, err := os.ReadFile(shared.Kubeconfig())
	if err != nil {
		panic(err)
	}
	config := shared.Config()
	return fmt.Sprintf(`
variable "cluster_name" { type = string }
variable "kubernetes_version" { type = string }
resource "terraform_data" "eks" { input = { name = var.cluster_name, version = var.kubernetes_version } }
output "cluster_name" { value = terraform_data.eks.output.name }
output "cluster_endpoint" { value = "%s" }
output "cluster_certificate_authority_data" { value = "%s" }
output "kubeconfig" {
  sensitive = true
  value     = base64decode("%s")
}
`, config.Host, base64.StdEncoding.EncodeToString(config.CAData), base64.StdEncoding.EncodeToString(kubeconfig))
})

// templates are those of any environment, with the ProviderConfig of the sandbox.
var templates = &fixture.Environment{Namespace: sandbox.ProviderConfigName, Scope: terraform.ScopeNamespaced}

func vpcTemplate() string { return templates.VPCTemplate(fixture.VPCModule) }

// changedVPCTemplate is one that Terraform must apply again.
func changedVPCTemplate() string { return templates.VPCTemplate(fixture.VPCModule + "# changed\n") }

func controlPlaneTemplate() string {
	return templates.Template(fixture.ControlPlaneTemplate, clusterModule(), "cluster_name", "kubernetes_version")
}

func cluster(name string) string { return fixture.ClusterNamed(name) }

// infrastructureOnly is a Cluster that brings its control plane itself.
func infrastructureOnly(name string) string { return fixture.ClusterWithoutControlPlane(name) }

func newVPC(name string) string { return fixture.CAPTCluster(name) }

// existingVPC is a CAPTCluster that needs no Terraform.
func existingVPC(name string) string {
	return fixture.CAPTClusterWith(name, "{existingID: vpc-0123456789abcdef0}")
}

// noProbe is a line of the spec of control planes: the API server of all clusters is the one of the tests, which has a version of its own.
const noProbe = "endpointProbe: Disabled"

func eks(name, version string) string {
	return strings.Replace(fixture.CAPTControlPlane(name, noProbe), "v1.35.0", version, 1)
}

// everything is all documents of a Cluster.
func everything(name, version string) []string {
	return append([]string{vpcTemplate(), newVPC(name)}, onlyControlPlane(name, version)...)
}

// inExistingVPC is all documents of a Cluster whose VPC is there already.
func inExistingVPC(name, version string) []string {
	return append([]string{existingVPC(name)}, onlyControlPlane(name, version)...)
}

func onlyControlPlane(name, version string) []string {
	return []string{controlPlaneTemplate(), cluster(name), eks(name, version)}
}

// annotated adds an annotation to a document.
func annotated(document, annotation, value string) string {
	return strings.Replace(document, "metadata: {", fmt.Sprintf("metadata: {annotations: {%s: %q}, ", annotation, value), 1)
}

// clusterClass makes clusters of one shape.
const clusterClass = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: eks}
spec:
  infrastructure:
    templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: CAPTClusterTemplate, name: eks}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: CAPTControlPlaneTemplate, name: eks}
`

const captClusterTemplate = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTClusterTemplate
metadata: {name: eks}
spec:
  template:
    metadata:
      labels: {cluster.x-k8s.io/watch-filter: first, team: network}
      annotations: {example.com/cost-center: "7"}
    spec:
      region: eu-central-1
      vpc: {existingID: vpc-0123456789abcdef0}
`

const captControlPlaneTemplate = `
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: CAPTControlPlaneTemplate
metadata: {name: eks}
spec:
  template:
    metadata:
      labels: {cluster.x-k8s.io/watch-filter: first, team: platform}
      annotations: {example.com/cost-center: "7"}
    spec:
      workspaceTemplateRef: {name: eks}
      additionalTags: {team: platform}
      ` + noProbe + `
`

// classyCluster is a Cluster of the ClusterClass.
func classyCluster(name, version string) string {
	return fmt.Sprintf(`
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: %s}
spec:
  topology:
    classRef: {name: eks}
    version: %s
`, name, version)
}
