// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/manifest"
)

// A manifest that still names the old template would have Terraform run once it is applied again.
func TestManifestsOfPinnedOwnersNameTheirTemplate(t *testing.T) {
	owner := migrate.ObjectRef{Group: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Namespace: "default", Name: "demo", UID: "network"}
	apply := migrate.ObjectRef{Group: infrav1.GroupVersion.Group, Kind: "WorkspaceTemplateApply", Namespace: "default", Name: "demo-vpc", UID: "apply"}
	template := migrate.ObjectRef{Group: infrav1.GroupVersion.Group, Kind: "WorkspaceTemplate", Namespace: "default", Name: "demo-vpc-pinned-x"}
	plan := &migrate.Plan{Units: []migrate.Unit{{Owner: owner, WorkspaceTemplateApply: &apply, Steps: []migrate.Step{
		{Object: template, Create: []byte(`{"kind":"WorkspaceTemplate"}`)},
		{Object: owner, Patch: []migrate.Operation{
			{Op: "test", Path: "/spec/vpc/template/ref", Value: []byte(`{"name":"vpc","namespace":"default"}`)},
			{Op: "replace", Path: "/spec/vpc/template/ref", Value: []byte(`{"name":"demo-vpc-pinned-x","namespace":"default"}`)},
		}},
	}}}}
	out, _, err := manifest.Rewrite("demo.yaml", []byte(`apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: CAPTCluster
metadata:
  name: demo
  namespace: default
spec:
  region: ap-northeast-1
  vpcTemplateRef:
    name: vpc
    namespace: default
`), plan)
	require.NoError(t, err)
	assert.Contains(t, string(out), "name: demo-vpc-pinned-x")
	assert.NotContains(t, string(out), "name: vpc\n")
}
