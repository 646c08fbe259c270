// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package request plans with PlanRequests: CAPT runs Terraform in the management cluster.
package request

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/plans"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

// Help is the description of the command.
const Help = `Shows what Terraform would change now in the Workspaces of Clusters, or in all of the namespaces:
with the content that they have, everything that was changed outside of Terraform. Nothing is
applied.

With --filename, the contents of the WorkspaceTemplates in the files are planned for each of their
users, without storing them. Other objects are not planned; captctl diff shows what the manager
would change because of them.

CAPT plans in the management cluster, as it previews rollouts: a few Workspaces at a time, and only
those that are at rest and not paused. Plans have no values of attributes, variables or outputs. The
command creates PlanRequests, waits, and deletes them. It needs the ClusterRole capt-plan-requester
in the namespaces of the Clusters or templates.

Exit codes: 0 done; 1 error, or a plan fails; 2 Terraform would change something, or that is not
known (with --detailed-exitcode only).`

// Example has commands for the help.
const Example = `  # Has anything been changed outside of Terraform?
  captctl plan team-a/demo team-a/shop
  captctl plan --all -n team-a --detailed-exitcode

  # In a pull request: what would the edited templates change?
  captctl plan -f templates/ -o markdown`

const (
	// maxNames is how many WorkspaceTemplateApplies a PlanRequest can name.
	maxNames = 1000
	// lifetime of a PlanRequest that is complete, and that could not be deleted.
	lifetimeSeconds int32 = 600
	// deleteTimeout is for the deletion of the PlanRequests, also after Ctrl-C.
	deleteTimeout  = 10 * time.Second
	defaultTimeout = 30 * time.Minute
)

// Options are the flags.
type Options struct {
	Timeout          time.Duration
	All              bool
	DetailedExitCode bool
}

// AddFlags adds the flags, without --filename, --output and --all-namespaces.
func (o *Options) AddFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.BoolVar(&o.All, "all", false, "Plan all Workspaces of the namespace, or of all namespaces.")
	flags.DurationVar(&o.Timeout, "timeout", defaultTimeout, "How long to wait for the plans.")
	flags.BoolVar(&o.DetailedExitCode, "detailed-exitcode", false, "Exit with code 2 if Terraform would change something, or if that is not known.")
}

// Validate checks the flags: of Clusters, --all and files, exactly one is given.
func (o *Options) Validate(clusters []client.ObjectKey, files []string) error {
	given := 0
	for _, is := range []bool{len(clusters) > 0, o.All, len(files) > 0} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return errors.New("name Clusters, or use one of --all and --filename")
	case o.Timeout <= 0:
		return errors.New("--timeout must be positive")
	}
	return nil
}

// Document is what Terraform would change.
type Document struct {
	metav1.TypeMeta `json:",inline"`
	Total           int `json:"total"`                 // Total is how many Workspaces were to be planned.
	Changed         int `json:"changed"`               // Changed is for how many Terraform would change something, known or not.
	Unknown         int `json:"unknown,omitempty"`     // Unknown is for how many of them it is not known what.
	Failed          int `json:"failed,omitempty"`      // Failed is for how many the plan fails.
	Unavailable     int `json:"unavailable,omitempty"` // Unavailable is how many could not be planned, for example because they are paused.
	// Destroys is true if a resource would be replaced or deleted, or may be, because the changes are not known, or you may not read them.
	Destroys bool                   `json:"destroys"`
	Counts   []infrav1.PlannedCount `json:"counts,omitempty"` // Counts are the resources of all plans by action.
	// Plans are those that you may read: first those with resources that would be replaced or deleted, then by namespace and name.
	Plans     []overview.Plan `json:"plans"`
	Unplanned []string        `json:"unplanned,omitempty"` // Unplanned describes what has no plan, and why, for each request.

	timedOut bool
	pending  int // pending is how many had no result in time.
}

// Run plans, and prints the result. clusters are NAMESPACE/NAME.
func (o *Options) Run(ctx context.Context, options *cli.Options, connected client.WithWatch, clusters []client.ObjectKey) (err error) {
	r := &run{Options: options, client: connected}
	switch {
	case len(options.Paths) > 0:
		err = r.ofFiles(ctx)
	case o.All:
		err = r.ofNamespaces(ctx)
	default:
		err = r.ofClusters(ctx, clusters)
	}
	if err != nil {
		return err
	}
	defer r.delete(ctx)
	if err := r.create(ctx); err != nil {
		return err
	}
	waiting, stop := context.WithTimeout(ctx, o.Timeout)
	defer stop()
	err = r.await(waiting)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	document, err := r.document(ctx)
	if err != nil {
		return err
	}
	if err := r.Printer().Document(document, func(p *output.Printer) { document.show(p, r.title()) }); err != nil {
		return err
	}
	return o.outcome(document)
}

