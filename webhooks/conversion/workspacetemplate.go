// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"context"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/webhooks/conversion/preserve"
)

// WorkspaceTemplate is the converter of WorkspaceTemplate.
var WorkspaceTemplate = conversion.NewHubSpokeConverter(&infrav1.WorkspaceTemplate{},
	conversion.NewSpokeConverter(&infrav1beta1.WorkspaceTemplate{},
		ConvertWorkspaceTemplateHubToV1Beta1, ConvertWorkspaceTemplateV1Beta1ToHub),
)

var (
	workspaceTemplateUp   = preserve.New(workspaceTemplateToHub, workspaceTemplateToSpoke)
	workspaceTemplateDown = preserve.New(workspaceTemplateToSpoke, workspaceTemplateToHub)
)

// ConvertWorkspaceTemplateV1Beta1ToHub converts a v1beta1 WorkspaceTemplate to the hub. Its Workspaces are cluster-scoped:
// those of CAPT v0.3 were, and a Workspace cannot change its scope.
func ConvertWorkspaceTemplateV1Beta1ToHub(_ context.Context, src *infrav1beta1.WorkspaceTemplate, dst *infrav1.WorkspaceTemplate) error {
	return workspaceTemplateUp.Convert(src, dst)
}

// ConvertWorkspaceTemplateHubToV1Beta1 converts a WorkspaceTemplate of the hub to v1beta1.
func ConvertWorkspaceTemplateHubToV1Beta1(_ context.Context, src *infrav1.WorkspaceTemplate, dst *infrav1beta1.WorkspaceTemplate) error {
	return workspaceTemplateDown.Convert(src, dst)
}

func workspaceTemplateToHub(in *infrav1beta1.WorkspaceTemplate, out *infrav1.WorkspaceTemplate) {
	template := &in.Spec.Template
	out.Spec.WorkspaceScope = terraform.ScopeCluster
	if metadata := template.Metadata; metadata != nil {
		out.Spec.Template.Metadata = infrav1.WorkspaceTemplateMetadata{
			Description: deref(metadata.Description), Version: deref(metadata.Version), Tags: copyMap(metadata.Tags),
		}
	}
	out.Spec.Template.Spec = workspaceSpecToHub(&template.Spec)
	out.Status.Conditions = crossplaneConditionsToHub(in.Status.Conditions)
}

func workspaceTemplateToSpoke(in *infrav1.WorkspaceTemplate, out *infrav1beta1.WorkspaceTemplate) {
	metadata := in.Spec.Template.Metadata
	if metadata.Description != "" || metadata.Version != "" || len(metadata.Tags) > 0 {
		out.Spec.Template.Metadata = &infrav1beta1.WorkspaceTemplateMetadata{
			Description: optional(metadata.Description), Version: optional(metadata.Version), Tags: copyMap(metadata.Tags),
		}
	}
	out.Spec.Template.Spec = workspaceSpecToSpoke(&in.Spec.Template.Spec)
	out.Status.Conditions = crossplaneConditionsToSpoke(in.Status.Conditions)
}

// WorkspaceTemplateApply is the converter of WorkspaceTemplateApply.
var WorkspaceTemplateApply = conversion.NewHubSpokeConverter(&infrav1.WorkspaceTemplateApply{},
	conversion.NewSpokeConverter(&infrav1beta1.WorkspaceTemplateApply{},
		ConvertWorkspaceTemplateApplyHubToV1Beta1, ConvertWorkspaceTemplateApplyV1Beta1ToHub),
)

var (
	workspaceTemplateApplyUp   = preserve.New(workspaceTemplateApplyToHub, workspaceTemplateApplyToSpoke)
	workspaceTemplateApplyDown = preserve.New(workspaceTemplateApplyToSpoke, workspaceTemplateApplyToHub)
)

// ConvertWorkspaceTemplateApplyV1Beta1ToHub converts a v1beta1 WorkspaceTemplateApply to the hub. Dependencies on two Secrets or Workspaces
// with the same name in different namespaces are converted unchanged, although v1beta2 does not allow them.
//
// spec.workspaceName stays empty, because conversion must not derive spec from status. captctl migrate sets it on adoption.
func ConvertWorkspaceTemplateApplyV1Beta1ToHub(_ context.Context, src *infrav1beta1.WorkspaceTemplateApply, dst *infrav1.WorkspaceTemplateApply) error {
	return workspaceTemplateApplyUp.Convert(src, dst)
}

