// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
)

// The limits of failure domains in the CRD of v1beta2.
const maxFailureDomains, maxFailureDomainName = 100, 256

// CAPTCluster converts CAPTClusters. One without a VPC source, or with names or regions that v1beta2 does not allow, is converted without corrections.
var CAPTCluster = newKind(captClusterToHub, captClusterToSpoke)

func captClusterToHub(in *infrav1beta1.CAPTCluster, out *infrav1.CAPTCluster) {
	out.Spec.Region = in.Spec.Region
	out.Spec.VPC = vpcToHub(&in.Spec)
	out.Spec.WorkspaceTemplateApplyRef = applyRefToHub(in.Spec.WorkspaceTemplateApplyName)

	out.Status = infrav1.CAPTClusterStatus{
		Conditions:             conditionsToHub(in.Status.Conditions),
		Initialization:         infrav1.CAPTClusterInitializationStatus{Provisioned: copyPointer(in.Status.Ready)},
		FailureDomains:         failureDomainsToHub(in.Status.FailureDomains),
		VPC:                    infrav1.VPCStatus{ID: deref(in.Status.VPCID)},
		WorkspaceTemplateApply: vpcSummaryToHub(in),
	}
	if failed, ok := failureCondition(in.Status.FailureReason, in.Status.FailureMessage, in.CreationTimestamp); ok {
		out.Status.Conditions = withCondition(out.Status.Conditions, failed)
	}
	setAnnotation(&out.ObjectMeta, infrav1beta1.EndpointAnnotation, "")
}

func captClusterToSpoke(in *infrav1.CAPTCluster, out *infrav1beta1.CAPTCluster) {
	out.Spec.Region = in.Spec.Region
	out.Spec.ExistingVPCID = optional(in.Spec.VPC.ExistingID)
	if template := in.Spec.VPC.Template; template.IsDefined() {
		out.Spec.VPCTemplateRef = convertPointer(&template.Ref, templateRefToSpoke)
		out.Spec.RetainVPCOnDelete = deletionPolicyToSpoke(template.DeletionPolicy)
		if template.Name != "" {
			out.Spec.VPCConfig = &infrav1beta1.VPCConfig{Name: optional(template.Name)}
		}
	}
	out.Spec.WorkspaceTemplateApplyName = applyRefToSpoke(in.Spec.WorkspaceTemplateApplyRef)

	out.Status = infrav1beta1.CAPTClusterStatus{
		VPCID:          optional(in.Status.VPC.ID),
		Ready:          copyPointer(in.Status.Initialization.Provisioned),
		FailureDomains: failureDomainsToSpoke(in.Status.FailureDomains),
		Conditions:     copyList(in.Status.Conditions),
	}
	if apply := in.Status.WorkspaceTemplateApply; apply != nil {
		out.Status.VPCWorkspaceName = optional(apply.WorkspaceName)
		out.Status.WorkspaceTemplateStatus = &infrav1beta1.CAPTClusterWorkspaceTemplateStatus{}
		vpcSummaryFieldsToSpoke(apply, out.Status.WorkspaceTemplateStatus)
	}
	out.Status.FailureReason, out.Status.FailureMessage = failureToSpoke(in.Status.Conditions)
	setAnnotation(&out.ObjectMeta, infrav1beta1.EndpointAnnotation, in.Status.Endpoint)
}

// vpcToHub converts the source of the VPC. If v1beta1 has both sources, one is chosen, because v1beta2 allows only one. CAPT v0.3 did not
// reconcile such objects, so the choice must not change cloud resources: a WorkspaceTemplateApply in use proves that the VPC was created
// from the template; without one, the existing VPC is chosen, which is never created or destroyed. The other source is kept in the
// annotation of package preserve.
func vpcToHub(in *infrav1beta1.CAPTClusterSpec) infrav1.VPC {
	existing := deref(in.ExistingVPCID)
	createdFromTemplate := in.VPCTemplateRef != nil && deref(in.WorkspaceTemplateApplyName) != ""
	if existing != "" && !createdFromTemplate {
		return infrav1.VPC{ExistingID: existing}
	}
	if in.VPCTemplateRef == nil {
		return infrav1.VPC{}
	}
	return infrav1.VPC{Template: infrav1.VPCTemplate{
		Ref:            templateRefToHub(*in.VPCTemplateRef),
		Name:           deref(deref(in.VPCConfig).Name),
		DeletionPolicy: deletionPolicyToHub(in.RetainVPCOnDelete),
	}}
}

