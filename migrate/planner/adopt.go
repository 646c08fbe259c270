// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/workspace/render"
	"github.com/capt-provider/capt/migrate"
)

// maxAllowedNamespaces is how many names spec.allowedNamespaces of a WorkspaceTemplate may have (its definition says so).
const maxAllowedNamespaces = 256

// adopt plans the steps for an owner. The manager waits for an owner that refers to none, or to a WorkspaceTemplateApply that has not
// been adopted. The WorkspaceTemplateApply comes first, but for an owner that is pinned: it must refer to its template before it has
// an adopted WorkspaceTemplateApply to write.
func (f *fleet) adopt(o *owner) error {
	o.Evidence = evidenceFor(o)
	ofApply, err := f.applySteps(o)
	if err != nil {
		return err
	}
	ofOwner, err := f.ownerSteps(o)
	if err != nil {
		return err
	}
	if o.steps, err = f.pinSteps(o); err != nil {
		return err
	}
	if o.pinned == nil {
		o.steps = append(ofApply, ofOwner...)
	} else {
		o.steps = slices.Concat(o.steps, ofOwner, ofApply)
	}
	if len(o.steps) > 0 && o.pinned == nil {
		f.grant(o)
	}
	return nil
}

// evidenceFor the WorkspaceTemplateApply that was found.
func evidenceFor(o *owner) (found []string) {
	for i := range o.match.Candidates {
		if candidate := &o.match.Candidates[i]; candidate.Apply == o.apply {
			for _, evidence := range candidate.For {
				found = append(found, string(evidence))
			}
		}
	}
	return found
}

// applySteps record Workspace and owner in the WorkspaceTemplateApply, and that it retains what it created where CAPT v0.3 recorded that
// otherwise, or not at all.
func (f *fleet) applySteps(o *owner) ([]migrate.Step, error) {
	var c change
	apply := o.apply
	if o.pinned != nil {
		c.replace("/spec/templateRef", apply.Spec.TemplateRef, o.pinnedRef())
	}
	if apply.Spec.WorkspaceName == "" && o.live != nil {
		c.add("/spec/workspaceName", o.live.GetName())
	}
	if o.retains() && apply.Spec.DeletionPolicy != infrav1.DeletionPolicyRetain {
		if apply.Spec.DeletionPolicy == "" {
			c.add("/spec/deletionPolicy", infrav1.DeletionPolicyRetain)
		} else {
			c.replace("/spec/deletionPolicy", apply.Spec.DeletionPolicy, infrav1.DeletionPolicyRetain)
		}
	}
	if o.Owner.Kind != kindApply && metav1.GetControllerOf(apply) == nil {
		c.own(apply, o.reference())
	}
	steps, err := f.step(kindApply, apply, o.why(), c)
	if err != nil || o.live == nil {
		return steps, err
	}
	status, err := f.status(apply, o.live)
	if err != nil {
		return nil, err
	}
	return append(steps, statusStep(kindApply, apply, "status records the UID of the Workspace, so that no other one of its name is taken for it", status)...), nil
}

func (o *owner) why() string {
	if o.live == nil {
		return "what it created stays, and nothing waits for its deletion"
	}
	return fmt.Sprintf("spec names Workspace %s, so that it is found without status", o.live.GetName())
}

// retains reports whether what was created must outlive the WorkspaceTemplateApply.
func (o *owner) retains() bool {
	if o.plane == nil && o.network != nil {
		return o.network.Spec.VPC.Template != nil && o.network.Spec.VPC.Template.DeletionPolicy == infrav1.DeletionPolicyRetain
	}
	return o.retain
}

// reference to an owner, as its controller would set it.
func (o *owner) reference() metav1.OwnerReference {
	version := infrav1.GroupVersion
	if o.plane != nil {
		version = controlplanev1.GroupVersion
	}
	return metav1.OwnerReference{
		APIVersion: version.String(), Kind: o.Owner.Kind, Name: o.Owner.Name, UID: o.Owner.UID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}
}

// status is what the status of a WorkspaceTemplateApply lacks.
func (f *fleet) status(apply *infrav1.WorkspaceTemplateApply, live *unstructured.Unstructured) (c change, err error) {
	ref := reference(live)
	raw, err := f.Raw[apply.UID].Object()
	if err != nil {
		return c, err
	}
	if _, has := raw.Object["status"]; !has {
		c.add("/status", map[string]any{"workspaceName": live.GetName(), "workspaceRef": ref})
		return c, nil
	}
	if apply.Status.WorkspaceName == "" {
		c.add("/status/workspaceName", live.GetName())
	}
	if apply.Status.WorkspaceRef == nil {
		c.add("/status/workspaceRef", ref)
	}
	return c, nil
}

