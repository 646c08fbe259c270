// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/modules"
)

// Purposes of a template, which determine the variables that CAPT sets.
const (
	forVPC          = "vpc"
	forControlPlane = "control-plane"
	forFargate      = "fargate-profile"
	forOther        = "other"
)

// Purposes lists what a template can be for.
func Purposes() []string { return []string{forVPC, forControlPlane, forFargate, forOther} }

// maxInline is the size up to which the text of a module becomes part of a template, in bytes. Each Workspace has a copy of it.
const maxInline = 128 << 10

// Module is a Terraform module in a directory.
type Module struct {
	directory string
	texts     map[string]string // Texts of files by name.
	variables map[string]*modules.Variable
	outputs   map[string]bool // The value is true if the output is sensitive.
}

// ParseModule parses the files of a module. It also returns what is invalid.
func ParseModule(directory string, texts map[string]string) (m *Module, invalid []string) {
	m = &Module{directory: directory, texts: texts, variables: map[string]*modules.Variable{}, outputs: map[string]bool{}}
	for _, name := range m.files() {
		params := terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: texts[name]}
		if strings.HasSuffix(name, ".json") {
			params.InlineFormat = terraform.FormatJSON
		}
		parsed := modules.Parse(params)
		errs, _ := parsed.Check(field.NewPath(name))
		for _, err := range errs {
			invalid = append(invalid, filepath.Join(directory, name)+": "+err.Detail)
		}
		if declared := parsed.Declarations(); declared != nil {
			for name, variable := range declared.Variables {
				if known := m.variables[name]; known == nil || !known.HasDefault { // A file may override a part of it.
					m.variables[name] = variable
				}
			}
			maps.Copy(m.outputs, declared.Outputs)
		}
	}
	return m, invalid
}

func (m *Module) files() []string { return slices.Sorted(maps.Keys(m.texts)) }

// Fill adds the module to a template, with its variables and outputs: its text, or its address if that is given. Without a purpose, that of the
// outputs and variables counts. It returns the purpose, and the variables that keep their default.
func (m *Module) Fill(template *infrav1.WorkspaceTemplate, address, purpose string) (_ string, byDefault []string, err error) {
	purpose = cmp.Or(purpose, m.purpose())
	params := &template.Spec.Template.Spec.ForProvider
	if params.Source, params.Module = terraform.SourceRemote, address; address == "" {
		params.Source = terraform.SourceInline
		if params.Module, err = m.inline(); err != nil {
			return "", nil, err
		}
	}
	set := map[string][]string{
		forVPC: validation.VPCVariables(), forControlPlane: validation.ControlPlaneVariables(nil), forFargate: validation.FargateVariables(),
	}[purpose]
	for _, name := range slices.Sorted(maps.Keys(m.variables)) {
		if m.variables[name].HasDefault && !slices.Contains(set, name) {
			byDefault = append(byDefault, name)
			continue
		}
		params.Vars = append(params.Vars, terraform.Var{Key: name, Value: "${" + name + "}"})
	}
	for _, name := range slices.Sorted(maps.Keys(m.outputs)) {
		if !m.outputs[name] && !slices.Contains(terraform.PublishedOutputs(), name) {
			template.Spec.PublishOutputs = append(template.Spec.PublishOutputs, name)
		}
	}
	return purpose, byDefault, nil
}

func (m *Module) purpose() string {
	has := func(output string) bool { _, ok := m.outputs[output]; return ok }
	switch {
	case m.variables[naming.ProfileVariable] != nil:
		return forFargate
	case has(terraform.OutputClusterEndpoint):
		return forControlPlane
	case has(terraform.OutputVPCID):
		return forVPC
	}
	return forOther
}

// fromDirectory matches what reads other files of the directory: an inline module is a single file.
var fromDirectory = regexp.MustCompile(`\bpath\.(module|root)\b|\b(templatefile|fileset|file[a-z0-9]*)\(|\bsource\s*=\s*"\.\.?/`)

// trailingSpace is before the ends of lines. With it, YAML would have the module on one line, with escape sequences.
var trailingSpace = regexp.MustCompile(`(?m)[ \t\r]+$`)

func (m *Module) inline() (string, error) {
	const instead = "; name the address of the module with --source"
	var b strings.Builder
	for _, name := range m.files() {
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
		if len(m.texts) > 1 {
			fmt.Fprintf(&b, "# %s\n", name)
		}
		b.WriteString(strings.TrimRight(text, "\n") + "\n")
	}
	if b.Len() > maxInline {
		return "", fmt.Errorf("the module has %d KiB, and a template can hold %d%s", b.Len()>>10, maxInline>>10, instead)
	}
	return b.String(), nil
}
