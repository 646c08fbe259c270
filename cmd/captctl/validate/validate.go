// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package validate is captctl validate.
package validate

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/api/validation/manifests"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

const long = `Checks manifests of CAPT in YAML or JSON, in v1beta1 and v1beta2, without a cluster: with the
schemas and rules that the API server and CAPT's webhooks apply when the objects are created,
including the Terraform modules of WorkspaceTemplates.

References are resolved among the manifests. What is not among them may exist in the cluster, so a
reference to it is a warning only. Objects of other kinds are ignored, except Clusters, MachinePools
and Namespaces. Helm templates, and documents that are no objects, are reported as warnings.

Each finding has file, line and column. For v1beta1 objects, it can be the start of the object.

Exit codes: 0 no errors; 1 errors, there are no files, or one cannot be read or is not YAML.`

const example = `  captctl validate cluster.yaml templates.yaml
  captctl validate -f manifests/ -R

  # For code scanning in CI
  captctl validate -f manifests/ -R -o sarif > captctl.sarif`

// sarif is a format for code scanning.
const sarif output.Format = "sarif"

type options struct{ cli.Options }

// New returns captctl validate.
func New(environment *cli.Environment) *cobra.Command {
	o := &options{cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:               "validate [FILENAME...]",
		Short:             "Check manifests without a cluster, with the rules of the webhooks",
		Long:              long,
		Example:           example,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cli.Files("yaml", "yml", "json"),
	}
	o.AddFiles(command, true)
	o.AddOutput(command, sarif)
	return cli.New(command, o)
}

// Complete adds the arguments, which are the same as --filename.
func (o *options) Complete(args []string) error {
	o.Paths = append(o.Paths, args...)
	return nil
}

func (o *options) Run(ctx context.Context) error {
	content, err := o.Manifests(ctx)
	if err != nil {
		return err
	}
	if content.Files == 0 {
		return fmt.Errorf("there are no manifests (*.yaml, *.yml, *.json) in %s, so nothing was checked; -R also reads subdirectories", strings.Join(o.Paths, ", "))
	}
	content.SetDefaults()
	report, err := manifests.Check(ctx, content)
	if err != nil {
		return err
	}
	report.TypeMeta = cli.TypeMeta("ValidationReport")
	if p := o.Printer(); o.Format() == sarif {
		err = p.JSON(sarifOf(report))
	} else {
		err = p.Document(report, func(p *output.Printer) {
			p.Findings(report.Findings)
			p.Linef("%s in %s checked: %s", output.Count(report.Objects, "object"), output.Count(report.Files, "file"), output.Count(len(report.Findings), "finding"))
		})
	}
	failed := report.Findings.Errors()
	if err != nil || failed == 0 {
		return err
	}
	return fmt.Errorf("%s found", output.Count(failed, "error"))
}

// sarifOf returns a report as SARIF 2.1.0: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html.
func sarifOf(report *manifests.Report) any {
	type object map[string]any
	results := []object{}
	for _, finding := range report.Findings {
		region := object{"startLine": finding.Line}
		if finding.Column > 0 {
			region["startColumn"] = finding.Column
		}
		place := object{"artifactLocation": object{"uri": (&url.URL{Path: filepath.ToSlash(finding.File)}).String()}, "region": region}
		results = append(results, object{
			"ruleId": "captctl-validate", "level": finding.Level, "message": object{"text": finding.Text()}, "locations": []object{{"physicalLocation": place}},
		})
	}
	driver := object{"name": "captctl", "version": cli.BuildVersion().Version}
	return object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{"tool": object{"driver": driver}, "results": results}},
	}
}