// reference to a Workspace, as the manager records it.
func reference(live *unstructured.Unstructured) *infrav1.WorkspaceReference {
	return &infrav1.WorkspaceReference{
		APIVersion: live.GetAPIVersion(), Kind: live.GetKind(), Name: live.GetName(), Namespace: live.GetNamespace(), UID: live.GetUID(),
		ExternalName: live.GetAnnotations()[render.ExternalNameAnnotation],
	}
}

// ownerSteps make the owner refer to the WorkspaceTemplateApply, and repair what CAPT v0.3 wrote as its endpoint.
func (f *fleet) ownerSteps(o *owner) ([]migrate.Step, error) {
	if o.Owner.Kind == kindApply {
		return nil, nil
	}
	var c change
	o.pinOwner(&c)
	ref := infrav1.WorkspaceTemplateApplyReference{Name: o.apply.Name}
	if o.referenceInSpec() == nil {
		c.add("/spec/workspaceTemplateApplyRef", ref)
	}
	if o.plane != nil {
		stored := o.plane.Spec.ControlPlaneEndpoint
		if repaired := validation.Endpoint(stored); repaired.Host != "" && repaired.Host != stored.Host {
			c.replace("/spec/controlPlaneEndpoint/host", stored.Host, repaired.Host)
		}
	}
	return f.step(o.Owner.Kind, o.object, fmt.Sprintf("spec refers to WorkspaceTemplateApply %s, so that no second one is created", o.apply.Name), c)
}

func (o *owner) referenceInSpec() *infrav1.WorkspaceTemplateApplyReference {
	if o.plane != nil {
		return o.plane.Spec.WorkspaceTemplateApplyRef
	}
	return o.network.Spec.WorkspaceTemplateApplyRef
}

// grant notes that the template must be usable from the namespace of the owner.
func (f *fleet) grant(o *owner) {
	template := f.templates[o.apply.TemplateKey()]
	if template == nil || !f.inScope(o.object) || f.permitted(template, o.apply.Namespace) {
		return
	}
	key := client.ObjectKeyFromObject(template)
	if !slices.Contains(f.grants[key], o.apply.Namespace) {
		f.grants[key] = append(f.grants[key], o.apply.Namespace)
	}
}

// grantSteps let namespaces use the templates that they have used all along.
func (f *fleet) grantSteps() (steps []migrate.Step, findings []migrate.Finding, err error) {
	keys := slices.SortedFunc(maps.Keys(f.grants), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		template, namespaces := f.templates[key], f.grants[key]
		slices.Sort(namespaces)
		var c change
		before := template.Spec.AllowedNamespaces
		switch {
		case before == nil:
			c.add("/spec/allowedNamespaces", infrav1.AllowedNamespaces{Names: namespaces})
		case before.Names == nil:
			c.add("/spec/allowedNamespaces/names", namespaces)
		default:
			namespaces = append(slices.Clone(before.Names), namespaces...)
			c.replace("/spec/allowedNamespaces/names", before.Names, namespaces)
		}
		if len(namespaces) > maxAllowedNamespaces {
			findings = append(findings, migrate.Finding{Severity: migrate.Blocked, Reason: ReasonTooManyGrants, Object: migrate.Ref(kindTemplate, template), Message: fmt.Sprintf(
				"%d namespaces use it, and spec.allowedNamespaces.names can hold %d. Allow them with spec.allowedNamespaces.selector, or \"*\", and plan again", len(namespaces), maxAllowedNamespaces)})
			continue
		}
		made, err := f.step(kindTemplate, template, fmt.Sprintf("permits the other namespaces that use it: %d", len(f.grants[key])), c)
		if err != nil {
			return nil, nil, err
		}
		steps = append(steps, made...)
		findings = append(findings, migrate.Finding{Severity: migrate.Warning, Reason: ReasonSharedTemplate, Object: migrate.Ref(kindTemplate, template), Message: fmt.Sprintf(
			"other namespaces use it, and the plan permits them in spec.allowedNamespaces: %s", listed(f.grants[key]))})
	}
	return steps, findings, nil
}
