// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

const (
	kindCAPTCluster  = "CAPTCluster"
	kindControlPlane = "CAPTControlPlane"
	kindApply        = "WorkspaceTemplateApply"
	kindTemplate     = "WorkspaceTemplate"
)

// fleet is a snapshot with indexes, and with the match of each owner.
type fleet struct {
	*migrate.Snapshot
	decided      decisionIndex
	mustPassGate map[types.UID]bool
	clusters     map[types.NamespacedName]*clusterv1.Cluster
	captClusters map[types.NamespacedName]*infrav1.CAPTCluster
	templates    map[types.NamespacedName]*infrav1.WorkspaceTemplate
	applies      map[types.NamespacedName]*infrav1.WorkspaceTemplateApply
	workspaces   map[types.NamespacedName]*unstructured.Unstructured
	revisions    map[types.NamespacedName]*appsv1.ControllerRevision
	// claims are the WorkspaceTemplateApplies that refer to a Workspace, by its key. Only one of them can have it.
	claims  map[types.NamespacedName][]*infrav1.WorkspaceTemplateApply
	outputs map[types.UID]map[string]string // outputs are those that a Workspace reports, by the UID of its WorkspaceTemplateApply.
	owners  []*owner
	users   map[types.NamespacedName][]user // users are the WorkspaceTemplateApplies of a template. otherUsers adds them when they are needed.
}

// owner is a CAPTCluster, a CAPTControlPlane, or a WorkspaceTemplateApply without one, with the results of planning.
type owner struct {
	plan.Member
	cluster         string // The name of its Cluster, as far as it is known.
	typed           client.Object
	captCluster     *infrav1.CAPTCluster             // The object, or the one of the control plane's Cluster; may be nil.
	controlPlane    *controlplanev1.CAPTControlPlane // The object, if it is one.
	match           legacy.Match
	apply           *infrav1.WorkspaceTemplateApply // The WorkspaceTemplateApply that matches, or the object itself; nil if none does.
	live            *unstructured.Unstructured      // The Workspace of apply; nil if it does not exist, or stays as it is.
	helper, machine bool                            // It is one of CAPT v0.3's helpers, or of a CaptMachine.
	retain          bool                            // What the WorkspaceTemplateApply created must outlive it.
	alreadyAdopted  bool                            // It refers to a WorkspaceTemplateApply that is adopted, or that this version created.
	pinned          *infrav1.WorkspaceTemplate      // The template that reproduces the live Workspace, if that was decided.
	findings        []migrate.Finding
	steps           []plan.Step
}

// decisionIndex has the decisions by the UIDs of the objects that they are about.
type decisionIndex struct {
	owners     map[types.UID]migrate.OwnerDecision
	workspaces map[types.UID]migrate.WorkspaceDecision
}

func byUID(decisions *migrate.Decisions) decisionIndex {
	d, by := ptr.Deref(decisions, migrate.Decisions{}), decisionIndex{owners: map[types.UID]migrate.OwnerDecision{}, workspaces: map[types.UID]migrate.WorkspaceDecision{}}
	for _, decision := range d.Owners {
		by.owners[decision.UID] = decision
	}
	for _, decision := range d.Workspaces {
		by.workspaces[decision.UID] = decision
	}
	return by
}

func newFleet(s *migrate.Snapshot, options Options) *fleet {
	f := &fleet{
		Snapshot: s, decided: byUID(options.Decisions), mustPassGate: options.mustPassGate,
		clusters:     byKey(s.Clusters),
		captClusters: byKey(s.CAPTClusters),
		templates:    byKey(s.Templates),
		applies:      byKey(s.Applies),
		workspaces:   byKey(s.Workspaces),
		revisions:    byKey(s.Revisions),
		claims:       map[types.NamespacedName][]*infrav1.WorkspaceTemplateApply{},
		outputs:      map[types.UID]map[string]string{},
		users:        map[types.NamespacedName][]user{},
	}
	for i := range s.Applies {
		apply := &s.Applies[i]
		key := f.workspaceKey(apply)
		f.claims[key] = append(f.claims[key], apply)
		if live := f.workspaces[key]; live != nil {
			f.outputs[apply.UID] = reportedOutputs(live)
		}
	}
	f.findOwners()
	return f
}

