// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
)

// Failure is the error of the Workspace of the cause, and what the Pods of provider-terraform show about it.
type Failure struct {
	failure.Report
	// Workspace is its UID, which is the name of its working directory.
	Workspace types.UID
	// ProviderConfig are the arguments with which kubectl edits it; empty if that is not known.
	ProviderConfig string
	// Pods are those of provider-terraform; none if they could not be read, or run elsewhere.
	Pods []corev1.Pod
}

// listPods shows the Pods of provider-terraform.
const listPods = "kubectl get pods -A -l " + terraform.ProviderPodLabel

// NeedsPods reports whether the Pods of provider-terraform can explain the error.
func (f *Failure) NeedsPods() bool {
	return f.Object == failure.ObjectLock || f.blamesDirectory() || f.Object == failure.ObjectProviderPod || f.Class == failure.ClassInterrupted
}

// blamesDirectory reports whether the working directory of the Workspace may have to be removed.
func (f *Failure) blamesDirectory() bool {
	return f.Workspace != "" && strings.Contains(f.Message, f.directory())
}

func (f *Failure) directory() string { return "/tf/" + string(f.Workspace) }

// addBackend adds the commands for an error of the backend or of the configuration: to correct it in the ProviderConfig, and then to initialize the working
// directory again.
func (f *Failure) addBackend(next *Next) *Next {
	if next == nil || f.Object != failure.ObjectBackend && !strings.Contains(f.Message, failure.ConfigurationFile) {
		return next
	}
	if f.ProviderConfig != "" {
		next.Commands = append(next.Commands, "kubectl edit "+f.ProviderConfig)
	}
	for i := range f.Pods {
		pod := &f.Pods[i]
		if at := startedAt(pod); f.blamesDirectory() && !at.IsZero() {
			next.Step += " Only if the backend is right and has the state, remove the working directory: a state without a backend is in it."
			next.Commands = append(next.Commands, fmt.Sprintf("kubectl -n %s exec %s -- rm -r %s", pod.Namespace, pod.Name, f.directory()))
		}
	}
	return next
}

// ended returns why the container of a Pod, or the whole Pod, has ended before; empty if it has not.
func ended(pod *corev1.Pod) string {
	if pod.Status.Reason != "" {
		return strings.TrimSpace(fmt.Sprintf("Pod %s/%s: %s. %s", pod.Namespace, pod.Name, pod.Status.Reason, pod.Status.Message))
	}
	for _, container := range pod.Status.ContainerStatuses {
		last := cmp.Or(container.State.Terminated, container.LastTerminationState.Terminated)
		if last != nil {
			return fmt.Sprintf("Pod %s/%s: the container ended at %s with %s (exit code %d), and was restarted %d times",
				pod.Namespace, pod.Name, last.FinishedAt.UTC().Format(time.RFC3339), cmp.Or(last.Reason, "Error"), last.ExitCode, container.RestartCount)
		}
	}
	return ""
}

// startedAt is when the container of a running Pod started; zero if it does not run.
func startedAt(pod *corev1.Pod) (at metav1.Time) {
	for _, container := range pod.Status.ContainerStatuses {
		if running := container.State.Running; running != nil && (at.IsZero() || running.StartedAt.Before(&at)) {
			at = running.StartedAt
		}
	}
	return at
}

// nextStep is what to do about the error, as of a time; nil if the WorkspaceTemplate or the variables are to be corrected. edit are the commands that edit
// the template and the object that has its variables; failed is true if the error has persisted for too long.
func (f *Failure) nextStep(logs string, edit []string, failed bool, now time.Time) *Next {
	switch transient := f.Class.IsTransient(); {
	case f.Object == failure.ObjectLock:
		return f.unlock(logs, now)
	case f.Object == failure.ObjectProviderPod && !transient:
		return &Next{Step: "Change the module as the message says, or use an image of provider-terraform that has the program.", Commands: append([]string{logs}, edit[:min(1, len(edit))]...)}
	case f.Object == failure.ObjectProviderPod, f.Class == failure.ClassInterrupted:
		next := &Next{Step: "Look at the Pod of provider-terraform, as the message says.", Commands: []string{listPods, logs}}
		for i := range f.Pods {
			if why := ended(&f.Pods[i]); why != "" {
				next.Step += " " + strings.TrimSuffix(why, ".") + "."
			}
		}
		return next
	case f.Object == failure.ObjectTemplate && !transient:
		return nil
	case transient:
		return f.retried(logs, edit, failed)
	}
	next := &Next{Step: fmt.Sprintf("Look at %s, as the message says. provider-terraform retries.", f.Object.Description()), Commands: []string{logs}}
	switch f.Object {
	case failure.ObjectVersion:
		next.Commands = append(next.Commands, edit[max(0, len(edit)-1):]...)
	case failure.ObjectCredentials, failure.ObjectPermissions, failure.ObjectAWSAccount, failure.ObjectNamespace, failure.ObjectProviderConfig, failure.ObjectBackend, failure.ObjectWorkspace:
		next.Step += " The module of the WorkspaceTemplate is not the cause."
	default: // The template can refer to it, or name it.
		next.Commands = append(next.Commands, edit[:min(1, len(edit))]...)
	}
	return next
}

