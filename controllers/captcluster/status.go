// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
)

// status computes the status from the facts.
func status(captCluster *infrav1.CAPTCluster, f *Facts) {
	s, adoption := &captCluster.Status, f.Apply.AdoptionCondition(infrav1.AdoptionRequiredCondition)
	if captCluster.DeletionTimestamp.IsZero() &&
		(engine.IsMigrating(captCluster) || f.Apply.KeepsStatus(s.ObservedGeneration, s.Conditions, f.Paused, naming.CAPTClusterFieldManager)) {
		engine.KeepStatus(captCluster, f.Paused, adoption)
		reportLegacyReadiness(captCluster, f)
		return
	}
	s.ObservedGeneration = captCluster.Generation
	if f.Cluster != nil && f.Cluster.Spec.ControlPlaneEndpoint.IsValid() {
		s.Endpoint = f.Cluster.Spec.ControlPlaneEndpoint.String()
	}
	if !captCluster.DeletionTimestamp.IsZero() {
		deleting := deletingCondition(f)
		engine.Set(captCluster, engine.PausedCondition(f.Paused), deleting,
			engine.False(infrav1.ReadyCondition, infrav1.DeletingReason, deleting.Message))
		return
	}
	if summary := f.Apply.Summary(naming.CAPTClusterFieldManager); summary != nil {
		s.WorkspaceTemplateApply = summary
	}
	vpc := vpcReady(captCluster, f)
	if vpc.Status == metav1.ConditionTrue {
		s.VPC.ID = vpcID(captCluster, f)
		if domains := failureDomains(f); len(domains) > 0 {
			s.FailureDomains = domains
		}
		s.Initialization.Provisioned = ptr.To(true)
	}
	engine.Set(captCluster,
		engine.PausedCondition(f.Paused),
		vpc,
		adoption,
		engine.False(infrav1.DeletingCondition, infrav1.NotDeletingReason, ""),
		ready(vpc),
	)
	owner.Report(captCluster, &f.Template)
}

// reportLegacyReadiness says in the condition Ready what CAPT v0.3 said in status.ready alone: kubectl get and Cluster API read the
// condition.
func reportLegacyReadiness(captCluster *infrav1.CAPTCluster, f *Facts) {
	vpc := conditions.Get(captCluster, infrav1.VPCReadyCondition)
	if !f.Apply.AwaitsAdoption || vpc == nil || conditions.Has(captCluster, infrav1.ReadyCondition) {
		return
	}
	ready := engine.False(infrav1.ReadyCondition, vpc.Reason, vpc.Message)
	if ptr.Deref(captCluster.Status.Initialization.Provisioned, false) {
		ready = engine.True(infrav1.ReadyCondition, infrav1.ReadyReason, "")
	}
	ready.Since = vpc.LastTransitionTime.Time
	engine.Set(captCluster, ready)
}

func vpcReady(captCluster *infrav1.CAPTCluster, f *Facts) engine.Condition {
	switch {
	case f.Cluster == nil:
		return engine.False(infrav1.VPCReadyCondition, infrav1.WaitingForOwnerReason,
			"no Cluster refers to this object yet; create one whose spec.infrastructureRef names it")
	case !captCluster.Spec.VPC.Template.IsDefined():
		return engine.True(infrav1.VPCReadyCondition, infrav1.ExistingVPCReason, "")
	case f.Apply.Undecided():
		adoption := f.Apply.AdoptionCondition(infrav1.VPCReadyCondition)
		return engine.False(infrav1.VPCReadyCondition, adoption.Reason, adoption.Message)
	case f.Apply.Claimed == "" && f.blocked(captCluster) != nil:
		return *f.blocked(captCluster)
	case f.Paused != "" && f.Apply.Apply == nil && f.Apply.Claimed == "":
		return engine.False(infrav1.VPCReadyCondition, clusterv1.PausedReason, "nothing is made while the object is paused: "+f.Paused)
	}
	condition := f.Apply.Condition(infrav1.VPCReadyCondition, infrav1.VPCReadyReason, naming.CAPTClusterFieldManager)
	if condition.Status == metav1.ConditionTrue && vpcID(captCluster, f) == "" {
		return engine.False(infrav1.VPCReadyCondition, infrav1.VPCIDMissingReason, fmt.Sprintf(
			"Terraform applied the template, but it has no output %q that is a string; add it to the module", terraform.OutputVPCID))
	}
	return condition
}

func vpcID(captCluster *infrav1.CAPTCluster, f *Facts) string {
	if !captCluster.Spec.VPC.Template.IsDefined() {
		return captCluster.Spec.VPC.ExistingID
	}
	if f.Apply.Apply == nil {
		return ""
	}
	return f.Apply.Apply.Status.Outputs[terraform.OutputVPCID]
}

// failureDomains reads the zones of the VPC from a list, or from a comma-separated string.
func failureDomains(f *Facts) []clusterv1.FailureDomain {
	if f.Apply.Apply == nil {
		return nil
	}
	output := f.Apply.Apply.Status.Outputs[terraform.OutputAvailabilityZones]
	var zones []string
	if err := json.Unmarshal([]byte(output), &zones); err != nil && !strings.HasPrefix(output, "[") {
		zones = strings.Split(output, ",")
	}
	var domains []clusterv1.FailureDomain
	for _, zone := range zones {
		zone = strings.TrimSpace(zone)
		listed := slices.ContainsFunc(domains, func(domain clusterv1.FailureDomain) bool { return domain.Name == zone })
		if zone != "" && !listed { // Modules often list a zone once a subnet; in status names are unique.
			domains = append(domains, clusterv1.FailureDomain{Name: zone, ControlPlane: ptr.To(true)})
		}
	}
	return domains
}

func ready(vpc engine.Condition) engine.Condition {
	if vpc.Status != metav1.ConditionTrue {
		return engine.False(infrav1.ReadyCondition, vpc.Reason, vpc.Message)
	}
	return engine.True(infrav1.ReadyCondition, infrav1.ReadyReason, "")
}

// deletingCondition says what is waited for.
func deletingCondition(f *Facts) engine.Condition {
	switch {
	case len(f.ControlPlanes) > 0:
		return engine.True(infrav1.DeletingCondition, infrav1.WaitingForControlPlaneDeletionReason,
			fmt.Sprintf("the VPC stays until CAPTControlPlane %s is gone", strings.Join(f.ControlPlanes, ", ")))
	}
	return f.Apply.DeletingCondition(infrav1.DeletingCondition, f.Paused)
}

// warning tells which transitions need a person.
func warning(condition metav1.Condition) bool { return infrav1.NeedsPerson(condition.Reason) }
