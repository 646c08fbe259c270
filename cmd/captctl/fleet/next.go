// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/cmd/captctl/view"
)

// nextStep is what to do about the cause; nil if its message alone says it.
func nextStep(o *overview.Objects, c *overview.Cluster) *view.Next {
	name := c.Namespace + "/" + c.Name
	switch {
	case ptr.Deref(o.Cluster.Spec.Paused, false):
		return &view.Next{Step: "It is paused. Resume it when the reason for the pause has ended.", Commands: []string{"captctl resume " + name}}
	case c.Paused:
		return &view.Next{Step: "Some of its objects are paused by the annotation cluster.x-k8s.io/paused. If its value is " + naming.MigrationPause +
			", a run of captctl migrate was interrupted: see captctl migrate status. Otherwise remove the annotation when the reason for the pause has ended.", Commands: unpause(o)}
	case c.Cause == nil:
		return nil
	case c.Cause.Reason == infrav1.WaitingForApprovalReason:
		return &view.Next{Step: "See why the change waits, and approve it, or revert it.",
			Commands: []string{fmt.Sprintf("captctl template approve-change %s/%s", c.Namespace, c.Cause.Name)}}
	case c.Cause.IsWaiting():
		return nil
	case c.Cause.Condition == infrav1.AdoptionRequiredCondition:
		return &view.Next{Step: "CAPT v0.3 created it, and it has not been adopted. See what its adoption needs.", Commands: []string{"captctl migrate check --cluster " + name}}
	}
	if next := nextStepFor(o, c, name); next != nil {
		return next
	}
	if c.State == controlplanev1.StateFailed {
		return &view.Next{Commands: []string{"captctl retry " + name}, Step: "Fix the cause. CAPT continues when the spec, the template, the ProviderConfig or a Secret " +
			"changes. If the cause was elsewhere, request a retry."}
	}
	return nil
}

// nextStepFor is what to do about the reason of the cause; nil if that depends on its message.
func nextStepFor(o *overview.Objects, c *overview.Cluster, name string) *view.Next {
	edit := editTemplate(o, c.Cause)
	switch c.Cause.Reason {
	case infrav1.ApplyFailedReason, infrav1.PlanFailedReason:
		if isElsewhere(o, c.Cause) {
			return &view.Next{Step: "Remove the cause that the message names. It is not in the template. provider-terraform retries.", Commands: []string{"captctl logs " + name}}
		}
		return &view.Next{Step: "Correct what Terraform reports: the module of the WorkspaceTemplate, a variable of the Cluster, or something in AWS. " +
			"An edit starts Terraform immediately; without one, provider-terraform retries.", Commands: append([]string{"captctl logs " + name}, edit...)}
	case infrav1.DestroyFailedReason:
		return &view.Next{Step: "Delete what still uses the resources, or correct what Terraform reports. provider-terraform retries.", Commands: []string{"captctl logs " + name}}
	case infrav1.ProviderConfigFailedReason:
		return &view.Next{Step: "Create or correct the ProviderConfig, or the Secret with its credentials. If the WorkspaceTemplate names the wrong one, correct " +
			"spec.template.spec.providerConfigRef, and then run the command that captctl describe shows.", Commands: edit}
	case infrav1.VPCIDMissingReason, controlplanev1.EndpointMissingReason:
		return &view.Next{Step: "Add the output to the module of the WorkspaceTemplate, or correct its name.", Commands: edit}
	case infrav1.TemplateNotFoundReason:
		return &view.Next{Step: "Create the WorkspaceTemplate, or correct the reference to it. A template of another namespace must allow this one in spec.allowedNamespaces.",
			Commands: []string{"kubectl get workspacetemplates -A"}}
	case infrav1.TemplateInvalidReason, infrav1.WorkspaceRejectedReason:
		return &view.Next{Step: "Correct the WorkspaceTemplate or the variables of the Cluster.", Commands: edit}
	case controlplanev1.APIServerNotAnsweringReason, controlplanev1.HealthCheckFailedReason:
		return &view.Next{Step: "Check whether the API server answers you. If it does, the network or the kubeconfig of CAPT is the cause.", Commands: []string{
			fmt.Sprintf("clusterctl get kubeconfig %s -n %s > %[1]s.kubeconfig", c.Name, c.Namespace),
			fmt.Sprintf("kubectl --kubeconfig %s.kubeconfig get --raw '/readyz?verbose'", c.Name),
		}}
	case infrav1.WorkspaceNotReconciledReason:
		return &view.Next{Step: "Check that provider-terraform runs.", Commands: []string{"kubectl -n crossplane-system get pods"}}
	case overview.NotReconciledReason:
		return &view.Next{Step: "Check that the manager of CAPT runs.", Commands: []string{"kubectl -n capt-system get pods"}}
	}
	return nil
}

// isElsewhere reports whether the class of an error of Terraform rules out that the module or its variables are the cause (docs/recovery.md).
func isElsewhere(o *overview.Objects, cause *overview.Cause) bool {
	i := slices.IndexFunc(o.Applies, func(apply *infrav1.WorkspaceTemplateApply) bool {
		return cause.Kind == applyKind && cause.Name == apply.Name
	})
	return i >= 0 && !slices.Contains([]failure.Class{"", failure.ClassConfig, failure.ClassUnknown}, failure.Class(o.Applies[i].Status.LastFailureClass))
}

// editTemplate are the commands that edit the template of the object that is the cause, and the object that has its variables.
func editTemplate(o *overview.Objects, cause *overview.Cause) (commands []string) {
	edit := func(kind string, object types.NamespacedName) {
		commands = append(commands, fmt.Sprintf("kubectl edit %s -n %s %s", kind, object.Namespace, object.Name))
	}
	isVPC := o.CAPTCluster != nil && cause.Kind == "CAPTCluster"
	if template := templateOf(o, cause.Kind); template.Name != "" {
		edit("workspacetemplate", template)
	}
	for _, apply := range o.Applies {
		if cause.Kind == applyKind && cause.Name == apply.Name && apply.Spec.TemplateRef.Name != "" {
			edit("workspacetemplate", apply.TemplateKey())
			isVPC = o.CAPTCluster != nil && o.CAPTCluster.Spec.WorkspaceTemplateApplyRef.Name == apply.Name
		}
	}
	switch {
	case isVPC:
		edit("captcluster", client.ObjectKeyFromObject(o.CAPTCluster))
	case o.ControlPlane != nil:
		edit("captcontrolplane", client.ObjectKeyFromObject(o.ControlPlane))
	}
	return commands
}

// templateOf is the template that the spec of an owner names; empty if the kind is another one.
func templateOf(o *overview.Objects, kind string) types.NamespacedName {
	switch {
	case kind == "CAPTCluster" && o.CAPTCluster != nil:
		return o.CAPTCluster.Spec.VPC.Template.Ref.Key(o.CAPTCluster.Namespace)
	case kind == "CAPTControlPlane" && o.ControlPlane != nil:
		return o.ControlPlane.Spec.WorkspaceTemplateRef.Key(o.ControlPlane.Namespace)
	}
	return types.NamespacedName{}
}

// unpause are the commands that remove the annotation cluster.x-k8s.io/paused.
func unpause(o *overview.Objects) (commands []string) {
	for _, object := range o.PausedByAnnotation() {
		commands = append(commands, fmt.Sprintf("kubectl annotate -n %s %s %s-", o.Cluster.Namespace, strings.ToLower(object), clusterv1.PausedAnnotation))
	}
	return commands
}
