// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package fargate_test plays the life of Fargate profiles on whole clusters: Cluster API, CAPT and Kubernetes are real, and
// Terraform follows a script.
package fargate_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// shared is the control plane of all tests of the package.
var shared *fixture.Server

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, &shared)) }

// inEitherScope runs a test with Workspaces of one scope, or of both (see fixture.Sample).
func inEitherScope(t *testing.T, test func(env *environment)) {
	t.Helper()
	shared.InEitherScope(t, func(env *fixture.Environment) { test(&environment{env}) })
}

// environment is a namespace with a Cluster that has Fargate profiles.
type environment struct {
	*fixture.Environment
}

func newEnvironment(t *testing.T, scope terraform.Scope) *environment {
	t.Helper()
	return &environment{shared.NewEnvironment(t, scope)}
}

// start makes the cluster with profiles of these names.
func (env *environment) start(profiles ...string) {
	env.Helper()
	env.User(append(env.FargateTemplates(), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), controlPlane(profiles...))...)
}

// controlPlane has profiles of these names, each for the namespace of its name; "a=x" is for another one.
func controlPlane(profiles ...string) string {
	lines := []string{"fargateProfiles:"}
	for _, profile := range profiles {
		name, namespace, other := strings.Cut(profile, "=")
		if !other {
			namespace = name
		}
		lines = append(lines, fmt.Sprintf("- {name: %s, selectors: [{namespace: %s, labels: {compute: fargate}}], workspaceTemplateRef: {name: fargate}}", name, namespace))
	}
	if len(profiles) == 0 {
		lines = nil
	}
	return fixture.CAPTControlPlane(fixture.Demo, lines...)
}

// apply is the name of the WorkspaceTemplateApply of a profile.
func apply(profile string) string { return naming.FargateWorkspaceTemplateApply(fixture.Demo, profile) }

// live is the control plane as it is.
func (env *environment) live() *controlplanev1.CAPTControlPlane {
	env.Helper()
	controlPlane := &controlplanev1.CAPTControlPlane{}
	require.True(env, env.Exists(controlPlane, fixture.Demo))
	return controlPlane
}

// profiles returns the status of the profiles: name, ready or not, and why not.
func (env *environment) profiles() (eventLines []string) {
	env.Helper()
	controlPlane := &controlplanev1.CAPTControlPlane{}
	if !env.Exists(controlPlane, fixture.Demo) {
		return nil
	}
	for _, s := range controlPlane.Status.FargateProfiles {
		line := s.Name + " is not ready"
		if s.Ready == metav1.ConditionTrue {
			line = s.Name + " is ready"
		}
		if s.FailureReason != "" {
			line += ": " + s.FailureReason
		}
		eventLines = append(eventLines, line)
	}
	return eventLines
}

// awaitProfiles waits until the status of the profiles is as given.
func (env *environment) awaitProfiles(want ...string) {
	env.Helper()
	env.Eventually(func() string {
		got := env.profiles()
		return fixture.Unless(slices.Equal(got, want), "the profiles are %q, and not %q", got, want)
	})
}

// slowDown lets the operations of profiles take a while, so that another one beside them would be seen.
func (env *environment) slowDown(profiles ...string) {
	env.Helper()
	for _, profile := range profiles {
		env.SetScript(apply(profile), scripted.Script{Apply: scripted.Step{Delay: aWhile}, Destroy: scripted.Step{Delay: aWhile}})
	}
}

// work is what Terraform did for Workspaces of the profiles, in the order in which it began.
func (env *environment) work(profiles ...string) (work []scripted.Entry) {
	env.Helper()
	for _, profile := range profiles {
		for _, operation := range []scripted.Operation{scripted.Apply, scripted.Destroy} {
			work = append(work, env.Operations(apply(profile), operation)...)
		}
	}
	slices.SortFunc(work, func(a, b scripted.Entry) int { return a.Start.Compare(b.Start) })
	return work
}

// requireOneAtATime proves that no two of the operations overlap.
func (env *environment) requireOneAtATime(work []scripted.Entry) {
	env.Helper()
	for i := 1; i < len(work); i++ {
		before, next := work[i-1], work[i]
		require.False(env, before.End.IsZero(), "%s of %s has not ended", before.Operation, before.Name)
		require.False(env, next.Start.Before(before.End), "%s of %s began at %s, before %s of %s ended at %s",
			next.Operation, next.Name, next.Start, before.Operation, before.Name, before.End)
	}
}

// eventLines are the events about the profiles, in the order in which they happened.
func (env *environment) eventLines() (lines []string) {
	env.Helper()
	for _, event := range env.Events() {
		if event.Action == "FargateProfile" {
			lines = append(lines, event.Type+" "+event.Reason+": "+event.Note)
		}
	}
	return lines
}
