// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/test/builder"
)

const endpoint = "cluster_endpoint"

// planeAndItsApply returns a control plane of CAPT v0.3 and its WorkspaceTemplateApply, with all evidence: owner reference, name and
// status.
func planeAndItsApply() (legacy.Claimant, infrav1.WorkspaceTemplateApply) {
	plane := builder.CAPTControlPlane("demo")
	claimant := legacy.Claimant{
		Kind: "CAPTControlPlane", Object: plane, Want: legacy.ExpectationOfControlPlane(plane, "demo"),
		Outputs: map[string]string{endpoint: "own.example.com:443"},
	}
	apply := *builder.WorkspaceTemplateApply("demo-eks-controlplane-apply", eks, builder.OwnedBy(plane), builder.WithUID("own"))
	apply.Status.WorkspaceName = "demo-eks-controlplane"
	return claimant, apply
}

// Another WorkspaceTemplateApply reports the endpoint of the control plane. It is ignored only if the own one reports the same endpoint, or
// none yet. Otherwise the other one may have created the cluster.
func TestCandidateWithASharedEndpointIsDroppedOnlyIfTheOutputsAgree(t *testing.T) {
	for name, row := range map[string]struct {
		reported string
		matched  bool
	}{
		"the same endpoint": {"own.example.com:443", true},
		"no endpoint":       {"", true},
		"another endpoint":  {"other.example.com:443", false},
	} {
		t.Run(name, func(t *testing.T) {
			claimant, own := planeAndItsApply()
			other := *builder.WorkspaceTemplateApply("other", eks, builder.WithUID("other"), builder.WithVariables(map[string]string{"cluster_name": "other"}))
			outputs := map[types.UID]map[string]string{"own": {}, "other": {endpoint: "own.example.com:443"}}
			if row.reported != "" {
				outputs["own"][endpoint] = row.reported
			}
			match := legacy.MatchFleet([]legacy.Claimant{claimant}, []infrav1.WorkspaceTemplateApply{own, other}, outputs)[0]
			if !row.matched {
				assert.Nil(t, match.Apply)
				assert.NotEmpty(t, match.Problem)
				return
			}
			require.NotNil(t, match.Apply, match.Problem)
			assert.Equal(t, own.UID, match.Apply.UID)
		})
	}
}

// The reference is immutable, so the manager would use it.
func TestMatchThatSpecDoesNotReferToIsAProblem(t *testing.T) {
	claimant, own := planeAndItsApply()
	applies := []infrav1.WorkspaceTemplateApply{own}
	for name, row := range map[string]struct {
		reference     string
		chooseDecided types.UID
		matched       bool
	}{
		"no reference":                    {"", "", true},
		"a reference to the match":        {own.Name, "", true},
		"a reference to a missing object": {"missing", "", false},
		"decided, against the reference":  {"missing", own.UID, false},
		"decided, same as the reference":  {own.Name, own.UID, true},
	} {
		t.Run(name, func(t *testing.T) {
			claimant := claimant
			claimant.Reference, claimant.Decided = row.reference, row.chooseDecided
			match := legacy.MatchFleet([]legacy.Claimant{claimant}, applies, nil)[0]
			assert.Equal(t, row.matched, match.Apply != nil)
			assert.Equal(t, row.matched, match.Problem == "")
			if !row.matched {
				require.NotNil(t, match.Misreferred)
				assert.Equal(t, own.UID, match.Misreferred.UID)
				assert.Contains(t, match.Problem, "spec refers to WorkspaceTemplateApply missing, but the best match is "+own.Name)
			}
		})
	}
}
