// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

type statusOptions struct{ cli.Options }

func newStatus(environment *cli.Environment) *cobra.Command {
	o := &statusOptions{cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "status [NAMESPACE/]NAME",
		Short: "Show how far the rollout of a WorkspaceTemplate has come, and what to do",
		Long: `Shows the current revision of a WorkspaceTemplate, the stage of its rollout, who approved it, what
it waits for and what to do next, one line for each WorkspaceTemplateApply that uses the template,
and the stored revisions. REVISION of a user is the one that its Workspace was written with. PLAN is
what Terraform would change before it is applied: +created ~updated -/+replaced -deleted, none, or ?
if that is not known. MESSAGE also says why a plan fails. -o wide also shows hashes and resources;
captctl template plan shows them by user. --watch ends when the rollout is complete.

Without NAMESPACE, --namespace or the namespace of the kubeconfig's context is used.`,
		Example: `  captctl template status team-a/vpc
  captctl template status vpc -n team-a --watch

  # In a script: is it complete?
  captctl template status team-a/vpc -o json | jq -e '.stage == "Complete"'`,
	}
	o.Takes(command, "NAME", environment.Access.CompleteTemplates())
	o.AddView(command)
	return cli.NewConnected(command, o)
}

func (o *statusOptions) Run(ctx context.Context, connected client.WithWatch) error {
	complete := false
	watched := cli.Watched{Kinds: []schema.GroupVersionKind{
		infrav1.GroupVersion.WithKind("WorkspaceTemplate"), infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"),
	}, Until: func() bool { return complete }}
	return cli.Show(ctx, &o.Options, connected, watched, func(ctx context.Context) (*rollout.Template, error) {
		t, err := read(ctx, &o.Options, connected)
		if err == nil && t.Unreadable != nil {
			o.Warn("stored revisions are not shown: %v", t.Unreadable)
		}
		return t, err
	}, func(p *output.Printer, t *rollout.Template) error {
		status := &Status{Status: *t.StatusOf(o.Clock.Now()), Plans: plansOf(t)}
		status.TypeMeta, complete = cli.TypeMeta("TemplateStatus"), status.IsComplete()
		return p.Document(status, func(p *output.Printer) { showStatus(p, status, o.Clock.Now()) })
	})
}

// Status is what captctl template status shows.
type Status struct {
	rollout.Status `json:",inline"`
	// Plans are what Terraform would change for users for which the current revision, or a change of their own, was planned and waits; those that
	// would replace or delete resources first.
	Plans []overview.Plan `json:"plans,omitempty"`
}

// read reads the template that the argument names, with its users and revisions.
func read(ctx context.Context, o *cli.Options, reader client.Reader) (*rollout.Template, error) {
	t, err := readRevisions(ctx, o, reader)
	if t.Unreadable = err; t.WorkspaceTemplate == nil || err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	t.History = t.History.With(t.History.Record(t.WorkspaceTemplate))
	namespace := ""
	var list infrav1.WorkspaceTemplateApplyList
	if err = reader.List(ctx, &list); apierrors.IsForbidden(err) {
		o.Warn("users in other namespaces than %s are not shown: %v", o.Namespace, err)
		namespace = o.Namespace
		err = reader.List(ctx, &list, client.InNamespace(namespace))
	}
	if err != nil {
		return nil, err
	}
	t.Applies = cli.Indexed(list.Items)
	return t, readUsers(ctx, reader, t, namespace)
}

func readTemplate(ctx context.Context, o *cli.Options, reader client.Reader) (*infrav1.WorkspaceTemplate, error) {
	template := &infrav1.WorkspaceTemplate{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, template)
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("there is no WorkspaceTemplate %s in namespace %s; captctl template list lists all", o.Name, o.Namespace)
	}
	return template, err
}

// readRevisions reads a template and its revisions. With an error it has what could be read.
func readRevisions(ctx context.Context, o *cli.Options, reader client.Reader) (*rollout.Template, error) {
	t := &rollout.Template{}
	template, err := readTemplate(ctx, o, reader)
	if err != nil {
		return t, err
	}
	t.WorkspaceTemplate, t.Policy = template, template.RolloutPolicy()
	var revisions appsv1.ControllerRevisionList
	if err := reader.List(ctx, &revisions, client.InNamespace(o.Namespace), client.HasLabels{naming.TemplateRevisionLabel}); err != nil {
		return t, fmt.Errorf("listing the revisions of WorkspaceTemplate %s/%s: %w", o.Namespace, o.Name, err)
	}
	t.History = rollout.HistoryOf(template, revisions.Items)
	return t, nil
}

