// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/cmd/captctl/cli"
)

// maxInline is the size up to which the text of a module becomes part of a template, in bytes. Each Workspace has a copy of it.
const maxInline = 128 << 10

// module is a Terraform module in a directory.
type module struct {
	directory string
	files     []string // Names, sorted.
	texts     map[string]string
	// variables has the names of the variables; the value is true if the variable has a default. The value of outputs is true if the output is
	// sensitive.
	variables, outputs map[string]bool
}

// readModule reads and parses the files of a module.
func readModule(directory string) (*module, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	m := &module{directory: directory, texts: map[string]string{}, variables: map[string]bool{}, outputs: map[string]bool{}}
	invalid := &cli.ListError{Title: "the module is not valid"}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || !strings.HasSuffix(name, ".tf") && !strings.HasSuffix(name, ".tf.json") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(directory, name)) //nolint:gosec // Users name the directory.
		if err != nil {
			return nil, err
		}
		m.files, m.texts[name] = append(m.files, name), string(data)
		params := terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: string(data)}
		if strings.HasSuffix(name, ".json") {
			params.InlineFormat = terraform.FormatJSON
		}
		parsed := modules.ParseTemplate(params)
		for _, err := range parsed.Findings(field.NewPath(name)).Errors {
			invalid.Items = append(invalid.Items, filepath.Join(directory, name)+": "+err.Detail)
		}
		if declared := parsed.Declarations(); declared != nil {
			maps.Copy(m.variables, declared.Variables())
			maps.Copy(m.outputs, declared.Outputs())
		}
	}
	switch {
	case len(invalid.Items) > 0:
		return nil, invalid
	case len(m.files) == 0:
		return nil, fmt.Errorf("%s has no files of Terraform (.tf, .tf.json)", directory)
	}
	return m, nil
}

func (m *module) variableNames() []string { return slices.Sorted(maps.Keys(m.variables)) }
func (m *module) outputNames() []string   { return slices.Sorted(maps.Keys(m.outputs)) }

// purpose is what the outputs and variables of the module are for.
func (m *module) purpose() string {
	has := func(names map[string]bool, name string) bool { _, ok := names[name]; return ok }
	switch {
	case has(m.variables, naming.ProfileVariable):
		return forFargate
	case has(m.outputs, terraform.OutputClusterEndpoint):
		return forControlPlane
	case has(m.outputs, terraform.OutputVPCID):
		return forVPC
	}
	return forOther
}

// fromDirectory matches what reads other files of the directory: an inline module is a single file.
var fromDirectory = regexp.MustCompile(`\bpath\.(module|root)\b|\b(templatefile|fileset|file[a-z0-9]*)\(|\bsource\s*=\s*"\.\.?/`)

// trailingSpace is before the ends of lines. With it, YAML would have the module on one line, with escape sequences.
var trailingSpace = regexp.MustCompile(`(?m)[ \t\r]+$`)

// inline returns the text of the module as a single file.
func (m *module) inline() (string, error) {
	const instead = "; name the address of the module with --source"
	var b strings.Builder
	for _, name := range m.files {
		text := m.texts[name]
		file := filepath.Join(m.directory, name)
		if strings.HasSuffix(name, ".json") || strings.HasSuffix(strings.TrimSuffix(name, ".tf"), "override") {
			return "", fmt.Errorf("%s cannot be combined with other files%s", file, instead)
		}
		if at := fromDirectory.FindStringIndex(text); at != nil {
			return "", fmt.Errorf("%s:%d: an inline module is a single file, and cannot read other files of its directory%s", file, 1+strings.Count(text[:at[0]], "\n"), instead)
		}
		if !strings.Contains(text, "<<") { // In a heredoc they are part of a value.
			text = trailingSpace.ReplaceAllString(text, "")
		}
		if len(m.files) > 1 {
			fmt.Fprintf(&b, "# %s\n", name)
		}
		b.WriteString(strings.TrimRight(text, "\n") + "\n")
	}
	if b.Len() > maxInline {
		return "", fmt.Errorf("the module has %d KiB, and a template can hold %d%s", b.Len()>>10, maxInline>>10, instead)
	}
	return b.String(), nil
}
