// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package validate is captctl validate.
package validate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/manifest"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

const long = `Checks manifests of CAPT in YAML or JSON, in v1beta1 and v1beta2, without a cluster: with the
schemas and rules that the API server and CAPT's webhooks apply when the objects are created,
including the Terraform modules of WorkspaceTemplates.

References are resolved among the manifests. What is not among them may exist in the cluster, so a
reference to it is a warning only. Objects of other kinds are ignored, except Clusters and
Namespaces. Documents that cannot be read, for example Helm templates, are reported as warnings.

Each finding has file, line and column. For v1beta1 objects, it can be the start of the object.

Exit codes: 0 no errors; 1 errors, or a file cannot be read.`

const example = `  captctl validate cluster.yaml templates.yaml
  captctl validate -f manifests/ -R

  # For code scanning in CI
  captctl validate -f manifests/ -R -o sarif > captctl.sarif`

// Report is the result of captctl validate.
type Report struct {
	metav1.TypeMeta `json:",inline"`
	Files           int       `json:"files"`    // Files is how many files were read.
	Objects         int       `json:"objects"`  // Objects is how many objects of CAPT were checked.
	Findings        []Finding `json:"findings"` // Findings are sorted by file and line.
}

// Finding is an error or a warning about a manifest.
type Finding struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column,omitempty"`
	Level   Level  `json:"level"`
	Object  string `json:"object,omitempty"` // Object is its kind and name.
	Field   string `json:"field,omitempty"`  // Field is the path of the field in v1beta2, or in v1beta1 if the schema of v1beta1 rejects it.
	Message string `json:"message"`
}

// Level of a finding.
type Level string

// Levels of findings, as in SARIF.
const (
	LevelError   Level = "error"   // The API server or a webhook rejects the object.
	LevelWarning Level = "warning" // The object is admitted with a warning, or a document cannot be read.
)

// sarif is a format for code scanning.
const sarif output.Format = "sarif"

// options are the options of validate.
type options struct {
	*cli.Environment
	output    *output.Flag
	paths     []string
	recursive bool
}

// New returns captctl validate.
func New(environment *cli.Environment) *cobra.Command {
	o := &options{Environment: environment, output: output.NewFlag(sarif)}
	command := &cobra.Command{
		Use:               "validate [FILENAME...]",
		Short:             "Check manifests without a cluster, with the rules of the webhooks",
		Long:              long,
		Example:           example,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cli.Files("yaml", "yml", "json"),
		RunE:              cli.Run(o),
	}
	cli.AddFileFlags(command, &o.paths, &o.recursive)
	o.output.Add(command)
	return command
}

// Complete adds the arguments, which are the same as --filename.
func (o *options) Complete(args []string) error {
	o.paths = append(o.paths, args...)
	return nil
}

// Validate checks the flags.
func (o *options) Validate() error {
	return errors.Join(cli.ValidatePaths(o.paths), o.output.Validate())
}

// Run checks and prints.
func (o *options) Run(ctx context.Context) error {
	report, err := o.check(ctx)
	if err != nil {
		return err
	}
	p := o.Printer(o.output.Format())
	if o.output.Format() == sarif {
		err = p.JSON(sarifOf(report))
	} else {
		err = p.Document(report, func(p *output.Printer) { report.show(p) })
	}
	failed := Errors(report.Findings)
	if err != nil || failed == 0 {
		return err
	}
	return fmt.Errorf("%s found", output.Count(failed, "error"))
}

func (o *options) check(ctx context.Context) (*Report, error) {
	report := &Report{TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "ValidationReport"}, Findings: []Finding{}}
	content, err := manifest.Read(ctx, o.Environment, o.paths, o.recursive)
	if err != nil {
		return nil, err
	}
	report.Files = content.Files
	for _, problem := range content.Problems {
		report.Findings = append(report.Findings, Finding{File: problem.File, Line: problem.Line, Level: LevelWarning, Message: problem.Text})
	}
	return report, report.checkAll(ctx, content)
}