// readUsers reads what the rollout needs of the WorkspaceTemplateApplies that use the template and may do so.
func readUsers(ctx context.Context, reader client.Reader, t *rollout.Template, namespace string) error {
	labelsOf := cli.NamespaceLabels(ctx, reader)
	var permitted []*infrav1.WorkspaceTemplateApply
	for key, apply := range t.Applies {
		if apply.TemplateKey() != client.ObjectKeyFromObject(t.WorkspaceTemplate) {
			continue
		}
		ok, err := validation.PermitsNamespace(t.WorkspaceTemplate, key.Namespace, func() (labels.Set, error) { return labelsOf(key.Namespace) })
		if err != nil {
			return err
		}
		if ok {
			permitted = append(permitted, apply)
		}
		if ok && !apply.DeletionTimestamp.IsZero() {
			t.Deleting = append(t.Deleting, key.String())
		}
	}
	slices.Sort(t.Deleting)
	clusters := map[types.NamespacedName]*clusterv1.Cluster{}
	if t.Policy.Canary.Selector != nil {
		var list clusterv1.ClusterList
		if err := reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("listing Clusters, whose labels select the canaries: %w", err)
		}
		clusters = cli.Indexed(list.Items)
	}
	var err error
	t.Users, err = rollout.UsersOf(permitted, t.History, func(apply *infrav1.WorkspaceTemplateApply) (labels.Set, error) {
		if found := clusters[types.NamespacedName{Namespace: apply.Namespace, Name: apply.Labels[clusterv1.ClusterNameLabel]}]; found != nil {
			return found.Labels, nil
		}
		return nil, nil
	})
	return err
}

// gitOpsManagers are the field managers of GitOps tools.
var gitOpsManagers = map[string]string{
	"kustomize-controller": "Flux", "helm-controller": "Flux", "argocd-controller": "Argo CD", "argocd-application-controller": "Argo CD",
}

// gitOpsTool names the GitOps tool that applies an object, for a warning; empty if none is known.
func gitOpsTool(object metav1.Object) string {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	for _, kind := range [][2]string{{"kustomize", "Kustomization"}, {"helm", "HelmRelease"}} {
		prefix := kind[0] + ".toolkit.fluxcd.io/"
		if name := labels[prefix+"name"]; name != "" {
			return "Flux (" + kind[1] + " " + labels[prefix+"namespace"] + "/" + name + ")"
		}
	}
	application, _, _ := strings.Cut(annotations["argocd.argoproj.io/tracking-id"], ":")
	if application = cmp.Or(application, labels["argocd.argoproj.io/instance"]); application != "" {
		return "Argo CD (Application " + application + ")"
	}
	for _, entry := range object.GetManagedFields() {
		if tool := gitOpsManagers[entry.Manager]; tool != "" {
			return tool
		}
	}
	return ""
}

// isInGit reports whether a GitOps tool applies a field of an object, so that it reverts other values.
func isInGit(object metav1.Object, path ...any) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		var applied fieldpath.Set
		return gitOpsManagers[entry.Manager] != "" && entry.FieldsV1 != nil &&
			applied.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) == nil && applied.Has(fieldpath.MakePathOrDie(path...))
	})
}

func showStatus(p *output.Printer, s *Status, now time.Time) {
	revision, strategy := terraform.ShortRevision(s.Revision), string(s.Strategy)
	if s.Strategy == infrav1.RolloutStaged {
		revision = fmt.Sprintf("%d (%s)", s.Number, revision)
	} else {
		strategy += ": edits reach all users at once"
	}
	deletion := ""
	if s.DeletionTime != nil {
		deletion = fmt.Sprintf("requested %s ago; waits for %s", output.Age(now, s.DeletionTime), output.Count(len(s.Users)+len(s.Deleting), "user"))
	}
	approved := approvalText(s.Approval, now)
	if waits := s.RequiredApproval == infrav1.RolloutApprovalAlways && !s.IsComplete(); approved == "" && (waits || s.Stage == infrav1.RolloutWaitingForApproval) {
		approved = "no"
	}
	p.Fields([][2]string{
		{"Template:", p.Paint(output.Strong, s.Namespace+"/"+s.Name)}, {"Deletion:", p.Paint(output.Bad, deletion)}, {"Strategy:", strategy},
		{"Revision:", p.Paint(output.Plain, revision)}, {"Stage:", p.Paint(stageStyle(&s.Status), stageText(&s.Status, now))}, {"Approved:", p.Paint(output.Plain, approved)},
		{"Users:", countsText(&s.Status)},
	})
	if s.Message != "" {
		p.Blank()
		p.Text("", stageStyle(&s.Status), output.OneLine(s.Message))
	}
	if s.NextStep != nil {
		p.NextStep(s.NextStep.Step, s.NextStep.Commands)
	}
	showUsers(p, s)
	showRevisions(p, &s.Status, now)
}