// ConvertWorkspaceTemplateApplyHubToV1Beta1 converts a WorkspaceTemplateApply of the hub to v1beta1.
func ConvertWorkspaceTemplateApplyHubToV1Beta1(_ context.Context, src *infrav1.WorkspaceTemplateApply, dst *infrav1beta1.WorkspaceTemplateApply) error {
	return workspaceTemplateApplyDown.Convert(src, dst)
}

func workspaceTemplateApplyToHub(in *infrav1beta1.WorkspaceTemplateApply, out *infrav1.WorkspaceTemplateApply) {
	out.Spec = infrav1.WorkspaceTemplateApplySpec{
		TemplateRef:                templateRefToHub(in.Spec.TemplateRef),
		Variables:                  copyMap(in.Spec.Variables),
		WriteConnectionSecretToRef: convertPointer(in.Spec.WriteConnectionSecretToRef, secretRefToHub),
		WaitForSecrets: convertList(in.Spec.WaitForSecrets, func(s infrav1beta1.SecretReference) infrav1.SecretDependency {
			return infrav1.SecretDependency{Name: s.Name, Namespace: s.Namespace}
		}),
		WaitForWorkspaces: convertList(in.Spec.WaitForWorkspaces, func(w infrav1beta1.WorkspaceReference) infrav1.WorkspaceDependency {
			return infrav1.WorkspaceDependency{Name: w.Name, Namespace: deref(w.Namespace)}
		}),
		DeletionPolicy: deletionPolicyToHub(in.Spec.RetainWorkspaceOnDelete),
	}
	out.Status = infrav1.WorkspaceTemplateApplyStatus{
		Conditions:      crossplaneConditionsToHub(in.Status.Conditions),
		WorkspaceName:   deref(in.Status.WorkspaceName),
		Applied:         statusToHub(in.Status.Applied),
		LastAppliedTime: copyPointer(in.Status.LastAppliedTime),
	}
}

func workspaceTemplateApplyToSpoke(in *infrav1.WorkspaceTemplateApply, out *infrav1beta1.WorkspaceTemplateApply) {
	out.Spec = infrav1beta1.WorkspaceTemplateApplySpec{
		TemplateRef:                templateRefToSpoke(in.Spec.TemplateRef),
		WriteConnectionSecretToRef: convertPointer(in.Spec.WriteConnectionSecretToRef, secretRefToSpoke),
		Variables:                  copyMap(in.Spec.Variables),
		WaitForSecrets: convertList(in.Spec.WaitForSecrets, func(s infrav1.SecretDependency) infrav1beta1.SecretReference {
			return infrav1beta1.SecretReference{Name: s.Name, Namespace: s.Namespace}
		}),
		WaitForWorkspaces: convertList(in.Spec.WaitForWorkspaces, func(w infrav1.WorkspaceDependency) infrav1beta1.WorkspaceReference {
			return infrav1beta1.WorkspaceReference{Name: w.Name, Namespace: optional(w.Namespace)}
		}),
		RetainWorkspaceOnDelete: deletionPolicyToSpoke(in.Spec.DeletionPolicy),
	}
	out.Status = infrav1beta1.WorkspaceTemplateApplyStatus{
		WorkspaceName:   optional(in.Status.WorkspaceName),
		Applied:         statusToSpoke(in.Status.Applied),
		LastAppliedTime: copyPointer(in.Status.LastAppliedTime),
		Conditions:      crossplaneConditionsToSpoke(in.Status.Conditions),
	}
}

func secretRefToHub(in infrav1beta1.SecretReference) terraform.SecretReference {
	return terraform.SecretReference{Name: in.Name, Namespace: in.Namespace}
}

func secretRefToSpoke(in terraform.SecretReference) infrav1beta1.SecretReference {
	return infrav1beta1.SecretReference{Name: in.Name, Namespace: in.Namespace}
}

// everyAction is the default of managementPolicies in Crossplane and in v1beta1.
const everyAction = string(terraform.ManageAll)

