// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// defect is a fault that is planted in the product.
type defect struct {
	Name  string `json:"name"`
	Class string `json:"class"`
	File  string `json:"file"`
	Edits []struct {
		Old string `json:"old"`
		New string `json:"new"`
	} `json:"edits"`
}

func defects(t *testing.T) (list []defect) {
	t.Helper()
	data, err := os.ReadFile("defects.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(data, &list))
	return list
}

// planted returns the file of the product with a defect.
func planted(t *testing.T, d *defect) (path, text string) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", d.File))
	require.NoError(t, err)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	text = string(data)
	for _, edit := range d.Edits {
		require.Equal(t, 1, strings.Count(text, edit.Old), "%s: the text is not once in %s: %s", d.Name, d.File, edit.Old)
		text = strings.Replace(text, edit.Old, edit.New, 1)
	}
	return path, text
}

func TestEachDefectCanStillBePlanted(t *testing.T) {
	list := defects(t)
	assert.GreaterOrEqual(t, len(list), 15)
	for i := range list {
		_, text := planted(t, &list[i])
		assert.NotEmpty(t, text)
	}
}

var found = regexp.MustCompile(`seed (\d+): ([^\n]*)`)

// TestEachPlantedDefectIsFound compiles the simulation with each defect, and runs it until it finds something. DEFECTS is a regular expression for the
// names of those to plant; "all" is all. It takes minutes; SCHEDULES, 10,000 by default, limits the search.
func TestEachPlantedDefectIsFound(t *testing.T) {
	only := os.Getenv("DEFECTS")
	if only == "" {
		t.Skip("set DEFECTS=all, or run make simulate-defects")
	}
	table := []string{"| defect | class | schedules | what was reported |", "|---|---|---|---|"}
	list := defects(t)
	for i := range list {
		d := &list[i]
		if only != "all" && !regexp.MustCompile(only).MatchString(d.Name) {
			continue
		}
		out := runWith(t, d)
		match := found.FindStringSubmatch(out)
		if !assert.NotNil(t, match, "%s (%s) is not found:\n%s", d.Name, d.Class, tail(out, 2000)) {
			continue
		}
		row := strings.Join([]string{"|", d.Name, "|", d.Class, "|", match[1], "|", strings.ReplaceAll(match[2][:min(len(match[2]), 110)], "|", "/"), "|"}, " ")
		table = append(table, row)
		t.Log(row)
	}
	t.Log("\n" + strings.Join(table, "\n"))
}

// runWith returns the output of the simulation with a defect.
func runWith(t *testing.T, d *defect) string {
	t.Helper()
	dir, binary := t.TempDir(), ""
	path, text := planted(t, d)
	changed, overlay := filepath.Join(dir, filepath.Base(path)), filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(changed, []byte(text), 0o600))
	data, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, data, 0o600))
	binary = filepath.Join(dir, "simulation.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", binary, "-vet=off", "-ldflags=-s -w", ".")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s: %s", d.Name, out)
	run := exec.CommandContext(t.Context(), binary, "-test.run=TestNoScheduleBreaksAnInvariant", "-test.timeout=60m")
	run.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DEFECTS=") }), "SEED=1", "SCHEDULES="+cmp.Or(os.Getenv("SCHEDULES"), "10000"), "SHRINK=false")
	out, _ = run.CombinedOutput() // It fails if it finds the defect.
	return string(out)
}
