// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/builder"
)

const guide = "../../docs/migration-reference.md"

// documentedReason is a row of the table of reasons in docs/migration-reference.md.
type documentedReason struct{ name, severities, meaning, wayOut string }

// documentedReasons reads the table.
var documentedReasons = sync.OnceValue(func() (reasons []documentedReason) {
	data, err := os.ReadFile(guide)
	if err != nil {
		panic(err)
	}
	_, rest, _ := strings.Cut(string(data), "<!-- reasons of findings -->")
	table, _, _ := strings.Cut(rest, "<!-- end of reasons -->")
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (.+?) \\| (.+) \\| (.+) \\|$").FindAllStringSubmatch(table, -1) {
		reasons = append(reasons, documentedReason{row[1], row[2], row[3], row[4]})
	}
	return reasons
})

// requireDocumented panics for a finding whose reason or severity is not in the table, or that suggests to delete an object while CAPT v0.3
// would destroy what it created. Every plan of the tests goes through it.
func requireDocumented(finding migrate.Finding) {
	known := slices.ContainsFunc(documentedReasons(), func(reason documentedReason) bool {
		return reason.name == finding.Reason && slices.Contains(strings.Split(reason.severities, ", "), string(finding.Severity))
	})
	if strings.Contains(finding.Message, "delete") && strings.Contains(finding.Message, "it is not") && !strings.Contains(finding.Message, "stop CAPT v0.3") {
		panic(finding.Message)
	}
	if !known {
		panic(fmt.Sprintf("%s %s is not in %s", finding.Severity, finding.Reason, guide))
	}
}

