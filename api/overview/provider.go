// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/api/terraform"
)

// Provider is what is known of provider-terraform if it does not report on the Workspace of the cause.
type Provider struct {
	// Pods are its Pods; nil if they could not be read.
	Pods []corev1.Pod
	// Applies are all WorkspaceTemplateApplies that the user may list.
	Applies []infrav1.WorkspaceTemplateApply
}

// NeedsProvider reports whether the cause is that provider-terraform does not report on a Workspace. A plan of a change usually takes less than that time.
func (o *Objects) NeedsProvider(c *Cause, now time.Time) bool {
	switch c.Reason {
	case infrav1.NotReportedReason, infrav1.WorkspaceNotReconciledReason:
		return true
	case infrav1.PreviewingChangeReason:
		return now.Sub(c.Since.Time) >= reasons.Grace
	}
	return o.deletionReason(c) == infrav1.NotReportedReason
}

// mayRunSince is since when Terraform may run for a WorkspaceTemplateApply; nil if it does not.
func mayRunSince(apply *infrav1.WorkspaceTemplateApply) *metav1.Time {
	condition, since := meta.FindStatusCondition(apply.Status.Conditions, infrav1.ReadyCondition), apply.Status.StartedTime
	if !apply.DeletionTimestamp.IsZero() {
		condition, since = meta.FindStatusCondition(apply.Status.Conditions, infrav1.DeletingCondition), apply.DeletionTimestamp
	}
	if condition != nil && (condition.Reason == infrav1.ProvisioningReason || destroys(condition)) {
		return since
	}
	return nil
}

// mostRunning is how many WorkspaceTemplateApplies are named.
const mostRunning = 5

// running names those for which Terraform may run, except the cause, the longest first.
func (p *Provider) running(cause *Cause, namespace string, now time.Time) string {
	var names []string
	may := slices.DeleteFunc(slices.Clone(p.Applies), func(apply infrav1.WorkspaceTemplateApply) bool {
		return mayRunSince(&apply) == nil || apply.Namespace == namespace && apply.Name == cause.Name
	})
	slices.SortStableFunc(may, func(a, b infrav1.WorkspaceTemplateApply) int { return mayRunSince(&a).Compare(mayRunSince(&b).Time) })
	for i := range may[:min(len(may), mostRunning)] {
		names = append(names, fmt.Sprintf("%s/%s (since %s)", may[i].Namespace, may[i].Name, duration.HumanDuration(now.Sub(mayRunSince(&may[i]).Time))))
	}
	if more := len(may) - mostRunning; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// nextStep is what to do if the provider does not report on the Workspace of the cause.
func (p *Provider) nextStep(c *Cluster, now time.Time) *Next {
	next := &Next{Step: "Check whether provider-terraform runs.", Commands: []string{"kubectl get pods -A -l " + terraform.ProviderPodLabel}}
	if p == nil {
		return next
	}
	if p.Pods != nil && len(p.Pods) == 0 {
		next.Step += " No Pod with its label was found."
	}
	for i := range p.Pods {
		pod := &p.Pods[i]
		if at := startedAt(pod); !at.IsZero() {
			next.Step += fmt.Sprintf(" Pod %s/%s runs since %s; its log shows what it does.", pod.Namespace, pod.Name, at.UTC().Format(time.RFC3339))
		}
		if why := ended(pod); why != "" {
			next.Step += " " + strings.TrimSuffix(why, ".") + "."
		}
		next.Commands = append(next.Commands, fmt.Sprintf("kubectl -n %s logs %s --since=10m", pod.Namespace, pod.Name))
	}
	if running := p.running(c.Cause, c.Namespace, now); running != "" {
		next.Step += fmt.Sprintf(" Terraform may run for WorkspaceTemplateApply %s: this one follows when a worker is free (flag --max-reconcile-rate). A restart of the provider, also to change the flag, interrupts what runs.", running)
	}
	return next
}
