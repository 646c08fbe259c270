// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/sandbox"
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

// Recipe is what a platform team put into the templates of a fleet.
type Recipe struct {
	// VPC and ControlPlane are the Terraform modules, and Variables are those that each of them is given.
	VPC, ControlPlane                   string
	VPCVariables, ControlPlaneVariables []string
	// ProviderConfig has the credentials.
	ProviderConfig string
	// WithoutVPCSecret lets the template of the VPC name no Secret. Otherwise it is in VPCSecretNamespace, which is that of the
	// template unless it says otherwise.
	WithoutVPCSecret   bool
	VPCSecretNamespace string
	// Prefix is put before the names of templates, where those of several fixtures are in one namespace.
	Prefix string
}

// Names of the templates.
const (
	VPCTemplate          = "vpc-template"
	ControlPlaneTemplate = "eks-controlplane-template"
	kubeconfigTemplate   = "eks-kubeconfig-template"
	roleCheckTemplate    = "spot-role-check"
	brokenTemplate       = "eks-broken"
	addonTemplate        = "addon"
	// roleCreateTemplate was never there in clusters that had the role already.
	roleCreateTemplate = "spot-role-create"
)

// plain is a recipe that takes no AWS. Nothing runs it unless a test has a provider.
var plain = Recipe{
	VPC: `variable "cluster_name" { type = string }
variable "vpc_name" { type = string }
resource "terraform_data" "vpc" { input = { name = var.vpc_name, cluster = var.cluster_name } }
output "vpc_id" { value = "vpc-${substr(terraform_data.vpc.id, 0, 8)}" }
`,
	VPCVariables: []string{"cluster_name", "vpc_name"},
	ControlPlane: `variable "cluster_name" { type = string }
variable "kubernetes_version" { type = string }
variable "region" { type = string }
resource "terraform_data" "eks" { input = { name = var.cluster_name, version = var.kubernetes_version, region = var.region } }
output "cluster_name" { value = var.cluster_name }
output "cluster_version" { value = terraform_data.eks.output.version }
output "cluster_endpoint" { value = "https://${upper(substr(terraform_data.eks.id, 0, 8))}.gr7.${var.region}.eks.amazonaws.com" }
output "cluster_certificate_authority_data" { value = "` + builder.CA() + `" }
`,
	ControlPlaneVariables: []string{"cluster_name", "kubernetes_version", "region"},
	ProviderConfig:        "aws-provider-config",
}

const (
	kubeconfigModule = `variable "cluster_name" { type = string }
variable "region" { type = string }
variable "cluster_endpoint" { type = string }
variable "cluster_certificate_authority_data" { type = string }
output "kubeconfig" {
  sensitive = true
  value = yamlencode({ apiVersion = "v1", kind = "Config", clusters = [{ name = var.cluster_name, cluster = {
    server = var.cluster_endpoint, "certificate-authority-data" = var.cluster_certificate_authority_data
  } }] })
}
`
	// brokenModule makes terraform init fail.
	brokenModule = `
terraform {
  required_providers {
    broken = { source = "no/such/provider/source" }
  }
}
`
	addonModule = `variable "cluster_name" { type = string }
resource "terraform_data" "addon" { input = var.cluster_name }
output "id" { value = terraform_data.addon.id }
`
	roleCheckModule = `output "role_exists" { value = "true" }
`
)

// template makes a WorkspaceTemplate as people wrote it. Each variable of the module has a placeholder of its own name.
func (r *Recipe) template(namespace, name, description, module string, variables []string) *infrav1beta1.WorkspaceTemplate {
	t := &infrav1beta1.WorkspaceTemplate{ObjectMeta: meta(namespace, r.Prefix+name)}
	t.Spec.Template.Metadata = &infrav1beta1.WorkspaceTemplateMetadata{Description: &description, Version: ptr.To("1.0.0")}
	t.Spec.Template.Spec = infrav1beta1.WorkspaceSpec{
		ProviderConfigRef: &infrav1beta1.ProviderConfigReference{Name: r.ProviderConfig},
		ForProvider:       infrav1beta1.WorkspaceParameters{Source: "Inline", Module: module},
	}
	for _, variable := range variables {
		t.Spec.Template.Spec.ForProvider.Vars = append(t.Spec.Template.Spec.ForProvider.Vars, infrav1beta1.Var{Key: variable, Value: "${" + variable + "}"})
	}
	return t
}

