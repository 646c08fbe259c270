// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"fmt"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
)

// UnknownPlan is the short form of changes that are not known.
const UnknownPlan = "?"

// Plan is what Terraform would change for a WorkspaceTemplateApply: for a revision of its template, or a change of its own, that it has not got yet, or
// for the content that a PlanRequest is about.
type Plan struct {
	Namespace string `json:"namespace"` // Namespace and Name of the WorkspaceTemplateApply.
	Name      string `json:"name"`
	Cluster   string `json:"cluster,omitempty"`
	// Change is the hash of the content if the plan is of a change of this object alone; absent if it is of the revision of the template.
	Change string `json:"change,omitempty"`
	// Summary is the short form, for example "+1 ~2 -/+1 -1": created, updated, replaced and deleted resources. It is "none" without changes, "?" if
	// they are not known, and "failed" or "unavailable" without a plan. Without resources, it has the number of outputs, as in "outputs 2".
	Summary string `json:"summary"`
	// Destroys is true if a resource would be replaced or deleted, or may be, because the changes are not known.
	Destroys bool                    `json:"destroys,omitempty"`
	Preview  infrav1.RevisionPreview `json:"preview"` // Preview has the plan.
}

// PlanOf returns the plan of what waits for a WorkspaceTemplateApply: its own change, or else the revision of its template; nil without one.
func PlanOf(apply *infrav1.WorkspaceTemplateApply) *Plan {
	s := &apply.Status
	plan := &Plan{Namespace: apply.Namespace, Name: apply.Name, Cluster: apply.Labels[clusterv1.ClusterNameLabel], Change: s.Change.Revision, Preview: s.Change.Preview}
	if plan.Change == "" {
		plan.Preview = s.Preview
		if s.Preview.Proof != "" || s.Preview.TemplateRevision == s.WrittenTemplateRevision {
			return nil
		}
	}
	return plan.summarized()
}

// RequestedPlan is the plan of a WorkspaceTemplateApply that a PlanRequest requested.
func RequestedPlan(apply *infrav1.WorkspaceTemplateApply, requested *infrav1.RevisionPreview) *Plan {
	plan := &Plan{Namespace: apply.Namespace, Name: apply.Name, Cluster: apply.Labels[clusterv1.ClusterNameLabel], Preview: *requested}
	return plan.summarized()
}

func (p *Plan) summarized() *Plan {
	if p.Preview.Result == "" {
		return nil
	}
	p.Summary, p.Destroys = planSummary(&p.Preview), p.Preview.IsDestructive()
	return p
}

// Plans returns the plans of what waits for the objects of a Cluster.
func (o *Objects) Plans() (plans []Plan) {
	for _, apply := range o.Applies {
		if plan := PlanOf(apply); plan != nil {
			plans = append(plans, *plan)
		}
	}
	return plans
}

// Content is what was planned.
func (p *Plan) Content() string {
	if p.Change != "" {
		return "change " + terraform.ShortRevision(p.Change)
	}
	return "revision " + terraform.ShortRevision(p.Preview.TemplateRevision)
}

// Lines are the first resources of the plan, those that would be replaced or deleted first, and how many more there are; or why they are not known.
func (p *Plan) Lines(most int) []string { return p.lines(most, false) }

// Destroyed are the lines about resources that would be replaced or deleted, or may be.
func (p *Plan) Destroyed(most int) []string {
	if !p.Destroys {
		return nil
	}
	return p.lines(most, true)
}

func (p *Plan) lines(most int, destroyed bool) (lines []string) {
	switch c := p.Preview.Changes; {
	case p.Preview.Result != infrav1.PreviewChanges && p.Preview.Message == "":
		return nil
	case p.Preview.Result != infrav1.PreviewChanges:
		return []string{oneLine(p.Preview.Message)}
	case c == nil, c.Unknown != "":
		why := p.Preview.Message
		if c != nil {
			why = c.Unknown
		}
		return []string{"what changes is not known: " + oneLine(cmp.Or(why, "the plan was not read"))}
	default:
		lines = planLines(c, most, destroyed, plannedText)
		if c.Outputs > 0 && !destroyed {
			lines = append(lines, fmt.Sprintf("outputs: %d", c.Outputs))
		}
		if c.Drifted > 0 && !destroyed {
			lines = append(lines, fmt.Sprintf("changed outside of Terraform: %d", c.Drifted))
		}
		return lines
	}
}

