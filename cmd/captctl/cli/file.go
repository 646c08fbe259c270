// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/capt-provider/capt/api/validation/manifests"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/convert"
)

// Stdin is the name of standard input.
const Stdin = "-"

// Expand returns the names of the files at the paths, as kubectl finds them.
func (o *Options) Expand() (files []string, err error) {
	for _, path := range o.Paths {
		if path == Stdin {
			files = append(files, Stdin)
			continue
		}
		visitors, err := resource.ExpandPathsToFileVisitors(nil, path, o.Recursive, resource.FileExtensions, nil)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("the path %q does not exist", path)
		case err != nil:
			return nil, err
		}
		for _, visitor := range visitors {
			files = append(files, visitor.(*resource.FileVisitor).Path)
		}
	}
	return files, nil
}

// ReadFile reads a file, or standard input.
func (e *Environment) ReadFile(file string) ([]byte, error) {
	if file == Stdin {
		return io.ReadAll(e.In)
	}
	return os.ReadFile(file) //nolint:gosec // Users name the files.
}

// Manifests reads the objects of the files. Those without a namespace get that of the kubeconfig or of --namespace.
func (o *Options) Manifests(ctx context.Context) (*manifests.Content, error) {
	converter, err := convert.New()
	if err != nil {
		return nil, err
	}
	namespace, _, err := o.Access.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		namespace = metav1.NamespaceDefault // Without a cluster, a kubeconfig that cannot be read does not matter.
	}
	decoder := &manifests.Decoder{Scheme: Scheme(), Schemas: converter.Schemas, Namespace: namespace, Hub: func(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if object.GetKind() == "Cluster" {
			return migrate.ClusterToHub(object)
		}
		return converter.Hub(ctx, object)
	}}
	files, err := o.Expand()
	content := &manifests.Content{Files: len(files)}
	for _, file := range files {
		data, err := o.ReadFile(file)
		if err != nil {
			return nil, err
		}
		line := 1
		for _, part := range manifests.Split(string(data)) {
			decoder.Read(ctx, content, file, line, part)
			line += strings.Count(part, "\n")
		}
	}
	return content, err
}

// ValidManifests is Manifests for commands that cannot use what kubectl apply would reject. The error says so, and what to do next.
func (o *Options) ValidManifests(ctx context.Context, title, next string) (*manifests.Content, error) {
	content, err := o.Manifests(ctx)
	if err != nil {
		return nil, err
	}
	if rejected := content.Rejected(); len(rejected) > 0 {
		return nil, &ListError{Title: title, Items: rejected, Next: next}
	}
	return content, nil
}

// Save writes a file: completely or not at all. An existing file is replaced: it keeps its mode, and a link to it stays a link. Nothing
// is written to a file that the user must not write, although the rights of the directory would permit to replace it. A device is written directly.
func Save(file string, write func(io.Writer) error) error {
	if err := replace(file, write); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

func replace(file string, write func(io.Writer) error) error {
	existing, err := os.OpenFile(file, os.O_WRONLY, 0) //nolint:gosec // Users name the files.
	if err == nil {
		defer existing.Close() //nolint:errcheck // A device reports errors when it is written; a file is not written.
		// A device, such as /dev/null, must not be replaced.
		if info, err := existing.Stat(); err == nil && !info.Mode().IsRegular() {
			return write(existing)
		}
		if file, err = filepath.EvalSymlinks(file); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) //nolint:errcheck // It exists only after an error, which is reported.
	defer temporary.Close()           //nolint:errcheck // It is open only after an error, which is reported.
	for _, step := range []func() error{
		func() error { return write(temporary) }, func() error { return copyMode(existing, temporary) }, temporary.Sync, temporary.Close,
		func() error { return os.Rename(temporary.Name(), file) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// copyMode gives a file the mode of another one, if that exists.
func copyMode(from, to *os.File) error {
	if from == nil {
		return nil
	}
	info, err := from.Stat()
	if err != nil {
		return err
	}
	return to.Chmod(info.Mode())
}

// CompleteFlag gives a flag its completion.
func CompleteFlag(command *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := command.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // The flag does not exist, or has a completion.
	}
}

// Files completes with files of these extensions.
func Files(extensions ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return extensions, cobra.ShellCompDirectiveFilterFileExt
	}
}