func byKey[T any, P interface {
	*T
	client.Object
}](list []T) map[types.NamespacedName]P {
	found := make(map[types.NamespacedName]P, len(list))
	for i := range list {
		object := P(&list[i])
		found[client.ObjectKeyFromObject(object)] = object
	}
	return found
}

// workspaceKey returns the key of the Workspace of a WorkspaceTemplateApply: the name in spec, the name in status, or else the name that CAPT
// v0.3 derived from that of the WorkspaceTemplateApply.
func (f *fleet) workspaceKey(apply *infrav1.WorkspaceTemplateApply) types.NamespacedName {
	key := types.NamespacedName{Name: naming.LegacyWorkspace(apply.Name)}
	switch {
	case apply.Spec.WorkspaceName != "":
		key.Name = apply.Spec.WorkspaceName
	case apply.Status.WorkspaceName != "":
		key.Name = apply.Status.WorkspaceName
	}
	if template := f.templates[apply.TemplateKey()]; template != nil && template.Spec.WorkspaceScope.OrDefault() != terraform.ScopeCluster {
		key.Namespace = apply.Namespace
	}
	return key
}

// reportedOutputs returns the outputs of a Workspace that identify an owner: the endpoint, as host:port, and the ID of the VPC.
func reportedOutputs(workspace *unstructured.Unstructured) map[string]string {
	outputs, _, _ := unstructured.NestedMap(workspace.Object, "status", "atProvider", "outputs")
	found := map[string]string{}
	for _, name := range []string{terraform.OutputClusterEndpoint, terraform.OutputVPCID} {
		if text, isString := outputs[name].(string); isString {
			found[name] = text
		} else if outputs[name] != nil {
			found[name] = string(encode(outputs[name]))
		}
	}
	if host, port, err := terraform.ParseEndpoint(found[terraform.OutputClusterEndpoint]); err == nil {
		found[terraform.OutputClusterEndpoint] = addressOf(clusterv1.APIEndpoint{Host: host, Port: port})
	}
	return found
}

// addressOf returns the host:port of an API server, so that the URLs of CAPT v0.3 can be compared with the hosts of this version.
func addressOf(endpoint clusterv1.APIEndpoint) string {
	endpoint.Port = cmp.Or(endpoint.Port, 443) // That of an EKS cluster.
	return endpoint.String()
}

func (f *fleet) findOwners() {
	for i := range f.CAPTClusters {
		captCluster := &f.CAPTClusters[i]
		f.owners = append(f.owners, &owner{typed: captCluster, captCluster: captCluster, Member: plan.Member{Object: migrate.Ref(kindCAPTCluster, captCluster)}})
	}
	for i := range f.ControlPlanes {
		controlPlane := &f.ControlPlanes[i]
		f.owners = append(f.owners, &owner{typed: controlPlane, controlPlane: controlPlane, Member: plan.Member{Object: migrate.Ref(kindControlPlane, controlPlane)}})
	}
	var claimants []legacy.Claimant
	var claiming []*owner
	for _, o := range f.owners {
		cluster := f.clusterOf(o.typed)
		o.cluster = o.typed.GetLabels()[clusterv1.ClusterNameLabel]
		o.Paused = annotations.HasPaused(o.typed)
		if cluster != nil {
			o.cluster, o.Paused = cluster.Name, annotations.IsPaused(cluster, o.typed)
		}
		if o.controlPlane != nil && cluster != nil && cluster.Spec.InfrastructureRef.Kind == kindCAPTCluster {
			o.captCluster = f.captClusters[types.NamespacedName{Namespace: o.typed.GetNamespace(), Name: cluster.Spec.InfrastructureRef.Name}]
		}
		if claimant, claims := f.claimant(o); claims {
			claimants, claiming = append(claimants, claimant), append(claiming, o)
		}
	}
	for i, match := range legacy.MatchFleet(claimants, f.Applies, f.outputs) {
		o := claiming[i]
		if apply := f.adoptedReference(o, claimants[i].Decided); apply != nil {
			match.Apply, match.Problem, match.Misreferred, o.alreadyAdopted = apply, "", nil, !f.mustPassGate[o.Object.UID]
		}
		o.match, o.apply = match, match.Apply
	}
}

