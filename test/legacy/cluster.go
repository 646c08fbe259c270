// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// Region in which every cluster is.
const Region = "ap-northeast-1"

// Version of control planes of which a test says no other, as CAPT v0.3 wrote it.
const Version = "1.31"

// Cluster is one cluster of CAPT v0.3. What is left empty is as that CAPT did it.
type Cluster struct {
	Namespace, Name       string
	Network, ControlPlane string            // Network and ControlPlane are the names of the CAPTCluster and the CAPTControlPlane; Name unless they say otherwise.
	Version               string            // Version of Kubernetes, such as 1.31.
	Tags                  map[string]string // Tags are additionalTags of the control plane.
	Templates             string            // Templates is the namespace of the templates; Namespace unless it says otherwise.
	Recipe                *Recipe           // Recipe is what the templates say.
	VPCApply, Apply       string            // VPCApply and Apply are the names of the WorkspaceTemplateApplies.

	Unreferenced bool // Unreferenced leaves spec.workspaceTemplateApplyName of the control plane empty.
	HandMade     bool // HandMade are the WorkspaceTemplateApplies that users created: they have no owner.
	WithoutApply bool // WithoutApply makes no WorkspaceTemplateApply for the control plane: the one it refers to is another's.
	// WithoutWorkspaces makes no Workspaces: those that status names are another's. WithoutEKS is that for the control plane only.
	WithoutWorkspaces, WithoutEKS bool
	Helpers                       bool    // Helpers are the other WorkspaceTemplateApplies of a control plane.
	Addons                        []Addon // Addons are WorkspaceTemplateApplies that users wrote beside the cluster.
	ExistingVPC                   string  // ExistingVPC is the id of a VPC that CAPT did not make.
	RetainVPC                     bool    // RetainVPC keeps the VPC when the CAPTCluster is deleted.
	StatusWiped                   bool    // StatusWiped leaves out the status of CAPT's objects, as a restored backup does.
	ApplyFailed                   bool    // ApplyFailed says that Terraform failed for the control plane.
	NeverReady                    bool    // NeverReady says that Terraform could not even initialize the module of the control plane.
	EndpointFailed                bool    // CAPT v0.3 lost a conflict when it wrote the endpoint, and left the control plane in phase Failed.
	Paused                        bool    // Paused sets spec.paused of the Cluster.
	Deleting                      bool    // Deleting deletes the Cluster and what belongs to it, and no controller continues with it.
	Applier                       Applier // Applier is the client that applied the manifests; Kubectl by default.
	// Disputed says that the evidence alone does not decide whose the WorkspaceTemplateApply of the control plane is, and
	// DisputedVPC that of the network.
	Disputed, DisputedVPC bool
	Twin                  string // Twin is namespace/name of the cluster that this one takes for its own: same endpoint, and same VPC without Workspaces.
	Live                  bool   // Live leaves Workspaces to a provider that runs, and waits for it.
}

func (c *Cluster) complete() {
	c.Network, c.ControlPlane = cmp.Or(c.Network, c.Name), cmp.Or(c.ControlPlane, c.Name)
	c.Templates, c.Version = cmp.Or(c.Templates, c.Namespace), cmp.Or(c.Version, Version)
	c.VPCApply, c.Apply = cmp.Or(c.VPCApply, c.Network+"-vpc"), cmp.Or(c.Apply, c.ControlPlane+"-eks-controlplane-apply")
	c.Recipe, c.Applier = cmp.Or(c.Recipe, &plain), cmp.Or(c.Applier, Kubectl)
}

// What has an id of AWS.
const (
	ofVPC      = "VPC"
	ofEndpoint = "endpoint"
)

// hash gives things of AWS ids that differ from cluster to cluster.
func (c *Cluster) hash(of string, length int) string {
	key := c.Twin
	if key == "" || of == ofVPC && !c.WithoutWorkspaces {
		key = c.Namespace + "/" + c.Name
	}
	sum := sha256.Sum256([]byte(of + " of " + key))
	return hex.EncodeToString(sum[:])[:length]
}

func (c *Cluster) vpcID() string {
	if c.ExistingVPC != "" {
		return c.ExistingVPC
	}
	return "vpc-" + c.hash(ofVPC, 17)
}

func (c *Cluster) endpoint() string {
	return "https://" + strings.ToUpper(c.hash(ofEndpoint, 32)) + ".gr7." + Region + ".eks.amazonaws.com"
}

// stored is how CAPT v0.3 stored an endpoint: with a scheme in the host. EKS is always at port 443, and the API server that replaces it in
// tests is not.
func stored(endpoint string) map[string]any {
	host, port, err := terraform.ParseEndpoint(endpoint)
	if err != nil {
		panic("legacy: " + err.Error()) // A mistake in this package, or in a module.
	}
	return map[string]any{"host": "https://" + host, "port": int64(port)}
}

