// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform

// Names of the Terraform outputs that CAPT understands. Templates publish them; see docs/templates.md.
const (
	// OutputVPCID is the ID of the VPC, for example vpc-0abc1234.
	OutputVPCID = "vpc_id"
	// OutputVPCConfig is a file of Terraform variables that describes the VPC; it is read from the connection Secret. CheckVPCConfig
	// documents the format. The VPC template and the templates of Fargate profiles determine its variables.
	OutputVPCConfig = "vpc_config"
	// OutputAvailabilityZones is a list of zones, or a comma-separated string of them.
	OutputAvailabilityZones = "availability_zones"
	// OutputClusterEndpoint is the URL or host[:port] of the EKS API server.
	OutputClusterEndpoint = "cluster_endpoint"
	// OutputClusterName is the name of the EKS cluster.
	OutputClusterName = "cluster_name"
	// OutputClusterVersion is the Kubernetes version that EKS runs, for example 1.31.
	OutputClusterVersion = "cluster_version"
	// OutputClusterCA is the base64 encoded PEM of the EKS certificate authority, as EKS returns it.
	OutputClusterCA = "cluster_certificate_authority_data"
	// OutputKubeconfig is a complete kubeconfig; it is sensitive, so it appears only in the connection Secret.
	OutputKubeconfig = "kubeconfig"
)

// PublishedOutputs lists the outputs that may appear in status in addition to publishOutputs of the template. None of them is a
// secret. Outputs that Terraform marks as sensitive never appear in status.
func PublishedOutputs() []string {
	return []string{
		OutputAvailabilityZones, "cluster_arn", OutputClusterEndpoint, OutputClusterName, OutputClusterVersion,
		"oidc_provider_arn", "private_subnets", "public_subnets", OutputVPCID,
	}
}
