// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rule is a rule of the contract, and how CAPT is held to it.
type rule struct {
	// title is that of the document.
	title string
	// mandatory is the word of the document's table.
	mandatory bool
	// reason says why the rule is none for CAPT. A test then makes sure that CAPT does not look as if it followed it; where
	// there is nothing to be seen, there is none.
	reason string
	test   func(t *testing.T)
}

// book is one of the documents of the contract.
type book struct {
	// file of the document.
	file  string
	rules []rule
}

// contractVersion is the version of the contract that CAPT follows.
const contractVersion = "v1beta2"

// run tests every rule under its title. Of one that leaves nothing to assert, the reason stands in the list.
func (c book) run(t *testing.T) {
	for _, rule := range c.rules {
		if rule.test == nil {
			require.NotEmpty(t, rule.reason, rule.title)
			continue
		}
		t.Run(rule.title, func(t *testing.T) {
			t.Parallel()
			if rule.reason != "" {
				t.Log("Not for CAPT: " + rule.reason)
			}
			rule.test(t)
		})
	}
}

// aside runs a part of a test beside the others.
func aside(t *testing.T, part string, test func(t *testing.T)) {
	t.Helper()
	t.Run(part, func(t *testing.T) {
		t.Parallel()
		test(t)
	})
}

func TestInfraClusterContract(t *testing.T) { t.Parallel(); infraClusterContract().run(t) }

func TestControlPlaneContract(t *testing.T) { t.Parallel(); controlPlaneContract().run(t) }

// books are the documents that CAPT follows.
func books() []book {
	return []book{infraClusterContract(), controlPlaneContract(), machinePoolContract(), bootstrapContract(), clusterctlContract()}
}

func TestClusterctlContract(t *testing.T) { t.Parallel(); clusterctlContract().run(t) }

// elsewhere are the documents that the overview lists and that CAPT does not follow.
var elsewhere = map[string]string{
	"infra-machine.md": "EKS clusters of CAPT have no Machines: nodes come from Fargate, or from node groups, which are MachinePools.",
	"ipam.md":          "Addresses are AWS' business.",
}

// documents is the folder of the contract's documents, in the Cluster API that CAPT is built with.
func documents(t *testing.T) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	require.NoError(t, err)
	dir := filepath.Join(strings.TrimSpace(string(output)), "docs/book/src/developer/providers/contracts")
	if _, err := os.Stat(dir); err != nil {
		require.NoError(t, err, "the source of Cluster API is in the module cache, and its documents with it")
	}
	return dir
}

func document(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(documents(t), file))
	require.NoError(t, err)
	return string(text)
}

// row is a line of a contract's table: "| [InfraCluster: pausing] | No | |".
var row = regexp.MustCompile(`(?m)^\| \[(.+)\]\s*\| (Yes|No) `)

// tableOf reads the rules from the table of a document.
func tableOf(t *testing.T, text string) []rule {
	t.Helper()
	var rules []rule
	for _, match := range row.FindAllStringSubmatch(text, -1) {
		rules = append(rules, rule{title: match[1], mandatory: match[2] == "Yes"})
	}
	return rules
}

// heading is one of the second to the fourth order.
var heading = regexp.MustCompile(`(?m)^(#{2,4}) (.+)$`)

// headingsOf reads the rules from the headings of a document that has no table. A heading of the fourth order means
// something only together with the one above it.
func headingsOf(text string) []rule {
	var (
		rules []rule
		above string
	)
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		title := strings.TrimSpace(match[2])
		if len(match[1]) == 4 {
			title = above + ": " + title
		} else {
			above = title
		}
		rules = append(rules, rule{title: title})
	}
	return rules
}

// What Cluster API asks for has a test or a reason, and what has a test is still asked for. When this fails after an upgrade
// of Cluster API, the contract has changed: read the document.
func TestEveryRuleOfTheContractIsKnown(t *testing.T) {
	for _, c := range books() {
		t.Run(c.file, func(t *testing.T) {
			text := document(t, c.file)
			assert.Contains(t, text, "(contract version "+contractVersion+")", "the contract has another version")
			asked := tableOf(t, text)
			if len(asked) == 0 {
				asked = headingsOf(text)
			}
			require.Greater(t, len(asked), 10, "the document is written in another way than this test thinks")

			var known []rule
			for _, rule := range c.rules {
				assert.True(t, rule.test != nil || rule.reason != "", "%s: neither a test nor a reason", rule.title)
				assert.False(t, rule.mandatory && rule.reason != "", "%s is mandatory: there is no way around it", rule.title)
				known = append(known, asRead(rule))
			}
			assert.Equal(t, asked, known)
		})
	}
}

// asRead is what the document says of a rule.
func asRead(r rule) rule { return rule{title: r.title, mandatory: r.mandatory} }

// link leads from the overview to a document beside it.
var link = regexp.MustCompile(`\]\(([a-z-]+\.md)\)`)

func TestEveryDocumentOfTheContractIsKnown(t *testing.T) {
	followed := map[string]bool{}
	for _, c := range books() {
		followed[c.file] = true
	}
	listed := link.FindAllStringSubmatch(document(t, "overview.md"), -1)
	require.Greater(t, len(listed), 5)
	for _, match := range listed {
		assert.True(t, followed[match[1]] || elsewhere[match[1]] != "", "%s: CAPT neither follows it nor says why not", match[1])
	}
}