// The kinds, in the version of CAPT v0.3.
var (
	clusterKind      = clusterv1.GroupVersion.WithKind("Cluster")
	networkKind      = infrav1beta1.GroupVersion.WithKind("CAPTCluster")
	controlPlaneKind = controlplanev1beta1.GroupVersion.WithKind("CAPTControlPlane")
	templateKind     = infrav1beta1.GroupVersion.WithKind("WorkspaceTemplate")
	applyKind        = infrav1beta1.GroupVersion.WithKind("WorkspaceTemplateApply")
	workspaceKind    = terraform.ScopeCluster.GroupVersionKind()
)

// create makes the cluster, in the order in which it was made when it was new.
func (c *Cluster) create(a *author) {
	c.complete()
	a.applier = c.Applier
	cluster := c.createCluster(a)
	network := c.createNetwork(a, cluster)
	controlPlane := c.createControlPlane(a, cluster)
	if c.Deleting { // The network is next when the control plane is gone.
		a.delete(cluster)
		a.delete(controlPlane)
	}
	a.done(cluster, network, controlPlane)
}

func (c *Cluster) createCluster(a *author) *unstructured.Unstructured {
	typed := &clusterv1.Cluster{ObjectMeta: meta(c.Namespace, c.Name)}
	typed.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: networkKind.Group, Kind: networkKind.Kind, Name: c.Network}
	typed.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlPlaneKind.Group, Kind: controlPlaneKind.Kind, Name: c.ControlPlane}
	if c.Paused {
		typed.Spec.Paused = ptr.To(true)
	}
	if c.Applier == Topology {
		typed.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "eks"}, Version: "v" + c.Version + ".0"}
	}
	applier := a.applier
	if applier == Topology { // The user creates the Cluster, and Cluster API the rest.
		a.applier = Kubectl
	}
	grow := func(object *unstructured.Unstructured) {
		object.SetFinalizers([]string{clusterv1.ClusterFinalizer})
		if !c.StatusWiped && !c.withoutEndpoint() && !c.Live {
			set(object, stored(c.endpoint()), "spec", "controlPlaneEndpoint")
		}
	}
	cluster := a.declare(untyped(clusterKind, typed), grow)
	a.applier = applier
	a.grow(cluster, CoreFieldManager, grow)
	phase := "Provisioned"
	if c.withoutEndpoint() {
		phase = "Provisioning"
	}
	a.report(cluster, CoreFieldManager, map[string]any{"phase": phase})
	return cluster
}

func (c *Cluster) createNetwork(a *author, cluster *unstructured.Unstructured) *unstructured.Unstructured {
	typed := &infrav1beta1.CAPTCluster{ObjectMeta: meta(c.Namespace, c.Network)}
	typed.Spec.Region = Region
	if c.ExistingVPC != "" {
		typed.Spec.ExistingVPCID = &c.ExistingVPC
	} else {
		typed.Spec.VPCTemplateRef = &infrav1beta1.WorkspaceTemplateReference{Name: c.Recipe.Prefix + VPCTemplate, Namespace: &c.Templates}
	}
	if c.RetainVPC {
		typed.Spec.RetainVPCOnDelete = ptr.To(true)
	}
	c.topology(&typed.ObjectMeta, "eks-network")
	grow := func(object *unstructured.Unstructured) {
		label(object, clusterv1.ClusterNameLabel, c.Name)
		object.SetFinalizers([]string{networkKind.Group + "/captcluster"})
		owned(object, cluster, clusterv1.GroupVersion.String(), false)
		if c.ExistingVPC == "" {
			set(object, c.VPCApply, "spec", "workspaceTemplateApplyName")
		}
	}
	network := a.declare(untyped(networkKind, typed), grow)
	vpcID := c.vpcID()
	if c.ExistingVPC == "" {
		workspace := c.createVPC(a, network)
		if c.Live {
			vpcID = outputsOf(workspace)["vpc_id"]
		}
	}
	a.grow(network, FieldManager, grow)
	if !c.StatusWiped {
		a.report(network, FieldManager, networkStatus(vpcID, c.ExistingVPC != ""))
	}
	return network
}

// topology is what Cluster API writes on what it makes from a ClusterClass.
func (c *Cluster) topology(object *metav1.ObjectMeta, template string) {
	if c.Applier != Topology {
		return
	}
	object.Labels = map[string]string{clusterv1.ClusterNameLabel: c.Name, clusterv1.ClusterTopologyOwnedLabel: ""}
	object.Annotations = map[string]string{clusterv1.TemplateClonedFromNameAnnotation: template}
}

func (c *Cluster) createVPC(a *author, network *unstructured.Unstructured) *unstructured.Unstructured {
	typed := &infrav1beta1.WorkspaceTemplateApply{ObjectMeta: meta(c.Namespace, c.VPCApply)}
	typed.Spec = infrav1beta1.WorkspaceTemplateApplySpec{
		TemplateRef: c.ref(VPCTemplate),
		Variables:   map[string]string{"cluster_name": c.Name, "environment": "production", "vpc_name": c.Network + "-vpc"},
	}
	return c.createApply(a, network, typed, map[string]string{"vpc_id": c.vpcID(), "vpc_config": "vpc_id = \"" + c.vpcID() + "\"\n"})
}

