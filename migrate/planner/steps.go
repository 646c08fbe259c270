// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// Parts of messages, and reasons of fields.
const (
	orSkip         = ", or leave this one as it is with skip: true in --decisions" // It follows another remedy.
	orPin          = ", set pin: true in --decisions to keep it as it is with a WorkspaceTemplate of its own"
	finishDeletion = "Let CAPT v0.3 finish the deletion or, if this version is installed, follow the condition AdoptionRequired of the object so that the manager finishes it, and plan again"
	whyPinned      = "this template reproduces the Workspace, as decided"
	whyEndpoint    = "clients cannot connect to a host with a scheme"
	// maxAllowedNamespaces is how many names spec.allowedNamespaces of a WorkspaceTemplate may have (its definition says so).
	maxAllowedNamespaces = 256
)

func (o *owner) applySteps() []plan.Step {
	var c, status change
	apply := o.apply
	if o.pinned != nil {
		c.set("/spec/templateRef", apply.Spec.TemplateRef, o.pinnedRef(), whyPinned)
	}
	if o.live != nil {
		c.set("/spec/workspaceName", apply.Spec.WorkspaceName, o.live.GetName(), "its Workspace is found without status")
	}
	if why := o.whyRetained(); why != "" {
		c.set("/spec/deletionPolicy", apply.Spec.DeletionPolicy, infrav1.DeletionPolicyRetain, why)
	}
	if o.Object.Kind != kindApply && metav1.GetControllerOf(apply) == nil {
		field := plan.Field{Path: "/metadata/ownerReferences", Element: true, Key: "uid", After: encode(o.controllerReference())}
		for _, before := range apply.GetOwnerReferences() {
			if before.UID == o.Object.UID { // The API server rejects two of one UID.
				field.Before = encode(before)
			}
		}
		c.write(field, "it belongs to "+o.Object.String())
	}
	if o.live != nil && apply.Status.WorkspaceName == "" {
		status.set("/status/workspaceName", "", o.live.GetName(), "CAPT v0.3 did not record it, or the status was lost")
	}
	if o.live != nil && apply.Status.WorkspaceRef == nil {
		status.set("/status/workspaceRef", "", render.ReferenceTo(o.live), "no other Workspace of that name is used")
	}
	return append(stepsFor(kindApply, apply, "", c), stepsFor(kindApply, apply, "status", status)...)
}

// whyRetained returns why the cloud resources must outlive the WorkspaceTemplateApply; empty if they need not.
func (o *owner) whyRetained() string {
	switch ofCAPTCluster := o.captCluster != nil && o.controlPlane == nil; {
	case ofCAPTCluster && o.captCluster.Spec.VPC.Template.DeletionPolicy == infrav1.DeletionPolicyRetain:
		return "spec.vpc.template.deletionPolicy of its CAPTCluster is Retain"
	case ofCAPTCluster, !o.retain:
		return ""
	case o.machine:
		return "what a CaptMachine created outlives it"
	case legacy.IsSpotRoleHelper(o.apply):
		return "all clusters of the account use the Spot role"
	}
	return "it is not adopted, and must not block a deletion"
}

func (o *owner) controllerReference() metav1.OwnerReference {
	version := infrav1.GroupVersion
	if o.controlPlane != nil {
		version = controlplanev1.GroupVersion
	}
	return *metav1.NewControllerRef(o.typed, version.WithKind(o.Object.Kind))
}

func (o *owner) ownerSteps() []plan.Step {
	if o.Object.Kind == kindApply {
		return nil
	}
	var c change
	switch {
	case o.pinned == nil:
	case o.controlPlane != nil:
		c.set("/spec/workspaceTemplateRef", o.controlPlane.Spec.WorkspaceTemplateRef, o.pinnedRef(), whyPinned)
	default:
		c.set("/spec/vpc/template/ref", o.captCluster.Spec.VPC.Template.Ref, o.pinnedRef(), whyPinned)
	}
	if !o.referenceInSpec().IsDefined() {
		c.set("/spec/workspaceTemplateApplyRef", "", infrav1.WorkspaceTemplateApplyReference{Name: o.apply.Name}, "no second WorkspaceTemplateApply is created")
	}
	if o.controlPlane != nil {
		stored := o.controlPlane.Spec.ControlPlaneEndpoint
		if repaired := validation.RepairEndpoint(stored); repaired.Host != "" {
			c.set("/spec/controlPlaneEndpoint/host", stored.Host, repaired.Host, whyEndpoint)
		}
	}
	return stepsFor(o.Object.Kind, o.typed, "", c)
}

func (o *owner) referenceInSpec() infrav1.WorkspaceTemplateApplyReference {
	if o.controlPlane != nil {
		return o.controlPlane.Spec.WorkspaceTemplateApplyRef
	}
	return o.captCluster.Spec.WorkspaceTemplateApplyRef
}

