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

package view_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/controllers/workspace/render"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/planner"
)

// The fleet of these tests has one cluster that is clear, one that is not, and one whose Workspace would change.

func ref(kind, namespace, name string, uid types.UID) migrate.ObjectRef {
	group := "infrastructure.cluster.x-k8s.io"
	switch kind {
	case "CAPTControlPlane":
		group = "controlplane.cluster.x-k8s.io"
	case "Workspace":
		group = "tf.upbound.io"
	}
	return migrate.ObjectRef{Group: group, Kind: kind, Namespace: namespace, Name: name, UID: uid}
}

func to[T any](value T) *T { return &value }

func operation(op, path, value string) migrate.Operation {
	return migrate.Operation{Op: op, Path: path, Value: json.RawMessage(value)}
}

var (
	demo       = ref("CAPTControlPlane", "default", "demo", "cp-1")
	demoApply  = ref("WorkspaceTemplateApply", "default", "demo-eks-controlplane-apply", "apply-1")
	demoLive   = ref("Workspace", "", "demo-eks-controlplane", "workspace-1")
	network    = ref("CAPTCluster", "default", "demo", "network-1")
	vpcApply   = ref("WorkspaceTemplateApply", "default", "demo-vpc", "apply-2")
	vpcLive    = ref("Workspace", "", "demo-vpc", "workspace-2")
	unclear    = ref("CAPTControlPlane", "team-a", "shop", "cp-2")
	changed    = ref("CAPTControlPlane", "team-b", "old", "cp-3")
	helper     = ref("WorkspaceTemplateApply", "default", "demo-kubeconfig-apply", "apply-5")
	candidates = []migrate.Candidate{
		{
			Object: ref("WorkspaceTemplateApply", "team-a", "shop-eks-controlplane-apply", "apply-3"),
			For:    []string{"it has the name that the older CAPT gave", "its Workspace shop-eks-controlplane exists"},
		},
		{
			Object: ref("WorkspaceTemplateApply", "team-a", "demo-eks-controlplane-apply", "apply-4"),
			For:    []string{"cluster_name is shop"}, Against: []string{"its template is another: aws-vpc"},
		},
	}
	findings = []migrate.Finding{
		{Severity: migrate.Warning, Reason: planner.ReasonPaused, Object: demo, Message: "its Cluster is paused: it is adopted all the same"},
		{
			Severity: migrate.Ambiguous, Reason: planner.ReasonWorkspaceShared, Object: unclear, AlsoAbout: []migrate.ObjectRef{changed}, Workspace: &demoLive,
			Candidates: candidates, Message: "2 WorkspaceTemplateApplies refer to it. Decide which one with belongsTo in --decisions",
		},
		{
			Severity: migrate.Ambiguous, Reason: planner.ReasonSeveral, Object: unclear, AlsoAbout: []migrate.ObjectRef{changed}, Message: "2 owners may have the same",
			Candidates: []migrate.Candidate{{Object: demoApply, Owner: &unclear, For: []string{"this object owns it"}}, {Object: vpcApply, Owner: &changed}},
		},
		{
			Severity: migrate.Ambiguous, Reason: planner.ReasonSeveral, Object: unclear, Candidates: candidates,
			Message: "two WorkspaceTemplateApplies may be its own. Say which one with take: UID in --decisions",
		},
		{
			Severity: migrate.Blocked, Reason: planner.ReasonWouldChange, Object: changed, Message: "Terraform would run: the template was edited. Revert the edit, or decide pin: true",
			Differences: []render.Difference{
				{Field: "spec.deletionPolicy", Live: "Orphan", Rendered: "Delete"},
				{Field: "spec.forProvider.module", Live: "a {\n}\nb {\n}\nc {\n  x = 1\n}\n", Rendered: "a {\n}\nb {\n}\nc {\n  x = 2\n}\n"},
				{Field: "spec.forProvider.vars", Live: nil, Rendered: []any{map[string]any{"key": "region", "value": "eu-central-1"}}},
			},
		},
		{Severity: migrate.Skipped, Reason: planner.ReasonSkipped, Object: helper, Message: "left as it is, as decided. Nobody needs it"},
	}
)

