// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/api/validation/versions"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/fargate"
	"github.com/capt-provider/capt/controllers/kubeconfigsecret"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/recovery"
)

// Plan is what one reconcile does.
type Plan struct {
	// Blocked is why the WorkspaceTemplateApply is not written, as condition DependenciesReady; nil when it may be.
	Blocked *engine.Condition
	// Cycle describes objects of the dependency graph that depend on each other; empty when there are none.
	Cycle string
	// Apply is the plan for the WorkspaceTemplateApply of the control plane.
	Apply owner.Plan
	// Kubeconfig is the plan for the kubeconfig Secrets.
	Kubeconfig kubeconfigsecret.Plan
	// PublishEndpoint is true when spec.controlPlaneEndpoint is written.
	PublishEndpoint bool
	// Fargate is the plan for the Fargate profiles; SkipFargate is true while they must not be modified.
	Fargate     fargate.Plan
	SkipFargate bool
	// Recovery is what is done about a failure of Terraform.
	Recovery recovery.Decision
	// AwaitTemplate is true while the object is blocked by a template that no watch covers.
	AwaitTemplate bool
}

// plan decides what to do. It is pure.
func plan(controlPlane *controlplanev1.CAPTControlPlane, f *Facts) (p *Plan, err error) {
	in := &input{controlPlane: controlPlane, Facts: f}
	if f.Graph != nil {
		in.cycle, in.cycleBlocks = f.Graph.Cycle()
	}
	p = &Plan{Cycle: in.cycle, Blocked: engine.FirstBlocking(controlplanev1.DependenciesReadyCondition, in, rules())}
	p.AwaitTemplate = f.Cluster != nil && owner.AwaitsTemplate(&f.Template, controlPlane.Namespace, in, templateRules())
	applyInput := owner.PlanInput{Owner: ownerOf(controlPlane), Paused: f.Paused != "", BlockOwnDeletion: len(f.Fargate.Obsolete) > 0}
	if p.Blocked == nil {
		if applyInput.Want, err = f.wantedApply(controlPlane); err != nil {
			return p, err
		}
	}
	if p.Apply, err = f.Apply.Plan(applyInput); err != nil {
		return p, err
	}
	ready := p.Apply.Ready()
	publish := ready && p.Apply.Step == owner.Provision // Not while paused, and not during deletion.
	p.PublishEndpoint = publish
	p.Kubeconfig = f.kubeconfigPlan(controlPlane, ready)
	p.Kubeconfig.Write = publish
	p.SkipFargate = f.Apply.HeldBy != nil || f.Apply.RetainConflict != "" || f.Apply.Held && controlPlane.DeletionTimestamp.IsZero()
	p.Fargate, err = f.Fargate.Plan(controlPlane, fargate.PlanInput{Paused: f.Paused, Blocked: p.Blocked != nil, Ready: ready && p.Blocked == nil})
	p.Recovery = f.recoveryPlan(controlPlane, p)
	return p, err
}

// ownerOf returns a control plane as the owner of its WorkspaceTemplateApply.
func ownerOf(controlPlane *controlplanev1.CAPTControlPlane) owner.Owner {
	return owner.Owner{
		Object: controlPlane, Kind: controlplanev1.GroupVersion.WithKind("CAPTControlPlane"), Ref: &controlPlane.Spec.WorkspaceTemplateApplyRef,
		Finalizer: controlplanev1.CAPTControlPlaneFinalizer, FieldManager: fieldManager, Creates: "the control plane",
	}
}

// kubeconfigPlan returns the plan for the kubeconfig Secrets: publish them once Terraform is done, and only renew tokens before that.
func (f *Facts) kubeconfigPlan(controlPlane *controlplanev1.CAPTControlPlane, ready bool) kubeconfigsecret.Plan {
	p := kubeconfigsecret.Plan{Paused: f.Paused != "", NameConflict: f.NameConflict, Now: f.Now}
	switch {
	case !controlPlane.DeletionTimestamp.IsZero() || f.Cluster == nil || f.Apply.Apply == nil:
		return p
	case ready:
		p.Mode = kubeconfigsecret.Publish
	case f.CreatesTokens && f.Kubeconfig.HoldsToken():
		p.Mode = kubeconfigsecret.RenewToken
	}
	p.Cluster = kubeconfigsecret.Cluster{
		ControlPlane: controlPlane, Name: f.Cluster.Name, EKSName: f.Apply.Apply.Spec.Variables[naming.ClusterVariable],
		Region: f.runningRegion(), Outputs: f.outputs(),
	}
	return p
}

