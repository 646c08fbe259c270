// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
)

// preparation has the steps of which checks have the commands, in the order in which they must be run: a tool that is not suspended starts CAPT
// v0.3 again, and CAPT v0.3 needs its definitions while it runs.
var preparation = []struct{ check, step string }{
	{checkInterrupted, "Resume the interrupted units, or roll them back."},
	{check.CheckPermissions, "Grant the missing permissions."},
	{check.CheckClusterAPI, "Upgrade Cluster API."},
	{check.CheckCertManager, "Install cert-manager."},
	{check.CheckInstallers, "Suspend the tools that installed CAPT v0.3, and make them keep its definitions."},
	{check.CheckLegacy, "Stop CAPT v0.3."},
	{check.CheckDefinitions, "Delete the kind CaptControlPlaneTemplate, which Cluster API could never use."},
	{check.CheckJournal, "Create the namespace of captctl's journal."},
	{check.CheckManager, "Start the manager."},
}

var install = view.Next{Step: "Install this version completely, in a clone of https://github.com/capt-provider/capt with the image that docs/install.md builds. " +
	"It does not modify objects of CAPT v0.3 before their adoption. From now on, every write to an object of CAPT requires its webhooks.", Commands: []string{
	`(cd config/manager && kustomize edit set image "capt-manager=${IMAGE:?set it to REGISTRY/capt-manager:TAG}") &&`,
	"kubectl apply --server-side --force-conflicts -k config/default &&",
	"kubectl -n capt-system rollout status deployment/capt-manager",
}}

// nextSteps are the steps from what was found to the end of the migration, in order. The fleet is nil if it could not be read.
func (c *common) nextSteps(report *check.Report, fleet *status.Fleet) []view.Next {
	steps := prepare(report)
	if fleet == nil || len(report.Failed()) > 0 {
		return append(steps, view.Next{Step: "Resolve the failed checks, and run the check again.", Commands: []string{"captctl migrate check"}})
	}
	left, repairs := view.InState(fleet.Plan, plan.Adoptable, plan.NeedsDecision, plan.Blocked), view.Repairs(fleet.Plan)
	if left+view.InState(fleet.Plan, plan.Adopted) == 0 {
		return append(steps, view.Next{Step: "There is nothing to adopt."})
	}
	if left+repairs > 0 && report.Stage == check.Untouched {
		steps = append(steps, install)
	}
	switch {
	case left > 0:
		return append(steps, c.adopt(fleet)...)
	case repairs > 0:
		steps = append(steps, c.planning(fleet), view.Next{Step: "Repair the endpoints of Clusters, see InvalidClusterEndpoint.", Commands: view.ApplyCommands(fleet, "plan.json")})
	}
	return append(steps,
		view.Next{Step: "Nothing is left to adopt, except what decisions skip. Convert the manifests in Git, and resume the tools that apply them.", Commands: []string{"captctl convert -f manifests/ -R --from-cluster --write"}},
		view.Next{Step: "Check the status again later.", Commands: []string{"captctl migrate status"}},
	)
}

// prepare returns the steps for which the checks have commands. They concern all namespaces.
func prepare(report *check.Report) (steps []view.Next) {
	for _, known := range preparation {
		var commands []string
		for _, c := range report.Checks {
			if c.Name == known.check && c.Status != check.OK {
				commands = append(commands, c.Commands...)
			}
		}
		if len(commands) > 0 {
			steps = append(steps, view.Next{Step: known.step, Commands: commands})
		}
	}
	return steps
}

// adopt returns the steps from a plan to the end of the migration.
func (c *common) adopt(fleet *status.Fleet) (steps []view.Next) {
	rest := fleet.NotYetApplied()
	if len(rest) > 0 {
		steps = append(steps, view.Next{
			Step:     fmt.Sprintf("Plan %s is partly applied: %s left. Apply the rest.", fleet.Last.ID, output.Count(len(rest), "unit")),
			Commands: []string{"captctl migrate apply " + fleet.Last.ID, "captctl migrate status"},
		})
		if len(rest) == view.InState(fleet.Plan, plan.Adoptable) && len(fleet.Undecided()) == 0 {
			return steps
		}
	}
	steps = append(steps, c.planning(fleet))
	commands := view.ApplyCommands(fleet, "plan.json")
	if len(commands) > 1 {
		steps = append(steps, view.Next{Step: "Adopt one Cluster. A backup is taken first.", Commands: commands[:1]})
	}
	return append(steps, view.Next{Step: "Adopt the rest.", Commands: []string{commands[len(commands)-1], "captctl migrate status"}})
}

// planning is the step that creates a plan. It needs the decisions that were made for earlier plans, too.
func (c *common) planning(fleet *status.Fleet) view.Next {
	step, decisions := "Create a plan, and review what it will write.", ""
	if len(fleet.Undecided()) > 0 || view.NeedsDecisionsAgain(fleet.Plan) {
		step, decisions = "Save the decisions above as decisions.yaml, and create a plan. Without the file, only units that need no decision are planned.", "decisions.yaml"
	}
	return view.Next{Step: step, Commands: []string{c.planCommand(decisions) + " --out plan.json"}}
}

// planCommand is the command that plans the same, with the file of decisions.
func (c *common) planCommand(decisions string) string {
	command := "captctl migrate plan"
	for _, flag := range []struct{ name, value, usual string }{
		{"namespace", c.Access.Only(), ""}, {"decisions", decisions, ""}, {"journal-namespace", c.journal, defaultJournalNamespace},
	} {
		if flag.value != flag.usual {
			command += " --" + flag.name + " " + flag.value
		}
	}
	for _, cluster := range c.clusters {
		command += view.Selection(cluster)
	}
	return command
}