// adoptedReference is the WorkspaceTemplateApply that an owner refers to, if the manager uses it already, and therefore creates no other one.
func (f *fleet) adoptedReference(o *owner, decided types.UID) *infrav1.WorkspaceTemplateApply {
	ref := o.referenceInSpec()
	if !ref.IsDefined() {
		return nil
	}
	apply := f.applies[types.NamespacedName{Namespace: o.typed.GetNamespace(), Name: ref.Name}]
	if apply == nil || decided != "" && decided != apply.UID || claim.OtherController(o.typed, apply) != nil || !isAdopted(apply) && !createdByThisVersion(apply) {
		return nil
	}
	return apply
}

func (f *fleet) clusterOf(object client.Object) *clusterv1.Cluster {
	return f.clusters[types.NamespacedName{Namespace: object.GetNamespace(), Name: claim.ClusterName(object)}]
}

// claimant returns an owner for MatchFleet; false if the owner has no WorkspaceTemplateApply, because its VPC exists already.
func (f *fleet) claimant(o *owner) (legacy.Claimant, bool) {
	claimant := legacy.Claimant{
		Kind: o.Object.Kind, Object: o.typed, Reference: o.referenceInSpec().Name, Decided: f.decided.owners[o.typed.GetUID()].Take,
	}
	if o.controlPlane != nil {
		claimant.Want = legacy.ExpectationOfControlPlane(o.controlPlane, o.cluster)
		claimant.ConnectionSecret = naming.ControlPlaneConnectionSecret(o.controlPlane.Name)
		if endpoint := validation.RepairEndpoint(o.controlPlane.Spec.ControlPlaneEndpoint); endpoint.Host != "" {
			claimant.Outputs = map[string]string{terraform.OutputClusterEndpoint: addressOf(endpoint)}
		}
		return claimant, true
	}
	claimant.Want = legacy.ExpectationOfCAPTCluster(o.captCluster, o.cluster)
	claimant.ConnectionSecret = naming.VPCConnectionSecret(o.captCluster.Name)
	if id := o.captCluster.Status.VPC.ID; id != "" {
		claimant.Outputs = map[string]string{terraform.OutputVPCID: id}
	}
	return claimant, o.captCluster.Spec.VPC.Template.IsDefined()
}

func (f *fleet) inScope(object metav1.Object) bool {
	return f.Namespace == "" || object.GetNamespace() == f.Namespace
}

// ownersInScope are the owners in scope, by namespace, Cluster, kind and name. CAPTClusters come before control planes, which wait for their VPCs.
func (f *fleet) ownersInScope() []*owner {
	owners := slices.DeleteFunc(slices.Clone(f.owners), func(o *owner) bool { return !f.inScope(o.typed) })
	rank := func(o *owner) int {
		return slices.Index([]string{kindCAPTCluster, kindControlPlane, kindApply}, o.Object.Kind)
	}
	slices.SortStableFunc(owners, func(a, b *owner) int {
		return cmp.Or(
			cmp.Compare(a.Object.Namespace, b.Object.Namespace), cmp.Compare(a.cluster, b.cluster), rank(a)-rank(b), cmp.Compare(a.Object.Name, b.Object.Name),
		)
	})
	return owners
}