// vpcSummaryToHub converts the state of the WorkspaceTemplateApply of the VPC; nil when v1beta1 has none.
func vpcSummaryToHub(in *infrav1beta1.CAPTCluster) *infrav1.WorkspaceTemplateApplySummary {
	status := in.Status.WorkspaceTemplateStatus
	if status == nil && deref(in.Status.VPCWorkspaceName) == "" {
		return nil
	}
	out := &infrav1.WorkspaceTemplateApplySummary{Name: deref(in.Spec.WorkspaceTemplateApplyName)}
	if status != nil {
		vpcSummaryFieldsToHub(status, out)
	}
	out.WorkspaceName = cmp.Or(out.WorkspaceName, deref(in.Status.VPCWorkspaceName))
	return out
}

var (
	vpcSummaryFieldsToHub   = fieldsOfSameNames[infrav1beta1.CAPTClusterWorkspaceTemplateStatus, infrav1.WorkspaceTemplateApplySummary]()
	vpcSummaryFieldsToSpoke = fieldsOfSameNames[infrav1.WorkspaceTemplateApplySummary, infrav1beta1.CAPTClusterWorkspaceTemplateStatus]()
)

// failureDomainsToHub converts the map to a list, sorted by name.
func failureDomainsToHub(in map[string]infrav1beta1.FailureDomainSpec) []clusterv1.FailureDomain {
	var out []clusterv1.FailureDomain
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if name == "" || len(name) > maxFailureDomainName || len(out) == maxFailureDomains {
			continue
		}
		domain := in[name]
		out = append(out, clusterv1.FailureDomain{Name: name, ControlPlane: copyPointer(domain.ControlPlane), Attributes: copyMap(domain.Attributes)})
	}
	return out
}

func failureDomainsToSpoke(in []clusterv1.FailureDomain) map[string]infrav1beta1.FailureDomainSpec {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]infrav1beta1.FailureDomainSpec, len(in))
	for _, domain := range in {
		out[domain.Name] = infrav1beta1.FailureDomainSpec{ControlPlane: copyPointer(domain.ControlPlane), Attributes: copyMap(domain.Attributes)}
	}
	return out
}

// setAnnotation sets an annotation, or removes it when the value is empty. It replaces the map, which other objects may share.
func setAnnotation(o *metav1.ObjectMeta, name, text string) {
	if o.Annotations[name] == text {
		if _, ok := o.Annotations[name]; ok == (text != "") {
			return
		}
	}
	annotations := maps.Clone(o.Annotations)
	delete(annotations, name)
	if text != "" {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[name] = text
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	o.Annotations = annotations
}

// WorkspaceTemplate converts WorkspaceTemplates. In v1beta2, their Workspaces are cluster-scoped: those of CAPT v0.3 were, and a Workspace cannot
// change its scope.
var WorkspaceTemplate = newKind(workspaceTemplateToHub, workspaceTemplateToSpoke)

var (
	workspaceTemplateFieldsToHub   = fieldsOfSameNames[infrav1beta1.WorkspaceTemplate, infrav1.WorkspaceTemplate]()
	workspaceTemplateFieldsToSpoke = fieldsOfSameNames[infrav1.WorkspaceTemplate, infrav1beta1.WorkspaceTemplate]()
)

// workspaceTemplateToHub sets no defaults of the Workspace: in v1beta2, the CRD of the Workspace sets them. A template with $${name} has no
// substitution: All would render it to another Workspace.
func workspaceTemplateToHub(in *infrav1beta1.WorkspaceTemplate, out *infrav1.WorkspaceTemplate) {
	workspaceTemplateFieldsToHub(in, out)
	out.Spec.WorkspaceScope = terraform.ScopeCluster
	if params := &out.Spec.Template.Spec.ForProvider; params.Source == terraform.SourceInline && terraform.HasPlaceholder(params.Module) && !out.Spec.HasEscape() {
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

// setWorkspaceDefaults sets the defaults of v1beta1's CRD.
func setWorkspaceDefaults(spec *infrav1beta1.WorkspaceSpec) {
	const everyAction = string(terraform.ManageAll) // The default of managementPolicies in Crossplane and in v1beta1.
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