// workspaceSpecToHub converts the spec of a Workspace. It sets no defaults: in v1beta2, the CRD of the Workspace sets them.
func workspaceSpecToHub(in *infrav1beta1.WorkspaceSpec) terraform.WorkspaceSpec {
	return terraform.WorkspaceSpec{
		DeletionPolicy:             terraform.DeletionPolicy(deref(in.DeletionPolicy)),
		ManagementPolicies:         convertStrings[terraform.ManagementAction](in.ManagementPolicies),
		ProviderConfigRef:          convertPointer(in.ProviderConfigRef, providerConfigRefToHub),
		PublishConnectionDetailsTo: convertPointer(in.PublishConnectionDetailsTo, publishToHub),
		WriteConnectionSecretToRef: convertPointer(in.WriteConnectionSecretToRef, secretRefToHub),
		ForProvider: terraform.WorkspaceParameters{
			Source:                    terraform.Source(in.ForProvider.Source),
			Module:                    in.ForProvider.Module,
			InlineFormat:              terraform.FileFormat(deref(in.ForProvider.InlineFormat)),
			Entrypoint:                deref(in.ForProvider.Entrypoint),
			Vars:                      convertList(in.ForProvider.Vars, func(v infrav1beta1.Var) terraform.Var { return terraform.Var(v) }),
			VarMap:                    in.ForProvider.VarMap.DeepCopy(),
			VarFiles:                  convertList(in.ForProvider.VarFiles, varFileToHub),
			Env:                       convertList(in.ForProvider.Env, envVarToHub),
			InitArgs:                  convertStrings[string](in.ForProvider.InitArgs),
			PlanArgs:                  convertStrings[string](in.ForProvider.PlanArgs),
			ApplyArgs:                 convertStrings[string](in.ForProvider.ApplyArgs),
			DestroyArgs:               convertStrings[string](in.ForProvider.DestroyArgs),
			EnableTerraformCLILogging: copyPointer(in.ForProvider.EnableTerraformCLILogging),
		},
	}
}

// workspaceSpecToSpoke converts the spec of a Workspace, and sets the defaults of v1beta1. Otherwise the next write in v1beta1, for example
// of a label, would set them and add them to the hub.
func workspaceSpecToSpoke(in *terraform.WorkspaceSpec) infrav1beta1.WorkspaceSpec {
	out := infrav1beta1.WorkspaceSpec{
		DeletionPolicy:             optional(string(in.DeletionPolicy)),
		ManagementPolicies:         convertStrings[string](in.ManagementPolicies),
		ProviderConfigRef:          convertPointer(in.ProviderConfigRef, providerConfigRefToSpoke),
		PublishConnectionDetailsTo: convertPointer(in.PublishConnectionDetailsTo, publishToSpoke),
		WriteConnectionSecretToRef: convertPointer(in.WriteConnectionSecretToRef, secretRefToSpoke),
		ForProvider: infrav1beta1.WorkspaceParameters{
			Source:                    string(in.ForProvider.Source),
			Module:                    in.ForProvider.Module,
			InlineFormat:              optional(string(in.ForProvider.InlineFormat)),
			Entrypoint:                optional(in.ForProvider.Entrypoint),
			Vars:                      convertList(in.ForProvider.Vars, func(v terraform.Var) infrav1beta1.Var { return infrav1beta1.Var(v) }),
			VarMap:                    in.ForProvider.VarMap.DeepCopy(),
			VarFiles:                  convertList(in.ForProvider.VarFiles, varFileToSpoke),
			Env:                       convertList(in.ForProvider.Env, envVarToSpoke),
			InitArgs:                  convertStrings[string](in.ForProvider.InitArgs),
			PlanArgs:                  convertStrings[string](in.ForProvider.PlanArgs),
			ApplyArgs:                 convertStrings[string](in.ForProvider.ApplyArgs),
			DestroyArgs:               convertStrings[string](in.ForProvider.DestroyArgs),
			EnableTerraformCLILogging: copyPointer(in.ForProvider.EnableTerraformCLILogging),
		},
	}
	if !reflect.ValueOf(&out).Elem().IsZero() { // An empty spec stays empty.
		setWorkspaceDefaults(&out)
	}
	return out
}

// setWorkspaceDefaults sets the defaults of v1beta1's CRD.
func setWorkspaceDefaults(spec *infrav1beta1.WorkspaceSpec) {
	setDefault(&spec.DeletionPolicy, string(terraform.DeletionDelete))
	setDefault(&spec.ForProvider.Entrypoint, "")
	setDefault(&spec.ProviderConfigRef, infrav1beta1.ProviderConfigReference{Name: "default"})
	if publish := spec.PublishConnectionDetailsTo; publish != nil {
		setDefault(&publish.ConfigRef, infrav1beta1.ProviderConfigReference{Name: "default"})
	}
	if spec.ManagementPolicies == nil {
		spec.ManagementPolicies = []string{everyAction}
	}
	for i := range spec.ForProvider.VarFiles {
		setDefault(&spec.ForProvider.VarFiles[i].Format, string(terraform.FormatHCL))
	}
}

