// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/test/builder"
)

// Recipe is what a platform team put into the templates of a fleet.
type Recipe struct {
	// VPC and ControlPlane are the Terraform modules, and Variables are those that each of them is given.
	VPC, ControlPlane                   string
	VPCVariables, ControlPlaneVariables []string
	// ProviderConfig has the credentials.
	ProviderConfig string
	// WithoutVPCSecret lets the template of the VPC name no Secret. Otherwise it is in VPCSecretNamespace, which is that of the
	// template unless it says otherwise.
	WithoutVPCSecret   bool
	VPCSecretNamespace string
	// Prefix is put before the names of templates, where those of several fixtures are in one namespace.
	Prefix string
}

// Names of the templates.
const (
	VPCTemplate          = "vpc-template"
	ControlPlaneTemplate = "eks-controlplane-template"
	kubeconfigTemplate   = "eks-kubeconfig-template"
	roleCheckTemplate    = "spot-role-check"
	brokenTemplate       = "eks-broken"
	addonTemplate        = "addon"
	// roleCreateTemplate was never there in clusters that had the role already.
	roleCreateTemplate = "spot-role-create"
)

// plain is a recipe that takes no AWS. Nothing runs it unless a test has a provider.
var plain = Recipe{
	VPC: `variable "cluster_name" { type = string }
variable "vpc_name" { type = string }
resource "terraform_data" "vpc" { input = { name = var.vpc_name, cluster = var.cluster_name } }
output "vpc_id" { value = "vpc-${substr(terraform_data.vpc.id, 0, 8)}" }
`,
	VPCVariables: []string{"cluster_name", "vpc_name"},
	ControlPlane: `variable "cluster_name" { type = string }
variable "kubernetes_version" { type = string }
variable "region" { type = string }
resource "terraform_data" "eks" { input = { name = var.cluster_name, version = var.kubernetes_version, region = var.region } }
output "cluster_name" { value = var.cluster_name }
output "cluster_version" { value = terraform_data.eks.output.version }
output "cluster_endpoint" { value = "https://${upper(substr(terraform_data.eks.id, 0, 8))}.gr7.${var.region}.eks.amazonaws.com" }
output "cluster_certificate_authority_data" { value = "` + builder.CA() + `" }
`,
	ControlPlaneVariables: []string{"cluster_name", "kubernetes_version", "region"},
	ProviderConfig:        "aws-provider-config",
}

const (
	kubeconfigModule = `variable "cluster_name" { type = string }
variable "region" { type = string }
variable "cluster_endpoint" { type = string }
variable "cluster_certificate_authority_data" { type = string }
output "kubeconfig" {
  sensitive = true
  value = yamlencode({ apiVersion = "v1", kind = "Config", clusters = [{ name = var.cluster_name, cluster = {
    server = var.cluster_endpoint, "certificate-authority-data" = var.cluster_certificate_authority_data
  } }] })
}
`
	// brokenModule makes terraform init fail.
	brokenModule = `
terraform {
  required_providers {
    broken = { source = "no/such/provider/source" }
  }
}
`
	addonModule = `variable "cluster_name" { type = string }
resource "terraform_data" "addon" { input = var.cluster_name }
output "id" { value = terraform_data.addon.id }
`
	roleCheckModule = `output "role_exists" { value = "true" }
`
)

// template makes a WorkspaceTemplate as people wrote it. Each variable of the module has a placeholder of its own name.
func (r *Recipe) template(namespace, name, description, module string, variables []string) *infrav1beta1.WorkspaceTemplate {
	t := &infrav1beta1.WorkspaceTemplate{ObjectMeta: meta(namespace, r.Prefix+name)}
	t.Spec.Template.Metadata = &infrav1beta1.WorkspaceTemplateMetadata{Description: &description, Version: ptr.To("1.0.0")}
	t.Spec.Template.Spec = infrav1beta1.WorkspaceSpec{
		ProviderConfigRef: &infrav1beta1.ProviderConfigReference{Name: r.ProviderConfig},
		ForProvider:       infrav1beta1.WorkspaceParameters{Source: "Inline", Module: module},
	}
	for _, variable := range variables {
		t.Spec.Template.Spec.ForProvider.Vars = append(t.Spec.Template.Spec.ForProvider.Vars, infrav1beta1.Var{Key: variable, Value: "${" + variable + "}"})
	}
	return t
}

