// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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

func newFleet(s *migrate.Snapshot, decisions *migrate.Decisions, mustPassGate map[types.UID]bool) *fleet {
	f := &fleet{
		Snapshot: s, decided: byUID(decisions), mustPassGate: mustPassGate,
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

// resolve determines the state, the findings and the steps of all owners. WorkspaceTemplateApplies without an owner come last, because which
// ones have none depends on the matches of the owners.
func (f *fleet) resolve() {
	for _, o := range f.owners {
		f.resolveOwner(o)
	}
	last := len(f.owners)
	f.findStandalone()
	for _, o := range f.owners[last:] {
		f.resolveOwner(o)
	}
}

func (f *fleet) resolveOwner(o *owner) {
	switch decision := f.decided.owners[o.typed.GetUID()]; {
	case decision.Skip:
		o.State = migrate.OwnerSkipped
		o.addFinding(migrate.Skipped, ReasonSkipped, strings.TrimSuffix("it stays as it is, as decided: "+decision.Reason, ": "))
	case o.alreadyAdopted && (o.Object.Kind == kindApply || createdByThisVersion(o.apply) || o.typed.GetDeletionTimestamp() != nil):
		f.setMatch(o)
		o.State = migrate.Adopted
	case f.checkOwner(o) && (f.mustPassGate[o.Object.UID] || !o.leaveUnadopted()): // It has a finding, and no steps.
	default:
		o.planSteps()
	}
}

// checkOwner reports what prevents the adoption of an owner. Otherwise it sets the match.
func (f *fleet) checkOwner(o *owner) (blocked bool) {
	if f.checkMatch(o) {
		return true
	}
	f.setMatch(o)
	return !o.alreadyAdopted && (f.checkWorkspace(o) || o.live != nil && (f.checkGate(o) || f.checkPermission(o)))
}

func (f *fleet) setMatch(o *owner) {
	o.live = f.workspaces[f.workspaceKey(o.apply)]
	o.WorkspaceTemplateApply = ptr.To(migrate.Ref(kindApply, o.apply))
	if o.live != nil {
		o.Workspace = ptr.To(migrate.RefOf(o.live))
	}
}

// leaveUnadopted changes the finding that blocks a helper of CAPT v0.3 to a warning. The helper stays unadopted, so that its Workspace is never
// written. It reports whether the helper needs steps, which set deletionPolicy Retain; false also for owners that are not helpers.
func (o *owner) leaveUnadopted() bool {
	if !o.helper || len(o.findings) == 0 {
		return false
	}
	finding := &o.findings[len(o.findings)-1]
	if finding.Severity != migrate.Skipped {
		finding.Severity = migrate.Warning
	}
	o.State, o.retain = "", true
	finding.Message += ". This blocks nothing: the manager does not need this helper of CAPT v0.3. It only gets deletionPolicy Retain, is not adopted, and its Workspace stays as it is"
	finding.Candidates, o.live, o.Workspace = nil, nil, nil
	if o.apply.DeletionTimestamp != nil {
		o.State = migrate.NothingToAdopt
		return false
	}
	return true
}

// planSteps plans the steps: first that of the WorkspaceTemplateApply, for whose adoption the manager waits. An owner that is pinned comes first: it
// must refer to its template before it has an adopted WorkspaceTemplateApply to write.
func (o *owner) planSteps() {
	for i := range o.match.Candidates {
		if candidate := &o.match.Candidates[i]; candidate.Apply == o.apply {
			for _, evidence := range candidate.For {
				o.Evidence = append(o.Evidence, string(evidence))
			}
		}
	}
	ofApply, ofOwner := o.applySteps(), o.ownerSteps()
	o.steps = slices.Concat(ofApply, ofOwner)
	if o.pinned != nil {
		o.steps = slices.Concat(o.pinSteps(), ofOwner, ofApply)
	}
	if o.State == "" {
		o.State = migrate.Adopted
		if len(o.steps) > 0 {
			o.State = migrate.Adoptable
		}
	}
	ofCaptctl := o.typed.GetAnnotations()[clusterv1.PausedAnnotation] == naming.MigrationPause // Only captctl may resume what it has written in part.
	if o.Paused && !ofCaptctl && len(o.steps) > 0 {
		o.addFinding(migrate.Warning, ReasonPaused, "it or its Cluster is paused: it is adopted, and the manager does not reconcile it until it is resumed. Resume it at any time")
	}
}

// isAdopted reports whether spec of a WorkspaceTemplateApply names its Workspace and status records it, as adoption and this version do.
func isAdopted(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Spec.WorkspaceName != "" && apply.Status.WorkspaceRef != nil && apply.Status.WorkspaceRef.UID != ""
}

// createdByThisVersion reports whether this version created the Workspace of a WorkspaceTemplateApply, or will.
func createdByThisVersion(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Spec.WorkspaceName == "" && legacy.UnadoptedWorkspace(apply) == "" && slices.Contains(apply.Finalizers, infrav1.WorkspaceTemplateApplyFinalizer)
}

// checkMatch reports what prevents the adoption of an owner because of its match: none, an ambiguous one, or one that it must not have.
func (f *fleet) checkMatch(o *owner) (blocked bool) {
	switch {
	case !o.typed.GetDeletionTimestamp().IsZero():
		o.markAmbiguous(ReasonBeingDeleted, "it is being deleted. "+finishDeletion+orSkip, f.candidates(o))
	case o.match.Misreferred != nil:
		o.markBlocked(ReasonReferenceDiffers, fmt.Sprintf("%s, so the manager would use or create another one. While CAPT v0.3 is installed and stopped, set spec.workspaceTemplateApplyName to %s. "+
			"Once this version is installed, remove the reference: kubectl -n %s patch %s %s --field-manager=%s --type=json -p '[{\"op\":\"remove\",\"path\":\"/spec/workspaceTemplateApplyRef\"}]'. Then plan again%s",
			o.match.Problem, o.match.Misreferred.Name, o.Object.Namespace, strings.ToLower(o.Object.Kind), o.Object.Name, migrate.FieldManager, orSkip)).Candidates = f.candidates(o)
	case o.match.Problem != "":
		o.markAmbiguous(ReasonMultipleCandidates, o.match.Problem+". Decide which one is its own with take: UID in --decisions"+orSkip, f.candidates(o))
	case f.belongsToProfile(o):
		o.markBlocked(ReasonFargateProfileConflict, "it belongs to a Fargate profile in the spec of a CAPTControlPlane. The manager would write it, and captctl cannot determine whether Terraform would run. Remove the profile from the spec until the migration is done"+orSkip)
	case f.skipMachine(o):
	case o.apply != nil:
		return false
	case o.captCluster != nil && o.controlPlane == nil && !o.captCluster.Spec.VPC.Template.IsDefined():
		o.State = migrate.NothingToAdopt
	case f.findCandidates(o):
		o.markAmbiguous(ReasonMultipleCandidates, "it refers to no WorkspaceTemplateApply, and the evidence does not decide whether it was built by one of these. "+
			"Decide with take: UID in --decisions or, if it was never built, set spec.workspaceTemplateApplyRef to a new name once this version is installed"+orSkip, f.candidates(o))
	case f.wasBuilt(o):
		o.markBlocked(ReasonWorkspaceTemplateApplyNotFound, "it was built, and there is no evidence for any WorkspaceTemplateApply of its namespace: the manager would create it a second time. Restore the WorkspaceTemplateApply from a backup or from Git, and plan again"+orSkip)
	default:
		o.markNeverBuilt()
	}
	return true
}

// markNeverBuilt reports that the manager will create the resources of an owner, unless it does so already.
func (o *owner) markNeverBuilt() {
	if o.State = migrate.NothingToAdopt; !o.isOfThisVersion() {
		o.addFinding(migrate.Warning, ReasonNeverBuilt, "it has no WorkspaceTemplateApply, and there is no evidence that it was ever built: the manager will create it. If it is not wanted, stop CAPT v0.3 first, then delete it")
	}
}

// findCandidates adds the WorkspaceTemplateApplies for which the manager would create nothing for an owner, and reports whether there are any.
func (f *fleet) findCandidates(o *owner) bool {
	taken := map[types.UID]bool{}
	for _, other := range f.owners {
		if other.apply != nil {
			taken[other.apply.UID] = true
		}
	}
	for i := range f.Applies {
		apply := &f.Applies[i]
		if taken[apply.UID] || apply.Namespace != o.typed.GetNamespace() || o.referenceInSpec().IsDefined() {
			continue
		}
		if evidence := legacy.EvidenceFor(o.match.Claimant.Want, o.typed, apply); len(evidence) > 0 {
			o.match.Candidates = append(o.match.Candidates, legacy.MatchCandidate{Apply: apply, For: evidence})
		}
	}
	return len(o.match.Candidates) > 0
}

// wasBuilt reports whether an unclaimed Workspace, a field of the owner or a reference shows that CAPT v0.3 created cloud resources for it.
func (f *fleet) wasBuilt(o *owner) bool {
	name := naming.VPCWorkspaceTemplateApply(o.typed.GetName())
	if o.controlPlane != nil {
		name = naming.ControlPlaneWorkspaceTemplateApply(o.typed.GetName())
	}
	key := types.NamespacedName{Name: naming.LegacyWorkspace(name)}
	if live := f.workspaces[key]; live != nil && !slices.ContainsFunc(f.claims[key], func(claim *infrav1.WorkspaceTemplateApply) bool { return isRecorded(claim, live) }) {
		return true
	}
	return o.match.Claimant.Want.ProvisionedField != "" || o.referenceInSpec().IsDefined() && !o.isOfThisVersion()
}

// isOfThisVersion reports whether this version reconciles an owner, and so creates the WorkspaceTemplateApply that the owner refers to. Until an
// adoption, it writes only conditions.
func (o *owner) isOfThisVersion() bool {
	if o.controlPlane != nil {
		return o.controlPlane.Status.ObservedGeneration != 0
	}
	return o.captCluster != nil && o.captCluster.Status.ObservedGeneration != 0
}

func (f *fleet) candidates(o *owner) []migrate.Candidate {
	candidates := make([]migrate.Candidate, 0, len(o.match.Candidates))
	for i := range o.match.Candidates {
		match := &o.match.Candidates[i]
		candidate := migrate.Candidate{Object: migrate.Ref(kindApply, match.Apply), Against: slices.Clone(match.Against)}
		for _, evidence := range match.For {
			candidate.For = append(candidate.For, string(evidence))
		}
		if live := f.workspaces[f.workspaceKey(match.Apply)]; live == nil {
			candidate.Against = append(candidate.Against, "its Workspace "+f.workspaceKey(match.Apply).Name+" does not exist")
		} else if o.live == nil {
			candidate.For = append(candidate.For, "its Workspace "+live.GetName()+" exists")
		}
		candidates = append(candidates, candidate)
	}
	return candidates
}

func (o *owner) addFinding(severity migrate.Severity, reason, message string) *migrate.Finding {
	o.findings = append(o.findings, migrate.Finding{Severity: severity, Reason: reason, Object: o.Object, Message: strings.TrimSpace(message)})
	return &o.findings[len(o.findings)-1]
}

func (o *owner) markAmbiguous(reason, message string, candidates []migrate.Candidate) *migrate.Finding {
	o.State = migrate.OwnerAmbiguous
	finding := o.addFinding(migrate.Ambiguous, reason, message)
	finding.Candidates = candidates
	return finding
}

func (o *owner) markBlocked(reason, message string) *migrate.Finding {
	o.State = migrate.OwnerBlocked
	return o.addFinding(migrate.Blocked, reason, message)
}

// findStandalone adds the WorkspaceTemplateApplies that no owner can have: helpers and machines of CAPT v0.3, and those that users created.
func (f *fleet) findStandalone() {
	claimed := map[types.UID]bool{}
	clusters := map[types.UID]string{}
	for _, o := range f.owners {
		clusters[o.typed.GetUID()] = o.cluster
		if o.apply != nil {
			claimed[o.apply.UID] = true
			continue
		}
		for _, candidate := range o.match.Candidates {
			claimed[candidate.Apply.UID] = true
		}
	}
	for i := range f.Applies {
		apply := &f.Applies[i]
		ours := createdByThisVersion(apply) || apply.Labels[naming.SerializeLabel] != "" // The label is on those of Fargate profiles.
		if !claimed[apply.UID] && !ours {
			f.owners = append(f.owners, f.standalone(apply, clusters))
		}
	}
}

// standalone returns a WorkspaceTemplateApply as an owner of its own. clusters are the names of the Clusters by the UIDs of owners.
func (f *fleet) standalone(apply *infrav1.WorkspaceTemplateApply, clusters map[types.UID]string) *owner {
	o := &owner{typed: apply, apply: apply, alreadyAdopted: isAdopted(apply) && !f.mustPassGate[apply.UID], Member: plan.Member{Object: migrate.Ref(kindApply, apply), Role: "created by a user"}}
	for _, ref := range apply.OwnerReferences {
		if cluster := clusters[ref.UID]; cluster != "" {
			o.cluster = cluster
		}
		if slices.Contains([]string{kindControlPlane, kindCAPTCluster, "CAPTMachinePool"}, ref.Kind) {
			o.Role = fmt.Sprintf("of %s %s", ref.Kind, ref.Name)
		}
	}
	if machine := legacy.MachineOwner(apply); machine != "" {
		o.Role, o.machine, o.retain = "machine of "+machine, true, true
	}
	switch helper := legacy.HelperRole(apply); {
	case helper != "":
		o.Role, o.helper = fmt.Sprintf("%s of %s %s", helper, kindControlPlane, metav1.GetControllerOf(apply).Name), true
	case legacy.IsSpotRoleHelper(apply):
		o.Role, o.helper = legacy.SpotRoleHelper+" without its control plane", true
	}
	o.retain = o.retain || legacy.IsSpotRoleHelper(apply)
	return o
}

// skipMachine leaves the WorkspaceTemplateApply of a machine of CAPT v0.3 as it is, unless the user decided to adopt it. It reports whether it does.
func (f *fleet) skipMachine(o *owner) bool {
	if !o.machine || f.decided.owners[o.typed.GetUID()].Take == o.typed.GetUID() {
		return false
	}
	o.State = migrate.OwnerSkipped
	o.addFinding(migrate.Warning, ReasonMachineNotAdopted, fmt.Sprintf("it is the %s of CAPT v0.3, a kind that this version does not have: it stays as it is, and what it created is not destroyed when the machine is removed. To adopt it with deletionPolicy Retain, set take: %s for it in --decisions",
		o.Role, o.typed.GetUID()))
	return true
}

// belongsToProfile reports whether a WorkspaceTemplateApply belongs to a Fargate profile that was added to a spec since. CAPT v0.3 had no profiles.
func (f *fleet) belongsToProfile(o *owner) bool {
	if o.Object.Kind != kindApply || o.apply.Spec.Variables.Text(naming.ProfileVariable) == "" {
		return false
	}
	for _, other := range f.owners {
		if other.controlPlane == nil || other.controlPlane.Namespace != o.apply.Namespace {
			continue
		}
		for i := range other.controlPlane.Spec.FargateProfiles {
			if claim.OfFargateProfile(o.apply, other.cluster, &other.controlPlane.Spec.FargateProfiles[i]) {
				return true
			}
		}
	}
	return false
}