// templates that a cluster uses. That of the VPC names the Secret with a placeholder, the others leave it to those who use them.
func (c *Cluster) templates() []*infrav1beta1.WorkspaceTemplate {
	r, namespace := c.Recipe, c.Templates
	vpc := r.template(namespace, VPCTemplate, "VPC", r.VPC, r.VPCVariables)
	if !r.WithoutVPCSecret {
		secret := &infrav1beta1.SecretReference{Name: "${WORKSPACE_NAME}-connection", Namespace: r.VPCSecretNamespace}
		if secret.Namespace == "" {
			secret.Namespace = namespace
		}
		vpc.Spec.Template.Spec.WriteConnectionSecretToRef = secret
	}
	templates := []*infrav1beta1.WorkspaceTemplate{
		vpc,
		r.template(namespace, ControlPlaneTemplate, "EKS control plane", r.ControlPlane, r.ControlPlaneVariables),
		r.template(namespace, roleCheckTemplate, "role of spot instances", roleCheckModule, nil),
	}
	if c.NeverReady {
		templates = append(templates, r.template(namespace, brokenTemplate, "EKS control plane", r.ControlPlane+brokenModule, r.ControlPlaneVariables))
	}
	if len(c.Addons) > 0 {
		templates = append(templates, r.template(namespace, addonTemplate, "addon", addonModule, []string{"cluster_name"}))
	}
	if c.Helpers {
		kubeconfig := r.template(metav1.NamespaceDefault, kubeconfigTemplate, "kubeconfig", kubeconfigModule,
			[]string{"cluster_name", "region", "cluster_endpoint", "cluster_certificate_authority_data"})
		kubeconfig.Name = kubeconfigTemplate // CAPT v0.3 hard-codes name and namespace.
		templates = append(templates, kubeconfig)
	}
	return templates
}

// rendered is the spec of a Workspace as CAPT v0.3 made it: placeholders replaced in the values of variables and in the name
// of the Secret, in whose place the WorkspaceTemplateApply may name another. It is not what today's renderer does on purpose:
// tests compare the two.
func rendered(template *infrav1beta1.WorkspaceTemplate, apply *infrav1beta1.WorkspaceTemplateApply, workspace string) infrav1beta1.WorkspaceSpec {
	pairs := []string{"${WORKSPACE_NAME}", workspace}
	for name, value := range apply.Spec.Variables {
		pairs = append(pairs, "${"+name+"}", value)
	}
	replacer := strings.NewReplacer(pairs...)
	spec := *template.Spec.Template.Spec.DeepCopy()
	for i := range spec.ForProvider.Vars {
		spec.ForProvider.Vars[i].Value = replacer.Replace(spec.ForProvider.Vars[i].Value)
	}
	if secret := spec.WriteConnectionSecretToRef; secret != nil {
		secret.Name = replacer.Replace(secret.Name)
	}
	if secret := apply.Spec.WriteConnectionSecretToRef; secret != nil {
		spec.WriteConnectionSecretToRef = secret.DeepCopy()
	}
	// What the older definitions filled into templates.
	spec.DeletionPolicy, spec.ManagementPolicies, spec.ForProvider.Entrypoint = ptr.To("Delete"), []string{"*"}, ptr.To("")
	return spec
}

// then is when everything happened.
const then = "2025-03-01T10:00:00Z"

// condition has the form of Crossplane; others have a message, too.
func condition(conditionType, status, reason, message string) map[string]any {
	c := map[string]any{"type": conditionType, "status": status, "reason": reason, "lastTransitionTime": then}
	if message != "" {
		c["message"] = message
	}
	if conditionType == "Synced" {
		c["observedGeneration"] = int64(1)
	}
	return c
}

const failure = "create failed: cannot apply Terraform configuration: Terraform encountered an error. Summary: creating EKS Cluster: LimitExceeded"

// initFailure is what provider-terraform reports when a module cannot be initialized.
const initFailure = "connect failed: cannot initialize Terraform configuration: Terraform encountered an error. Summary: Invalid provider source string"

