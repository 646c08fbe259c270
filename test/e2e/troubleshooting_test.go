// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"
)

var (
	anyBlock = regexp.MustCompile("(?ms)^ *```(?:sh)?\n(.*?)^ *```$")
	// cell matches a command with flags in a table.
	cell = regexp.MustCompile("(?m)^\\|.*`((?:kubectl|captctl|clusterctl) [^`]* -[^`]+)`")
	// writing matches commands that change something. The API server checks them here, and changes nothing.
	writing = regexp.MustCompile(`\bkubectl (.*?)\b(annotate|patch) `)
	// named has objects of the quickstart for what users fill in.
	named = strings.NewReplacer("secret NAME", "secret demo-kubeconfig", "workspacetemplateapply NAME", "workspacetemplateapply demo-vpc", "NAME -o", "demo-vpc -o",
		`"name":"NAME"`, `"name":"demo-eks-controlplane-apply"`, "$NAME", "demo-eks-controlplane-apply", "VARIABLE", "endpoint_private_access", "=UID", "=6b1f",
		"FILE", "config/samples/sandbox/vpc-template.yaml", "grep -n paused", "cat")
)

// runTroubleshooting runs the commands of docs/troubleshooting.md and its reference against the Cluster of the quickstart, and returns how many.
func (g *guide) runTroubleshooting() (commands int) {
	g.environment.Helper()
	for _, document := range []string{"troubleshooting.md", "troubleshooting-reference.md"} {
		data, err := os.ReadFile(filepath.Join(g.dir, "docs", document))
		require.NoError(g.environment, err)
		text := strings.ReplaceAll(string(data), `\|`, "|")
		var scripts []string
		for _, match := range anyBlock.FindAllStringSubmatch(text, -1) {
			scripts = append(scripts, match[1])
		}
		for _, match := range cell.FindAllStringSubmatch(anyBlock.ReplaceAllString(text, ""), -1) {
			scripts = append(scripts, match[1]+"\n")
		}
		for _, script := range scripts {
			// There is no Deployment of the manager, no AWS, and what a Cluster needs is not deleted.
			if regexp.MustCompile(`deploy/|deployment/|\baws |allow-delete=true`).MatchString(script) {
				continue
			}
			script = named.Replace(writing.ReplaceAllString(script, "kubectl ${1}${2} --dry-run=server "))
			g.run(block{script: "NS=default; C=demo\n" + script})
			commands += strings.Count(script, "\n")
		}
	}
	return commands
}
