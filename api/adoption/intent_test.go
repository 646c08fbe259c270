// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package adoption_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/adoption"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// Clients read the Secret by its name, and another name would change the Workspace.
func TestConnectionSecretOfAnExistingApplyIsKept(t *testing.T) {
	intent := adoption.Intent{Variables: map[string]string{"cluster_name": "demo"}, ConnectionSecret: "demo-vpc-connection"}
	recorded := func(name string, options ...builder.Option) builder.Option {
		return builder.WithRecordedWorkspace(builder.Workspace(name, builder.AtRest, options...))
	}
	for name, row := range map[string]struct {
		options []builder.Option
		want    string
	}{
		"a new one":                               {nil, "demo-vpc-connection"},
		"another connection Secret":               {[]builder.Option{builder.WithConnectionSecret("mine", "default")}, "mine"},
		"adopted, without one":                    {[]builder.Option{recorded("demo-vpc", builder.InClusterScope())}, ""},
		"adopted, with one":                       {[]builder.Option{recorded("demo-vpc", builder.InClusterScope()), builder.WithConnectionSecret("mine", "default")}, "mine"},
		"created by this version, Secret removed": {[]builder.Option{recorded(naming.Workspace(terraform.ScopeCluster, types.NamespacedName{Namespace: "default", Name: "demo-vpc"}), builder.InClusterScope())}, "demo-vpc-connection"},
		"created by this version in a namespace, Secret removed": {[]builder.Option{recorded("demo-vpc")}, "demo-vpc-connection"},
	} {
		t.Run(name, func(t *testing.T) {
			apply := builder.WorkspaceTemplateApply("demo-vpc", row.options...)
			assert.Equal(t, row.want, intent.For(apply).ConnectionSecret)
			written := intent.AppliedTo(apply).Spec.WriteConnectionSecretToRef
			if row.want == "" {
				assert.Nil(t, written)
				return
			}
			assert.Equal(t, row.want, written.Name)
		})
	}
}