// permissionSteps returns the step that allows the namespace of an owner to use its template; none if it, or a given step, already does.
func (f *fleet) permissionSteps(steps []plan.Step, o *owner) []plan.Step {
	template := f.templateToPermit(o)
	if template == nil {
		return nil
	}
	namespace, ref, why := o.apply.Namespace, migrate.Ref(kindTemplate, template), "namespace %s uses the template already"
	if f.decided.owners[o.typed.GetUID()].Permit {
		why = "namespace %s may use the template, as decided"
	}
	if slices.ContainsFunc(steps, func(s plan.Step) bool { return s.Object == ref }) {
		return nil
	}
	var c change
	c.write(plan.Field{Path: "/spec/allowedNamespaces/names", Element: true, After: encode(namespace)}, fmt.Sprintf(why, namespace))
	return stepsFor(kindTemplate, template, "", c)
}

// checkPermission reports that the template of an owner does not permit its namespace, and that nothing shows that CAPT v0.3 used the template from
// there: that status records a Workspace, and that this is exactly what the template renders, as the gate requires.
func (f *fleet) checkPermission(o *owner) (blocked bool) {
	template := f.unpermitted(o)
	if template == nil || isRecorded(o.apply, o.live) || f.decided.owners[o.typed.GetUID()].Permit {
		return false
	}
	o.markAmbiguous(ReasonPermissionRequired, fmt.Sprintf("%s does not permit namespace %s to use it, and status of WorkspaceTemplateApply %s does not record Workspace %s, which would show that CAPT v0.3 used the template there. "+
		"To add the namespace to spec.allowedNamespaces, set permit: true in --decisions%s", migrate.Ref(kindTemplate, template), o.apply.Namespace, o.apply.Name, o.live.GetName(), orSkip), nil)
	return true
}

// templateToPermit returns the template of an owner that must allow the namespace of the owner; nil if there is none. What is adopted has its
// permission, or had it: a user removed it.
func (f *fleet) templateToPermit(o *owner) *infrav1.WorkspaceTemplate {
	if len(o.steps) == 0 || o.live == nil || o.alreadyAdopted {
		return nil
	}
	return f.unpermitted(o)
}

// unpermitted returns the template of an owner if that does not allow the namespace of the owner; else nil. A pinned template is the owner's own.
func (f *fleet) unpermitted(o *owner) *infrav1.WorkspaceTemplate {
	template := f.templates[o.apply.TemplateKey()]
	if o.pinned != nil || template == nil || f.permits(template, o.apply.Namespace) {
		return nil
	}
	return template
}

// tooManyNamespaces blocks the owners that use a template if the plan would have to allow more namespaces than it can list.
func (f *fleet) tooManyNamespaces() (findings []migrate.Finding) {
	users := map[*infrav1.WorkspaceTemplate][]*owner{}
	for _, o := range f.ownersInScope() {
		if template := f.templateToPermit(o); template != nil {
			users[template] = append(users[template], o)
		}
	}
	for i := range f.Templates {
		template := &f.Templates[i]
		names := sets.New(template.Spec.AllowedNamespaces.Names...)
		finding := migrate.Finding{Severity: migrate.Blocked, Reason: ReasonTooManyNamespaces, Object: migrate.Ref(kindTemplate, template)}
		for _, o := range users[template] {
			names.Insert(o.apply.Namespace)
			finding.AlsoAbout = append(finding.AlsoAbout, o.Object)
		}
		if len(finding.AlsoAbout) == 0 || names.Len() <= maxAllowedNamespaces {
			continue
		}
		for _, o := range users[template] {
			o.State = migrate.OwnerBlocked
		}
		finding.Message = fmt.Sprintf("%d namespaces use it, and spec.allowedNamespaces.names can hold %d. Once this version is installed, allow them with spec.allowedNamespaces.selector, or \"*\", and plan again",
			names.Len(), maxAllowedNamespaces)
		findings = append(findings, finding)
	}
	return findings
}

// grantedPermissions warns of the templates that the plan allows for other namespaces.
func grantedPermissions(units []plan.Unit) (findings []migrate.Finding) {
	namespaces := map[migrate.ObjectRef][]string{}
	for i := range units {
		for _, step := range units[i].Steps {
			if step.Object.Kind == kindTemplate && step.Create == nil {
				namespaces[step.Object] = append(namespaces[step.Object], units[i].Object.Namespace)
			}
		}
	}
	for template, users := range namespaces {
		findings = append(findings, warning(ReasonPermissionGranted, template,
			"CAPT v0.3 used it from other namespaces, or a decision permits that, and the plan adds them to spec.allowedNamespaces: %s", abbreviated(sets.List(sets.New(users...)))))
	}
	slices.SortFunc(findings, func(a, b migrate.Finding) int { return strings.Compare(a.Object.String(), b.Object.String()) })
	return findings
}

func abbreviated(names []string) string {
	const shown = 10
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
