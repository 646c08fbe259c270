// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"reflect"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
)

// WorkspaceTemplate converts WorkspaceTemplates. In v1beta2, their Workspaces are cluster-scoped: those of CAPT v0.3 were, and a Workspace cannot
// change its scope.
var WorkspaceTemplate = newKind(workspaceTemplateToHub, workspaceTemplateToSpoke)

var (
	workspaceTemplateFieldsToHub   = fieldsOfSameNames[infrav1beta1.WorkspaceTemplate, infrav1.WorkspaceTemplate]()
	workspaceTemplateFieldsToSpoke = fieldsOfSameNames[infrav1.WorkspaceTemplate, infrav1beta1.WorkspaceTemplate]()
)

// workspaceTemplateToHub sets no defaults of the Workspace: in v1beta2, the CRD of the Workspace sets them.
func workspaceTemplateToHub(in *infrav1beta1.WorkspaceTemplate, out *infrav1.WorkspaceTemplate) {
	workspaceTemplateFieldsToHub(in, out)
	out.Spec.WorkspaceScope = terraform.ScopeCluster
	if params := &out.Spec.Template.Spec.ForProvider; params.Source == terraform.SourceInline && terraform.HasPlaceholder(params.Module) {
		out.Spec.Substitution = infrav1.SubstitutionAll
	}
	out.Status.Conditions = conditionsToHub(out.Status.Conditions)
}

// workspaceTemplateToSpoke sets the defaults of v1beta1. Otherwise the next write in v1beta1, for example of a label, would set them and add
// them to the hub.
func workspaceTemplateToSpoke(in *infrav1.WorkspaceTemplate, out *infrav1beta1.WorkspaceTemplate) {
	workspaceTemplateFieldsToSpoke(in, out)
	if spec := &out.Spec.Template.Spec; !reflect.ValueOf(spec).Elem().IsZero() { // An empty spec stays empty.
		setWorkspaceDefaults(spec)
	}
}

// everyAction is the default of managementPolicies in Crossplane and in v1beta1.
const everyAction = string(terraform.ManageAll)

// setWorkspaceDefaults sets the defaults of v1beta1's CRD.
func setWorkspaceDefaults(spec *infrav1beta1.WorkspaceSpec) {
	setDefault(&spec.DeletionPolicy, string(terraform.DeletionDelete))
	setDefault(&spec.ForProvider.Entrypoint, "")
	setDefault(&spec.ProviderConfigRef, infrav1beta1.ProviderConfigReference{Name: "default"})
	refs := []*infrav1beta1.ProviderConfigReference{spec.ProviderConfigRef}
	if publish := spec.PublishConnectionDetailsTo; publish != nil {
		setDefault(&publish.ConfigRef, infrav1beta1.ProviderConfigReference{Name: "default"})
		refs = append(refs, publish.ConfigRef)
	}
	for _, ref := range refs {
		if ref.Policy != nil {
			setDefault(&ref.Policy.Resolution, "Required")
		}
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

// WorkspaceTemplateApply converts WorkspaceTemplateApplies. Dependencies on two Secrets or Workspaces with the same name in different namespaces are
// converted unchanged, although v1beta2 does not allow them.
//
// spec.workspaceName stays empty, because conversion must not derive spec from status. captctl migrate sets it on adoption.
var WorkspaceTemplateApply = newKind(workspaceTemplateApplyToHub, workspaceTemplateApplyToSpoke)

var (
	workspaceTemplateApplyFieldsToHub   = fieldsOfSameNames[infrav1beta1.WorkspaceTemplateApply, infrav1.WorkspaceTemplateApply]()
	workspaceTemplateApplyFieldsToSpoke = fieldsOfSameNames[infrav1.WorkspaceTemplateApply, infrav1beta1.WorkspaceTemplateApply]()
)

func workspaceTemplateApplyToHub(in *infrav1beta1.WorkspaceTemplateApply, out *infrav1.WorkspaceTemplateApply) {
	workspaceTemplateApplyFieldsToHub(in, out)
	out.Spec.DeletionPolicy = deletionPolicyToHub(in.Spec.RetainWorkspaceOnDelete)
	out.Status.Conditions = conditionsToHub(out.Status.Conditions)
}

func workspaceTemplateApplyToSpoke(in *infrav1.WorkspaceTemplateApply, out *infrav1beta1.WorkspaceTemplateApply) {
	workspaceTemplateApplyFieldsToSpoke(in, out)
	out.Spec.RetainWorkspaceOnDelete = deletionPolicyToSpoke(in.Spec.DeletionPolicy)
}