// ChangesText lists in words what Terraform would change, at most so many resources, for example "replace aws_eks_cluster.this (cannot_update), update
// aws_vpc.this, and 2 more"; empty if it is not known.
func ChangesText(c *infrav1.PlannedChanges, most int) string {
	if c == nil {
		return ""
	}
	parts := planLines(c, most, false, func(r *infrav1.PlannedResource) string { return strings.ToLower(string(r.Action)) + plannedName(r) })
	if c.Outputs > 0 {
		parts = append(parts, fmt.Sprintf("change outputs (%d)", c.Outputs))
	}
	if c.Drifted > 0 && len(parts) == 0 {
		parts = append(parts, fmt.Sprintf("record what was changed outside of Terraform (%d)", c.Drifted))
	}
	return strings.Join(parts, ", ")
}

func planLines(c *infrav1.PlannedChanges, most int, destroyed bool, text func(*infrav1.PlannedResource) string) (lines []string) {
	is := func(action infrav1.PlanAction) bool {
		return !destroyed || action == infrav1.PlanReplace || action == infrav1.PlanDelete
	}
	more := int32(0)
	for _, s := range planSigns {
		if is(s.action) && s.action != infrav1.PlanImport { // What is imported and updated is counted twice, and listed once.
			more += c.Count(s.action)
		}
	}
	for i := range c.Resources {
		r := &c.Resources[i]
		switch {
		case !is(r.Action):
			continue
		case r.Action == infrav1.PlanImport:
			more++
		}
		if len(lines) < most {
			lines = append(lines, text(r))
			more--
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

// planSigns are the actions in the order and with the signs of Terraform. Actions for which it has none have a word.
var planSigns = []struct {
	action infrav1.PlanAction
	sign   string
}{
	{infrav1.PlanCreate, "+"}, {infrav1.PlanUpdate, "~"}, {infrav1.PlanReplace, "-/+"}, {infrav1.PlanDelete, "-"},
	{infrav1.PlanImport, "import "}, {infrav1.PlanForget, "forget "}, {infrav1.PlanMove, "move "},
}

// plannedText is a resource as in "-/+ aws_eks_cluster.this (cannot_update)".
func plannedText(r *infrav1.PlannedResource) string {
	text := ""
	for _, s := range planSigns {
		if s.action == r.Action {
			text = strings.TrimSpace(s.sign)
		}
	}
	return strings.TrimPrefix(text+plannedName(r), " ")
}

// plannedName is the address of a resource and the reason of Terraform, after a space.
func plannedName(r *infrav1.PlannedResource) string {
	if r.Reason == "" {
		return " " + oneLine(r.Address)
	}
	return " " + oneLine(r.Address) + " (" + oneLine(r.Reason) + ")"
}

// planSummary is the short form of a plan; empty without one.
func planSummary(p *infrav1.RevisionPreview) string {
	switch {
	case p.Result == infrav1.PreviewEmpty:
		return "none"
	case p.Result == infrav1.PreviewFailed, p.Result == infrav1.PreviewUnavailable:
		return strings.ToLower(string(p.Result))
	case p.Result == "":
		return ""
	case p.Changes == nil, p.Changes.Unknown != "":
		return UnknownPlan
	}
	text := CountsText(p.Changes)
	switch {
	case text == "" && p.Changes.Outputs > 0:
		text = fmt.Sprintf("outputs %d", p.Changes.Outputs)
	case text == "":
		text = fmt.Sprintf("drift %d", p.Changes.Drifted)
	}
	return text
}

// CountsText has the numbers of resources, for example "+1 ~2 -/+1"; empty without one.
func CountsText(c *infrav1.PlannedChanges) string {
	var parts []string
	for _, s := range planSigns {
		if n := c.Count(s.action); n > 0 {
			parts = append(parts, fmt.Sprintf("%s%d", s.sign, n))
		}
	}
	return strings.Join(parts, " ")
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// provenResources is how many resources a text about a proof names.
const provenResources = 5

// WhyNotEmpty describes the result of a plan that is not Empty.
func WhyNotEmpty(found infrav1.RevisionPreview) string {
	text, why := map[infrav1.PreviewResult]string{
		infrav1.PreviewChanges: "Terraform would change something", infrav1.PreviewFailed: "its plan fails", infrav1.PreviewUnavailable: "no plan is possible",
	}[found.Result], found.Message
	if what := ChangesText(found.Changes, provenResources); what != "" {
		text = "Terraform would " + what
	} else if found.Changes != nil {
		why = cmp.Or(why, found.Changes.Unknown)
	}
	if why != "" {
		text += ": " + strings.TrimSuffix(why, ".")
	}
	return text
}
