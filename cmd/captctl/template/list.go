// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

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