// endpointFailure is a lost conflict, which CAPT v0.3 takes for a failure for good.
const endpointFailure = "Failed to update control plane endpoint: Operation cannot be fulfilled on captcontrolplanes.controlplane.cluster.x-k8s.io: the object has been modified"

// outcome is how Terraform ended.
type outcome int

const (
	succeeded outcome = iota
	applyFailed
	initFailed
)

func workspaceConditions(of outcome) []any {
	switch of {
	case initFailed:
		return []any{condition("Synced", "False", "ReconcileError", initFailure)}
	case applyFailed:
		return []any{condition("Ready", "False", "Creating", ""), condition("Synced", "False", "ReconcileError", failure)}
	default:
		return []any{condition("Ready", "True", "Available", ""), condition("Synced", "True", "ReconcileSuccess", "")}
	}
}

func workspaceStatus(outputs map[string]string, of outcome) map[string]any {
	status := map[string]any{"conditions": workspaceConditions(of), "atProvider": map[string]any{}}
	if of == succeeded {
		status["atProvider"] = atProvider(outputs)
	}
	return status
}

func atProvider(outputs map[string]string) map[string]any {
	at, plain := map[string]any{"checksum": "d5b59506d7edcc50529b14198dc1c2b4"}, map[string]any{}
	for name, value := range outputs {
		if name != "kubeconfig" {
			plain[name], at["outputs"] = value, plain
		}
	}
	return at
}

func applyStatus(workspace string, of outcome) map[string]any {
	return map[string]any{
		"applied": true, "workspaceName": workspace, "lastAppliedTime": then, "conditions": workspaceConditions(of),
	}
}

func networkStatus(vpcID string, existing bool) map[string]any {
	made, template := condition("VPCReady", "True", "VPCCreated", "VPC has been successfully created"), map[string]any{"ready": true}
	if existing {
		made = condition("VPCReady", "True", "ExistingVPCUsed", "Using existing VPC")
	} else {
		template["lastAppliedRevision"] = "2025-03-01 09:58:11 +0000 UTC"
	}
	return map[string]any{"ready": true, "vpcId": vpcID, "conditions": []any{made}, "workspaceTemplateStatus": template}
}

func (c *Cluster) controlPlaneStatus(outputs map[string]string) map[string]any {
	const revision = "2025-03-01 09:58:13 +0000 UTC"
	available := map[string]any{"ready": true, "state": "Available", "atProvider": atProvider(outputs)}
	switch {
	case c.ApplyFailed:
		return map[string]any{
			"ready": false, "initialized": false, "phase": "Failed", "failureReason": "WorkspaceError", "failureMessage": failure,
			"conditions":      []any{condition("Ready", "False", "WorkspaceError", failure)},
			"workspaceStatus": map[string]any{"ready": false, "state": "Creating"},
		}
	case c.NeverReady:
		return map[string]any{
			"ready": false, "initialized": false, "secretsReady": false, "phase": "Creating",
			"conditions":      []any{condition("Ready", "False", "Creating", "Control plane is being created")},
			"workspaceStatus": map[string]any{"atProvider": map[string]any{}},
		}
	case c.EndpointFailed:
		return map[string]any{
			"ready": false, "initialized": false, "secretsReady": true, "phase": "Failed",
			"failureReason": "EndpointUpdateFailed", "failureMessage": endpointFailure,
			"conditions":              []any{condition("Ready", "False", "EndpointUpdateFailed", endpointFailure)},
			"workspaceStatus":         available,
			"workspaceTemplateStatus": map[string]any{"ready": false, "lastAppliedRevision": revision, "lastFailureMessage": endpointFailure},
		}
	}
	return map[string]any{
		"ready": true, "initialized": true, "secretsReady": true, "phase": "Ready",
		"conditions":              []any{condition("Ready", "True", "Ready", "Control plane is ready")},
		"workspaceStatus":         available,
		"workspaceTemplateStatus": map[string]any{"ready": true, "lastAppliedRevision": revision},
	}
}