// outcome is the exit code.
func (o *Options) outcome(d *Document) error {
	switch {
	case d.timedOut && d.Total == 0:
		return fmt.Errorf("CAPT has not begun to plan within %s. Check that its manager runs, in this version", o.Timeout)
	case d.timedOut:
		return fmt.Errorf("%d of %s had no result within %s, because only a few are planned at a time, or provider-terraform is busy or does not run. See captctl describe, or use a longer --timeout",
			d.pending, output.Count(d.Total, "Workspace"), o.Timeout)
	case d.Failed > 0:
		return fmt.Errorf("the plan of %s fails, see above", output.Count(d.Failed, "Workspace"))
	case d.Changed > 0 && o.DetailedExitCode:
		return migrate.Pending.Errorf("Terraform would change something in %s", output.Count(d.Changed, "Workspace"))
	case d.Unavailable > 0 && o.DetailedExitCode:
		return migrate.Pending.Errorf("%s could not be planned", output.Count(d.Unavailable, "Workspace"))
	}
	return nil
}

// run is one run of the command.
type run struct {
	*cli.Options
	client   client.WithWatch
	requests []*infrav1.PlanRequest
}

func (r *run) add(namespace string, spec infrav1.PlanRequestSpec) {
	spec.TTLSecondsAfterFinished = ptr.To(lifetimeSeconds)
	r.requests = append(r.requests, &infrav1.PlanRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "captctl-"}, Spec: spec})
}

// ofClusters requests the plans of what has the label of the Clusters.
func (r *run) ofClusters(ctx context.Context, clusters []client.ObjectKey) error {
	names := map[string][]string{}
	for _, cluster := range clusters {
		var applies infrav1.WorkspaceTemplateApplyList
		if err := r.client.List(ctx, &applies, client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}); err != nil {
			return err
		}
		if len(applies.Items) == 0 {
			return fmt.Errorf("there is no WorkspaceTemplateApply of Cluster %s in namespace %s; captctl get lists all Clusters", cluster.Name, cluster.Namespace)
		}
		for i := range applies.Items {
			names[cluster.Namespace] = append(names[cluster.Namespace], applies.Items[i].Name)
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(names)) {
		slices.Sort(names[namespace])
		for part := range slices.Chunk(slices.Compact(names[namespace]), maxNames) {
			r.add(namespace, infrav1.PlanRequestSpec{WorkspaceTemplateApplies: part})
		}
	}
	return nil
}

// ofNamespaces requests the plans of all in the namespace of --namespace, or in all namespaces.
func (r *run) ofNamespaces(ctx context.Context) error {
	namespaces := []string{r.Only()}
	if namespaces[0] == "" {
		namespaces = nil
		var applies infrav1.WorkspaceTemplateApplyList
		if err := r.client.List(ctx, &applies); err != nil {
			return err
		}
		for i := range applies.Items {
			namespaces = append(namespaces, applies.Items[i].Namespace)
		}
		slices.Sort(namespaces)
	}
	for _, namespace := range slices.Compact(namespaces) {
		r.add(namespace, infrav1.PlanRequestSpec{Scope: infrav1.PlanScopeNamespace})
	}
	return nil
}

// ofFiles requests the plans of the contents of templates.
func (r *run) ofFiles(ctx context.Context) error {
	content, err := r.ValidManifests(ctx, "the files cannot be planned", "captctl validate checks all rules.")
	if err != nil {
		return err
	}
	for _, object := range content.Objects {
		template, ok := object.Typed.(*infrav1.WorkspaceTemplate)
		if !ok {
			r.Warn("%s: %s is not planned: only the contents of WorkspaceTemplates are. captctl diff -f shows what the manager would change", object.File, object)
			continue
		}
		r.add(template.Namespace, infrav1.PlanRequestSpec{Template: infrav1.PlannedTemplate{Name: template.Name, Spec: template.Spec}})
	}
	if len(r.requests) == 0 {
		return errors.New("the files have no WorkspaceTemplate, so there is nothing to plan")
	}
	return nil
}

func (r *run) create(ctx context.Context) error {
	for _, request := range r.requests {
		if err := r.client.Create(ctx, request); err != nil {
			if name := request.Spec.Template.Name; name != "" {
				return fmt.Errorf("WorkspaceTemplate %s/%s: %w", request.Namespace, name, err)
			}
			return fmt.Errorf("requesting plans in namespace %s: %w", request.Namespace, err)
		}
	}
	return nil
}

// delete deletes the PlanRequests, also after Ctrl-C. Those that cannot be deleted end by themselves.
func (r *run) delete(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer stop()
	for _, request := range r.requests {
		if request.UID == "" {
			continue
		}
		if err := client.IgnoreNotFound(r.client.Delete(ctx, request)); err != nil {
			r.Warn("PlanRequest %s/%s is not deleted: %v", request.Namespace, request.Name, err)
		}
	}
}

