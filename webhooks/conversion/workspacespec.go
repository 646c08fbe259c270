// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"reflect"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/api/terraform"
)

// everyAction is the default of managementPolicies in Crossplane and in v1beta1.
const everyAction = string(terraform.ManageAll)

// workspaceSpecToHub converts the spec of a Workspace. It sets no defaults: in v1beta2, the CRD of the Workspace sets them.
func workspaceSpecToHub(in *infrav1beta1.WorkspaceSpec) terraform.WorkspaceSpec {
	return terraform.WorkspaceSpec{
		DeletionPolicy:             terraform.DeletionPolicy(value(in.DeletionPolicy)),
		ManagementPolicies:         words[terraform.ManagementAction](in.ManagementPolicies),
		ProviderConfigRef:          pointed(in.ProviderConfigRef, providerConfigRefToHub),
		PublishConnectionDetailsTo: pointed(in.PublishConnectionDetailsTo, publishToHub),
		WriteConnectionSecretToRef: pointed(in.WriteConnectionSecretToRef, secretRefToHub),
		ForProvider: terraform.WorkspaceParameters{
			Source:                    terraform.Source(in.ForProvider.Source),
			Module:                    in.ForProvider.Module,
			InlineFormat:              terraform.FileFormat(value(in.ForProvider.InlineFormat)),
			Entrypoint:                value(in.ForProvider.Entrypoint),
			Vars:                      list(in.ForProvider.Vars, func(v infrav1beta1.Var) terraform.Var { return terraform.Var(v) }),
			VarMap:                    in.ForProvider.VarMap.DeepCopy(),
			VarFiles:                  list(in.ForProvider.VarFiles, varFileToHub),
			Env:                       list(in.ForProvider.Env, envVarToHub),
			InitArgs:                  words[string](in.ForProvider.InitArgs),
			PlanArgs:                  words[string](in.ForProvider.PlanArgs),
			ApplyArgs:                 words[string](in.ForProvider.ApplyArgs),
			DestroyArgs:               words[string](in.ForProvider.DestroyArgs),
			EnableTerraformCLILogging: copied(in.ForProvider.EnableTerraformCLILogging),
		},
	}
}

// workspaceSpecToSpoke converts the spec of a Workspace, and sets the defaults of v1beta1. Otherwise the next write in v1beta1, for example of
// a label, would set them and add them to the hub.
func workspaceSpecToSpoke(in *terraform.WorkspaceSpec) infrav1beta1.WorkspaceSpec {
	out := infrav1beta1.WorkspaceSpec{
		DeletionPolicy:             optional(string(in.DeletionPolicy)),
		ManagementPolicies:         words[string](in.ManagementPolicies),
		ProviderConfigRef:          pointed(in.ProviderConfigRef, providerConfigRefToSpoke),
		PublishConnectionDetailsTo: pointed(in.PublishConnectionDetailsTo, publishToSpoke),
		WriteConnectionSecretToRef: pointed(in.WriteConnectionSecretToRef, secretRefToSpoke),
		ForProvider: infrav1beta1.WorkspaceParameters{
			Source:                    string(in.ForProvider.Source),
			Module:                    in.ForProvider.Module,
			InlineFormat:              optional(string(in.ForProvider.InlineFormat)),
			Entrypoint:                optional(in.ForProvider.Entrypoint),
			Vars:                      list(in.ForProvider.Vars, func(v terraform.Var) infrav1beta1.Var { return infrav1beta1.Var(v) }),
			VarMap:                    in.ForProvider.VarMap.DeepCopy(),
			VarFiles:                  list(in.ForProvider.VarFiles, varFileToSpoke),
			Env:                       list(in.ForProvider.Env, envVarToSpoke),
			InitArgs:                  words[string](in.ForProvider.InitArgs),
			PlanArgs:                  words[string](in.ForProvider.PlanArgs),
			ApplyArgs:                 words[string](in.ForProvider.ApplyArgs),
			DestroyArgs:               words[string](in.ForProvider.DestroyArgs),
			EnableTerraformCLILogging: copied(in.ForProvider.EnableTerraformCLILogging),
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
		out.Policy = &terraform.ReferencePolicy{Resolution: value(in.Policy.Resolution), Resolve: value(in.Policy.Resolve)}
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
	out := terraform.PublishConnectionDetailsTo{Name: in.Name, ConfigRef: pointed(in.ConfigRef, providerConfigRefToHub)}
	if in.Metadata != nil {
		out.Metadata = &terraform.ConnectionSecretMetadata{
			Annotations: table(in.Metadata.Annotations), Labels: table(in.Metadata.Labels), Type: copied(in.Metadata.Type),
		}
	}
	return out
}

func publishToSpoke(in terraform.PublishConnectionDetailsTo) infrav1beta1.PublishConnectionDetailsTo {
	out := infrav1beta1.PublishConnectionDetailsTo{Name: in.Name, ConfigRef: pointed(in.ConfigRef, providerConfigRefToSpoke)}
	if in.Metadata != nil {
		out.Metadata = &infrav1beta1.ConnectionSecretMetadata{
			Annotations: table(in.Metadata.Annotations), Labels: table(in.Metadata.Labels), Type: copied(in.Metadata.Type),
		}
	}
	return out
}

func varFileToHub(in infrav1beta1.VarFile) terraform.VarFile {
	return terraform.VarFile{
		Source: in.Source, Format: terraform.FileFormat(value(in.Format)),
		ConfigMapKeyRef: pointed(in.ConfigMapKeyRef, keyRefToHub), SecretKeyRef: pointed(in.SecretKeyRef, keyRefToHub),
	}
}

func varFileToSpoke(in terraform.VarFile) infrav1beta1.VarFile {
	return infrav1beta1.VarFile{
		Source: in.Source, Format: optional(string(in.Format)),
		ConfigMapKeyRef: pointed(in.ConfigMapKeyRef, keyRefToSpoke), SecretKeyRef: pointed(in.SecretKeyRef, keyRefToSpoke),
	}
}

func envVarToHub(in infrav1beta1.EnvVar) terraform.EnvVar {
	return terraform.EnvVar{
		Name: in.Name, Value: value(in.Value),
		ConfigMapKeyRef: pointed(in.ConfigMapKeyRef, keyRefToHub), SecretKeyRef: pointed(in.SecretKeyRef, keyRefToHub),
	}
}

func envVarToSpoke(in terraform.EnvVar) infrav1beta1.EnvVar {
	return infrav1beta1.EnvVar{
		Name: in.Name, Value: optional(in.Value),
		ConfigMapKeyRef: pointed(in.ConfigMapKeyRef, keyRefToSpoke), SecretKeyRef: pointed(in.SecretKeyRef, keyRefToSpoke),
	}
}

func keyRefToHub(in infrav1beta1.KeyReference) terraform.KeyReference {
	return terraform.KeyReference{Name: in.Name, Namespace: in.Namespace, Key: in.Key}
}

func keyRefToSpoke(in terraform.KeyReference) infrav1beta1.KeyReference {
	return infrav1beta1.KeyReference{Name: in.Name, Namespace: in.Namespace, Key: in.Key}
}