func stageStyle(s *rollout.Status) output.Style {
	switch {
	case s.Reason == infrav1.RolloutStoppedReason, s.Reason == infrav1.RolloutFailingReason:
		return output.Bad
	case s.Reason == infrav1.RolloutWaitingReason:
		return output.Attention
	case s.Stage == infrav1.RolloutComplete:
		return output.Good
	}
	return output.Plain
}

// stageText is the stage, what holds it, and since when the revision is rolled out; empty without a staged rollout.
func stageText(s *rollout.Status, now time.Time) string {
	text := string(s.Stage)
	switch {
	case text == "":
		return ""
	case s.Reason == infrav1.RolloutStoppedReason && s.Stalls():
		text += ", stopped"
	case s.Reason == infrav1.RolloutStoppedReason:
		text += ", stopped by a failure"
	case s.State == infrav1.RolloutPaused:
		text += ", paused"
	case s.SoakUntil != nil && s.SoakUntil.After(now):
		text += ", for another " + duration.HumanDuration(s.SoakUntil.Sub(now))
	}
	if s.StartTime != nil {
		text += fmt.Sprintf(" (started %s)", output.Ago(now, s.StartTime.Time))
	}
	return text
}

func approvalText(a *rollout.Approval, now time.Time) string {
	if a == nil {
		return ""
	}
	text := cmp.Or(a.By, "unknown user")
	if at, err := time.Parse(time.RFC3339, a.At); err == nil {
		text += ", " + output.Ago(now, at)
	}
	return text
}

