/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package validation_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/validation"
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
			world := newWorld(network, controlPlane, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplate("eks"))
			if row.cluster != nil {
				world = newWorld(network, controlPlane, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplate("eks"), row.cluster)
			}
			ofNetwork, err := validation.CAPTCluster(t.Context(), world, network)
			require.NoError(t, err)
			ofControlPlane, err := validation.CAPTControlPlane(t.Context(), world, controlPlane)
			require.NoError(t, err)
			var want []finding
			if row.conflict {
				want = []finding{{"spec.region", field.ErrorTypeInvalid,
					"CAPTControlPlane demo is for region us-gov-west-1, but CAPTCluster demo of the same Cluster is in ap-northeast-1; remove spec.region of the CAPTControlPlane, or correct one of the two"}}
			}
			assertRefused(t, ofNetwork.Errors, want...)
			assertRefused(t, ofControlPlane.Errors, want...)
		})
	}
}

func TestARegionThatIsNotThereYetIsNoConflict(t *testing.T) {
	world := newWorld(builder.Cluster("demo"), builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplate("eks"))
	ofNetwork, err := validation.CAPTCluster(t.Context(), world, builder.CAPTCluster("demo"))
	require.NoError(t, err)
	assertRefused(t, ofNetwork.Errors)
	ofControlPlane, err := validation.CAPTControlPlane(t.Context(), world, builder.CAPTControlPlane("demo", builder.WithRegion("us-gov-west-1")))
	require.NoError(t, err)
	assertRefused(t, ofControlPlane.Errors)
}