// templates that a cluster uses. That of the VPC names the Secret with a placeholder, the others leave it to those who use them.
func (c *Cluster) templates() []*infrav1beta1.WorkspaceTemplate {
	r, namespace := c.Recipe, c.Templates
	vpc := r.template(namespace, VPCTemplate, "VPC", r.VPC, r.VPCVariables)
	if !r.WithoutVPCSecret {
		secret := &infrav1beta1.SecretReference{Name: "${WORKSPACE_NAME}-connection", Namespace: r.VPCSecretNamespace}
		if secret.Namespace == "" {
			secret.Namespace = namespace
		}
		vpc.Spec.Template.Spec.WriteConnectionSecretToRef = secret
	}
	templates := []*infrav1beta1.WorkspaceTemplate{
		vpc,
		r.template(namespace, ControlPlaneTemplate, "EKS control plane", r.ControlPlane, r.ControlPlaneVariables),
		r.template(namespace, roleCheckTemplate, "role of spot instances", roleCheckModule, nil),
	}
	if c.NeverReady {
		templates = append(templates, r.template(namespace, brokenTemplate, "EKS control plane", r.ControlPlane+brokenModule, r.ControlPlaneVariables))
	}
	if len(c.Addons) > 0 {
		templates = append(templates, r.template(namespace, addonTemplate, "addon", addonModule, []string{"cluster_name"}))
	}
	if c.Helpers {
		kubeconfig := r.template(metav1.NamespaceDefault, kubeconfigTemplate, "kubeconfig", kubeconfigModule,
			[]string{"cluster_name", "region", "cluster_endpoint", "cluster_certificate_authority_data"})
		kubeconfig.Name = kubeconfigTemplate // CAPT v0.3 hard-codes name and namespace.
		templates = append(templates, kubeconfig)
	}
	return templates
}

// rendered is the spec of a Workspace as CAPT v0.3 made it: placeholders replaced in the values of variables and in the name
// of the Secret, in whose place the WorkspaceTemplateApply may name another. It is not what today's renderer does on purpose:
// tests compare the two.
func rendered(template *infrav1beta1.WorkspaceTemplate, apply *infrav1beta1.WorkspaceTemplateApply, workspace string) infrav1beta1.WorkspaceSpec {
	pairs := []string{"${WORKSPACE_NAME}", workspace}
	for name, value := range apply.Spec.Variables {
		pairs = append(pairs, "${"+name+"}", value)
	}
	replacer := strings.NewReplacer(pairs...)
	spec := *template.Spec.Template.Spec.DeepCopy()
	for i := range spec.ForProvider.Vars {
		spec.ForProvider.Vars[i].Value = replacer.Replace(spec.ForProvider.Vars[i].Value)
	}
	if secret := spec.WriteConnectionSecretToRef; secret != nil {
		secret.Name = replacer.Replace(secret.Name)
	}
	if secret := apply.Spec.WriteConnectionSecretToRef; secret != nil {
		spec.WriteConnectionSecretToRef = secret.DeepCopy()
	}
	// What the older definitions filled into templates.
	spec.DeletionPolicy, spec.ManagementPolicies, spec.ForProvider.Entrypoint = ptr.To("Delete"), []string{"*"}, ptr.To("")
	return spec
}

// then is when everything happened.
const then = "2025-03-01T10:00:00Z"

// condition has the form of Crossplane; others have a message, too.
func condition(conditionType, status, reason, message string) map[string]any {
	c := map[string]any{"type": conditionType, "status": status, "reason": reason, "lastTransitionTime": then}
	if message != "" {
		c["message"] = message
	}
	if conditionType == "Synced" {
		c["observedGeneration"] = int64(1)
	}
	return c
}

const failure = "create failed: cannot apply Terraform configuration: Terraform encountered an error. Summary: creating EKS Cluster: LimitExceeded"

