// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package failures holds what Terraform and OpenTofu say on stderr when they fail: with the flag -no-color, as
// provider-terraform runs them, and a few in the boxes that they draw without it. The wordings are those of Terraform's
// core, the AWS provider and its SDK, the kubernetes and s3 backends, and Go's net package; names and numbers are made up.
//
// A sample is a file stderr/<class>/<name>.txt. To add one, add a file: the tests of classification go over all of them.
package failures

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed stderr
var stderr embed.FS

// Sample is the output of one run that failed.
type Sample struct {
	// Name says what went wrong. The suffix "-explains" marks one whose summary line, which is the first after "Error:",
	// does not say enough.
	Name string
	// Class of the failure, in CamelCase, such as "Throttle".
	Class string
	// Stderr is the whole of what the run wrote there. It is empty for one that was killed.
	Stderr string
}

// NeedsDetail reports whether the summary line does not name the failure: only the whole output does.
func (s Sample) NeedsDetail() bool {
	return strings.HasSuffix(s.Name, "-explains")
}

// Classes returns the classes of all failures.
func Classes() (classes []string) {
	for _, sample := range Samples() {
		if !slices.Contains(classes, sample.Class) {
			classes = append(classes, sample.Class)
		}
	}
	return classes
}

// Samples returns all failures, in the order of their classes and names.
func Samples() []Sample {
	var samples []Sample
	err := fs.WalkDir(stderr, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(stderr, name)
		samples = append(samples, Sample{
			Name:   strings.TrimSuffix(path.Base(name), ".txt"),
			Class:  path.Base(path.Dir(name)),
			Stderr: string(text),
		})
		return err
	})
	if err != nil {
		panic(err) // The files are part of the program.
	}
	return samples
}
