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

package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/capt-provider/capt/migrate"
)

// Mode is what is done with rewritten files.
type Mode int

const (
	// Print writes them to standard output, all of them, changed or not.
	Print Mode = iota
	// Check writes nothing and tells what would change.
	Check
	// Write writes the files that change.
	Write
)

// Result is what became of a file.
type Result struct {
	File    string `json:"file"`
	Changed bool   `json:"changed"`
	// Diff is a unified diff; empty when nothing changes.
	Diff  string `json:"diff,omitempty"`
	Notes []Note `json:"notes,omitempty"`

	source File
	data   []byte
}

// Results are what became of all of them.
type Results []Result

// RewriteAll rewrites files, and writes nothing.
func RewriteAll(files []File, plan *migrate.Plan) (Results, error) {
	results := make(Results, 0, len(files))
	for _, file := range files {
		data, notes, err := Rewrite(file.Name, file.Data, plan)
		if err != nil {
			return nil, err
		}
		result := Result{File: file.Name, Changed: !bytes.Equal(data, file.Data), Notes: notes, source: file, data: data}
		if result.Changed {
			if result.Diff, err = diff(file.Name, string(file.Data), string(data)); err != nil {
				return nil, err
			}
		}
		results = append(results, result)
	}
	return results, nil
}

func diff(name, before, after string) (string, error) {
	return difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(before), B: difflib.SplitLines(after), FromFile: name, ToFile: name, Context: 3,
	})
}

// Changed counts the files that change.
func (r Results) Changed() (count int) {
	for _, result := range r {
		if result.Changed {
			count++
		}
	}
	return count
}

// LeftAlone counts the documents that a person has to change.
func (r Results) LeftAlone() (count int) {
	for _, result := range r {
		for _, note := range result.Notes {
			if note.Severity == LeftAlone {
				count++
			}
		}
	}
	return count
}

// Write writes the files that change. It goes on after an error.
func (r Results) Write() error {
	var failed []error
	for _, result := range r {
		if result.Changed {
			failed = append(failed, result.source.write(result.data))
		}
	}
	return errors.Join(failed...)
}

// Options of captctl migrate manifests.
type Options struct {
	// Paths of files and folders; Stdin is standard input.
	Paths []string
	// Plan says what was adopted; nil if nothing is to be filled in.
	Plan *migrate.Plan
	Mode Mode
	In   io.Reader
	// Out gets what is asked for: the files, or the diff. ErrOut gets the notes.
	Out, ErrOut io.Writer
}

// Run rewrites manifests. Its error is migrate.Pending if something is left to be done: by captctl with Write, or by a person.
func (o Options) Run() error {
	if o.Mode == Write && slices.Contains(o.Paths, Stdin) {
		return errors.New("standard input can not be written: leave --write out, and the result is printed")
	}
	files, err := Files(o.Paths, o.In)
	if err != nil {
		return err
	}
	results, err := RewriteAll(files, o.Plan)
	if err != nil {
		return err
	}
	results.Tell(o.ErrOut)
	switch o.Mode {
	case Check:
		for _, result := range results {
			fmt.Fprint(o.Out, result.Diff)
		}
		if count := results.Changed(); count > 0 {
			return migrate.Pending.Errorf("%d of %d files are to be rewritten%s", count, len(results), results.byHand(", and "))
		}
	case Write:
		if err := results.Write(); err != nil {
			return err
		}
		fmt.Fprintf(o.ErrOut, "%d of %d files rewritten\n", results.Changed(), len(results))
	case Print:
		results.print(o.Out)
	}
	if byHand := results.byHand(""); byHand != "" {
		return migrate.Pending.Errorf("%s", byHand)
	}
	return nil
}

// Tell writes the notes, each as file:line.
func (r Results) Tell(to io.Writer) {
	for _, result := range r {
		for _, note := range result.Notes {
			fmt.Fprintf(to, "%s:%d: %s: %s\n", note.File, note.Line, note.Severity, note.Message)
		}
	}
}

func (r Results) byHand(before string) string {
	count := r.LeftAlone()
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%sdocuments to be changed by hand: %d", before, count)
}

// print writes all files as one stream of documents.
func (r Results) print(to io.Writer) {
	for i, result := range r {
		if i > 0 && !separates(firstLineOf(result.data)) {
			fmt.Fprintln(to, "---")
		}
		fmt.Fprint(to, string(result.data))
		if i < len(r)-1 && len(result.data) > 0 && !bytes.HasSuffix(result.data, []byte("\n")) {
			fmt.Fprintln(to)
		}
	}
}

func firstLineOf(data []byte) string {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	return string(line)
}