func (c *Cluster) createControlPlane(a *author, cluster *unstructured.Unstructured) *unstructured.Unstructured {
	typed := &controlplanev1beta1.CAPTControlPlane{ObjectMeta: meta(c.Namespace, c.ControlPlane)}
	typed.Spec = *c.controlPlaneSpec()
	c.topology(&typed.ObjectMeta, "eks-control-plane")
	endpoint := c.endpoint()
	grow := func(object *unstructured.Unstructured) {
		label(object, clusterv1.ClusterNameLabel, c.Name)
		object.SetFinalizers([]string{controlPlaneKind.Group + "/captcontrolplane"})
		owned(object, cluster, clusterv1.GroupVersion.String(), false)
		if !c.Unreferenced {
			set(object, c.Apply, "spec", "workspaceTemplateApplyName")
		}
		switch {
		case !c.withoutEndpoint() && endpoint != "":
			set(object, stored(endpoint), "spec", "controlPlaneEndpoint")
		case !a.quick: // CAPT v0.3 writes whole objects.
			set(object, map[string]any{"host": "", "port": int64(0)}, "spec", "controlPlaneEndpoint")
		}
	}
	if c.Live {
		endpoint = "" // It is not known yet.
	}
	controlPlane := a.declare(untyped(controlPlaneKind, typed), grow)
	outputs := c.outputs()
	if !c.WithoutApply {
		workspace := c.createEKS(a, controlPlane)
		if c.Live && !c.NeverReady {
			outputs = outputsOf(workspace)
			endpoint = outputs["cluster_endpoint"]
		}
	}
	a.grow(controlPlane, FieldManager, grow)
	if !c.StatusWiped {
		a.report(controlPlane, FieldManager, c.controlPlaneStatus(outputs))
	}
	if !c.withoutEndpoint() {
		c.createSecrets(a, controlPlane)
	}
	if c.Helpers {
		c.createHelpers(a, controlPlane, outputs)
	}
	c.createAddons(a, controlPlane)
	return controlPlane
}

func (c *Cluster) controlPlaneSpec() *controlplanev1beta1.CAPTControlPlaneSpec {
	return &controlplanev1beta1.CAPTControlPlaneSpec{
		Version: c.Version, WorkspaceTemplateRef: c.ref(c.controlPlaneTemplate()),
		AdditionalTags: c.tags(),
		ControlPlaneConfig: &controlplanev1beta1.ControlPlaneConfig{
			Region: Region, EndpointAccess: &controlplanev1beta1.EndpointAccess{Public: ptr.To(true), Private: ptr.To(true)},
		},
	}
}

// withoutEndpoint reports whether Terraform never reported an endpoint.
func (c *Cluster) withoutEndpoint() bool { return c.ApplyFailed || c.NeverReady }

func (c *Cluster) controlPlaneTemplate() string {
	if c.NeverReady {
		return brokenTemplate
	}
	return ControlPlaneTemplate
}

func (c *Cluster) tags() map[string]string {
	if c.Tags != nil {
		return c.Tags
	}
	return map[string]string{"Environment": "dev", "ManagedBy": "capt"}
}

func (c *Cluster) outputs() map[string]string {
	return map[string]string{
		"cluster_name": c.Name, "cluster_endpoint": c.endpoint(), "cluster_certificate_authority_data": builder.CA(),
	}
}

func (c *Cluster) createEKS(a *author, controlPlane *unstructured.Unstructured) *unstructured.Unstructured {
	typed := &infrav1beta1.WorkspaceTemplateApply{ObjectMeta: meta(c.Namespace, c.Apply)}
	typed.Spec = infrav1beta1.WorkspaceTemplateApplySpec{
		TemplateRef: c.ref(c.controlPlaneTemplate()),
		Variables: map[string]string{
			"cluster_name": c.Name, "kubernetes_version": c.Version, "region": Region,
			"endpoint_private_access": "true", "endpoint_public_access": "true",
		},
		WriteConnectionSecretToRef: &infrav1beta1.SecretReference{Name: c.ControlPlane + "-eks-connection", Namespace: c.Namespace},
	}
	for tag, value := range c.tags() {
		typed.Spec.Variables["tags_"+tag] = value
	}
	if c.ExistingVPC == "" {
		typed.Spec.WaitForWorkspaces = []infrav1beta1.WorkspaceReference{{Name: naming.LegacyWorkspace(c.VPCApply), Namespace: &c.Namespace}}
	}
	return c.createApply(a, controlPlane, typed, c.outputs())
}

func (c *Cluster) ref(template string) infrav1beta1.WorkspaceTemplateReference {
	return infrav1beta1.WorkspaceTemplateReference{Name: c.Recipe.Prefix + template, Namespace: &c.Templates}
}

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