func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func providerConfigRefToHub(in infrav1beta1.ProviderConfigReference) terraform.ProviderConfigReference {
	out := terraform.ProviderConfigReference{Name: in.Name}
	if in.Policy != nil {
		out.Policy = &terraform.ReferencePolicy{Resolution: deref(in.Policy.Resolution), Resolve: deref(in.Policy.Resolve)}
	}
	return out
}

func providerConfigRefToSpoke(in terraform.ProviderConfigReference) infrav1beta1.ProviderConfigReference {
	out := infrav1beta1.ProviderConfigReference{Name: in.Name}
	if in.Policy != nil {
		out.Policy = &infrav1beta1.ReferencePolicy{Resolution: optional(in.Policy.Resolution), Resolve: optional(in.Policy.Resolve)}
		setDefault(&out.Policy.Resolution, "Required")
	}
	return out
}

func publishToHub(in infrav1beta1.PublishConnectionDetailsTo) terraform.PublishConnectionDetailsTo {
	out := terraform.PublishConnectionDetailsTo{Name: in.Name, ConfigRef: convertPointer(in.ConfigRef, providerConfigRefToHub)}
	if in.Metadata != nil {
		out.Metadata = &terraform.ConnectionSecretMetadata{
			Annotations: copyMap(in.Metadata.Annotations), Labels: copyMap(in.Metadata.Labels), Type: copyPointer(in.Metadata.Type),
		}
	}
	return out
}

func publishToSpoke(in terraform.PublishConnectionDetailsTo) infrav1beta1.PublishConnectionDetailsTo {
	out := infrav1beta1.PublishConnectionDetailsTo{Name: in.Name, ConfigRef: convertPointer(in.ConfigRef, providerConfigRefToSpoke)}
	if in.Metadata != nil {
		out.Metadata = &infrav1beta1.ConnectionSecretMetadata{
			Annotations: copyMap(in.Metadata.Annotations), Labels: copyMap(in.Metadata.Labels), Type: copyPointer(in.Metadata.Type),
		}
	}
	return out
}

func varFileToHub(in infrav1beta1.VarFile) terraform.VarFile {
	return terraform.VarFile{
		Source: in.Source, Format: terraform.FileFormat(deref(in.Format)),
		ConfigMapKeyRef: convertPointer(in.ConfigMapKeyRef, keyRefToHub), SecretKeyRef: convertPointer(in.SecretKeyRef, keyRefToHub),
	}
}

func varFileToSpoke(in terraform.VarFile) infrav1beta1.VarFile {
	return infrav1beta1.VarFile{
		Source: in.Source, Format: optional(string(in.Format)),
		ConfigMapKeyRef: convertPointer(in.ConfigMapKeyRef, keyRefToSpoke), SecretKeyRef: convertPointer(in.SecretKeyRef, keyRefToSpoke),
	}
}

func envVarToHub(in infrav1beta1.EnvVar) terraform.EnvVar {
	return terraform.EnvVar{
		Name: in.Name, Value: deref(in.Value),
		ConfigMapKeyRef: convertPointer(in.ConfigMapKeyRef, keyRefToHub), SecretKeyRef: convertPointer(in.SecretKeyRef, keyRefToHub),
	}
}

func envVarToSpoke(in terraform.EnvVar) infrav1beta1.EnvVar {
	return infrav1beta1.EnvVar{
		Name: in.Name, Value: optional(in.Value),
		ConfigMapKeyRef: convertPointer(in.ConfigMapKeyRef, keyRefToSpoke), SecretKeyRef: convertPointer(in.SecretKeyRef, keyRefToSpoke),
	}
}

func keyRefToHub(in infrav1beta1.KeyReference) terraform.KeyReference {
	return terraform.KeyReference{Name: in.Name, Namespace: in.Namespace, Key: in.Key}
}

func keyRefToSpoke(in terraform.KeyReference) infrav1beta1.KeyReference {
	return infrav1beta1.KeyReference{Name: in.Name, Namespace: in.Namespace, Key: in.Key}
}