// checkAll checks objects, which can refer to each other.
func (r *Report) checkAll(ctx context.Context, content *manifest.Content) error {
	content.SetDefaults()
	all := validation.Files{Objects: content.Typed()}
	r.duplicates(content.Objects)
	r.shared(content.Objects)
	for _, object := range content.Objects {
		if object.IsCAPT() {
			r.Objects++
		}
		r.addErrors(object, object.Errors)
		if !object.IsCAPT() || object.Typed == nil {
			continue
		}
		found, err := validation.ValidateNew(ctx, all, object.Typed)
		if err != nil {
			return err
		}
		r.addErrors(object, found.Errors)
		for _, warning := range found.Warnings {
			path, message, _ := strings.Cut(warning, ": ")
			r.add(object, LevelWarning, path, message)
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return nil
}

// addErrors adds errors. Values of variables are left out: they can be secrets, and CI keeps its logs.
func (r *Report) addErrors(object *manifest.Object, errs field.ErrorList) {
	for _, err := range errs {
		message := err.ErrorBody()
		if strings.Contains(err.Field, "forProvider") || strings.Contains(err.Field, "variables") {
			message = fmt.Sprintf("%s: %s", err.Type, err.Detail)
		}
		r.add(object, LevelError, err.Field, message)
	}
}

// duplicates warns about objects that are there twice, such as those of overlays: references to them are ambiguous.
func (r *Report) duplicates(objects []*manifest.Object) {
	first := map[string]*manifest.Object{}
	for _, object := range objects {
		if object.Typed == nil || !object.IsCAPT() {
			continue
		}
		name := fmt.Sprintf("%s %s", object, object.Typed.GetNamespace())
		if before := first[name]; before != nil {
			line, _ := before.Position("", "")
			r.add(object, LevelWarning, "metadata.name", fmt.Sprintf("the same object is in %s:%d. Validate overlays separately: references to it are ambiguous", before.File, line))
			continue
		}
		first[name] = object
	}
}

// shared reports Clusters that refer to the same CAPTCluster or CAPTControlPlane, as a copy of a manifest does.
func (r *Report) shared(objects []*manifest.Object) {
	first := map[string]*manifest.Object{}
	for _, object := range objects {
		cluster, ok := object.Typed.(*clusterv1.Cluster)
		if !ok {
			continue
		}
		paths := []string{"spec.infrastructureRef.name", "spec.controlPlaneRef.name"}
		for i, ref := range []clusterv1.ContractVersionedObjectReference{cluster.Spec.InfrastructureRef, cluster.Spec.ControlPlaneRef} {
			if ref.Kind != "CAPTCluster" && ref.Kind != "CAPTControlPlane" {
				continue
			}
			name := fmt.Sprintf("%s %s", ref.Kind, ref.Name)
			key := cluster.Namespace + " " + name
			before := first[key]
			if before == nil {
				first[key] = object
				continue
			}
			if before.Typed.GetName() != cluster.Name {
				line, _ := before.Position("", "")
				r.add(object, LevelError, paths[i], fmt.Sprintf("%s belongs to %s (%s:%d), and can belong to one Cluster only. Create another one for this Cluster, and correct the reference. kustomize does not change it with namePrefix or nameSuffix",
					name, before, before.File, line))
			}
		}
	}
}

func (r *Report) add(object *manifest.Object, level Level, path, message string) {
	r.Findings = append(r.Findings, NewFinding(object, level, path, message))
}

// NewFinding returns a finding about a field of an object.
func NewFinding(object *manifest.Object, level Level, path, message string) Finding {
	line, column := object.Position(path, message)
	return Finding{object.File, line, column, level, object.String(), path, message}
}

// Errors counts the errors among findings.
func Errors(findings []Finding) (count int) {
	for _, finding := range findings {
		if finding.Level == LevelError {
			count++
		}
	}
	return count
}

// show prints the findings, and their number.
func (r *Report) show(p *output.Printer) {
	Show(p, r.Findings)
	p.Linef("%s in %s checked: %s", output.Count(r.Objects, "object"), output.Count(r.Files, "file"), output.Count(len(r.Findings), "finding"))
}

// Show prints one line per finding, in the form that editors and CI systems recognize.
func Show(p *output.Printer, findings []Finding) {
	for _, finding := range findings {
		style := map[Level]output.Style{LevelError: output.Bad, LevelWarning: output.Attention}[finding.Level]
		text := finding.Message
		if finding.Field != "" {
			text = fmt.Sprintf("%s: %s: %s", finding.Object, finding.Field, finding.Message)
		}
		position := fmt.Sprintf("%s:%d:%d: ", finding.File, finding.Line, max(1, finding.Column))
		p.Item(position+string(finding.Level)+":", p.Paint(output.Plain, position)+p.Paint(style, string(finding.Level))+":", "    ", output.Plain, output.OneLine(text))
	}
}
