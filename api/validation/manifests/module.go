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

// Filled is what a template has of a module.
type Filled struct {
	Purpose string
	// SetByCAPT are the variables that have a value from CAPT. Required ones need one from users, and Optional ones have a default.
	SetByCAPT, Required, Optional []string
	// Warnings are about what the template cannot have.
	Warnings []string
}

// Fill adds the module to a template, with its outputs: its text, or its address and variables if the address is given. Without a purpose, that of the
// outputs and variables counts.
func (m *Module) Fill(template *infrav1.WorkspaceTemplate, address, purpose string) (*Filled, error) {
	filled := m.filled(cmp.Or(purpose, m.purpose()))
	params := &template.Spec.Template.Spec.ForProvider
	if params.Source, params.Module = terraform.SourceRemote, address; address == "" {
		text, err := m.inline()
		if err != nil {
			return nil, err
		}
		params.Source, params.Module = terraform.SourceInline, text
	} else {
		template.Spec.Inputs = atMost(filled, "spec.inputs", "variables", maxInputs, m.inputs(filled))
	}
	validation.SetTemplateDefaults(template)
	var outputs []string
	for _, name := range slices.Sorted(maps.Keys(m.outputs)) {
		if !m.outputs[name] && !slices.Contains(terraform.PublishedOutputs(), name) {
			outputs = append(outputs, name)
		}
	}
	template.Spec.PublishOutputs = atMost(filled, "spec.publishOutputs", "outputs", maxOutputs, outputs)
	return filled, nil
}

func (m *Module) filled(purpose string) *Filled {
	filled := &Filled{Purpose: purpose}
	set := map[string][]string{
		forVPC: validation.VPCVariables(), forControlPlane: append(validation.ControlPlaneVariables(nil), naming.NetworkVariables()...), forFargate: validation.FargateVariables(),
	}[purpose]
	for _, name := range slices.Sorted(maps.Keys(m.variables)) {
		switch {
		case slices.Contains(set, name):
			filled.SetByCAPT = append(filled.SetByCAPT, name)
		case m.variables[name].HasDefault:
			filled.Optional = append(filled.Optional, name)
		default:
			filled.Required = append(filled.Required, name)
		}
	}
	return filled
}

// Limits of the schema of WorkspaceTemplates.
const (
	maxInputs      = 128
	maxOutputs     = 64
	maxDescription = 4096
)

// inputs returns the variables that CAPT and users can set. Those with a default come last.
func (m *Module) inputs(filled *Filled) (inputs []infrav1.TemplateInput) {
	for _, name := range slices.Concat(filled.SetByCAPT, filled.Required, filled.Optional) {
		if v := m.variables[name]; modules.VariableName.MatchString(name) {
			input := infrav1.TemplateInput{Name: name, Required: !v.HasDefault, Schema: v.Schema()}
			if len(v.Description) <= maxDescription {
				input.Description = v.Description
			}
			inputs = append(inputs, input)
		}
	}
	return inputs
}

// atMost returns the first elements of a list, with a warning if it has more.
func atMost[T any](filled *Filled, field, what string, most int, list []T) []T {
	if len(list) <= most {
		return list
	}
	filled.Warnings = append(filled.Warnings, fmt.Sprintf("%s has %d of %d %s. Replace them by those that you need", field, most, len(list), what))
	return list[:most]
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

// fromDirectory matches what reads other files of the directory: an inline module is a single file. Terraform may have written one whose path begins with a value.
var fromDirectory = regexp.MustCompile(`\bpath\.(module|root)\b|\b(templatefile|fileset|file[a-z0-9]*)\(\s*"[^$]|\bsource\s*=\s*"\.\.?/`)

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
			return "", fmt.Errorf("%s:%d: an inline module is a single file: in its Pod, provider-terraform has no other file of this directory or of this machine%s, or pass the content as a variable", file, 1+strings.Count(text[:at[0]], "\n"), instead)
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
