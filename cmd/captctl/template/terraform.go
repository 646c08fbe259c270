// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/redact"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/validate"
)

// initTimeout is how long init may take: it may download providers.
const initTimeout = 5 * time.Minute

// tool is tofu or terraform; nil if neither is on PATH.
type tool struct{ path, title string }

// findTool finds tofu or terraform on PATH.
func findTool(ctx context.Context) (*tool, error) {
	for _, name := range []string{"tofu", "terraform"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		var reported struct {
			Version string `json:"terraform_version"`
		}
		data, err := exec.CommandContext(ctx, path, "version", "-json").Output() //nolint:gosec // Users choose it with PATH.
		if err != nil {
			return nil, fmt.Errorf("running %s version: %w", path, err)
		}
		if from := bytes.IndexByte(data, '{'); from >= 0 { // Warnings may come first. Without a version, the name is enough.
			_ = json.Unmarshal(data[from:], &reported)
		}
		return &tool{path, strings.TrimSpace(name + " " + reported.Version)}, nil
	}
	return nil, nil
}

// run runs a command in a directory, and returns its standard output. An error has its standard error.
func (t *tool) run(ctx context.Context, directory string, arguments ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, t.path, arguments...) //nolint:gosec // Users choose it with PATH.
	var stderr strings.Builder
	command.Dir, command.Stderr = directory, &stderr
	command.Env = append(os.Environ(), "TF_IN_AUTOMATION=1", "TF_DATA_DIR="+filepath.Join(directory, ".terraform"))
	data, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, redact.Text(output.OneLine(stderr.String()), nil))
	}
	return data, err
}

// validate runs init and validate for the module of a template, and adds what was done.
func (t *Test) validate(ctx context.Context, tool *tool, template source[*infrav1.WorkspaceTemplate]) error {
	v := Validation{Template: template.String(), Result: ResultNotRun}
	params := template.typed.Spec.Template.Spec.ForProvider
	module := modules.ParseTemplate(params)
	switch {
	case tool == nil:
		v.Message = "neither tofu nor terraform is on PATH"
	case params.Source != terraform.SourceInline:
		v.Message = "the template has only the address of the module, not its text"
	case !module.IsValid():
		v.Message = "the module has syntax errors"
	default:
		v.Tool = tool.title
		diagnostics, message, err := tool.diagnose(ctx, params, module.Text(), t.configuration)
		if err != nil {
			return err
		}
		if v.Message = message; message == "" {
			v.Result = t.addDiagnostics(template, module, diagnostics)
		}
	}
	t.Validations = append(t.Validations, v)
	return nil
}

// diagnostic of validate -json: https://developer.hashicorp.com/terraform/cli/commands/validate#json-output-format.
type diagnostic struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail"`
	Range    struct {
		Start struct {
			Line   int `json:"line"`
			Column int `json:"column"`
		} `json:"start"`
	} `json:"range"`
}

// diagnose returns the diagnostics of a module. message is why validate was not run; empty if it was.
func (t *tool) diagnose(ctx context.Context, params terraform.WorkspaceParameters, text, configuration string) (found []diagnostic, message string, err error) {
	directory, err := os.MkdirTemp("", "captctl-template-")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(directory) //nolint:errcheck // It is a temporary directory.
	name := "main.tf"
	if params.InlineFormat == terraform.FormatJSON {
		name = "main.tf.json"
	}
	for name, text := range map[string]string{name: text, "provider-configuration.tf": configuration} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600); err != nil {
			return nil, "", err
		}
	}
	if _, err := t.run(ctx, directory, "init", "-backend=false", "-input=false", "-no-color"); err != nil {
		return nil, fmt.Sprintf("%s init failed: %v", t.title, err), ctx.Err() // The user may have interrupted it.
	}
	data, err := t.run(ctx, directory, "validate", "-json", "-no-color")
	var result struct {
		Diagnostics []diagnostic `json:"diagnostics"`
	}
	if broken := json.Unmarshal(data[max(0, bytes.IndexByte(data, '{')):], &result); broken != nil {
		return nil, "", fmt.Errorf("running %s validate: %w", t.title, errors.Join(err, broken))
	}
	return result.Diagnostics, "", nil
}

// addDiagnostics adds findings, except for those at places that have a finding already. An error in a line with a placeholder is a warning: the
// value of the variable decides.
func (t *Test) addDiagnostics(template source[*infrav1.WorkspaceTemplate], module *modules.Parsed, diagnostics []diagnostic) Result {
	result := ResultPassed
	for _, d := range diagnostics {
		start, level := d.Range.Start, validate.LevelError
		if d.Severity != "error" || module.HasPlaceholder(start.Line) {
			level = validate.LevelWarning
		} else {
			result = ResultFailed
		}
		message := redact.Text(output.OneLine(d.Summary+": "+d.Detail), nil)
		if start.Line > 0 {
			message = fmt.Sprintf("line %d, column %d: %s", start.Line, start.Column, message)
		}
		finding := validate.NewFinding(template.Object, level, modulePath, message)
		known := func(other validate.Finding) bool {
			return other.File == finding.File && other.Line == finding.Line && other.Column == finding.Column && start.Line > 0
		}
		if !slices.ContainsFunc(t.Findings, known) {
			t.Findings = append(t.Findings, finding)
		}
	}
	return result
}
