// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/test/builder"
)

// topologies is how many random fleets are planned for.
const topologies = 1500

// Whatever a fleet looks like, a plan gives every WorkspaceTemplateApply to one owner at most, and every Workspace to one
// WorkspaceTemplateApply; and never two to one.
func TestAPlanIsOneToOneForRandomTopologies(t *testing.T) {
	planned, whole, undecided, pinned := 0, 0, 0, 0
	for seed := range uint64(topologies) {
		random := rand.New(rand.NewPCG(seed, 0)) // The same topologies every time.
		fixtures := collide(t, random)
		var decisions *migrate.Decisions
		if random.IntN(2) == 0 {
			decisions = &migrate.Decisions{}
			for _, s := range fixtures {
				decisions.Owners = append(decisions.Owners, pinning(s.plane.UID, s.network.UID).Owners...)
			}
		}
		got := planFor(t, decisions, fixtures...)
		summary(got) // Every finding is documented.
		requireOneToOne(t, fmt.Sprintf("seed %d", seed), got, fixtures)
		pinned += len(created(t, got))
		for _, unit := range got.Units {
			if unit.State == plan.Adoptable {
				whole++
			}
			for _, member := range unit.Members {
				if member.State == migrate.Adoptable {
					planned++
				}
			}
		}
		undecided += len(got.Undecided())
	}
	require.Greater(t, planned, topologies, "the topologies are too bad for anything to be planned")
	require.Greater(t, whole, topologies/12, "the topologies are too bad for a unit to be adopted")
	require.Greater(t, undecided, topologies, "the topologies are too good for anything to be undecided")
	require.Greater(t, pinned, topologies/50, "nothing drifted")
}

// collide makes a few clusters in two namespaces, and lets them meet in each other's names, references, owners, templates and
// Workspaces.
func collide(t *testing.T, random *rand.Rand) (fixtures []*fixture) {
	t.Helper()
	names := []string{"demo", "demo-apply", "x", "x-vpc"}
	for _, namespace := range []string{"a", "b"} {
		for _, name := range names[:1+random.IntN(len(names))] {
			fixtures = append(fixtures, newFixture(name, namespace))
		}
	}
	anyOf := func() *fixture { return fixtures[random.IntN(len(fixtures))] }
	rarely := func(do func(s, other *fixture)) {
		for _, s := range fixtures {
			if random.IntN(4) == 0 {
				do(s, anyOf())
			}
		}
	}
	rarely(func(s, _ *fixture) {
		s.plane.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{}
	})
	rarely(func(s, _ *fixture) {
		s.network.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{}
	})
	rarely(func(s, other *fixture) {
		s.plane.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{Name: other.eks.Name}
	})
	rarely(func(s, other *fixture) { rename(s, other.name+"-eks-controlplane-apply") })
	rarely(func(s, _ *fixture) { rename(s, "demo-eks-controlplane-apply") })
	rarely(func(s, _ *fixture) { s.eks.OwnerReferences = nil })
	rarely(func(s, other *fixture) { s.eks.OwnerReferences = nil; builder.OwnedBy(other.plane)(s.eks) })
	rarely(func(s, other *fixture) { s.eks.Spec.Variables["cluster_name"] = infrav1.TextValue(other.name) })
	rarely(func(s, other *fixture) { s.eks.Status.WorkspaceName = other.eks.Status.WorkspaceName })
	rarely(func(s, other *fixture) { s.vpc.Status.WorkspaceName = other.eks.Status.WorkspaceName })
	rarely(func(s, _ *fixture) { s.eks.Status = infrav1.WorkspaceTemplateApplyStatus{} })
	rarely(func(s, other *fixture) { s.plane.Spec.ControlPlaneEndpoint.Host = other.endpoint() })
	rarely(func(s, _ *fixture) { s.plane.Spec.WorkspaceTemplateRef.Name = []string{"eks", "vpc"}[random.IntN(2)] })
	rarely(func(s, _ *fixture) {
		second := s.eks.DeepCopy()
		second.Name, second.UID = s.eks.Name+"-2", s.eks.UID+"-2"
		second.Status = infrav1.WorkspaceTemplateApplyStatus{}
		s.add(second)
	})
	if random.IntN(5) == 0 { // All are behind one proxy.
		for _, s := range fixtures {
			s.proxy = "proxy.example.com"
			s.plane.Spec.ControlPlaneEndpoint.Host = "https://" + s.proxy
		}
	}
	for _, s := range fixtures {
		if random.IntN(5) > 0 {
			s.withWorkspaces(t)
		}
	}
	rarely(func(s, _ *fixture) { s.eksTemplate.Spec.Template.Spec.ForProvider.Module += "# edited\n" })
	rarely(func(s, _ *fixture) { s.vpcTemplate.Spec.Template.Spec.ForProvider.Module += "# edited\n" })
	rarely(func(s, _ *fixture) { neverBuilt(s) })
	return fixtures
}

func requireOneToOne(t *testing.T, which string, got *plan.Plan, fixtures []*fixture) {
	t.Helper()
	owners, applies, workspaces := map[types.UID]string{}, map[types.UID]string{}, map[types.UID]string{}
	templates := map[types.UID]string{}
	references := map[string]string{}
	once := func(taken map[types.UID]string, uid types.UID, by string) {
		require.Empty(t, taken[uid], "%s: %s is taken by %s and %s", which, uid, taken[uid], by)
		taken[uid] = by
	}
	for _, unit := range got.Units {
		for _, step := range unit.Steps {
			if step.Create != nil {
				once(templates, types.UID(step.Object.String()), unit.Name())
			}
		}
		for _, member := range unit.Members {
			if member.State != migrate.Adoptable {
				continue
			}
			once(owners, member.Object.UID, member.Object.String())
			once(applies, member.WorkspaceTemplateApply.UID, member.Object.String())
			if member.Workspace != nil {
				once(workspaces, member.Workspace.UID, member.Object.String())
			}
			require.Equal(t, member.Object.Namespace, member.WorkspaceTemplateApply.Namespace, which)
			references[member.Object.Kind+member.Object.Namespace+member.WorkspaceTemplateApply.Name] = member.Object.Name
		}
	}
	// Nor does another owner's spec refer to what was planned for one.
	for _, s := range fixtures {
		if ref := s.plane.Spec.WorkspaceTemplateApplyRef; ref.IsDefined() {
			if taker := references["CAPTControlPlane"+s.namespace+ref.Name]; taker != "" {
				require.Equal(t, s.name, strings.TrimSpace(taker), "%s: %s refers to what %s gets", which, s.name, taker)
			}
		}
	}
}