// input is what the rules are checked against.
type input struct {
	controlPlane *controlplanev1.CAPTControlPlane
	*Facts
	// cycle describes a dependency cycle; cycleBlocks is true if the control plane depends on its objects.
	cycle       string
	cycleBlocks bool
}

// rules returns the rules that block the creation and update of the WorkspaceTemplateApply, in the order in which they are checked.
func rules() []engine.Rule[*input] {
	rule := func(reason string, message func(*input) string) engine.Rule[*input] {
		return engine.Rule[*input]{Reason: reason, Message: message}
	}
	list := []engine.Rule[*input]{
		rule(controlplanev1.WaitingForOwnerReason, (*input).waitingForOwner),
		rule(controlplanev1.InvalidVersionReason, func(in *input) string { return errorMessage("spec.version: ", in.VersionError) }),
		rule(engine.DecisionReason, func(in *input) string { return in.Apply.DecisionMessage() }),
		rule(infrav1.ReferenceConflictReason, func(in *input) string { return in.Apply.Conflict }),
	}
	list = append(list, templateRules()...)
	return append(list,
		rule(controlplanev1.RegionConflictReason, (*input).regionConflict),
		rule(controlplanev1.DependencyCycleReason, (*input).dependencyCycle),
		rule(controlplanev1.WaitingForInfrastructureReason, (*input).waitingForInfrastructure),
		rule(controlplanev1.RegionConflictReason, (*input).regionMissing),
		rule(controlplanev1.RegionConflictReason, (*input).regionChanged),
		rule(controlplanev1.InvalidVersionReason, (*input).versionStep),
	)
}

func templateRules() []engine.Rule[*input] { return owner.TemplateRules((*input).newTemplate) }

// errorMessage returns the prefix and the text of an error; empty without an error.
func errorMessage(prefix string, err error) string {
	if err == nil {
		return ""
	}
	return prefix + err.Error()
}

// waitingForOwner blocks a control plane that no Cluster owns.
func (in *input) waitingForOwner() string {
	if in.Cluster != nil {
		return ""
	}
	return "no Cluster owns this object. Create a Cluster whose spec.controlPlaneRef names it; if it exists, check that it is not paused and that Cluster API runs"
}

// newTemplate returns the template if the control plane does not use it yet.
func (in *input) newTemplate() *owner.TemplateFacts {
	built := claim.ExpectationOfControlPlane(in.controlPlane, in.Cluster.Name).ProvisionedField != ""
	if in.Template.InUse(in.Apply.Apply, built) {
		return nil
	}
	return &in.Template
}

// regionConflict blocks a control plane whose region is not that of its VPC.
func (in *input) regionConflict() string {
	if in.Infrastructure == nil {
		return ""
	}
	return errorMessage("", owners.RegionConflict(in.controlPlane, in.Infrastructure, in.Apply.Apply))
}

// dependencyCycle replaces a wait for the VPC that would never end.
func (in *input) dependencyCycle() string {
	if !in.cycleBlocks || in.infrastructureReady() {
		return ""
	}
	return in.cycle
}

// waitingForInfrastructure includes the cause that the CAPTCluster reports.
func (in *input) waitingForInfrastructure() string {
	if in.infrastructureReady() {
		return ""
	}
	if !in.hasCAPTCluster() {
		return fmt.Sprintf("waiting for Cluster API to report the infrastructure of Cluster %s as provisioned", in.Cluster.Name)
	}
	name := in.Cluster.Spec.InfrastructureRef.Name
	if in.Infrastructure == nil {
		return fmt.Sprintf("waiting for CAPTCluster %s, which does not exist. Create it, or correct spec.infrastructureRef of the Cluster", name)
	}
	switch ready := conditions.Get(in.Infrastructure, infrav1.ReadyCondition); {
	case in.vpcInProgress():
		return fmt.Sprintf("waiting for Terraform to create the VPC of CAPTCluster %s", name)
	case ready != nil && ready.Status == metav1.ConditionTrue:
		return fmt.Sprintf("CAPTCluster %s is Ready; waiting until Cluster API reports the infrastructure of Cluster %s as provisioned", name, in.Cluster.Name)
	case ready != nil && ready.Message != "":
		return fmt.Sprintf("waiting for CAPTCluster %s: %s", name, ready.Message)
	}
	return fmt.Sprintf("waiting for CAPTCluster %s to be provisioned", name)
}

