// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/cmd/captctl/command"
)

// yamlBlock matches a block of YAML, with its indentation. The comment before it marks a block that shows only a part of an object.
var yamlBlock = regexp.MustCompile("(?ms)^(<!-- partial -->\n)?( *)```yaml\n(.*?)^ *```$")

// Blocks of documents are what users copy. Those with objects must pass captctl validate; those that are marked as partial must not, or the mark
// is not needed.
func TestObjectsInDocumentsPassCaptctlValidate(t *testing.T) {
	documents, err := filepath.Glob("*.md")
	require.NoError(t, err)
	checked := 0
	for _, document := range append(documents, filepath.Join("..", "README.md")) {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for i, match := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
			block := strings.ReplaceAll("\n"+match[3], "\n"+match[2], "\n")
			for _, part := range strings.Split(block, "\n---\n") {
				require.NoError(t, yaml.Unmarshal([]byte(part), &map[string]any{}), "%s, block %d", document, i+1)
			}
			if !strings.Contains(block, "\napiVersion: ") || !strings.Contains(block, "\nkind: ") {
				continue
			}
			checked++
			findings, err := validate(t, block)
			if match[1] != "" {
				assert.Error(t, err, "%s, block %d, is marked as partial and is valid: remove the comment", document, i+1)
				continue
			}
			assert.NoError(t, err, "%s, block %d:\n%s\nIf it shows only a part of an object, put <!-- partial --> on the line before it", document, i+1, findings)
		}
	}
	require.Greater(t, checked, 10)
}

// The policy is what users attach to a role.
func TestThePolicyForAWSIsJSON(t *testing.T) {
	text, err := os.ReadFile("aws.md")
	require.NoError(t, err)
	_, policy, found := strings.Cut(string(text), "```json\n")
	require.True(t, found)
	policy, _, _ = strings.Cut(policy, "```")
	document := struct{ Statement []struct{ Sid string } }{}
	require.NoError(t, json.Unmarshal([]byte(policy), &document))
	compact := &bytes.Buffer{}
	require.NoError(t, json.Compact(compact, []byte(policy)))
	assert.Less(t, compact.Len(), 6144, "the limit of a managed policy")
	for _, statement := range document.Statement {
		assert.Contains(t, string(text), "`"+statement.Sid+"`", "the table explains each statement")
	}
}

// validate runs captctl validate, and returns what it prints.
func validate(t *testing.T, manifest string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "block.yaml")
	require.NoError(t, os.WriteFile(file, []byte(manifest), 0o600))
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	captctl := command.New("captctl", []string{"validate", file}, streams)
	captctl.SetArgs([]string{"validate", file})
	err := captctl.ExecuteContext(t.Context())
	return fmt.Sprint(stdout, stderr), err
}