// Field managers of a legacy fleet.
const (
	// FieldManager is that of CAPT v0.3.
	FieldManager = "older"
	// CoreFieldManager is that of Cluster API, and ProviderFieldManager that of provider-terraform.
	CoreFieldManager     = "core"
	ProviderFieldManager = "provider"
)

// lastApplied is where kubectl keeps what it applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Applier is the field manager that applies the manifests that a team keeps in Git.
type Applier string

// Appliers of manifests.
const (
	// Kubectl applies on the client's side, as it does by default.
	Kubectl Applier = "kubectl-client-side-apply"
	// Flux applies on the server's side, and labels what it applies.
	Flux Applier = "kustomize-controller"
	// ArgoCD applies like kubectl, and labels what it applies.
	ArgoCD Applier = "argocd-controller"
	// Topology is Cluster API, for a Cluster of a ClusterClass.
	Topology Applier = "capi-topology"
)

// author writes the objects of a fleet, in the order of their lives. After an error it writes nothing more.
type author struct {
	ctx     context.Context //nolint:containedctx // it lives as long as one call of Create
	client  client.Client
	applier Applier
	quick   bool
	objects *Objects
	err     error
}

// declare writes an object as it is in Git. With quick, CAPT v0.3's part is in it from the beginning.
func (a *author) declare(manifest *unstructured.Unstructured, grow func(*unstructured.Unstructured)) *unstructured.Unstructured {
	a.objects.Manifests = append(a.objects.Manifests, manifest.DeepCopy())
	if a.quick {
		grow(manifest)
		return a.make(manifest, FieldManager)
	}
	if a.err != nil {
		return manifest
	}
	switch a.applier {
	case Flux:
		label(manifest, "kustomize.toolkit.fluxcd.io/name", "clusters")
		label(manifest, "kustomize.toolkit.fluxcd.io/namespace", "flux-system")
		return a.apply(manifest)
	case Topology:
		return a.apply(manifest)
	case ArgoCD:
		label(manifest, "app.kubernetes.io/instance", "clusters")
		fallthrough
	case Kubectl:
		a.annotateApplied(manifest)
	}
	return a.make(manifest, string(a.applier))
}

func (a *author) annotateApplied(manifest *unstructured.Unstructured) {
	content, err := json.Marshal(manifest.Object)
	a.fail("encoding", manifest, err)
	annotations.AddAnnotations(manifest, map[string]string{lastApplied: string(content) + "\n"})
}

func (a *author) apply(object *unstructured.Unstructured) *unstructured.Unstructured {
	a.fail("applying", object, a.client.Apply(a.ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(string(a.applier)), client.ForceOwnership))
	return object
}

func (a *author) make(object *unstructured.Unstructured, manager string) *unstructured.Unstructured {
	if a.err == nil {
		a.fail("creating", object, a.client.Create(a.ctx, object, client.FieldOwner(manager)))
	}
	return object
}

// grow lets a controller add to an object. Where it has nothing to add, it writes nothing.
func (a *author) grow(object *unstructured.Unstructured, manager string, change func(*unstructured.Unstructured)) {
	if a.err != nil {
		return
	}
	a.fail("changing", object, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		before := object.DeepCopy()
		change(object)
		if equality.Semantic.DeepEqual(before.Object, object.Object) {
			return nil
		}
		return a.retryable(object, a.client.Update(a.ctx, object, client.FieldOwner(manager)))
	}))
}

func (a *author) report(object *unstructured.Unstructured, manager string, status map[string]any) {
	if a.err != nil {
		return
	}
	a.fail("reporting", object, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		object.Object["status"] = runtime.DeepCopyJSON(status)
		return a.retryable(object, a.client.Status().Update(a.ctx, object, client.FieldOwner(manager)))
	}))
}

