// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

func newPause(environment *cli.Environment) *cobra.Command {
	command, _ := newChange(environment, &cobra.Command{
		Use:   "pause [NAMESPACE/]NAME",
		Short: "Pause the rollout of a WorkspaceTemplate: no further user gets the revision",
		Long: `Sets spec.rollout.state of the WorkspaceTemplate to Paused. Users that Terraform is updating finish.
The others keep their revision until captctl template resume. If the template has the default policy
of the manager (--default-rollout), that policy is written to spec.rollout.`,
		Example: "  captctl template pause team-a/vpc",
	}, decidePause)
	return command
}

func newResume(environment *cli.Environment) *cobra.Command {
	command, o := newChange(environment, &cobra.Command{
		Use:   "resume [NAMESPACE/]NAME",
		Short: "Resume the rollout of a WorkspaceTemplate that is paused, or that a failure stopped",
		Long: `Sets spec.rollout.state of the WorkspaceTemplate to Running. If the rollout stopped because the
revision fails for users or users do not finish the update, or if it waits for users that cannot be
previewed or for canaries, also sets the annotation capt.cluster.x-k8s.io/resume to the hash of the
revision, after a question: then no failure of this revision stops its rollout, canaries that fail
or do not finish are skipped, and users that cannot be previewed are left behind.`,
		Example: `  captctl template resume team-a/vpc

  # Although the revision fails for users, without a question
  captctl template resume team-a/vpc --yes`,
	}, decideResume)
	o.AddYes(command)
	return command
}

func decidePause(_ *changeOptions, s *staged) (*change, error) {
	if s.policy.State == infrav1.RolloutPaused {
		return &change{done: "the rollout is paused already"}, nil
	}
	fields := stateIs(infrav1.RolloutPaused)
	if s.byDefault { // With a state alone, the template would have another policy.
		policy := s.policy
		policy.State = infrav1.RolloutPaused
		fields = map[string]any{"rollout": policy}
	}
	patch, err := merge(map[string]any{"spec": fields})
	return &change{summary: s.warnOfState, patch: patch, done: "the rollout is paused; users that Terraform is updating finish"}, err
}

func stateIs(state infrav1.RolloutState) map[string]any {
	return map[string]any{"rollout": map[string]any{"state": string(state)}}
}

// warnOfState warns if the change of spec.rollout.state will be reverted.
func (s *staged) warnOfState(p *output.Printer) {
	if isInGit(s.template, "spec", "rollout", "state") {
		p.Text("", output.Attention, gitOpsTool(s.template)+" applies spec.rollout.state, and reverts it unless it is changed in Git as well")
	}
}

func decideResume(o *changeOptions, s *staged) (*change, error) {
	decision := rollout.Next(rollout.FactsOf(s.template, s.policy, s.history, s.users, o.Clock.Now()))
	paused, stopped := s.policy.State == infrav1.RolloutPaused, s.isStopped(decision)
	if !paused && !stopped {
		return &change{done: "the rollout is neither paused nor stopped"}, nil
	}
	fields := map[string]any{}
	c := &change{summary: s.warnOfState, done: "the rollout is not paused"}
	if paused {
		fields["spec"] = stateIs(infrav1.RolloutRunning)
	}
	if target := s.target(); stopped {
		fields["metadata"] = map[string]any{"annotations": map[string]any{naming.ResumeAnnotation: target.Hash}}
		c.summary = func(p *output.Printer) {
			p.Text("", output.Bad, fmt.Sprintf("%s: %s", s, s.whyStopped(decision)))
			p.Linef("If it continues, no failure of this revision stops it. Waiting: %s.", output.Count(len(decision.Waiting), "user"))
			if paused {
				s.warnOfState(p)
			}
		}
		c.question, c.done = "continue the rollout of "+name(target)+" "+despite(decision), "the rollout of "+name(target)+" continues, whatever fails"
	}
	var err error
	c.patch, err = merge(fields)
	return c, err
}

// fails reports whether the revision fails for users, which the user of the command may not see, rather than that the rollout waits for them.
func fails(decision rollout.Decision) bool { return len(decision.Failed) > 0 || !decision.Resumable }

// whyStopped is why the rollout does not continue without a resume.
func (s *staged) whyStopped(decision rollout.Decision) string {
	if !fails(decision) {
		return decision.Message
	}
	return fmt.Sprintf("%s fails for %s", name(s.target()), cmp.Or(rollout.Names(decision.Failed), "users that you may not read"))
}

// despite is what a resume ignores.
func despite(decision rollout.Decision) string {
	if fails(decision) {
		return "although it fails for users"
	}
	return "without what it waits for"
}
