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

package planfile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/cmd/captctl/planfile"
	"github.com/capt-provider/capt/migrate"
)

func sealed(t *testing.T) *migrate.Plan {
	t.Helper()
	plan := &migrate.Plan{Scope: migrate.ScopeAll, ClusterUID: "c", Created: metav1.NewTime(time.Unix(1, 0)), Expires: metav1.NewTime(time.Unix(2, 0))}
	require.NoError(t, plan.Seal())
	return plan
}

func TestAPlanIsReadAsItWasWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plan.json")
	require.NoError(t, os.WriteFile(file, []byte("an older plan"), 0o600))
	plan := sealed(t)
	require.NoError(t, planfile.Write(file, plan))
	read, err := planfile.Read(file, nil)
	require.NoError(t, err)
	assert.Equal(t, plan.ID, read.ID)

	var in bytes.Buffer
	require.NoError(t, plan.Write(&in))
	read, err = planfile.Read(planfile.Stdin, &in)
	require.NoError(t, err)
	assert.Equal(t, plan.ID, read.ID)
}

func TestAPlanThatCanNotBeWrittenLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, "plan.json"), 0o700))
	require.ErrorContains(t, planfile.Write(filepath.Join(folder, "plan.json"), sealed(t)), "writing the plan to")
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "no part of a plan is left beside it")
	require.Error(t, planfile.Write(filepath.Join(folder, "missing", "plan.json"), sealed(t)))
}

func TestAPlanThatWasEditedIsRefused(t *testing.T) {
	var in bytes.Buffer
	require.NoError(t, sealed(t).Write(&in))
	_, err := planfile.Read(planfile.Stdin, strings.NewReader(strings.Replace(in.String(), `"scope": "all"`, `"scope": "adopt"`, 1)))
	assert.ErrorContains(t, err, "was changed after it was made")
}

func TestDecisionsAreReadFromAFileThatIsNamedInErrors(t *testing.T) {
	const head = "apiVersion: migrate.capt.cluster.x-k8s.io/v1\nkind: Decisions\n"
	decisions, err := planfile.ReadDecisions(planfile.Stdin, strings.NewReader(head+"owners:\n- {uid: a, take: b, reason: asked the team}\n"))
	require.NoError(t, err)
	assert.Equal(t, []migrate.OwnerDecision{{UID: "a", Take: "b", Reason: "asked the team"}}, decisions.Owners)

	file := filepath.Join(t.TempDir(), "decisions.yaml")
	require.NoError(t, os.WriteFile(file, []byte(head+"owners:\n- {uid: a, takes: b}\n"), 0o600))
	_, err = planfile.ReadDecisions(file, nil)
	require.ErrorContains(t, err, file)
	assert.ErrorContains(t, err, `unknown field "takes"`)
}
