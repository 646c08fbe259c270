// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/api/naming"
)

// createApply makes a WorkspaceTemplateApply with its Workspace, and returns the Workspace.
func (c *Cluster) createApply(a *author, owner *unstructured.Unstructured, typed *infrav1beta1.WorkspaceTemplateApply, outputs map[string]string) *unstructured.Unstructured {
	grow := func(object *unstructured.Unstructured) {
		object.SetFinalizers([]string{applyKind.Group + "/finalizer"})
		if !c.HandMade {
			owned(object, owner, owner.GetAPIVersion(), true)
		}
	}
	apply := untyped(applyKind, typed)
	if c.HandMade {
		apply = a.declare(apply, grow)
		a.grow(apply, FieldManager, grow)
	} else {
		grow(apply)
		a.make(apply, FieldManager)
	}
	workspace := c.createWorkspace(a, typed, outputs)
	if !c.StatusWiped {
		a.report(apply, FieldManager, applyStatus(naming.LegacyWorkspace(typed.Name), c.outcomeOf(typed.Name)))
	}
	if c.Deleting && owner.GetKind() == controlPlaneKind.Kind {
		a.delete(apply)
	}
	a.done(apply)
	a.adopted(owner, apply, c)
	return workspace
}

// outcomeOf is how Terraform ended for a WorkspaceTemplateApply.
func (c *Cluster) outcomeOf(apply string) outcome {
	switch {
	case apply != c.Apply:
		return succeeded
	case c.ApplyFailed:
		return applyFailed
	case c.NeverReady:
		return initFailed
	}
	return succeeded
}

// createWorkspace renders the Workspace of a WorkspaceTemplateApply, and lets the provider have run it.
func (c *Cluster) createWorkspace(a *author, apply *infrav1beta1.WorkspaceTemplateApply, outputs map[string]string) *unstructured.Unstructured {
	templates := c.templates()
	i := slices.IndexFunc(templates, func(t *infrav1beta1.WorkspaceTemplate) bool { return t.Name == apply.Spec.TemplateRef.Name })
	if i < 0 || c.WithoutWorkspaces || c.WithoutEKS && apply.Name == c.Apply {
		return nil
	}
	name := naming.LegacyWorkspace(apply.Name)
	spec := rendered(templates[i], apply, name)
	workspace := untyped(workspaceKind, &struct {
		Spec infrav1beta1.WorkspaceSpec `json:"spec"`
	}{spec})
	workspace.SetName(name)
	of := c.outcomeOf(apply.Name)
	if c.Live {
		a.await(a.make(workspace, FieldManager), of)
		a.done(workspace)
		return workspace
	}
	workspace.SetAnnotations(map[string]string{"crossplane.io/external-name": name})
	if of != initFailed {
		workspace.SetFinalizers([]string{"finalizer.managedresource.crossplane.io"})
		workspace.SetAnnotations(map[string]string{
			"crossplane.io/external-create-pending": then, "crossplane.io/external-create-succeeded": then, "crossplane.io/external-name": name,
		})
	}
	a.make(workspace, FieldManager)
	a.report(workspace, ProviderFieldManager, workspaceStatus(outputs, of))
	a.done(workspace)
	if of == initFailed {
		return workspace
	}
	if secret := spec.WriteConnectionSecretToRef; secret != nil && of == succeeded {
		a.secret(secret.Namespace, secret.Name, "connection.crossplane.io/v1alpha1", outputs, workspace, workspaceKind.GroupVersion().String())
	}
	a.state(name)
	return workspace
}

// createSecrets makes those that CAPT v0.3 made itself.
func (c *Cluster) createSecrets(a *author, controlPlane *unstructured.Unstructured) {
	apiVersion := controlPlaneKind.GroupVersion().String()
	a.secret(c.Namespace, c.Name+"-ca", "Opaque", map[string]string{"ca.crt": Canary, "tls.crt": Canary}, controlPlane, apiVersion)
	a.secret(c.Namespace, c.Name+"-kubeconfig", clusterv1.ClusterSecretType, map[string]string{"value": Canary}, controlPlane, apiVersion)
}

// createHelpers makes the WorkspaceTemplateApplies that a control plane owns besides its own. That of the kubeconfig refers to a
// template in the namespace default, and writes its Secret there, wherever the cluster is. The role existed, so that the template
// which would have made it was never needed, and there is none.
func (c *Cluster) createHelpers(a *author, controlPlane *unstructured.Unstructured, outputs map[string]string) {
	kubeconfig := &infrav1beta1.WorkspaceTemplateApply{ObjectMeta: meta(c.Namespace, c.ControlPlane+"-kubeconfig-apply")}
	kubeconfig.Spec = infrav1beta1.WorkspaceTemplateApplySpec{
		TemplateRef:                infrav1beta1.WorkspaceTemplateReference{Name: kubeconfigTemplate, Namespace: ptr.To(metav1.NamespaceDefault)},
		Variables:                  map[string]string{"region": Region},
		WaitForWorkspaces:          []infrav1beta1.WorkspaceReference{{Name: naming.LegacyWorkspace(c.Apply)}},
		WriteConnectionSecretToRef: &infrav1beta1.SecretReference{Name: c.ControlPlane + "-outputs-kubeconfig", Namespace: metav1.NamespaceDefault},
	}
	for _, output := range []string{"cluster_name", "cluster_endpoint", "cluster_certificate_authority_data"} {
		kubeconfig.Spec.Variables[output] = outputs[output]
	}
	check := &infrav1beta1.WorkspaceTemplateApply{ObjectMeta: meta(c.Namespace, c.ControlPlane+"-spot-role-check")}
	check.Spec.TemplateRef = c.ref(roleCheckTemplate)
	create := &infrav1beta1.WorkspaceTemplateApply{ObjectMeta: meta(c.Namespace, c.ControlPlane+"-spot-role-create")}
	create.Spec.TemplateRef = c.ref(roleCreateTemplate)

	helper := *c // Helpers are never what is wrong with a cluster.
	helper.HandMade, helper.Deleting = false, false
	adoptions := a.objects.Adoptions
	if !c.withoutEndpoint() {
		helper.createApply(a, controlPlane, kubeconfig, map[string]string{"kubeconfig": Canary})
	}
	helper.createApply(a, controlPlane, check, map[string]string{"role_exists": "true"})
	helper.StatusWiped = true
	helper.createApply(a, controlPlane, create, nil)
	a.objects.Adoptions = adoptions
}

// adopted records what an adoption has to find out.
func (a *author) adopted(owner, apply *unstructured.Unstructured, c *Cluster) {
	disputed := c.Disputed
	if owner.GetKind() == networkKind.Kind {
		disputed = c.DisputedVPC
	}
	a.objects.Adoptions = append(a.objects.Adoptions, Adoption{
		Kind: owner.GetKind(), Owner: types.NamespacedName{Namespace: owner.GetNamespace(), Name: owner.GetName()}, OwnerUID: owner.GetUID(),
		Apply: types.NamespacedName{Namespace: apply.GetNamespace(), Name: apply.GetName()}, ApplyUID: apply.GetUID(),
		Workspace: naming.LegacyWorkspace(apply.GetName()), Disputed: disputed,
	})
}

// outputsOf a Workspace that a provider has run. Sensitive ones are in the connection Secret only.
func outputsOf(workspace *unstructured.Unstructured) map[string]string {
	values, _, _ := unstructured.NestedMap(workspace.Object, "status", "atProvider", "outputs")
	outputs := map[string]string{}
	for name := range values {
		outputs[name] = fmt.Sprint(values[name])
	}
	return outputs
}