// vpcInProgress reports whether Terraform creates the VPC, or is about to: the CAPTCluster may not have reported yet that the Cluster owns it.
func (in *input) vpcInProgress() bool {
	reason := conditions.GetReason(in.Infrastructure, infrav1.ReadyCondition)
	owned := util.IsOwnedByObject(in.Infrastructure, in.Cluster, clusterv1.GroupVersion.WithKind("Cluster").GroupKind())
	started := reason == infrav1.ProvisioningReason || owned && (reason == "" || reason == infrav1.WaitingForOwnerReason)
	return started && in.Infrastructure.Spec.VPC.Template.IsDefined() && !conditions.IsTrue(in.Infrastructure, clusterv1.PausedCondition)
}

// regionMissing blocks a control plane whose region is known neither from its spec nor from the infrastructure.
func (in *input) regionMissing() string {
	if in.Region != "" {
		return ""
	}
	return "spec.region is empty, and the infrastructure of the Cluster has no region. Set spec.region"
}

// regionChanged blocks a change of region, for which Terraform would replace the running cluster.
func (in *input) regionChanged() string {
	return errorMessage("", owners.RegionChange(in.controlPlane, in.Infrastructure, in.Apply.Apply))
}

// versionStep blocks an update that EKS would reject. A version that the WorkspaceTemplateApply already has is not an update.
func (in *input) versionStep() string {
	from := versions.CurrentVersions(in.controlPlane, in.Apply.Apply)
	if from.Requested == in.Version.EKS {
		return ""
	}
	_, err := versions.ValidateVersionChange(from, in.Version.EKS)
	return errorMessage("spec.version: ", err)
}

// wantedApply returns the desired WorkspaceTemplateApply of the control plane.
func (f *Facts) wantedApply(controlPlane *controlplanev1.CAPTControlPlane) (*owner.Want, error) {
	intent, err := desired.ControlPlaneIntent(controlPlane, desired.ControlPlaneInputs{
		Cluster: f.Cluster.Name, EKSVersion: f.Version.EKS, Region: f.Region, VPCID: owners.VPCID(f.Infrastructure),
	})
	return &owner.Want{
		Expectation: claim.ExpectationOfControlPlane(controlPlane, f.Cluster.Name), ClusterName: f.Cluster.Name, Template: controlPlane.Spec.WorkspaceTemplateRef,
		Intent: intent, WaitForWorkspaces: f.vpcWorkspaceDependency(), WaitForSecrets: f.vpcSecretDependency(),
	}, err
}

// vpcWorkspaceDependency returns the Workspace of the VPC, on which the Workspace of the control plane depends. It is known when the control
// plane is created, because that waits for the VPC.
func (f *Facts) vpcWorkspaceDependency() []infrav1.WorkspaceDependency {
	if f.Infrastructure == nil {
		return nil
	}
	summary := f.Infrastructure.Status.WorkspaceTemplateApply
	if summary == nil || summary.WorkspaceName == "" {
		return nil
	}
	return []infrav1.WorkspaceDependency{{Name: summary.WorkspaceName, Namespace: f.Infrastructure.Namespace}}
}

// vpcSecretDependency returns the dependency on the Secret with the subnets of an existing VPC. The Secret may be created after the
// CAPTCluster, and Terraform would fail without it.
func (f *Facts) vpcSecretDependency() []infrav1.SecretDependency {
	if f.Infrastructure == nil || !f.Infrastructure.Spec.VPC.ConnectionSecretRef.IsDefined() {
		return nil
	}
	return []infrav1.SecretDependency{{
		Name: f.Infrastructure.Spec.VPC.ConnectionSecretRef.Name, Namespace: f.Infrastructure.Namespace, Keys: []string{terraform.OutputVPCConfig},
	}}
}
