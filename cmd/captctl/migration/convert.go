// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/convert"
)

const convertLong = `Converts manifests of CAPT in YAML or JSON from v1beta1 to v1beta2, exactly as the conversion
webhook does, and the references to them in Clusters and ClusterClasses.

Comments, key order, quoting and all lines that do not change are kept; so is every byte of
documents that are not CAPT's. Within fields that move, blank lines and alignment are not kept.
JSON is printed with sorted keys. A status is left out.

A single file, and standard input, is printed as converted. For directories, and for several files,
a diff is printed. With --write, the files are changed in place instead.

A file is converted as a whole or not at all. It is not converted if it would lose something, for
example a field that v1beta2 does not have, or if captctl cannot read a document of it, for example
a Helm template or a patch of Kustomize. Every such place is reported with file, line and reason.

With --from-cluster, manifests also get what captctl migrate apply wrote into the objects in the
cluster, so that they can create the adopted clusters again: references, names of Workspaces,
deletion policies and permissions. Manifests without a namespace are looked up in that of
--namespace or of the kubeconfig. Nothing is written to the cluster.

Exit codes: 0 done; 1 error, or a file was not converted; 2 files would change (with
--detailed-exitcode only).`

const convertExample = `  # Print a manifest as v1beta2
  captctl convert -f cluster.yaml
  captctl convert -f - < cluster.yaml > cluster-v1beta2.yaml

  # Show what would change in a Git repository; in CI, exit code 2 means that something would
  captctl convert -f manifests/ -R --detailed-exitcode

  # Convert the files, with what the migration wrote into the objects in the cluster
  captctl convert -f manifests/ -R --from-cluster --write`

type convertOptions struct {
	cli.Options
	write, detailedExitCode, useCluster bool

	converter *convert.Converter
	// asDiff prints diffs instead of converted manifests.
	asDiff bool
}

// NewConvert is the command convert.
func NewConvert(environment *cli.Environment) *cobra.Command {
	o := &convertOptions{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:     "convert -f FILENAME",
		Short:   "Convert manifests from v1beta1 to v1beta2",
		Long:    convertLong,
		Example: convertExample,
	}
	o.AddFiles(command, true)
	flags := command.Flags()
	flags.BoolVar(&o.write, "write", false, "Write the converted files in place.")
	flags.BoolVar(&o.useCluster, "from-cluster", false, "Add what captctl migrate apply wrote into the objects in the cluster.")
	flags.BoolVar(&o.detailedExitCode, "detailed-exitcode", false, "Exit with code 2 if files would change and --write is not set.")
	return cli.New(command, o)
}

// Complete decides what is printed.
func (o *convertOptions) Complete([]string) (err error) {
	o.asDiff = len(o.Paths) > 1 || slices.ContainsFunc(o.Paths, func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.IsDir()
	})
	o.converter, err = convert.New()
	return err
}

func (o *convertOptions) Validate() error {
	return cmp.Or(cli.When(o.write && slices.Contains(o.Paths, cli.Stdin), "--write cannot be combined with standard input; without --write the result is printed"), o.Options.Validate())
}

func (o *convertOptions) Run(ctx context.Context) error {
	files, err := o.Expand()
	if err != nil {
		return err
	}
	if o.useCluster {
		if o.converter.Live, err = o.live(); err != nil {
			return err
		}
	}
	changed, failed := 0, 0
	for _, file := range files {
		data, err := o.ReadFile(file)
		if err != nil {
			return err
		}
		result, err := o.converter.Convert(ctx, file, data)
		if err != nil {
			return err
		}
		for _, message := range result.Warnings {
			fmt.Fprintf(o.ErrOut, "Warning: %s\n", message)
		}
		for _, message := range result.Problems {
			fmt.Fprintf(o.ErrOut, "%s\n", message)
		}
		if len(result.Problems) > 0 {
			failed++
			continue
		}
		if result.Changed() {
			changed++
		}
		if err := o.put(file, result); err != nil {
			return err
		}
	}
	return o.summary(len(files), changed, failed)
}

// put writes or prints a file. Writing keeps its mode, and follows links.
func (o *convertOptions) put(file string, result *convert.Result) error {
	switch {
	case o.write && result.Changed():
		return cli.Save(file, func(out io.Writer) error {
			_, err := out.Write(result.New)
			return err
		})
	case o.write:
		return nil
	case o.asDiff:
		return difflib.WriteUnifiedDiff(o.Out, difflib.UnifiedDiff{
			A: lines(result.Old), B: lines(result.New), FromFile: file, ToFile: file, Context: 3,
		})
	}
	_, err := o.Out.Write(result.New)
	return err
}

// lines returns lines as patch and git apply expect them in a diff. difflib.SplitLines would add an empty last line.
func lines(data []byte) []string {
	lines := slices.Collect(strings.Lines(string(data)))
	if last := len(lines) - 1; last >= 0 && !strings.HasSuffix(lines[last], "\n") {
		lines[last] += "\n\\ No newline at end of file\n"
	}
	return lines
}

func (o *convertOptions) summary(files, changed, failed int) error {
	switch {
	case o.write:
		fmt.Fprintf(o.ErrOut, "%d of %d files converted\n", changed, files)
	case o.asDiff:
		fmt.Fprintf(o.ErrOut, "%d of %d files would be converted with --write\n", changed, files)
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %d files were not converted, see above", failed, files)
	case changed > 0 && o.detailedExitCode && !o.write:
		return migrate.Pending.Errorf("%d of %d files are in v1beta1", changed, files)
	}
	return nil
}

// live reads objects of the cluster, and never writes one.
func (o *convertOptions) live() (func(context.Context, schema.GroupVersionKind, string, string) (*unstructured.Unstructured, error), error) {
	reader, err := o.Access.Client()
	if err != nil {
		return nil, err
	}
	byDefault, _, err := o.Access.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
		if namespace == "" {
			namespace = byDefault
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		return cli.Get(ctx, reader, client.ObjectKey{Namespace: namespace, Name: name}, object)
	}, nil
}
