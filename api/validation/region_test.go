// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/test/builder"
)

func TestTheRegionsOfANetworkAndItsControlPlaneAgree(t *testing.T) {
	foreign := builder.With(func(c *clusterv1.Cluster) {
		c.Spec.InfrastructureRef.Kind, c.Spec.ControlPlaneRef.Kind = "DockerCluster", "KubeadmControlPlane"
	})
	for name, row := range map[string]struct {
		cluster  *clusterv1.Cluster // Nil while there is none.
		region   string             // Of the control plane.
		conflict bool
	}{
		"the same":                        {builder.Cluster("demo"), builder.Region, false},
		"that of the network, by default": {builder.Cluster("demo"), "", false},
		"another":                         {builder.Cluster("demo"), "us-gov-west-1", true},
		"another, but no Cluster yet":     {nil, "us-gov-west-1", false},
		"another, of another Cluster":     {builder.Cluster("other"), "us-gov-west-1", false},
		"another, and other providers":    {builder.Cluster("demo", foreign), "us-gov-west-1", false},
	} {
		t.Run(name, func(t *testing.T) {
			network, controlPlane := builder.CAPTCluster("demo"), builder.CAPTControlPlane("demo", builder.WithRegion(row.region))
			world := newWorld(network, controlPlane, complete("vpc"), complete("eks"))
			if row.cluster != nil {
				world = newWorld(network, controlPlane, complete("vpc"), complete("eks"), row.cluster)
			}
			ofNetwork, err := owners.CAPTCluster(t.Context(), world, network)
			require.NoError(t, err)
			ofControlPlane, err := owners.CAPTControlPlane(t.Context(), world, controlPlane)
			require.NoError(t, err)
			var want []finding
			if row.conflict {
				want = []finding{{"spec.region", field.ErrorTypeInvalid,
					"CAPTControlPlane demo is in region us-gov-west-1, but CAPTCluster demo of the same Cluster is in region ap-northeast-1"}}
			}
			assertRefused(t, ofNetwork.Errors, want...)
			assertRefused(t, ofControlPlane.Errors, want...)
		})
	}
}

func TestAMissingRegionDoesNotConflict(t *testing.T) {
	world := newWorld(builder.Cluster("demo"), complete("vpc"), complete("eks"))
	ofNetwork, err := owners.CAPTCluster(t.Context(), world, builder.CAPTCluster("demo"))
	require.NoError(t, err)
	assertRefused(t, ofNetwork.Errors)
	ofControlPlane, err := owners.CAPTControlPlane(t.Context(), world, builder.CAPTControlPlane("demo", builder.WithRegion("us-gov-west-1")))
	require.NoError(t, err)
	assertRefused(t, ofControlPlane.Errors)
}

// The control plane is in use with a WorkspaceTemplateApply for a region, and the Cluster has a network or none.
func TestAClusterDoesNotMoveToAnotherRegion(t *testing.T) {
	const here, there = builder.Region, "us-east-1"
	for name, row := range map[string]struct {
		handed  string // Nothing was when empty.
		network string // There is none when empty.
		region  string
		refused string
	}{
		"nothing was handed over":           {"", "", there, ""},
		"the same":                          {here, "", here, ""},
		"another":                           {here, "", there, "the control plane exists in region ap-northeast-1 and cannot move to us-east-1"},
		"that of its network":               {here, here, "", ""},
		"another than that of its network":  {here, here, there, "the control plane exists in region ap-northeast-1 and cannot move to us-east-1"},
		"removed, and the network is there": {here, there, "", "Set spec.infrastructureRef of the Cluster to a CAPTCluster in ap-northeast-1"},
		"removed, and there is no network":  {here, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			controlPlane := builder.CAPTControlPlane("demo", builder.WithApplyRef("demo-eks-controlplane-apply"), builder.WithRegion(row.region))
			objects := []validation.Owner{controlPlane, builder.Cluster("demo"), complete("eks"), builder.WorkspaceTemplateApply("demo-eks-controlplane-apply",
				builder.OwnedBy(controlPlane), builder.WithVariables(map[string]string{"cluster_name": "demo", "region": row.handed}), ofTemplate("eks"))}
			if row.network != "" {
				objects = append(objects, builder.CAPTCluster("demo", builder.WithRegion(row.network)))
			}
			got, err := owners.CAPTControlPlane(t.Context(), newWorld(objects...), controlPlane)
			require.NoError(t, err)
			assertRefused(t, got.Errors, refusedIf("spec.region", row.refused)...)
		})
	}
}

// Both were applied before the Cluster, so that admission could not compare them. Nothing is built.
func TestTheWaysOutOfTwoRegions(t *testing.T) {
	check := func(t *testing.T, controlPlane *controlplanev1.CAPTControlPlane, network *infrav1.CAPTCluster, want ...finding) {
		t.Helper()
		objects := []validation.Owner{builder.Cluster("demo"), complete("vpc"), complete("eks"), controlPlane}
		if network != nil {
			objects = append(objects, network)
			ofNetwork, err := owners.CAPTCluster(t.Context(), newWorld(objects...), network)
			require.NoError(t, err)
			assertRefused(t, ofNetwork.Errors, want...)
		}
		ofControlPlane, err := owners.CAPTControlPlane(t.Context(), newWorld(objects...), controlPlane)
		require.NoError(t, err)
		assertRefused(t, ofControlPlane.Errors, want...)
	}
	plane := func(region string) *controlplanev1.CAPTControlPlane {
		return builder.CAPTControlPlane("demo", builder.WithRegion(region), builder.WithApplyRef("demo-eks-controlplane-apply"))
	}
	network := func(region string) *infrav1.CAPTCluster {
		return builder.CAPTCluster("demo", builder.WithRegion(region))
	}
	const wayOut = "Remove spec.region of the CAPTControlPlane, or set spec.infrastructureRef of the Cluster to a CAPTCluster in the same region"

	check(t, plane("us-east-1"), network("eu-west-1"), finding{"spec.region", field.ErrorTypeInvalid, wayOut})
	check(t, plane(""), network("eu-west-1"))
	check(t, plane("eu-west-1"), network("eu-west-1"))
	check(t, plane("us-east-1"), network("us-east-1"))
	check(t, plane("eu-central-1"), nil)
	check(t, plane("eu-central-1"), network("eu-central-1"))
}

func TestAConflictOffersOnlyWhatIsPossible(t *testing.T) {
	controlPlane, network := builder.CAPTControlPlane("demo", builder.WithRegion("us-east-1")), builder.CAPTCluster("demo")
	for handed, text := range map[string]string{
		"":             ". Remove spec.region of the CAPTControlPlane, or set spec.infrastructureRef of the Cluster to a CAPTCluster in the same region",
		"us-east-1":    ". Set spec.infrastructureRef of the Cluster to a CAPTCluster in the region of the control plane that has its VPC",
		builder.Region: ". Remove spec.region of the CAPTControlPlane",
	} {
		apply := builder.WorkspaceTemplateApply("x", builder.WithVariables(map[string]string{"region": handed}))
		require.ErrorContains(t, owners.RegionConflict(controlPlane, network, apply), "is in region ap-northeast-1"+text)
	}
}
