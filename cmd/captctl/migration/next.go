// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
)

// preparation is what the commands of a check are for, in the order in which they are run: a tool that is not suspended starts CAPT v0.3
// again, and CAPT v0.3 needs its definitions while it runs.
var preparation = []struct{ check, step string }{
	{check.CheckPermissions, "Get the missing rights."},
	{check.CheckClusterAPI, "Upgrade Cluster API."},
	{check.CheckCertManager, "Install cert-manager."},
	{check.CheckInstallers, "Suspend the tools that installed CAPT v0.3, and make them keep its definitions."},
	{check.CheckLegacy, "Stop CAPT v0.3."},
	{check.CheckDefinitions, "Export and delete the kind CaptControlPlaneTemplate, which Cluster API could never use."},
	{check.CheckJournal, "Create the namespace of captctl's journal."},
	{check.CheckManager, "Start the manager."},
}

var install = view.Next{Step: "Install this version completely, in a clone of https://github.com/capt-provider/capt with the image that docs/install.md builds. " +
	"It writes nothing of v0.3's until it is adopted, and from here on every write of CAPT's objects needs its webhooks.", Commands: []string{
	`(cd config/manager && kustomize edit set image "capt-manager=${IMAGE:?set it to REGISTRY/capt-manager:TAG}") &&`,
	"kubectl apply --server-side --force-conflicts -k config/default &&",
	"kubectl -n capt-system rollout status deployment/capt-manager",
}}

// nextSteps are the steps from what was found to the end of the migration, in order. The plan is nil if the fleet could not be read.
func nextSteps(report *check.Report, fleet *plan.Plan) []view.Next {
	steps := prepare(report, fleet)
	if fleet == nil || len(report.Failed()) > 0 {
		return append(steps, view.Next{Step: "Do what the failed checks say, and run the check again.", Commands: []string{"captctl migrate check"}})
	}
	units := map[plan.UnitState]int{}
	for i := range fleet.Units {
		units[fleet.Units[i].State]++
	}
	if units[plan.Adoptable]+units[plan.NeedsDecision]+units[plan.Blocked] == 0 {
		if units[plan.Adopted] == 0 {
			return append(steps, view.Next{Step: "There is nothing to adopt."})
		}
		return append(steps,
			view.Next{Step: "Everything is adopted. See whether it stays so.", Commands: []string{"captctl migrate status"}},
			view.Next{Step: "Convert the manifests in Git, and resume the tools that apply them.", Commands: []string{"captctl convert -f manifests/ -R --from-cluster --write"}},
		)
	}
	if report.Stage == check.Untouched {
		steps = append(steps, install)
	}
	return append(steps, adopt(fleet)...)
}

// prepare are the steps that checks and findings have commands for.
func prepare(report *check.Report, fleet *plan.Plan) (steps []view.Next) {
	for _, known := range preparation {
		var commands []string
		for _, c := range report.Checks {
			if c.Name == known.check && c.Status != check.OK {
				commands = append(commands, c.Commands...)
			}
		}
		if known.check == check.CheckDefinitions && fleet != nil && len(commands) == 0 {
			commands = commandsOf(fleet.Findings)
		}
		if len(commands) > 0 {
			steps = append(steps, view.Next{Step: known.step, Commands: commands})
		}
	}
	return steps
}

// commandsOf are the lines of the finding about a renamed kind that are commands.
func commandsOf(findings []migrate.Finding) (commands []string) {
	for _, finding := range findings {
		for line := range strings.Lines(finding.Message) {
			if finding.Reason == planner.ReasonTemplateKindRenamed && strings.HasPrefix(line, "kubectl ") {
				commands = append(commands, strings.TrimSpace(line))
			}
		}
	}
	return commands
}

// adopt are the steps from a plan to the end.
func adopt(fleet *plan.Plan) []view.Next {
	create := "captctl migrate plan --out plan.json"
	if fleet.Namespace != "" {
		create = fmt.Sprintf("captctl migrate plan --namespace %s --out plan.json", fleet.Namespace)
	}
	planning := view.Next{Step: "Plan, and look at what will be written.", Commands: []string{create, "captctl migrate show plan.json --diff"}}
	if len(fleet.Undecided()) > 0 || view.Repeated(fleet) {
		planning.Step = "Plan, with the decisions above saved as decisions.yaml. Without it, the rest is planned."
		planning.Commands[0] += " --decisions decisions.yaml"
	}
	steps := []view.Next{planning}
	first := slices.IndexFunc(fleet.Units, func(unit plan.Unit) bool { return unit.State == plan.Adoptable && unit.Object.Kind == "Cluster" })
	if first >= 0 {
		steps = append(steps, view.Next{Step: "Adopt one Cluster. A backup is taken first.", Commands: []string{"captctl migrate apply plan.json --cluster " + fleet.Units[first].Name()}})
	}
	return append(steps, view.Next{Step: "Adopt the rest.", Commands: []string{"captctl migrate apply plan.json", "captctl migrate status"}})
}