// initFailure is what provider-terraform reports when a module cannot be initialized.
const initFailure = "connect failed: cannot initialize Terraform configuration: Terraform encountered an error. Summary: Invalid provider source string"

// endpointFailure is a lost conflict, which CAPT v0.3 takes for a failure for good.
const endpointFailure = "Failed to update control plane endpoint: Operation cannot be fulfilled on captcontrolplanes.controlplane.cluster.x-k8s.io: the object has been modified"

// outcome is how Terraform ended.
type outcome int

const (
	succeeded outcome = iota
	applyFailed
	initFailed
)

func workspaceConditions(of outcome) []any {
	switch of {
	case initFailed:
		return []any{condition("Synced", "False", "ReconcileError", initFailure)}
	case applyFailed:
		return []any{condition("Ready", "False", "Creating", ""), condition("Synced", "False", "ReconcileError", failure)}
	default:
		return []any{condition("Ready", "True", "Available", ""), condition("Synced", "True", "ReconcileSuccess", "")}
	}
}

func workspaceStatus(outputs map[string]string, of outcome) map[string]any {
	status := map[string]any{"conditions": workspaceConditions(of), "atProvider": map[string]any{}}
	if of == succeeded {
		status["atProvider"] = atProvider(outputs)
	}
	return status
}

// atProvider has the outputs that are not sensitive.
func atProvider(outputs map[string]string) map[string]any {
	at, plain := map[string]any{"checksum": "d5b59506d7edcc50529b14198dc1c2b4"}, map[string]any{}
	for name, value := range outputs {
		if name != "kubeconfig" {
			plain[name], at["outputs"] = value, plain
		}
	}
	return at
}

func applyStatus(workspace string, of outcome) map[string]any {
	return map[string]any{
		"applied": true, "workspaceName": workspace, "lastAppliedTime": then, "conditions": workspaceConditions(of),
	}
}

func networkStatus(vpcID string, existing bool) map[string]any {
	made, template := condition("VPCReady", "True", "VPCCreated", "VPC has been successfully created"), map[string]any{"ready": true}
	if existing {
		made = condition("VPCReady", "True", "ExistingVPCUsed", "Using existing VPC")
	} else {
		template["lastAppliedRevision"] = "2025-03-01 09:58:11 +0000 UTC"
	}
	return map[string]any{"ready": true, "vpcId": vpcID, "conditions": []any{made}, "workspaceTemplateStatus": template}
}

func (c *Cluster) controlPlaneStatus(outputs map[string]string) map[string]any {
	const revision = "2025-03-01 09:58:13 +0000 UTC"
	available := map[string]any{"ready": true, "state": "Available", "atProvider": atProvider(outputs)}
	switch {
	case c.ApplyFailed:
		return map[string]any{
			"ready": false, "initialized": false, "phase": "Failed", "failureReason": "WorkspaceError", "failureMessage": failure,
			"conditions":      []any{condition("Ready", "False", "WorkspaceError", failure)},
			"workspaceStatus": map[string]any{"ready": false, "state": "Creating"},
		}
	case c.NeverReady:
		return map[string]any{
			"ready": false, "initialized": false, "secretsReady": false, "phase": "Creating",
			"conditions":      []any{condition("Ready", "False", "Creating", "Control plane is being created")},
			"workspaceStatus": map[string]any{"atProvider": map[string]any{}},
		}
	case c.EndpointFailed:
		return map[string]any{
			"ready": false, "initialized": false, "secretsReady": true, "phase": "Failed",
			"failureReason": "EndpointUpdateFailed", "failureMessage": endpointFailure,
			"conditions":              []any{condition("Ready", "False", "EndpointUpdateFailed", endpointFailure)},
			"workspaceStatus":         available,
			"workspaceTemplateStatus": map[string]any{"ready": false, "lastAppliedRevision": revision, "lastFailureMessage": endpointFailure},
		}
	}
	return map[string]any{
		"ready": true, "initialized": true, "secretsReady": true, "phase": "Ready",
		"conditions":              []any{condition("Ready", "True", "Ready", "Control plane is ready")},
		"workspaceStatus":         available,
		"workspaceTemplateStatus": map[string]any{"ready": true, "lastAppliedRevision": revision},
	}
}
