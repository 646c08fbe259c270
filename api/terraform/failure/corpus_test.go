// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/api/redact"
)

// reported is an entry of testdata/corpus.yaml, which describes its fields.
type reported struct {
	Origin   string `json:"origin"`
	Message  string `json:"message"`
	Stage    string `json:"stage"`
	Output   string `json:"output"`
	Prefixed bool   `json:"prefixed"`
	Want     struct {
		Class    Class  `json:"class"`
		Retry    bool   `json:"retry"`
		Recovery bool   `json:"recovery"`
		Object   Object `json:"object"`
		Advice   string `json:"advice"`
		Unsaved  bool   `json:"unsaved"`
	} `json:"want"`
}

// stagePrefixes are the prefixes of the provider for its stages.
var stagePrefixes = map[string]string{
	"init": initFailed, "workspace": "connect failed: cannot select Terraform workspace", "plan": planFailed, "apply": updateFailed, "destroy": destroyFailed,
}

// condition is the message of condition Synced of the Workspace.
func (r *reported) condition(t testing.TB) string {
	if r.Message != "" {
		require.Empty(t, r.Stage+r.Output)
		return r.Message
	}
	prefix, ok := stagePrefixes[r.Stage]
	require.True(t, ok, "stage %q", r.Stage)
	return failed(prefix, r.Output)
}

func corpus(t testing.TB) (entries []reported) {
	t.Helper()
	data, err := os.ReadFile("testdata/corpus.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(data, &entries))
	require.GreaterOrEqual(t, len(entries), 200)
	return entries
}

// notRecovered are the classes without actions of recovery, which controllers/recovery tests.
var notRecovered = []Class{ClassAuth, ClassQuota, ClassConfig}

func TestCorpus(t *testing.T) {
	seen := map[string]bool{}
	for _, entry := range corpus(t) {
		message := entry.condition(t)
		line, _, _ := strings.Cut(strings.TrimPrefix(entry.Message+entry.Output, "Error: "), "\n")
		t.Run(line[:min(len(line), 60)], func(t *testing.T) {
			require.True(t, strings.HasPrefix(entry.Origin, "https://github.com/"), entry.Origin)
			require.False(t, seen[message], "the text is there twice")
			seen[message] = true

			report := Explain(message, Secrets{}, "")
			assert.Equal(t, entry.Want.Class, report.Class, report.Message)
			assert.Equal(t, entry.Want.Retry, report.Class.IsTransient(), report.Message)
			assert.Equal(t, entry.Want.Recovery, !slices.Contains(notRecovered, report.Class), report.Message)
			assert.Equal(t, entry.Want.Object, report.Object, report.Message)
			assert.Equal(t, entry.Want.Unsaved, report.Unsaved, report.Message)
			assert.NotEmpty(t, entry.Want.Advice)
			_, hidden, _ := strings.Cut(Explain(message, unknown, "").Message, ": ")
			assert.Contains(t, hidden, entry.Want.Advice, "the advice does not depend on the secrets")
			assert.Contains(t, report.Message, entry.Want.Advice)
			assert.NotContains(t, report.Message, "No action is needed", "captctl says so, while it is true")
			assert.LessOrEqual(t, len(report.Message), maxMessageLength)
			assert.Less(t, len(report.Message)-len(causeOf(message, withoutTail(message), Secrets{})), 640, "enough is left for the cause")
			assert.False(t, strings.ContainsAny(report.Message, "│╷╵├\x1b"), report.Message)
			entry.Message, entry.Output = redact.Text(entry.Message, nil), redact.Text(entry.Output, nil)
			assert.Equal(t, report.Class, Explain(entry.condition(t), Secrets{}, "").Class, "what is redacted is not needed")
		})
	}
}

// Each rule has a text in the world: one without is a guess.
func TestEachAdviceHasAnOrigin(t *testing.T) {
	found := map[string]bool{}
	for _, entry := range corpus(t) {
		found[diagnose(entry.condition(t)).advice] = true
	}
	for _, r := range rules {
		assert.True(t, found[r.advice], r.advice)
	}
}
