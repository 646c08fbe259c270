// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capt-provider/capt/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/redact"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/modules"
)

// Report is the result of captctl validate.
type Report struct {
	metav1.TypeMeta `json:",inline"`
	Files           int      `json:"files"`    // Files is how many files were read.
	Objects         int      `json:"objects"`  // Objects is how many objects of CAPT were checked.
	Findings        Findings `json:"findings"` // Findings are sorted by file and line.
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

// Text is the message, after the object and the field that it is about.
func (f *Finding) Text() string {
	if f.Field == "" {
		return f.Message
	}
	return f.Object + ": " + f.Field + ": " + f.Message
}

// Level of a finding.
type Level string

// Levels of findings, as in SARIF.
const (
	LevelError   Level = "error"   // The API server or a webhook rejects the object, it cannot work, or a document is not YAML.
	LevelWarning Level = "warning" // The object is admitted with a warning, or a document is not checked.
)

// Findings are errors and warnings.
type Findings []Finding

// Errors counts the errors.
func (f Findings) Errors() (count int) {
	for _, finding := range f {
		if finding.Level == LevelError {
			count++
		}
	}
	return count
}

// Sort sorts by file and line.
func (f Findings) Sort() {
	slices.SortStableFunc(f, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

func (f *Findings) add(object *Object, level Level, path, message string) {
	*f = append(*f, newFinding(object, level, path, message))
}

func newFinding(object *Object, level Level, path, message string) Finding {
	line, column := object.Position(path, message)
	return Finding{object.File, line, column, level, object.String(), path, message}
}

// Check checks objects, which can refer to each other, as the API server and the webhooks do.
func Check(ctx context.Context, content *Content) (*Report, error) {
	r := &Report{Files: content.Files, Findings: append(Findings{}, content.Problems...)}
	all := validation.Files{Objects: content.Typed()}
	r.Findings.duplicates(content.Objects)
	r.Findings.shared(content.Objects)
	r.Findings.wrongKinds(content.Objects)
	for _, object := range content.Objects {
		if object.IsCAPT() {
			r.Objects++
		}
		r.Findings.addErrors(object, object.Errors)
		if machinePool, ok := object.Typed.(*clusterv1.MachinePool); ok {
			errs, err := Errors(ctx, all, machinePool)
			if err != nil {
				return nil, err
			}
			r.Findings.addErrors(object, errs)
		}
		if !object.IsCAPT() || object.Typed == nil {
			continue
		}
		found, err := validation.ValidateNew(ctx, all, object.Typed)
		if err != nil {
			return nil, err
		}
		r.Findings.addErrors(object, found.Errors)
		for _, warning := range found.Warnings {
			path, message, _ := strings.Cut(warning, ": ")
			r.Findings.add(object, LevelWarning, path, message)
		}
	}
	r.Findings.Sort()
	return r, nil
}

// Errors returns what the webhooks reject in an object.
func Errors(ctx context.Context, reader validation.Reader, object validation.Owner) (field.ErrorList, error) {
	if machinePool, ok := object.(*clusterv1.MachinePool); ok {
		return desired.ValidateMachinePool(ctx, reader, machinePool)
	}
	findings, err := validation.ValidateNew(ctx, reader, object)
	return findings.Errors, err
}

// addErrors adds errors. Values of variables are left out: they can be secrets, and CI keeps its logs.
func (f *Findings) addErrors(object *Object, errs field.ErrorList) {
	for _, err := range errs {
		message := err.ErrorBody()
		if strings.Contains(err.Field, "forProvider") || strings.Contains(err.Field, "variables") {
			message = fmt.Sprintf("%s: %s", err.Type, err.Detail)
		}
		f.add(object, LevelError, err.Field, message)
	}
}

// duplicates warns about objects that are there twice, such as those of overlays: references to them are ambiguous.
func (f *Findings) duplicates(objects []*Object) {
	first := map[string]*Object{}
	for _, object := range objects {
		if object.Typed == nil || !object.IsCAPT() {
			continue
		}
		name := fmt.Sprintf("%s %s", object, object.Typed.GetNamespace())
		if before := first[name]; before != nil {
			line, _ := before.Position("", "")
			f.add(object, LevelWarning, "metadata.name", fmt.Sprintf("the same object is in %s:%d. Validate overlays separately: references to it are ambiguous", before.File, line))
			continue
		}
		first[name] = object
	}
}

// shared reports Clusters that refer to the same CAPTCluster or CAPTControlPlane, as a copy of a manifest does.
func (f *Findings) shared(objects []*Object) {
	first := map[string]*Object{}
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
				f.add(object, LevelError, paths[i], fmt.Sprintf("%s belongs to %s (%s:%d), and can belong to one Cluster only. Create another one for this Cluster, and correct the reference. With namePrefix or nameSuffix, kustomize changes it only with the component config/references",
					name, before, before.File, line))
			}
		}
	}
}

