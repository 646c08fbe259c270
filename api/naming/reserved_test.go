// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package naming_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/capt-provider/capt/api/naming"
)

func TestOwnersOfReservedNames(t *testing.T) {
	for name, row := range map[string]struct{ captCluster, captControlPlane string }{
		"demo-vpc":                         {captCluster: "demo"},
		"demo-eks-controlplane-apply":      {captControlPlane: "demo"},
		"demo.a-vpc":                       {captCluster: "demo.a"},
		"demo-vpc-vpc":                     {captCluster: "demo-vpc"},
		"demo-vpc-eks-controlplane-apply":  {captControlPlane: "demo-vpc"},
		"demo-eks-controlplane-apply-vpc":  {captCluster: "demo-eks-controlplane-apply"},
		"demo":                             {},
		"demo-vpc-2":                       {},
		"demo-vpc-apply":                   {},
		"demo-eks-controlplane":            {},
		"vpc":                              {},
		"-vpc":                             {},
		"-eks-controlplane-apply":          {},
		strings.Repeat("n", 300) + "-vpc":  {},
		strings.Repeat("n", 249) + "-vpc":  {captCluster: strings.Repeat("n", 249)},
		strings.Repeat("n", 249) + "x-vpc": {},
	} {
		t.Run(name, func(t *testing.T) {
			captCluster, ok := naming.CAPTClusterOf(name)
			assert.Equal(t, row.captCluster != "", ok)
			if ok {
				assert.Equal(t, row.captCluster, captCluster)
			}
			controlPlane, ok := naming.CAPTControlPlaneOf(name)
			assert.Equal(t, row.captControlPlane != "", ok)
			if ok {
				assert.Equal(t, row.captControlPlane, controlPlane)
			}
		})
	}
}

// The owner of every name that is not truncated is found, and the naming scheme gives the name to it.
func FuzzOwnersOfReservedNames(f *testing.F) {
	f.Add("demo")
	f.Add("demo-vpc")
	f.Add("demo-eks-controlplane-apply")
	f.Add(strings.Repeat("n", 253))
	f.Fuzz(func(t *testing.T, owner string) {
		if !legal("team", owner) {
			t.Skip()
		}
		for what, of := range map[string]struct {
			name  string
			owner func(string) (string, bool)
			make  func(string) string
		}{
			"VPC":           {naming.VPCWorkspaceTemplateApply(owner), naming.CAPTClusterOf, naming.VPCWorkspaceTemplateApply},
			"control plane": {naming.ControlPlaneWorkspaceTemplateApply(owner), naming.CAPTControlPlaneOf, naming.ControlPlaneWorkspaceTemplateApply},
		} {
			found, ok := of.owner(of.name)
			if strings.HasPrefix(of.name, owner+"-") && (!ok || found != owner) {
				t.Errorf("the %s of %q is called %q, which is taken for that of %q", what, owner, of.name, found)
			}
			if ok && of.make(found) != of.name {
				t.Errorf("the %s of %q would be called %q, not %q", what, found, of.make(found), of.name)
			}
		}
	})
}

func TestFargateClustersOf(t *testing.T) {
	for name, clusters := range map[string][]string{
		"demo-batch-fargate-apply":               {"demo"},
		"demo-eu-batch-fargate-apply":            {"demo", "demo-eu"},
		"demo-batch--abcde-fargate-apply":        {"demo", "demo-batch", "demo-batch-"},
		"demo.eu-batch-fargate-apply":            {"demo.eu"},
		"demo-fargate-apply-batch-fargate-apply": {"demo", "demo-fargate", "demo-fargate-apply"},
		"demo-fargate-apply":                     nil,
		"-batch-fargate-apply":                   nil,
		"demo-batch-fargate-connection":          nil,
		"demo-batch-fargate-apply-2":             nil,
		"demo-eks-controlplane-apply":            nil,
		"fargate-apply":                          nil,
		"-fargate-apply":                         nil,
	} {
		assert.Equal(t, clusters, naming.FargateClustersOf(name), name)
	}
}

// The name of a Cluster is a label value, and a profile name has at most 100 characters. So nothing is truncated, and the Cluster is found.
func FuzzFargateClustersOf(f *testing.F) {
	for _, profile := range []string{"batch", "a-b", "A", "-", "_", "a_", "--a", strings.Repeat("n", 100), strings.Repeat("N", 100)} {
		f.Add("demo", profile)
		f.Add("demo.eu-1", profile)
		f.Add(strings.Repeat("c", 63), profile)
	}
	f.Fuzz(func(t *testing.T, cluster, profile string) {
		if !legal("team", cluster) || len(cluster) > 63 || profile == "" || len(profile) > 100 {
			t.Skip()
		}
		apply := naming.FargateWorkspaceTemplateApply(cluster, profile)
		if !slices.Contains(naming.FargateClustersOf(apply), cluster) {
			t.Errorf("Cluster %s is not derived from %s", cluster, apply)
		}
		for _, made := range []string{apply, naming.FargateConnectionSecret(cluster, profile)} {
			if len(made) >= 253 {
				t.Errorf("a name of profile %s of Cluster %s is as long as can be: %s", profile, cluster, made)
			}
		}
	})
}

func TestApplyWithSameWorkspace(t *testing.T) {
	for name, want := range map[string]string{"x": "x-apply", "x-apply": "x", "-apply": "-apply-apply", "apply": "apply-apply"} {
		assert.Equal(t, want, naming.ApplyWithSameWorkspace(name))
	}
}