// await waits until the PlanRequests are complete, or the context ends.
func (r *run) await(ctx context.Context) error {
	progress := r.Progress()
	defer progress.Stop()
	phase, done := 0, 0
	watched := cli.Watched{Namespace: r.namespace(), Kinds: []schema.GroupVersionKind{infrav1.GroupVersion.WithKind("PlanRequest")}}
	var gone error
	err := r.Follow(ctx, r.client, watched, func(ctx context.Context) (bool, error) {
		total, found, complete := 0, 0, true
		for _, request := range r.requests {
			if err := r.client.Get(ctx, client.ObjectKeyFromObject(request), request); err != nil {
				if apierrors.IsNotFound(err) {
					gone = fmt.Errorf("PlanRequest %s/%s was deleted by another client", request.Namespace, request.Name)
				}
				return gone != nil, err
			}
			complete = complete && request.IsComplete()
			total, found = total+count(request.Status.Total), found+results(request)
		}
		if total != phase {
			progress.Phase("Planning Workspaces", total)
			phase, done = total, 0
		}
		progress.Add(found - done)
		done = found
		return complete, nil
	})
	return errors.Join(err, gone)
}

// namespace of the PlanRequests; empty if they are in several.
func (r *run) namespace() (namespace string) {
	for i, request := range r.requests {
		if i > 0 && request.Namespace != namespace {
			return ""
		}
		namespace = request.Namespace
	}
	return namespace
}

func count(n *int32) int { return int(ptr.Deref(n, 0)) }

func results(request *infrav1.PlanRequest) int {
	s := &request.Status
	return count(s.Planned) + count(s.Failed) + count(s.Unavailable)
}

// document reads the plans.
func (r *run) document(ctx context.Context) (*Document, error) {
	d := &Document{TypeMeta: cli.TypeMeta("WorkspacePlans"), Plans: []overview.Plan{}}
	changed := 0 // In plans that may be read.
	for _, request := range r.requests {
		s := &request.Status
		d.Total, d.Changed, d.Unknown = d.Total+count(s.Total), d.Changed+count(s.Changed), d.Unknown+count(s.Unknown)
		d.timedOut, d.pending = d.timedOut || !request.IsComplete(), d.pending+count(s.Total)-results(request)
		d.Failed, d.Unavailable = d.Failed+count(s.Failed), d.Unavailable+count(s.Unavailable)
		applies, err := r.applies(ctx, request)
		if err != nil {
			return nil, err
		}
		seen := 0
		for i := range applies {
			if plan := plans.Of(&applies[i], request.UID); plan != nil {
				seen++
				if plan.Result == infrav1.PreviewChanges {
					changed++
				}
				d.Plans = append(d.Plans, *overview.RequestedPlan(&applies[i], plan))
			}
		}
		if seen < count(s.Total) { // Some are being deleted, have no result yet, or may not be read.
			d.Unplanned = append(d.Unplanned, conditions.GetMessage(request, infrav1.CompleteCondition))
		}
	}
	slices.SortFunc(d.Plans, func(a, b overview.Plan) int { return strings.Compare(output.NameOfPlan(&a), output.NameOfPlan(&b)) })
	output.SortPlans(d.Plans)
	all := output.Plans{All: d.Plans}
	d.Counts, d.Destroys = all.Counts(), all.Destroy() || changed < d.Changed
	return d, nil
}

// applies returns what a PlanRequest may be about. Users of a template can be in any namespace.
func (r *run) applies(ctx context.Context, request *infrav1.PlanRequest) ([]infrav1.WorkspaceTemplateApply, error) {
	var applies infrav1.WorkspaceTemplateApplyList
	if request.Spec.Template.Name != "" {
		if err := r.client.List(ctx, &applies); err == nil || !apierrors.IsForbidden(err) {
			return applies.Items, err
		}
	}
	err := r.client.List(ctx, &applies, client.InNamespace(request.Namespace))
	return applies.Items, err
}

// title of the contents that were planned; empty for the current ones.
func (r *run) title() string {
	var names []string
	for _, request := range r.requests {
		if name := request.Spec.Template.Name; name != "" {
			names = append(names, request.Namespace+"/"+name)
		}
	}
	return strings.Join(names, ", ")
}

func (d *Document) show(p *output.Printer, templates string) {
	all := output.Plans{All: d.Plans, Noun: "Workspace"}
	total := all.Total()
	if total == "" {
		total = "none"
	}
	if p.Format == output.Markdown {
		title := "### Terraform plan"
		if templates != "" {
			title += " of " + templates
		}
		all.Markdown(p, title, strings.Join(append([]string{total}, d.Unplanned...), "\n\n"))
		return
	}
	p.Fields([][2]string{{"Templates:", p.Paint(output.Strong, templates)}, {"Plans:", total}})
	all.Show(p)
	for _, text := range d.Unplanned {
		p.Blank()
		p.Text("", output.Attention, text)
	}
}
