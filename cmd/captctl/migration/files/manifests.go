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

package files

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/planfile"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/manifest"
)

// ManifestsReport says what becomes of manifests.
type ManifestsReport struct {
	metav1.TypeMeta `json:",inline"`
	// Written tells whether the files that change were written.
	Written bool              `json:"written"`
	Files   []manifest.Result `json:"files"`
}

// ManifestsOptions are the options of manifests.
type ManifestsOptions struct {
	*cli.Environment
	output       *output.Flag
	paths        []string
	planFile     string
	check, write bool

	plan *migrate.Plan
}

// NewManifests is the command manifests.
func NewManifests(environment *cli.Environment) *cobra.Command {
	o := &ManifestsOptions{Environment: environment, output: output.NewFlag()}
	command := &cobra.Command{
		Use:   "manifests -f PATH",
		Short: "Rewrite manifests in Git to v1beta2, with what was adopted",
		Long: `Rewrites YAML and JSON from v1beta1 to v1beta2, as the conversion webhook would; with a plan, also
with the references and names that it adopts, so that a GitOps tool does not take them away again.
Comments, order and everything that is not concerned stay as they are, to the byte. A document
that can not be understood, a Helm template for example, is left alone and told with its line.

Without --check and --write, all that was read is printed, rewritten. The cluster is not asked.

With -o json there is a report with the differences and notes instead.

Exit codes: 0 nothing is left to do; 2 something would change (--check), or a document needs a
person; 1 error.`,
		Example: `  # What would change? For CI in a Git repository: exit code 2 means something
  captctl migrate manifests -f clusters/ --plan plan.json --check

  # Change the files
  captctl migrate manifests -f clusters/ -f templates/ --plan plan.json --write

  # In a pipe
  captctl migrate manifests -f - < cluster.yaml > cluster-v1beta2.yaml`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Run(o),
	}
	o.output.Add(command)
	flags := command.Flags()
	flags.StringArrayVarP(&o.paths, "filename", "f", nil, `File or folder with manifests; "-" is standard input. May be repeated. Required.`)
	flags.StringVar(&o.planFile, "plan", "", "Plan whose references and names are written into the manifests, too.")
	flags.BoolVar(&o.check, "check", false, "Write nothing; show what would change, and end with exit code 2 if anything would.")
	flags.BoolVar(&o.write, "write", false, "Write the files that change.")
	command.MarkFlagsMutuallyExclusive("check", "write")
	cli.CompleteFlag(command, "plan", cli.Files("json"))
	cli.CompleteFlag(command, "filename", cli.Files("yaml", "yml", "json"))
	return command
}

// Complete reads the plan.
func (o *ManifestsOptions) Complete([]string) (err error) {
	if o.planFile != "" {
		o.plan, err = planfile.Read(o.planFile, o.In)
	}
	return err
}

// Validate checks the flags.
func (o *ManifestsOptions) Validate() error {
	switch {
	case len(o.paths) == 0:
		return errors.New("--filename is required: say where the manifests are")
	case o.write && slices.Contains(o.paths, manifest.Stdin):
		return errors.New("standard input can not be written; leave out --write, and the result is printed")
	}
	return o.output.Validate()
}

func (o *ManifestsOptions) mode() manifest.Mode {
	switch {
	case o.check:
		return manifest.Check
	case o.write:
		return manifest.Write
	default:
		return manifest.Print
	}
}

// Run rewrites. A program gets a report, people the files or what changes in them.
func (o *ManifestsOptions) Run(context.Context) error {
	if !o.output.Format().ForMachines() {
		return manifest.Options{Paths: o.paths, Plan: o.plan, Mode: o.mode(), In: o.In, Out: o.Out, ErrOut: o.ErrOut}.Run()
	}
	read, err := manifest.Files(o.paths, o.In)
	if err != nil {
		return err
	}
	results, err := manifest.RewriteAll(read, o.plan)
	if err != nil {
		return err
	}
	if o.write {
		if err := results.Write(); err != nil {
			return err
		}
	}
	report := ManifestsReport{TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "ManifestsReport"}, Written: o.write, Files: results}
	if err := o.Printer(o.output.Format()).Document(report, nil); err != nil {
		return err
	}
	if count := results.Changed(); count > 0 && !o.write {
		return migrate.Pending.Errorf("%d of %d files are to be rewritten", count, len(results))
	}
	if count := results.LeftAlone(); count > 0 {
		return migrate.Pending.Errorf("documents to be changed by hand: %d", count)
	}
	return nil
}
