/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package planner

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capt-provider/capt/api/adoption"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/workspace/render"
)

// gate is the render gate: it tells whether adopting would change the Workspace, and thereby make Terraform run. It looks at the
// WorkspaceTemplateApply twice: as it is once it is adopted, and as its owner will write it when the manager starts.
func (f *fleet) gate(o *owner) (stop bool) {
	if f.templates[o.apply.TemplateKey()] == nil {
		o.block(ReasonTemplateMissing, fmt.Sprintf("WorkspaceTemplate %s does not exist, so CAPT cannot determine what the manager would do with Workspace %s. Restore it, %s",
			o.apply.TemplateKey(), o.live.GetName(), o.hint()))
		return true
	}
	if o.givesUp() {
		o.block(ReasonWouldDestroyLater, fmt.Sprintf("the VPC would be destroyed with it: WorkspaceTemplateApply %s retains what it made, and the manager writes what spec.vpc.template.deletionPolicy says. Set both to the same, %s",
			o.apply.Name, skipHint))
		return true
	}
	looks, err := f.looks(o)
	if err != nil {
		o.block(ReasonCannotRender, fmt.Sprintf("%v. Correct it, %s", err, o.hint()))
		return true
	}
	for _, look := range looks {
		differences, err := f.rendered(look.apply, o.live)
		if err != nil {
			o.block(ReasonCannotRender, fmt.Sprintf("Workspace %s cannot be rendered: %v. Correct the template, %s", o.live.GetName(), err, o.hint()))
			return true
		}
		if len(differences) > 0 {
			finding := o.block(ReasonWouldChange, fmt.Sprintf("Terraform would run: %s. Make spec and template say what Workspace %s has (the older manager must be off), %s",
				look.why, o.live.GetName(), o.hint()))
			finding.Differences = differences
			return true
		}
	}
	return false
}

// givesUp tells whether the manager would no longer retain what a person retained by hand: what becomes of a VPC, its owner says.
func (o *owner) givesUp() bool {
	return o.Owner.Kind == kindCAPTCluster && o.apply.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain && !o.retains()
}

// look is a WorkspaceTemplateApply to render, and why it would be rendered otherwise than the older CAPT did.
type look struct {
	apply *infrav1.WorkspaceTemplateApply
	why   string
}

// looks returns the WorkspaceTemplateApply as it is once adopted, and then as its owner writes it: with an error only the first.
func (f *fleet) looks(o *owner) ([]look, error) {
	apply := o.apply.DeepCopy()
	apply.Spec.WorkspaceName, apply.Status.WorkspaceRef = o.live.GetName(), reference(o.live)
	looks := []look{{apply, "what is rendered today is not what the older CAPT rendered"}}
	if o.Owner.Kind == kindApply {
		return looks, nil
	}
	intent, err := f.intent(o)
	if err != nil {
		return looks, err
	}
	written := intent.Upon(apply)
	written.Spec.TemplateRef = o.match.Claimant.Want.Template // A person may have decided for one of another template.
	return append(looks, look{written, "the manager writes what spec says into the WorkspaceTemplateApply, and that was never given to Terraform"}), nil
}

// rendered is in which fields a Workspace is not what today's renderer makes of a WorkspaceTemplateApply.
func (f *fleet) rendered(apply *infrav1.WorkspaceTemplateApply, live *unstructured.Unstructured) ([]render.Difference, error) {
	template := f.templates[apply.TemplateKey()]
	if template == nil {
		return nil, fmt.Errorf("WorkspaceTemplate %s does not exist", apply.TemplateKey())
	}
	secret, _, err := unstructured.NestedStringMap(live.Object, "spec", "writeConnectionSecretToRef")
	if err != nil {
		return nil, fmt.Errorf("reading Workspace %s: %w", live.GetName(), err)
	}
	made, errs := render.Workspace(render.Input{
		Apply: apply, Template: template, Name: live.GetName(), ExternalName: live.GetAnnotations()[render.ExternalNameAnnotation],
		ConnectionSecret: &terraform.SecretReference{Name: secret["name"], Namespace: secret["namespace"]},
	})
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return render.Differences(live, made), nil
}

// intent is what the owner will write.
func (f *fleet) intent(o *owner) (adoption.Intent, error) {
	if o.plane == nil {
		return adoption.VPCIntent(o.network, o.Cluster), nil
	}
	version, err := validation.ParseKubernetesVersion(o.plane.Spec.Version)
	if err != nil {
		return adoption.Intent{}, fmt.Errorf("spec.version: %w", err)
	}
	return adoption.ControlPlaneIntent(o.plane, adoption.Surroundings{
		Cluster: o.Cluster, EKSVersion: version.EKS, Region: validation.Region(o.plane, o.network), VPCID: f.vpcID(o.network),
	})
}

// vpcID is the VPC that the manager will find for a control plane: what the CAPTCluster says, or what Terraform reports.
func (f *fleet) vpcID(network *infrav1.CAPTCluster) string {
	switch {
	case network == nil:
		return ""
	case network.Status.VPC.ID != "":
		return network.Status.VPC.ID
	case network.Spec.VPC.ExistingID != "":
		return network.Spec.VPC.ExistingID
	}
	for _, o := range f.owners {
		if o.object == network && o.apply != nil {
			return f.outputs[o.apply.UID][terraform.OutputVPCID]
		}
	}
	return ""
}

// permitted tells whether a template may be used from a namespace.
func (f *fleet) permitted(template *infrav1.WorkspaceTemplate, namespace string) bool {
	permitted, err := validation.PermitsNamespace(template, namespace, func() (labels.Set, error) {
		for i := range f.Namespaces {
			if f.Namespaces[i].Name == namespace {
				return f.Namespaces[i].Labels, nil
			}
		}
		return nil, nil
	})
	return err == nil && permitted
}
