// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func key(name string) Key { return Key{"Thing", "default", name} }

// of builds a graph from edges such as "a b": a depends on b. All nodes exist.
func of(edges ...string) *Graph {
	g := New()
	for _, edge := range edges {
		from, to, _ := strings.Cut(edge, " ")
		g.AddEdge(Edge{From: key(from), To: key(to)})
	}
	for _, node := range g.Nodes() {
		g.AddNode(Node{Key: node.Key, Ready: metav1.ConditionTrue})
	}
	return g
}

func names(nodes []Node) (names string) {
	for _, node := range nodes {
		names += node.Name
	}
	return names
}

func path(cycle []Edge) string {
	if len(cycle) == 0 {
		return ""
	}
	return Path(cycle, func(k Key) string { return k.Name })
}

func TestNodes(t *testing.T) {
	g := New()
	g.AddNode(Node{key("a"), metav1.ConditionFalse, "Provisioning"})
	g.AddNode(Node{Key: key("a"), Ready: metav1.ConditionTrue})
	assert.Equal(t, []Node{{Key: key("a"), Ready: metav1.ConditionTrue}}, g.Nodes())
	g.AddEdge(Edge{From: key("b"), To: key("c")})
	missing := []Node{{key("b"), metav1.ConditionFalse, NotFoundReason}, {key("c"), metav1.ConditionFalse, NotFoundReason}}
	assert.Equal(t, missing, g.Nodes()[1:])
}

func TestAddEdgeKeepsTheFirstOfTwoEqualEdges(t *testing.T) {
	g := of("a b")
	g.AddEdge(Edge{From: key("a"), To: key("b"), Field: field.NewPath("spec")})
	g.AddEdge(Edge{From: key("b"), To: key("a"), Field: field.NewPath("status")})
	cycles := g.cycles()
	require.Len(t, cycles, 1)
	assert.Nil(t, cycles[0][0].Field)
	assert.Equal(t, "status", cycles[0][1].Field.String())
}

func TestCycles(t *testing.T) {
	for name, row := range map[string]struct {
		edges []string
		want  []string
	}{
		"empty":                          {nil, nil},
		"a chain":                        {[]string{"a b", "b c"}, nil},
		"two ways that meet":             {[]string{"a b", "a c", "b d", "c d"}, nil},
		"itself":                         {[]string{"a b", "b b"}, []string{"b → b"}},
		"two":                            {[]string{"a b", "b a"}, []string{"a → b → a"}},
		"not through the first":          {[]string{"x a", "a b", "b c", "c a"}, []string{"a → b → c → a"}},
		"the shortest":                   {[]string{"a b", "b c", "c a", "a d", "d a"}, []string{"a → d → a"}},
		"the first edges of equal ones":  {[]string{"a c", "a b", "b a", "c a"}, []string{"a → c → a"}},
		"the first of several":           {[]string{"x y", "y x", "a b", "b a"}, []string{"x → y → x", "a → b → a"}},
		"behind what depends on a cycle": {[]string{"a x", "x y", "y x", "y b"}, []string{"x → y → x"}},
		"a cycle before one with itself": {[]string{"a b", "b a", "c c"}, []string{"a → b → a", "c → c"}},
		"of two that share an object":    {[]string{"b c", "c b", "b a", "a b"}, []string{"b → c → b"}},
		"a long cycle":                   {[]string{"a b", "b c", "c d", "d e", "e a"}, []string{"a → b → c → d → e → a"}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				var found []string
				for _, cycle := range of(row.edges...).cycles() {
					found = append(found, path(cycle))
				}
				require.Equal(t, row.want, found)
			}
		})
	}
}

func TestCycleThrough(t *testing.T) {
	g := of("a b", "b a", "b c", "c b")
	assert.Equal(t, "c → b → c", path(g.CycleThrough(key("c"))))
	assert.Equal(t, "b → a → b", path(g.CycleThrough(key("b"))))
	assert.Nil(t, of("a b", "b c", "c b").CycleThrough(key("a")))
	assert.Nil(t, g.CycleThrough(key("unknown")))
}

func TestUpstream(t *testing.T) {
	g := of("z a", "a c", "a b", "c d", "x y")
	assert.Equal(t, "bcd", names(g.Upstream(key("a"))))
	assert.Equal(t, "bcdy", names(g.Upstream(key("a"), key("x"))))
	assert.Empty(t, g.Upstream(key("d"), key("unknown")))
	assert.Equal(t, "b", names(of("a b", "b a").Upstream(key("a"))), "an object is not upstream of itself")
}

func TestDownstream(t *testing.T) {
	g := of("d c", "c a", "b a", "a z", "y x")
	assert.Equal(t, "bcd", names(g.Downstream(key("a"))))
	assert.Equal(t, "bcdy", names(g.Downstream(key("a"), key("x"))))
	assert.Empty(t, g.Downstream(key("d"), key("unknown")))
}

func TestMarshalJSON(t *testing.T) {
	g := New()
	g.AddNode(Node{Key{"WorkspaceTemplateApply", "default", "demo-vpc"}, metav1.ConditionFalse, "Provisioning"})
	g.AddNode(Node{Key: Key{"Workspace", "", "default-demo-vpc"}, Ready: metav1.ConditionTrue})
	g.AddEdge(Edge{From: Key{"WorkspaceTemplateApply", "default", "demo-vpc"}, To: Key{"Workspace", "", "default-demo-vpc"}})
	got, err := json.Marshal(g)
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"nodes": {
			"WorkspaceTemplateApply/default/demo-vpc": {"kind": "WorkspaceTemplateApply", "namespace": "default", "name": "demo-vpc", "ready": "False", "reason": "Provisioning"},
			"Workspace//default-demo-vpc": {"kind": "Workspace", "name": "default-demo-vpc", "ready": "True"}
		},
		"edges": {"WorkspaceTemplateApply/default/demo-vpc": ["Workspace//default-demo-vpc"]}
	}`, string(got))

	got, err = json.Marshal(of("b c", "b a", "b b"))
	require.NoError(t, err)
	assert.Contains(t, string(got), `"edges":{"Thing/default/b":["Thing/default/a","Thing/default/b","Thing/default/c"]}`)
	got, err = json.Marshal(New())
	require.NoError(t, err)
	assert.Equal(t, `{"nodes":{},"edges":{}}`, string(got))
}

func TestPathHidesOtherNamespaces(t *testing.T) {
	there := func(name string) Key { return Key{"Thing", "other", name} }
	cycle := []Edge{{From: key("a"), To: there("b")}, {From: there("b"), To: there("c")}, {From: there("c"), To: key("a")}}
	assert.Equal(t, "a → (another namespace) → a", Path(cycle, Name("default", func(k Key) string { return k.Name })))
}

func TestAnObjectIsAConsequenceIfADependencyIsNotReady(t *testing.T) {
	node := func(ready metav1.ConditionStatus) Node { return Node{Ready: ready} }
	d := Document{
		Nodes: map[string]Node{"a": node("False"), "b": node("False"), "c": node("True"), "d": node("False"), "e": node("False")},
		Edges: map[string][]string{"a": {"b", "c"}, "b": {"c"}, "c": {"d"}, "d": {"e"}, "e": {"d"}},
	}
	for name, want := range map[string]bool{"a": true, "b": false, "c": false, "d": false, "e": false} {
		assert.Equal(t, want, d.IsConsequence(name), name)
	}
	assert.True(t, Owns("CAPTControlPlane", "WorkspaceTemplateApply"))
	assert.False(t, Owns("WorkspaceTemplateApply", "WorkspaceTemplateApply"))
}
