// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package picture_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/api/graph"
	"github.com/capt-provider/capt/cmd/captctl/picture"
)

// draw draws a graph from edges: "a:b" is a that depends on b. The root is the first object.
func draw(edges ...string) *picture.Picture {
	g := graph.New()
	key := func(name string) graph.Key { return graph.Key{Kind: "Kind", Namespace: "default", Name: name} }
	for _, edge := range edges {
		from, to, _ := strings.Cut(edge, ":")
		g.AddNode(graph.Node{Key: key(from), Ready: metav1.ConditionTrue})
		if to != "" {
			g.AddNode(graph.Node{Key: key(to), Ready: metav1.ConditionTrue})
			g.AddEdge(graph.Edge{From: key(from), To: key(to)})
		}
	}
	root, _, _ := strings.Cut(edges[0], ":")
	return picture.New(g.Document(func(graph.Key) bool { return true }), key(root).String())
}

// rows are the names in each row, from left to right.
func rows(p *picture.Picture) string {
	at := map[int]map[int]string{}
	for _, box := range p.Boxes {
		if at[box.Y] == nil {
			at[box.Y] = map[int]string{}
		}
		at[box.Y][box.X] = box.Name
	}
	return strings.NewReplacer("map[", "", "]", "").Replace(fmt.Sprint(at)) // Maps are printed in the order of their keys.
}

func TestObjectsAreAboveWhatTheyDependOn(t *testing.T) {
	for name, row := range map[string]struct {
		edges          []string
		levels, arrows int
		cycles         bool
	}{
		"one object":                 {[]string{"a"}, 1, 0, false},
		"a chain":                    {[]string{"a:b", "b:c"}, 3, 2, false},
		"an arrow that follows":      {[]string{"a:b", "b:c", "a:c"}, 3, 2, false},
		"an arrow that passes a row": {[]string{"a:b", "b:c", "c:d", "a:e", "e:d"}, 4, 5, false},
		"others that depend on it":   {[]string{"a:b", "x:b", "y:b", "b:c"}, 3, 4, false},
		"parts without arrows":       {[]string{"a:b", "x", "y:z"}, 2, 2, false},
		"a cycle":                    {[]string{"a:b", "b:c", "c:b"}, 3, 2, true},
		"it depends on itself":       {[]string{"a:a"}, 1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := draw(row.edges...)
			assert.Equal(t, row.levels, 1+(p.Height-p.BoxHeight)/(p.BoxHeight+42), rows(p))
			assert.Equal(t, row.arrows, strings.Count(p.Arrows, "m"), "one head for each arrow")
			assert.Equal(t, row.cycles, p.Cycles != "")
			top := map[string]int{}
			for i, box := range p.Boxes {
				top[box.Name] = box.Y
				assert.True(t, box.X >= 0 && box.Y >= 0 && box.X+p.BoxWidth <= p.Width && box.Y+p.BoxHeight <= p.Height, "%s is outside", box.Name)
				for _, other := range p.Boxes[:i] {
					assert.False(t, box.Y == other.Y && max(box.X, other.X)-min(box.X, other.X) < p.BoxWidth, "%s and %s overlap", box.Name, other.Name)
				}
			}
			for _, edge := range row.edges {
				if from, to, found := strings.Cut(edge, ":"); found && !row.cycles {
					assert.Less(t, top[from], top[to], edge)
				}
			}
		})
	}
}

func TestTheStateOfAnObjectIsWritten(t *testing.T) {
	g := graph.New()
	for _, node := range []graph.Node{
		{Key: graph.Key{Kind: "Cluster", Namespace: "a", Name: "ready"}, Ready: metav1.ConditionTrue},
		{Key: graph.Key{Kind: "Secret", Namespace: "a", Name: "missing"}, Ready: metav1.ConditionFalse, Reason: "NotFound"},
		{Key: graph.Key{Kind: "Workspace", Name: "of-the-cluster-scope"}, Ready: metav1.ConditionUnknown},
		{Key: graph.Key{Kind: "WorkspaceTemplate", Namespace: "b", Name: "of-another-namespace-with-a-long-name"}},
	} {
		g.AddNode(node)
	}
	var found []string
	p := picture.New(g.Document(func(graph.Key) bool { return true }), "Cluster/a/ready")
	for _, box := range p.Boxes {
		found = append(found, strings.Join([]string{box.Class, box.Kind, box.Name, box.State, box.Title}, "|"))
	}
	assert.ElementsMatch(t, []string{
		"good|Cluster|ready|✓ ready|", "bad|Secret|missing|✗ NotFound|", "unknown|Workspace|of-the-cluster-scope|? unknown|",
		"unknown|WorkspaceTemplate|b/of-another-…h-a-long-name|? unknown|WorkspaceTemplate b/of-another-namespace-with-a-long-name: ? unknown",
	}, found)
	assert.Equal(t, "Graph of ready with what it depends on and what depends on it: 1 of 4 objects are ready", p.Label)
}

// A file is XML, which allows neither control characters nor elements in text, whatever the names of objects are.
func TestAFileIsXMLWithoutScripts(t *testing.T) {
	text, err := draw(`a<script>alert(1)</script>&"':b`, "a<script>alert(1)</script>&\"':\x1b[31m\x00\u202e").SVG()
	require.NoError(t, err)
	elements, texts := map[string]int{}, ""
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			elements[token.Name.Local]++
		case xml.CharData:
			texts += string(token)
		}
	}
	assert.Equal(t, map[string]int{"svg": 1, "style": 1, "path": 1, "g": 3, "title": 1, "rect": 3, "text": 9}, elements)
	assert.Contains(t, texts, `a<script>alert(1)</script>&"'`)
	assert.Contains(t, texts, "\uFFFD[31m\uFFFD\uFFFD")
}

// Work in progress is no failure, and a user must decide about what is held.
func TestWhatIsNotReadyIsDrawnByItsReason(t *testing.T) {
	for reason, want := range map[string]string{"ApplyFailed": "bad", "NotFound": "bad", "": "bad", "Provisioning": "busy", "Deleting": "busy", "WaitingForApproval": "held"} {
		assert.Equal(t, want, picture.ClassOf(reason), reason)
	}
}