// retried is what to do about an error that is expected to end by itself.
func (f *Failure) retried(logs string, edit []string, failed bool) *Next {
	if failed {
		return &Next{Step: fmt.Sprintf("The error persists, although provider-terraform retries. Look at %s, as the message says.", f.Object.Description()), Commands: append([]string{logs}, edit...)}
	}
	return &Next{Step: fmt.Sprintf("No action is needed yet: provider-terraform retries. If the error persists, look at %s.", f.Object.Description()), Commands: []string{logs}}
}

// unlock is what to do about a lock of the state.
func (f *Failure) unlock(logs string, now time.Time) *Next {
	lock := f.Lock
	taken := "The state is locked"
	if !lock.Created.IsZero() {
		taken += fmt.Sprintf(" since %s (%s ago)", lock.Created.Format(time.RFC3339), duration.HumanDuration(now.Sub(lock.Created)))
	}
	if lock.Holder != "" {
		taken += " by " + lock.Holder
	}
	wait := &Next{Step: taken + ". While the run that took the lock is active, wait; two runs at the same time would corrupt the state.", Commands: []string{listPods, logs}}
	_, host, known := strings.Cut(lock.Holder, "@")
	why := "a Pod that does not exist any more"
	var runs *corev1.Pod // Any of them reaches the backend.
	for i := range f.Pods {
		pod, at := &f.Pods[i], startedAt(&f.Pods[i])
		if !at.IsZero() {
			runs = pod
		}
		switch {
		case !known, pod.Name != host:
		case at.IsZero():
			why = "a Pod that does not run any more"
		case at.After(lock.Created):
			why = "a Pod that has been restarted since, at " + at.UTC().Format(time.RFC3339)
		default:
			wait.Step = fmt.Sprintf("%s, a Pod that runs since %s, so the run may be active: wait. Two runs at the same time would corrupt the state.", taken, at.UTC().Format(time.RFC3339))
			return wait
		}
	}
	pod := "-n crossplane-system exec POD"
	if runs != nil {
		pod = fmt.Sprintf("-n %s exec %s", runs.Namespace, runs.Name)
	}
	unlock := fmt.Sprintf("kubectl %s -- sh -c 'cd /tf/%s && terraform force-unlock -force %s'", pod, f.Workspace, cmp.Or(lock.ID, "LOCK-ID"))
	if !known || len(f.Pods) == 0 {
		wait.Step += " If none is active any more, remove the lock with the last command."
		wait.Commands = append(wait.Commands, unlock)
		return wait
	}
	next := &Next{Step: taken + ", " + why + ", so the run has ended. Check that no other client, such as a pipeline, works on the state, and remove the lock."}
	if runs != nil {
		next.Commands = []string{unlock}
	}
	return next
}

// endRuns are the commands that end the runs of Terraform that go on: Terraform then stops what it does, and saves its state.
func endRuns(o *Objects) (commands []string) {
	for _, apply := range o.Applies {
		if mayRunSince(apply) == nil || apply.Status.WorkspaceRef == nil || apply.Status.WorkspaceRef.UID == "" { // Without it, all runs would end.
			continue
		}
		commands = append(commands, fmt.Sprintf("for pod in $(kubectl -n crossplane-system get pods -l %s -o name); do kubectl -n crossplane-system exec $pod -- sh -c "+
			"'for p in $(pidof terraform); do case $(readlink /proc/$p/cwd) in /tf/%s*) kill -INT $p;; esac; done'; done", terraform.ProviderPodLabel, apply.Status.WorkspaceRef.UID))
	}
	return commands
}

// continueCreate is what to do about an interrupted create: to wait, if CAPT continues it.
func continueCreate(o *Objects, cause *Cause) *Next {
	if _, owner, _ := o.ownerOf(cause, o.Failing(cause)); owner != nil {
		recovers := meta.FindStatusCondition(owner.(graph.Object).GetConditions(), infrav1.RecoveringCondition)
		if recovers != nil && (recovers.Status == metav1.ConditionTrue || recovers.Reason == infrav1.WaitingForRetryReason) {
			return &Next{Step: "CAPT continues: " + recovers.Message + "."}
		}
	}
	next := &Next{Step: "Compare the Terraform state with AWS. Import or delete what is not in the state, then let provider-terraform continue."}
	for _, apply := range o.Applies {
		if ready := meta.FindStatusCondition(apply.Status.Conditions, infrav1.ReadyCondition); ready != nil && ready.Reason == infrav1.CreateInterruptedReason {
			next.Commands = append(next.Commands, annotate(apply, fmt.Sprintf("%s- %s=\"$(date +%%s)\" --overwrite", terraform.CreatePendingAnnotation, naming.ResumedAnnotation))...)
		}
	}
	return next
}

// annotate is the command that changes annotations of the Workspace of a WorkspaceTemplateApply; none if it has no Workspace.
func annotate(apply *infrav1.WorkspaceTemplateApply, changes string) []string {
	return kubectl(apply, "annotate", changes)
}

// kubectl is a command for the Workspace of a WorkspaceTemplateApply; none if it has no Workspace.
func kubectl(apply *infrav1.WorkspaceTemplateApply, verb, arguments string) []string {
	if apply == nil || apply.Status.WorkspaceRef == nil {
		return nil
	}
	ref := apply.Status.WorkspaceRef
	scope, _ := ref.Scope()
	return []string{fmt.Sprintf("kubectl -n %s %s workspaces.%s %s %s", cmp.Or(ref.Namespace, apply.Namespace), verb, scope.GroupVersionKind().Group, ref.Name, arguments)}
}

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
