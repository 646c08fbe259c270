// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package naming_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

func legal(namespace, name string) bool {
	return len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
}

// fuzzUnique requires that two objects never get the same name.
func fuzzUnique(f *testing.F, derive func(types.NamespacedName) string) {
	long := strings.Repeat("n", 249)
	for _, pair := range [][4]string{
		{"a-b", "c", "a", "b-c"},
		{"team", "x", "team", "x-apply"},
		{"team", "x-apply", "team", "x-apply-apply"},
		{"team", "a.b", "team", "a-b"},
		{"one", "demo-vpc", "two", "demo-vpc"},
		{"team", long + ".a", "team", long + ".b"},
		{"team", long, "team", long + "-a"},
		{strings.Repeat("s", 63), "a", strings.Repeat("s", 62), "s-a"},
	} {
		f.Add(pair[0], pair[1], pair[2], pair[3])
	}
	f.Fuzz(func(t *testing.T, namespace, name, otherNamespace, otherName string) {
		one, other := key(namespace, name), key(otherNamespace, otherName)
		if !legal(namespace, name) || !legal(otherNamespace, otherName) || one == other {
			t.Skip()
		}
		if derive(one) == derive(other) {
			t.Errorf("%s and %s both get %s", one, other, derive(one))
		}
	})
}

func FuzzWorkspacesOfTheClusterScopeAreUnique(f *testing.F) {
	fuzzUnique(f, func(apply types.NamespacedName) string { return naming.Workspace(terraform.ScopeCluster, apply) })
}

func FuzzWorkspacesNeverShareState(f *testing.F) {
	fuzzUnique(f, func(apply types.NamespacedName) string { return naming.ExternalName("", apply) })
}

func FuzzWorkspaceNamesAreValid(f *testing.F) {
	f.Add("team", "demo-vpc")
	f.Add("team", "apply")
	f.Add("team", "demo.with.dots-apply")
	f.Add(strings.Repeat("s", 63), strings.Repeat("n", 253))
	f.Add("team", strings.Repeat("n", 40)+"."+strings.Repeat("m", 63))
	for _, length := range []int{1, 40, 46, 47, 62, 63, 64, 200, 230, 248, 249, 252, 253} {
		f.Add("team", strings.Repeat("n", length))
	}
	for cut := 1; cut < 80; cut++ { // Truncated at a dash or dot.
		f.Add("team", strings.Repeat("n", cut)+"-"+strings.Repeat("m", 250-cut))
		f.Add("team", strings.Repeat("n", cut)+"."+strings.Repeat("m", 250-cut))
	}
	f.Fuzz(func(t *testing.T, namespace, name string) {
		if !legal(namespace, name) {
			t.Skip()
		}
		apply := key(namespace, name)
		for _, scope := range terraform.Scopes() {
			if made := naming.Workspace(scope, apply); len(validation.IsDNS1123Subdomain(made)) > 0 {
				t.Errorf("the %s Workspace of %s is called %q", scope, apply, made)
			}
		}
		if made := naming.ExternalName("", apply); len(validation.IsDNS1123Label(made)) > 0 {
			t.Errorf("the Terraform workspace of %s is called %q", apply, made)
		}
		for _, made := range []string{
			naming.VPC(name), naming.VPCWorkspaceTemplateApply(name), naming.ControlPlaneWorkspaceTemplateApply(name),
			naming.VPCConnectionSecret(name), naming.ControlPlaneConnectionSecret(name), naming.UserKubeconfigSecret(name),
			naming.FargateWorkspaceTemplateApply(name, "Fp"), naming.FargateConnectionSecret(name, "Fp"),
		} {
			if len(validation.IsDNS1123Subdomain(made)) > 0 {
				t.Errorf("a name made from %q is %q", name, made)
			}
		}
	})
}

func FuzzFargateProfilesGetDifferentNames(f *testing.F) {
	for _, pair := range [][4]string{
		{"a", "b-c", "a-b", "c"},
		{"a", "A", "a", "a"},
		{"a", "b_c", "a", "b-c"},
		{"a", "", "a", "-"},
		{"a-b", "", "a", "b"},
		{"demo", "x--y", "demo-x", "y"},
		{strings.Repeat("n", 230), "A", strings.Repeat("n", 230), "a"},
	} {
		f.Add(pair[0], pair[1], pair[2], pair[3])
	}
	f.Fuzz(func(t *testing.T, cluster, profile, otherCluster, otherProfile string) {
		if !legal("team", cluster) || !legal("team", otherCluster) {
			t.Skip()
		}
		for _, derive := range []func(cluster, profile string) string{naming.FargateWorkspaceTemplateApply, naming.FargateConnectionSecret} {
			one, other := derive(cluster, profile), derive(otherCluster, otherProfile)
			if same := cluster == otherCluster && profile == otherProfile; (one == other) != same {
				t.Errorf("%s of Cluster %s gets %s, %s of Cluster %s gets %s", profile, cluster, one, otherProfile, otherCluster, other)
			}
			if len(validation.IsDNS1123Subdomain(one)) > 0 {
				t.Errorf("a name of %q of Cluster %s is %q", profile, cluster, one)
			}
		}
	})
}