// countsText has the users by state, those first that need attention.
func countsText(s *rollout.Status) string {
	var parts []string
	for _, state := range []rollout.UserState{rollout.UserFailed, rollout.UserStalled, rollout.UserUpdating, rollout.UserWaiting, rollout.UserCreating, rollout.UserCurrent} {
		if n := s.Counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(s.Deleting) > 0 {
		parts = append(parts, fmt.Sprintf("%d being deleted (%s)", len(s.Deleting), rollout.Names(s.Deleting)))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

func userStyle(state string) output.Style {
	state, _, _ = strings.Cut(state, ",")
	switch rollout.UserState(state) {
	case rollout.UserFailed, rollout.UserStalled:
		return output.Bad
	case rollout.UserUpdating, rollout.UserCreating:
		return output.Attention
	case rollout.UserCurrent:
		return output.Good
	case rollout.UserWaiting:
	}
	return output.Plain
}

// What follows the state of a user.
const (
	pausedSuffix     = ",paused"
	leftBehindSuffix = ",left behind"
)

func showUsers(p *output.Printer, s *Status) {
	rows, plans := output.Rows{}, map[string]*overview.Plan{}
	for i := range s.Plans {
		plans[s.Plans[i].Namespace+"/"+s.Plans[i].Name] = &s.Plans[i]
	}
	for i := range s.Users {
		u := &s.Users[i]
		plan := cmp.Or(plans[u.Namespace+"/"+u.Name], &overview.Plan{})
		state := string(u.State)
		if u.Paused {
			state += pausedSuffix
		}
		if u.LeftBehind {
			state += leftBehindSuffix
		}
		rows = append(rows, []string{
			u.Namespace, u.Name, u.Owner, u.Cluster, state, numberOf(&s.Status, u.Written), map[bool]string{true: "yes"}[u.Canary], plan.Summary, terraform.ShortRevision(u.Assigned), terraform.ShortRevision(u.Written), terraform.ShortRevision(u.Applied),
			strings.Join(plan.Lines(output.MostResources), ", "), output.OneLine(strings.TrimSuffix(u.Reason+": "+u.Message, ": ")),
		})
	}
	p.Section([]output.Column{
		{Name: "Namespace"}, {Name: "Name"}, {Name: "Owner", Wide: true}, {Name: "Cluster", Optional: true}, {Name: "State", Style: userStyle}, {Name: "Revision"}, {Name: "Canary", Optional: true}, {Name: "Plan", Style: output.PlanStyle},
		{Name: "Assigned", Wide: true}, {Name: "Written", Wide: true}, {Name: "Applied", Wide: true}, {Name: "Resources", Wide: true}, {Name: "Message", Prose: 4},
	}, rows)
}

func numberOf(s *rollout.Status, hash string) string {
	for i := range s.Revisions {
		if s.Revisions[i].Hash == hash {
			return strconv.FormatInt(s.Revisions[i].Number, 10)
		}
	}
	return terraform.ShortRevision(hash)
}

func showRevisions(p *output.Printer, s *rollout.Status, now time.Time) {
	rows := output.Rows{}
	for i := range s.Revisions {
		r := &s.Revisions[i]
		var notes []string
		if r.Target {
			notes = append(notes, "current content")
		}
		if r.ForNewUsers {
			notes = append(notes, "for new users")
		}
		rows = append(rows, []string{
			strconv.FormatInt(r.Number, 10), terraform.ShortRevision(r.Hash), output.Age(now, r.Created), strconv.Itoa(r.Users), approvalText(r.Approval, now), strings.Join(notes, ", "),
		})
	}
	p.Section([]output.Column{{Name: "Revision"}, {Name: "Hash"}, {Name: "Age"}, {Name: "Users"}, {Name: "Approved"}, {Name: "Notes", Prose: 4}}, rows)
}

type listOptions struct{ cli.Options }

func newList(environment *cli.Environment) *cobra.Command {
	o := &listOptions{cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "list",
		Short: "List the WorkspaceTemplates, their users and their rollouts",
		Long: `Lists the WorkspaceTemplates with the stage of their rollout, the number of WorkspaceTemplateApplies
that use them, and of those that do not have the current content yet. MESSAGE is why a template
cannot be used, or what its rollout waits for.

Templates that need an action of a user are first, and are named below the table. captctl template
status shows one of them.`,
		Example: `  captctl template list
  captctl template list -n team-a --watch`,
	}
	o.AddView(command)
	o.AddAllNamespaces(command)
	return cli.NewConnected(command, o)
}

// List lists the WorkspaceTemplates, sorted by namespace and name.
type List struct {
	metav1.TypeMeta `json:",inline"`
	Templates       []Listed `json:"templates"`
}

// Listed is a WorkspaceTemplate, as the manager reports it.
type Listed struct {
	Namespace string                  `json:"namespace"`
	Name      string                  `json:"name"`
	Strategy  infrav1.RolloutStrategy `json:"strategy"`
	Revision  string                  `json:"revision,omitempty"` // Revision is the hash of the content that the manager has observed.
	Number    int64                   `json:"number,omitempty"`   // Number of the revision; absent without a staged rollout.
	// Stage of the rollout; absent without a staged rollout.
	Stage    infrav1.RolloutStage `json:"stage,omitempty"`
	Paused   bool                 `json:"paused,omitempty"`   // Paused is true if the rollout is.
	Users    int32                `json:"users"`              // Users is how many WorkspaceTemplateApplies use it.
	Outdated int32                `json:"outdated,omitempty"` // Outdated is for how many of them Terraform last applied another content.
	// Reason and Message are those of the first condition that is not as it should be: Valid, Deleting or RollingOut.
	Reason      string      `json:"reason,omitempty"`
	Message     string      `json:"message,omitempty"`
	NeedsAction bool        `json:"needsAction,omitempty"` // NeedsAction is true if nothing continues without a user.
	Created     metav1.Time `json:"created"`
}

func (o *listOptions) Run(ctx context.Context, connected client.WithWatch) error {
	watched := cli.Watched{Namespace: o.Only(), Kinds: []schema.GroupVersionKind{infrav1.GroupVersion.WithKind("WorkspaceTemplate")}}
	return cli.Show(ctx, &o.Options, connected, watched, func(ctx context.Context) (*List, error) {
		var found infrav1.WorkspaceTemplateList
		err := o.ReadNamespaces(func(namespace string) error { return connected.List(ctx, &found, client.InNamespace(namespace)) })
		if err != nil {
			return nil, err
		}
		list := &List{cli.TypeMeta("TemplateList"), []Listed{}}
		for i := range found.Items {
			list.Templates = append(list.Templates, newListed(&found.Items[i]))
		}
		return list, nil
	}, func(p *output.Printer, list *List) error {
		return p.Document(list, func(p *output.Printer) { showList(p, list, o.Only(), o.Clock.Now()) })
	})
}

func newListed(template *infrav1.WorkspaceTemplate) Listed {
	policy, status := template.RolloutPolicy(), &template.Status
	one := Listed{
		Namespace: template.Namespace, Name: template.Name, Strategy: cmp.Or(policy.Strategy, infrav1.RolloutImmediate), Revision: status.Revision, Created: template.CreationTimestamp,
		Users: ptr.Deref(status.Users, 0), Outdated: ptr.Deref(status.OutdatedUsers, 0),
	}
	if policy.IsStaged() {
		one.Number, one.Stage, one.Paused = status.Rollout.Number, status.Rollout.Stage, policy.State == infrav1.RolloutPaused
	}
	valid, deleting, rolling := meta.FindStatusCondition(status.Conditions, infrav1.ValidCondition), meta.FindStatusCondition(status.Conditions, infrav1.DeletingCondition), meta.FindStatusCondition(status.Conditions, infrav1.RollingOutCondition)
	switch {
	case valid != nil && valid.Status == metav1.ConditionFalse:
		one.Reason, one.Message, one.NeedsAction = valid.Reason, valid.Message, true
	case deleting != nil && deleting.Status == metav1.ConditionTrue:
		one.Reason, one.Message = deleting.Reason, deleting.Message
	case rolling != nil && rolling.Status == metav1.ConditionTrue:
		one.Reason, one.Message = rolling.Reason, rolling.Message
		one.NeedsAction = rolling.Reason == infrav1.RolloutStoppedReason || rolling.Reason == infrav1.RolloutWaitingReason && !one.Paused || rolling.Reason == infrav1.RolloutFailingReason
	}
	return one
}

// stage is the stage of the rollout, and what holds it.
func (l *Listed) stage() string {
	switch {
	case l.Stage != "" && l.Reason == infrav1.RolloutStoppedReason:
		return string(l.Stage) + ",stopped"
	case l.Stage != "" && l.Paused:
		return string(l.Stage) + pausedSuffix
	}
	return string(l.Stage)
}

// showList shows the templates of a namespace; of all without one.
func showList(p *output.Printer, list *List, namespace string, now time.Time) {
	switch {
	case len(list.Templates) > 0:
	case namespace == "":
		p.Linef("There are no WorkspaceTemplates. captctl template init creates one from a Terraform module.")
		return
	default:
		p.Linef("There are no WorkspaceTemplates in namespace %s. Its Clusters can use those of other namespaces that allow it; captctl template list -A lists all.", namespace)
		return
	}
	shown, waiting := slices.Clone(list.Templates), []string(nil)
	slices.SortStableFunc(shown, func(a, b Listed) int { return cmp.Compare(b.rank(), a.rank()) })
	rows := output.Rows{}
	for i := range shown {
		l, number := &shown[i], ""
		if l.NeedsAction {
			waiting = append(waiting, l.Namespace+"/"+l.Name)
		}
		if l.Number > 0 {
			number = strconv.FormatInt(l.Number, 10)
		}
		rows = append(rows, []string{
			l.Namespace, l.Name, string(l.Strategy), number, l.stage(), fmt.Sprint(l.Users), fmt.Sprint(l.Outdated), output.Age(now, &l.Created), output.OneLine(strings.TrimSpace(l.Message)),
		})
	}
	byAction := output.RowsThat(func(row int) bool { return shown[row].NeedsAction })
	p.Table([]output.Column{
		{Name: "Namespace"}, {Name: "Name", RowStyle: byAction}, {Name: "Strategy", Optional: true}, {Name: "Revision", Optional: true}, {Name: "Stage", RowStyle: byAction}, {Name: "Users"}, {Name: "Outdated"}, {Name: "Age"}, {Name: "Message", Prose: 4},
	}, rows)
	p.NeedsAction(output.Count(len(shown), "WorkspaceTemplate"), rollout.Names(waiting))
}

func (l *Listed) rank() int { return map[bool]int{true: 1}[l.NeedsAction] }