func plan(t *testing.T) *migrate.Plan {
	t.Helper()
	made := time.Date(2026, 10, 22, 10, 0, 0, 0, time.UTC)
	p := &migrate.Plan{
		ClusterUID: "0c6f8a52-f0b5-4d0e-9f3c-6f9d2a3b1c44", Created: metav1.NewTime(made), Expires: metav1.NewTime(made.Add(48 * time.Hour)), Scope: migrate.ScopeAll,
		Grants: []migrate.Step{{
			Object: ref("WorkspaceTemplate", "default", "aws-vpc", "template-1"), Why: "team-a uses it",
			Patch:   []migrate.Operation{operation("add", "/spec/allowedNamespaces", `{"names":["team-a"]}`)},
			Inverse: []migrate.Operation{operation("test", "/spec/allowedNamespaces", `{"names":["team-a"]}`), operation("remove", "/spec/allowedNamespaces", "")},
		}},
		Units: []migrate.Unit{
			{Owner: network, Cluster: "demo", WorkspaceTemplateApply: &vpcApply, Workspace: &vpcLive, Evidence: []string{"it is its owner"}, Steps: []migrate.Step{
				{Object: ref("WorkspaceTemplate", "default", "demo-vpc-pinned-x", ""), Why: "reproduces it", Create: []byte(`{"kind":"WorkspaceTemplate","spec":{}}`)},
				{Object: vpcApply, Subresource: "status", Why: "records its Workspace", Patch: []migrate.Operation{operation("add", "/status/workspaceRef", `{"name":"demo-vpc"}`)}},
			}},
			{Owner: demo, Cluster: "demo", WorkspaceTemplateApply: &demoApply, Workspace: &demoLive, Evidence: []string{"it is its owner", "cluster_name is demo"}, Steps: []migrate.Step{
				{
					Object: demoApply, Why: "fixes the name of its Workspace, and its owner",
					Patch: []migrate.Operation{
						operation("add", "/spec/workspaceName", `"demo-eks-controlplane"`),
						operation("add", "/metadata/ownerReferences/-", `{"kind":"CAPTControlPlane","name":"demo"}`),
						operation("add", "/metadata/annotations/capt.cluster.x-k8s.io~1claim", `"x"`),
					},
					Inverse: []migrate.Operation{operation("remove", "/spec/workspaceName", "")},
				},
				{
					Object: demo, Why: "refers to it, and has an endpoint with which one can connect",
					Patch: []migrate.Operation{
						operation("test", "/spec/controlPlaneEndpoint/host", `"https://ABC.eks.amazonaws.com"`),
						operation("replace", "/spec/controlPlaneEndpoint/host", `"ABC.eks.amazonaws.com"`),
						operation("remove", "/spec/older", ""),
					},
					Inverse: []migrate.Operation{
						operation("replace", "/spec/controlPlaneEndpoint/host", `"https://ABC.eks.amazonaws.com"`), operation("add", "/spec/older", "true"),
					},
				},
			}},
		},
		Storage: []migrate.StorageItem{
			{ObjectRef: ref("WorkspaceTemplate", "default", "aws-vpc", "template-1")},
			{ObjectRef: demoApply, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "controlplane.cluster.x-k8s.io/v1beta1", Kind: "CAPTControlPlane", Name: "demo"}, {APIVersion: "v1", Kind: "ConfigMap", Name: "x"},
			}},
			{ObjectRef: vpcApply},
		},
		Baseline: migrate.Baseline{Workspaces: []migrate.BaselineItem{{ObjectRef: demoLive}, {ObjectRef: vpcLive}}, WorkspaceTemplateApplies: []migrate.ObjectRef{demoApply}},
		Findings: findings,
	}
	require.NoError(t, p.Seal())
	return p
}

func inspection() *migrate.Inspection {
	return &migrate.Inspection{
		Counts: map[migrate.OwnerState]int{migrate.Adoptable: 2, migrate.OwnerAmbiguous: 1, migrate.OwnerBlocked: 1, migrate.OwnerSkipped: 1},
		Owners: []migrate.OwnerReport{
			{Owner: network, Cluster: "demo", State: migrate.Adoptable, WorkspaceTemplateApply: &vpcApply, Workspace: &vpcLive, Evidence: []string{"it is its owner"}},
			{Owner: demo, Cluster: "demo", State: migrate.Adoptable, WorkspaceTemplateApply: &demoApply, Workspace: &demoLive, Evidence: []string{"it is its owner", `cluster_name is "demo"`}, Paused: true},
			{Owner: helper, Cluster: "demo", State: migrate.OwnerSkipped, WorkspaceTemplateApply: &helper, Role: "kubeconfig helper of CAPTControlPlane demo"},
			{Owner: unclear, Cluster: "shop", State: migrate.OwnerAmbiguous},
			{Owner: changed, State: migrate.OwnerBlocked, WorkspaceTemplateApply: to(ref("WorkspaceTemplateApply", "team-b", "old", "apply-6"))},
		},
		Findings: findings,
	}
}

// golden compares what is printed with a file. UPDATE_GOLDEN=1 writes it anew; read the difference.
func golden(t *testing.T, name string, format output.Format, show func(*output.Printer)) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, output.NewPrinter(&out, format, false).Document(nil, show))
	path := filepath.Join("testdata", name+".golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	}
	expected, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(expected), out.String())
}

func TestAPlanIsShownWithAllThatAPersonNeeds(t *testing.T) {
	p := plan(t)
	golden(t, "plan", output.Table, func(to *output.Printer) { view.Plan(to, p) })
	golden(t, "plan-wide", output.Wide, func(to *output.Printer) { view.Plan(to, p) })
	golden(t, "plan-diff", output.Table, func(to *output.Printer) { view.Diff(to, p) })
}

func TestAPlanWithNothingToDoSaysSo(t *testing.T) {
	p := &migrate.Plan{Scope: migrate.ScopeStorage, Namespace: "team-a"}
	require.NoError(t, p.Seal())
	golden(t, "plan-empty", output.Table, func(to *output.Printer) { view.Plan(to, p) })
}

func TestAFleetIsShownAsTableTreeAndGraph(t *testing.T) {
	found := inspection()
	for name, show := range map[string]func(*output.Printer){
		"inspection": func(p *output.Printer) { view.Inspection(p, found) },
		"tree":       func(p *output.Printer) { view.Tree(p, found) },
		"dot":        func(p *output.Printer) { view.DOT(p, found) },
		"mermaid":    func(p *output.Printer) { view.Mermaid(p, found) },
	} {
		format := output.Table
		if name == "dot" || name == "mermaid" {
			format = output.Format(name)
		}
		golden(t, name, format, show)
	}
	golden(t, "inspection-wide", output.Wide, func(p *output.Printer) { view.Inspection(p, found) })
	golden(t, "inspection-empty", output.Table, func(p *output.Printer) { view.Inspection(p, &migrate.Inspection{}) })
}

func TestWhatIsUndecidedIsOneLine(t *testing.T) {
	assert.Equal(t, "4 conflicts to decide first: 3 ambiguous, 1 blocked; each says what to do", view.Undecided((&migrate.Plan{Findings: findings}).Undecided()))
}