// retryable reads an object again that another client has changed.
func (a *author) retryable(object *unstructured.Unstructured, err error) error {
	if apierrors.IsConflict(err) {
		if err := a.client.Get(a.ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
	}
	return err
}

// done records objects as they are in the end.
func (a *author) done(objects ...*unstructured.Unstructured) {
	for _, object := range objects {
		a.objects.Items = append(a.objects.Items, *object)
	}
}

func (a *author) fail(what string, object *unstructured.Unstructured, err error) {
	if a.err == nil && err != nil {
		a.err = fmt.Errorf("%s %s %s/%s: %w", what, object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
}

// untyped is the form in which objects are written: typed ones would be sent with fields that the test did not set.
func untyped(kind schema.GroupVersionKind, typed any) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		panic(fmt.Sprintf("legacy: %s: %v", kind.Kind, err)) // A mistake in this package.
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(kind)
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	delete(object.Object, "status")
	return object
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func label(object *unstructured.Unstructured, key, value string) {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	object.SetLabels(labels)
}

// owned adds an owner reference in the version of CAPT v0.3's own kinds.
func owned(object, owner *unstructured.Unstructured, apiVersion string, controller bool) {
	ref := metav1.OwnerReference{APIVersion: apiVersion, Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID()}
	if controller {
		ref.Controller, ref.BlockOwnerDeletion = &controller, &controller
	}
	object.SetOwnerReferences(util.EnsureOwnerRef(object.GetOwnerReferences(), ref))
}

func set(object *unstructured.Unstructured, value any, fields ...string) {
	if err := unstructured.SetNestedField(object.Object, value, fields...); err != nil {
		panic(fmt.Sprintf("legacy: %s: %v", object.GetKind(), err)) // A mistake in this package.
	}
}

// secret makes one that belongs to another object. Whatever else is in it, it has the canary.
func (a *author) secret(namespace, name string, kind corev1.SecretType, data map[string]string, owner *unstructured.Unstructured, apiVersion string) {
	secret := &corev1.Secret{ObjectMeta: meta(namespace, name), Type: kind, StringData: map[string]string{"canary": Canary}}
	maps.Copy(secret.StringData, data)
	if kind == clusterv1.ClusterSecretType {
		secret.Labels = map[string]string{clusterv1.ClusterNameLabel: owner.GetName()}
	}
	secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, schema.FromAPIVersionAndKind(apiVersion, owner.GetKind()))}
	a.makeSecret(secret, FieldManager)
}

// state makes the Secret in which Terraform keeps its state of a Workspace.
func (a *author) state(workspace string) {
	name := "tfstate-" + workspace + "-" + sandbox.ProviderConfigName
	secret := &corev1.Secret{ObjectMeta: meta(sandbox.ProviderNamespace, name), StringData: map[string]string{"tfstate": Canary}}
	secret.Labels = map[string]string{
		"app.kubernetes.io/managed-by": "terraform", "tfstate": "true",
		"tfstateSecretSuffix": sandbox.ProviderConfigName, "tfstateWorkspace": workspace,
	}
	a.makeSecret(secret, ProviderFieldManager)
}

func (a *author) makeSecret(secret *corev1.Secret, manager string) {
	if a.err != nil || a.quick {
		return
	}
	if err := a.client.Create(a.ctx, secret, client.FieldOwner(manager)); err != nil {
		a.err = fmt.Errorf("creating Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
}

// delete begins the deletion of an object, which its finalizers hold back.
func (a *author) delete(object *unstructured.Unstructured) {
	if a.err != nil {
		return
	}
	a.fail("deleting", object, a.client.Delete(a.ctx, object))
	a.fail("reading", object, a.client.Get(a.ctx, client.ObjectKeyFromObject(object), object))
}

// timeout is how long a provider may take for a Workspace, and tick how often it is polled.
const (
	timeout = 5 * time.Minute
	tick    = 300 * time.Millisecond
)

// await returns when a provider has run a Workspace, or failed to.
func (a *author) await(workspace *unstructured.Unstructured, of outcome) {
	if a.err != nil {
		return
	}
	a.fail("waiting for", workspace, wait.PollUntilContextTimeout(a.ctx, tick, timeout, true, func(ctx context.Context) (bool, error) {
		if err := a.client.Get(ctx, client.ObjectKeyFromObject(workspace), workspace); err != nil {
			return false, err
		}
		reported, _ := conditions.UnstructuredGetAll(workspace) // It may have none yet.
		if of != succeeded {
			return apimeta.IsStatusConditionFalse(reported, "Synced"), nil
		}
		return apimeta.IsStatusConditionTrue(reported, "Ready") && apimeta.IsStatusConditionTrue(reported, "Synced"), nil
	}))
}
