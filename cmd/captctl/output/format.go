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

// Package output prints what commands found: as tables for people, with colour on a terminal, and as JSON and YAML for
// machines; and tells how far long work has come.
package output

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Format is how a command prints.
type Format string

const (
	// Table is for people.
	Table Format = "table"
	// Wide is a table with more columns.
	Wide Format = "wide"
	// JSON and YAML are for machines; docs/captctl-output.md describes the fields.
	JSON Format = "json"
	// YAML is JSON for machines that people look at.
	YAML Format = "yaml"
	// DOT is a graph for Graphviz.
	DOT Format = "dot"
	// Mermaid is a graph for Markdown.
	Mermaid Format = "mermaid"
)

// formats that every command has.
var formats = []Format{Table, Wide, JSON, YAML}

// ForMachines tells whether a program reads it.
func (f Format) ForMachines() bool { return f != Table && f != Wide }

// Flag is -o.
type Flag struct {
	value   string
	allowed []Format
}

// NewFlag has the formats of every command, and some more.
func NewFlag(more ...Format) *Flag {
	return &Flag{value: string(Table), allowed: append(slices.Clone(formats), more...)}
}

// Add adds it to a command, with its completion.
func (f *Flag) Add(command *cobra.Command) {
	command.Flags().StringVarP(&f.value, "output", "o", f.value, "How to print: "+f.names()+".")
	values := make([]string, 0, len(f.allowed))
	for _, format := range f.allowed {
		values = append(values, string(format))
	}
	if err := command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // The flag was added just now.
	}
}

// Format is the one that was asked for.
func (f *Flag) Format() Format { return Format(f.value) }

// Validate refuses a format that the command does not have.
func (f *Flag) Validate() error {
	if !slices.Contains(f.allowed, f.Format()) {
		return fmt.Errorf("there is no output format %q; use one of %s", f.value, f.names())
	}
	return nil
}

func (f *Flag) names() string {
	names := make([]string, 0, len(f.allowed))
	for _, format := range f.allowed {
		names = append(names, string(format))
	}
	return strings.Join(names, ", ")
}