func TestEveryReasonIsDocumented(t *testing.T) {
	source, err := os.ReadFile("planner.go")
	require.NoError(t, err)
	var declared, documented []string
	for _, match := range regexp.MustCompile(`(?m)^\tReason\w+\s+= "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		declared = append(declared, match[1])
	}
	for _, reason := range documentedReasons() {
		documented = append(documented, reason.name)
		assert.NotContains(t, reason.wayOut, "skip", "skipping it does not resolve it")
	}
	assert.ElementsMatch(t, declared, documented)
}

// situation is how a finding comes about, and how it is solved.
type situation struct {
	arrange func(t *testing.T, s *fixture)
	// solve edits what is there, as the way out says, or decides.
	solve func(t *testing.T, s *fixture) *migrate.Decisions
	// other is a second fixture.
	other *fixture
}

func decideOwner(decision migrate.OwnerDecision) *migrate.Decisions {
	return &migrate.Decisions{Owners: []migrate.OwnerDecision{decision}}
}

// situations has one for each reason.
func situations() map[string]situation {
	eksWorkspace := func(s *fixture) *unstructured.Unstructured { return s.more[1].(*unstructured.Unstructured) }
	edit := func(change func(s *fixture)) func(*testing.T, *fixture) *migrate.Decisions {
		return func(_ *testing.T, s *fixture) *migrate.Decisions { change(s); return nil }
	}
	pin := func(_ *testing.T, s *fixture) *migrate.Decisions {
		return decideOwner(migrate.OwnerDecision{UID: s.plane.UID, Pin: true})
	}
	arrange := func(change func(s *fixture)) func(*testing.T, *fixture) {
		return func(_ *testing.T, s *fixture) { change(s) }
	}
	return map[string]situation{
		planner.ReasonMultipleCandidates: {
			arrange: arrange(func(s *fixture) { s.eks.OwnerReferences[0].UID = "other" }),
			solve: func(_ *testing.T, s *fixture) *migrate.Decisions {
				s.eks.OwnerReferences = nil
				return decideOwner(migrate.OwnerDecision{UID: s.plane.UID, Take: s.eks.UID})
			},
		},
		planner.ReasonWorkspaceShared: {
			other:   newFixture("demo", "team-b"),
			arrange: func(*testing.T, *fixture) {},
			solve: func(_ *testing.T, s *fixture) *migrate.Decisions {
				return &migrate.Decisions{Workspaces: []migrate.WorkspaceDecision{
					{UID: "Workspace/demo-vpc", BelongsTo: s.vpc.UID}, {UID: "Workspace/demo-eks-controlplane", BelongsTo: s.eks.UID},
				}}
			},
		},
		planner.ReasonBeingDeleted: {
			arrange: arrange(func(s *fixture) { builder.Deleting()(s.plane) }),
			solve:   edit(func(s *fixture) { s.gone[s.plane], s.gone[s.eks], s.gone[s.more[1]] = true, true, true }),
		},
		planner.ReasonReferenceDiffers: {
			arrange: arrange(func(s *fixture) { s.plane.Spec.WorkspaceTemplateApplyRef.Name = "another" }),
			solve:   edit(func(s *fixture) { s.plane.Spec.WorkspaceTemplateApplyRef.Name = s.eks.Name }),
		},
		planner.ReasonWorkspaceTemplateApplyNotFound: {
			arrange: arrange(func(s *fixture) { s.gone[s.eks] = true }),
			solve:   edit(func(s *fixture) { delete(s.gone, s.eks) }),
		},
		planner.ReasonWorkspaceNotRecorded: {
			arrange: func(t *testing.T, s *fixture) {
				s.vpcTemplate.Spec.Template.Spec.WriteConnectionSecretToRef = nil
				s.more[0] = s.live(t, s.vpc, s.vpcTemplate, nil)
				s.vpc.Status = infrav1.WorkspaceTemplateApplyStatus{}
			},
			solve: func(_ *testing.T, s *fixture) *migrate.Decisions {
				return &migrate.Decisions{Workspaces: []migrate.WorkspaceDecision{{UID: "Workspace/demo-vpc", BelongsTo: s.vpc.UID}}}
			},
		},
		planner.ReasonPermissionRequired: {
			arrange: arrange(func(s *fixture) {
				s.eksTemplate.Namespace = "shared"
				s.eks.Spec.TemplateRef.Namespace, s.plane.Spec.WorkspaceTemplateRef.Namespace = "shared", "shared"
				s.eks.Status = infrav1.WorkspaceTemplateApplyStatus{}
			}),
			solve: func(_ *testing.T, s *fixture) *migrate.Decisions {
				return decideOwner(migrate.OwnerDecision{UID: s.plane.UID, Permit: true})
			},
		},
		planner.ReasonWorkspaceNotFound: {
			arrange: arrange(func(s *fixture) { s.gone[s.more[1]] = true }),
			solve:   edit(func(s *fixture) { delete(s.gone, s.more[1]) }),
		},
		planner.ReasonWorkspaceClaimed: {
			arrange: arrange(func(s *fixture) {
				eksWorkspace(s).SetAnnotations(map[string]string{naming.ClaimAnnotation: "team-b/another"})
			}),
			solve: edit(func(s *fixture) { eksWorkspace(s).SetAnnotations(nil) }),
		},
		planner.ReasonWorkspaceTemplateNotFound: {arrange: arrange(func(s *fixture) { s.gone[s.eksTemplate] = true }), solve: pin},
		planner.ReasonWorkspaceDiffers:          {arrange: arrange(func(s *fixture) { s.plane.Spec.Version = "v1.32.0" }), solve: pin},
		planner.ReasonRenderFailed: {
			arrange: arrange(func(s *fixture) { s.plane.Spec.Version = "latest" }),
			solve:   edit(func(s *fixture) { s.plane.Spec.Version = "v1.31.0" }),
		},
		planner.ReasonPinFailed: {
			arrange: arrange(func(s *fixture) { s.eks.Spec.WriteConnectionSecretToRef.Name = "another" }),
			solve: func(t *testing.T, s *fixture) *migrate.Decisions {
				s.eks.Spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "demo-eks-connection", Namespace: "team-a"}
				return pin(t, s)
			},
		},
		planner.ReasonDeletionPolicyDiffers: {
			arrange: arrange(func(s *fixture) { s.vpc.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain }),
			solve:   edit(func(s *fixture) { s.network.Spec.VPC.Template.DeletionPolicy = infrav1.DeletionPolicyRetain }),
		},
		planner.ReasonFargateProfileConflict: {
			arrange: func(t *testing.T, s *fixture) {
				template := s.template("fargate", "cluster_name", "profile_name")
				apply := s.apply("demo-web-fargate-apply", "fargate", map[string]string{"cluster_name": "demo", "profile_name": "web"})
				s.add(template, apply, s.live(t, apply, template, nil))
				s.plane.Spec.FargateProfiles = []controlplanev1.FargateProfile{{Name: "web"}}
			},
			solve: edit(func(s *fixture) { s.plane.Spec.FargateProfiles = nil }),
		},
		planner.ReasonTooManyNamespaces: {
			arrange: arrange(func(s *fixture) {
				s.eksTemplate.Namespace = "shared"
				s.eks.Spec.TemplateRef.Namespace, s.plane.Spec.WorkspaceTemplateRef.Namespace = "shared", "shared"
				names := make([]string, 256)
				for i := range names {
					names[i] = fmt.Sprintf("other-%d", i)
				}
				s.eksTemplate.Spec.AllowedNamespaces = infrav1.AllowedNamespaces{Names: names}
			}),
			solve: edit(func(s *fixture) { s.eksTemplate.Spec.AllowedNamespaces.Names = []string{"*"} }),
		},
		planner.ReasonSkipped: {solve: edit(func(*fixture) {})},
		planner.ReasonNeverBuilt: {
			arrange: arrange(func(s *fixture) {
				s.gone[s.eks], s.gone[s.more[1]] = true, true
				s.plane.Spec.WorkspaceTemplateApplyRef, s.plane.Spec.ControlPlaneEndpoint.Host = infrav1.WorkspaceTemplateApplyReference{}, ""
			}),
			solve: edit(func(s *fixture) { s.gone[s.plane] = true }),
		},
		planner.ReasonMachineNotAdopted: {
			arrange: func(t *testing.T, s *fixture) { withMachine(t, s) },
			solve: func(_ *testing.T, s *fixture) *migrate.Decisions {
				uid := s.more[3].GetUID()
				return decideOwner(migrate.OwnerDecision{UID: uid, Take: uid})
			},
		},
		planner.ReasonPendingChange: {
			arrange: arrange(func(s *fixture) {
				adopt(s.vpc, s.eks)
				s.eks.Spec.Variables["region"] = infrav1.TextValue("eu-west-1")
			}),
			solve: edit(func(s *fixture) { s.eks.Spec.Variables["region"] = infrav1.TextValue(builder.Region) }),
		},
		planner.ReasonPaused: {
			arrange: arrange(func(s *fixture) { s.cluster.Spec.Paused = ptr.To(true) }),
			solve:   edit(func(s *fixture) { s.cluster.Spec.Paused = nil }),
		},
		planner.ReasonPermissionGranted: {
			arrange: arrange(func(s *fixture) {
				s.eksTemplate.Namespace = "shared"
				s.eks.Spec.TemplateRef.Namespace, s.plane.Spec.WorkspaceTemplateRef.Namespace = "shared", "shared"
			}),
			solve: edit(func(s *fixture) {
				s.eksTemplate.Spec.AllowedNamespaces = infrav1.AllowedNamespaces{Names: []string{"team-a"}}
			}),
		},
		planner.ReasonInvalidClusterEndpoint: {
			arrange: arrange(func(s *fixture) {
				s.cluster.Spec.ControlPlaneEndpoint.Host, s.cluster.Spec.ControlPlaneRef.Kind = "https://"+s.endpoint(), "CAPTControlPlane"
			}),
			solve: edit(func(s *fixture) { s.cluster.Spec.ControlPlaneEndpoint.Host = s.endpoint() }),
		},
	}
}

// Every reason has a way out that ends: once it is gone, the finding is gone, and nothing else blocks.
func TestEveryReasonHasAWayOut(t *testing.T) {
	all := situations()
	for _, reason := range documentedReasons() {
		t.Run(reason.name, func(t *testing.T) {
			situation, has := all[reason.name]
			require.True(t, has)
			s := newFixture("demo", "team-a").withWorkspaces(t)
			fixtures := []*fixture{s}
			if situation.other != nil {
				fixtures = append(fixtures, situation.other)
			}
			var decisions *migrate.Decisions
			if situation.arrange != nil {
				situation.arrange(t, s)
			} else {
				decisions = decideOwner(migrate.OwnerDecision{UID: s.plane.UID, Skip: true})
			}
			if reason.name == planner.ReasonPinFailed {
				decisions = decideOwner(migrate.OwnerDecision{UID: s.plane.UID, Pin: true})
			}
			before := planFor(t, decisions, fixtures...)
			require.Contains(t, reasonsOf(before), reason.name, "%v", summary(before))
			for _, finding := range before.Findings {
				if finding.Reason == reason.name && strings.Contains(finding.Message, "skip: true") {
					assert.NotRegexp(t, `^[^.]*$`, finding.Message, "to leave it is not all that the message says")
				}
			}

			after := planFor(t, situation.solve(t, s), fixtures...)
			assert.NotContains(t, reasonsOf(after), reason.name, "%v", summary(after))
			assert.Empty(t, after.Undecided(), "%v", summary(after))
		})
	}
}

func reasonsOf(plan *plan.Plan) (reasons []string) {
	for _, finding := range plan.Findings {
		reasons = append(reasons, finding.Reason)
	}
	return reasons
}