// wrongKinds reports references of Clusters and MachinePools to kinds of CAPT that do not exist, or that other fields refer to.
func (f *Findings) wrongKinds(objects []*Object) {
	infrastructure, controlPlane, bootstrap := infrav1.GroupVersion.Group, controlplanev1.GroupVersion.Group, bootstrapv1.GroupVersion.Group
	check := func(object *Object, path string, ref clusterv1.ContractVersionedObjectReference, group, kind string) {
		meant := ref.Kind == kind || looksLikeCAPT(runtimeschema.GroupVersionKind{Group: ref.APIGroup, Kind: ref.Kind})
		if meant && (ref.Kind != kind || ref.APIGroup != group) {
			f.add(object, LevelError, path, fmt.Sprintf("refers to kind %s of group %q. Only kind %s of group %s can be used here", ref.Kind, ref.APIGroup, kind, group))
		}
	}
	for _, object := range objects {
		switch of := object.Typed.(type) {
		case *clusterv1.Cluster:
			check(object, "spec.infrastructureRef", of.Spec.InfrastructureRef, infrastructure, "CAPTCluster")
			check(object, "spec.controlPlaneRef", of.Spec.ControlPlaneRef, controlPlane, "CAPTControlPlane")
		case *clusterv1.MachinePool:
			spec, path := &of.Spec.Template.Spec, "spec.template.spec."
			check(object, path+"infrastructureRef", spec.InfrastructureRef, infrastructure, "CAPTMachinePool")
			check(object, path+"bootstrap.configRef", spec.Bootstrap.ConfigRef, bootstrap, "CAPTBootstrapConfig")
		}
	}
}

// ofModule matches the fields whose warnings are what Terraform rejects.
var ofModule = regexp.MustCompile(`^(spec\.publishOutputs|spec\.template\.spec\.forProvider\.(module|vars|varmap))\b`)

// CheckTemplate applies the rules to a template. Warnings about the module are errors, unless values of variables decide. The configuration is the
// Terraform code of the ProviderConfig.
func (f *Findings) CheckTemplate(object *Object, template *infrav1.WorkspaceTemplate, configuration string) {
	findings := validation.ValidateWorkspaceTemplate(template, modules.Parse(terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: configuration}))
	for _, err := range findings.Errors {
		f.add(object, LevelError, err.Field, err.Detail)
	}
	for _, warning := range findings.Warnings {
		path, message, _ := strings.Cut(warning, ": ")
		level := LevelWarning
		if ofModule.MatchString(path) && !strings.HasSuffix(message, modules.PlaceholderNote) {
			level = LevelError
		}
		f.add(object, level, path, message)
	}
}

// Diagnostic of validate -json: https://developer.hashicorp.com/terraform/cli/commands/validate#json-output-format.
type Diagnostic struct {
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

// AddDiagnostics adds findings, except for those at places that have a finding already. An error in a line with a placeholder is a warning: the
// value of the variable decides. It reports whether Terraform found errors.
func (f *Findings) AddDiagnostics(object *Object, module *modules.Parsed, diagnostics []Diagnostic) (failed bool) {
	const modulePath = "spec.template.spec.forProvider.module" // The field of the module in messages.
	for _, d := range diagnostics {
		start, level := d.Range.Start, LevelError
		if d.Severity != "error" || module.HasPlaceholder(start.Line) {
			level = LevelWarning
		} else {
			failed = true
		}
		message := redact.Text(strings.TrimSuffix(strings.Join(strings.Fields(d.Summary+": "+d.Detail), " "), ":"), nil)
		if start.Line > 0 {
			message = fmt.Sprintf("line %d, column %d: %s", start.Line, start.Column, message)
		}
		finding := newFinding(object, level, modulePath, message)
		known := func(other Finding) bool {
			return other.File == finding.File && other.Line == finding.Line && other.Column == finding.Column && start.Line > 0
		}
		if !slices.ContainsFunc(*f, known) {
			*f = append(*f, finding)
		}
	}
	return failed
}
