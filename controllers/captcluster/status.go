// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/progress"
)

func status(captCluster *infrav1.CAPTCluster, f *Facts, p *owner.Plan) {
	s := &captCluster.Status
	before := s.DeepCopy()
	s.ObservedGeneration = captCluster.Generation
	if f.Cluster != nil {
		if endpoint := validation.RepairEndpoint(f.Cluster.Spec.ControlPlaneEndpoint); endpoint.IsValid() {
			s.Endpoint = endpoint.String()
		}
	}
	engine.SetNegativePolarity(captCluster, engine.PausedCondition(f.Paused), engine.ClusterConflict(f.Clusters))
	if !captCluster.DeletionTimestamp.IsZero() {
		deleting := deletingCondition(f)
		engine.Set(captCluster, deleting, engine.False(infrav1.ReadyCondition, infrav1.DeletingReason, deleting.Message))
		engine.SetNegativePolarity(captCluster, f.DeletionTimedOut(p, deleting))
		return
	}
	if summary := p.Summary(); summary != nil {
		s.WorkspaceTemplateApply = summary
	}
	vpc := vpcReady(captCluster, f, p)
	if vpc.Status == metav1.ConditionTrue {
		s.VPC = vpcStatus(captCluster, f)
		if domains := failureDomains(f); len(domains) > 0 {
			s.FailureDomains = domains
		}
		s.Initialization.Provisioned = ptr.To(true)
	}
	f.ReportRecovery(p)
	replaced := owner.VPCReplaced(captCluster)
	unmet := unmet(vpc, replaced)
	engine.Set(captCluster, vpc, f.Ready(p, unmet))
	engine.SetNegativePolarity(captCluster, f.Apply.Decision(), replaced)
	owner.ReportTemplates(captCluster, &f.Template)
	life := f.Life(p, unmet, wasProvisioned(captCluster))
	life.Working = life.Working && (life.Initialized || f.WaitTimeout(p, &vpc, false) == nil) // Nothing begins before what it waits for exists.
	f.ReportLife(p, life, step(vpc, p))
	if !engine.Equal(before, s) {
		s.Progress = progress.AsOf(s.Progress, f.Now)
	}
}

// step is the first step of the creation or change of the VPC that is not complete.
func step(vpc engine.Condition, p *owner.Plan) progress.Step {
	switch {
	case vpc.Status == metav1.ConditionTrue:
		return progress.Done
	case p.Blocked != nil:
		return progress.Validation
	}
	return progress.Workspace
}

func wasProvisioned(captCluster *infrav1.CAPTCluster) bool {
	return ptr.Deref(captCluster.Status.Initialization.Provisioned, false)
}

func situation(_ *infrav1.CAPTCluster, f *Facts, p *owner.Plan) engine.Situation {
	return p.Situation(f.Paused)
}

// details restores what may be written later, because the next write that has another cause is certain: that Terraform has started.
func details(before, after *infrav1.CAPTCluster, _ *Facts) time.Duration {
	owner.KeepStart(before.Status.WorkspaceTemplateApply, after.Status.WorkspaceTemplateApply)
	owner.KeepEstimate(before, after)
	return owner.StartDelay
}

func vpcReady(captCluster *infrav1.CAPTCluster, f *Facts, p *owner.Plan) engine.Condition {
	switch {
	case f.Cluster == nil:
		waiting := f.WaitingForOwner(infrav1.VPCReadyCondition, desired.WaitingForCluster)
		return f.WaitTimeout(p, &waiting, false).Condition(waiting)
	case !captCluster.Spec.VPC.Template.IsDefined():
		return engine.True(infrav1.VPCReadyCondition, infrav1.ExistingVPCReason, "")
	}
	condition := p.Report(infrav1.VPCReadyCondition, infrav1.VPCReadyReason, f.Paused)
	condition = f.timeoutOf(captCluster, p, &condition).Condition(condition)
	if id := vpcID(captCluster, f); condition.Status == metav1.ConditionTrue && !isID(id) {
		_, returned := f.Apply.Live.Status.Outputs[terraform.OutputVPCID]
		return engine.False(infrav1.VPCReadyCondition, infrav1.VPCIDMissingReason, f.Template.MissingOutput(terraform.OutputVPCID, id, returned))
	}
	return condition
}

// timeout of Terraform; nil while it does not run.
func (f *Facts) timeout(captCluster *infrav1.CAPTCluster) *owner.Timeout {
	const defaultTimeoutSeconds = 900 // The default of spec.vpc.template.timeoutSeconds.
	return owner.NewTimeout("spec.vpc.template.timeoutSeconds", infrav1.VPCReadyTimeoutReason, captCluster.Spec.VPC.Template.TimeoutSeconds, defaultTimeoutSeconds, f.Running.Terraform).Of(&f.Apply)
}

// timeoutOf is the timeout of the condition VPCReady; nil if it has none.
func (f *Facts) timeoutOf(captCluster *infrav1.CAPTCluster, p *owner.Plan, condition *engine.Condition) *owner.Timeout {
	if timeout := f.WaitTimeout(p, condition, false); timeout != nil || p.Blocked != nil || f.Paused != "" {
		return timeout
	}
	return f.timeout(captCluster)
}

func vpcID(captCluster *infrav1.CAPTCluster, f *Facts) string {
	if !captCluster.Spec.VPC.Template.IsDefined() {
		return captCluster.Spec.VPC.ExistingID
	}
	if f.Apply.Live == nil {
		return ""
	}
	return f.Apply.Live.Status.Outputs[terraform.OutputVPCID]
}

func isID(text string) bool {
	return !terraform.HasNoValue(text) && !terraform.IsComposite(text) && !strings.ContainsFunc(text, unicode.IsSpace)
}

func vpcStatus(captCluster *infrav1.CAPTCluster, f *Facts) infrav1.VPCStatus {
	id := vpcID(captCluster, f)
	if f.KeepVPC {
		return infrav1.VPCStatus{ID: captCluster.Status.VPC.ID, ReplacedBy: id}
	}
	return infrav1.VPCStatus{ID: id}
}

// vpcEvents reports that another VPC is recorded, because nothing uses the first one.
func vpcEvents(before, after *infrav1.CAPTCluster) []engine.Event {
	was, is := before.Status.VPC.ID, after.Status.VPC.ID
	if was == "" || is == was {
		return nil
	}
	return []engine.Event{{Type: corev1.EventTypeNormal, Reason: "VPCRecorded", Action: infrav1.VPCReplacedCondition, Message: fmt.Sprintf(
		"status.vpc.id was %s and is %s: no control plane that was created in the first one exists", was, is)}}
}

// failureDomains reads the zones of the VPC from a list, or from a comma-separated string.
func failureDomains(f *Facts) []clusterv1.FailureDomain {
	if f.Apply.Live == nil {
		return nil
	}
	output := f.Apply.Live.Status.Outputs[terraform.OutputAvailabilityZones]
	var zones []string
	if err := json.Unmarshal([]byte(output), &zones); err != nil && !strings.HasPrefix(output, "[") {
		zones = strings.Split(output, ",")
	}
	var domains []clusterv1.FailureDomain
	for _, zone := range zones {
		zone = strings.TrimSpace(zone)
		listed := slices.ContainsFunc(domains, func(domain clusterv1.FailureDomain) bool { return domain.Name == zone })
		if zone != "" && !listed { // Modules often list a zone once per subnet; in status names are unique.
			domains = append(domains, clusterv1.FailureDomain{Name: zone, ControlPlane: ptr.To(true)})
		}
	}
	return domains
}

// unmet is what is not as spec wants it; the zero value if all is.
func unmet(vpc, replaced engine.Condition) engine.Condition {
	switch {
	case vpc.Status != metav1.ConditionTrue:
		return vpc
	case replaced.Status == metav1.ConditionTrue:
		return replaced
	}
	return engine.Condition{}
}

func deletingCondition(f *Facts) engine.Condition {
	if waiting := desired.WaitingForControlPlanes(f.ControlPlanes); waiting != nil && f.Paused == "" && !f.Apply.IsHeld() {
		if f.Cluster != nil && f.Cluster.DeletionTimestamp.IsZero() {
			waiting.Message += desired.AcceptedWithoutCluster(f.Cluster.Name)
		}
		return engine.True(infrav1.DeletingCondition, waiting.Reason, waiting.Message)
	}
	return f.Apply.DeletingCondition(infrav1.DeletingCondition, f.Paused)
}
