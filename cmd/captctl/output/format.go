// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package output prints documents as tables, with color on a terminal, and as JSON and YAML for programs. It also shows the progress of long
// operations.
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
	// Table is for users.
	Table Format = "table"
	// Wide is a table with more columns.
	Wide Format = "wide"
	// JSON is for programs; docs/captctl-output.md describes the fields.
	JSON Format = "json"
	// YAML has the same fields as JSON.
	YAML Format = "yaml"
)

var formats = []Format{Table, Wide, JSON, YAML}

// ForMachines reports whether the format is for programs.
func (f Format) ForMachines() bool { return f != Table && f != Wide }

// Flag is -o.
type Flag struct {
	value   string
	formats []Format
}

// NewFlag returns the flag with its default, for all formats and more.
func NewFlag(more ...Format) *Flag {
	return &Flag{string(Table), append(slices.Clone(formats), more...)}
}

// NewFlagOf returns the flag of a command that has formats of its own only; the first is the default.
func NewFlagOf(formats ...Format) *Flag { return &Flag{string(formats[0]), formats} }

// Add adds it to a command, with its completion.
func (f *Flag) Add(command *cobra.Command) {
	command.Flags().StringVarP(&f.value, "output", "o", f.value, "Output format: "+f.names()+".")
	if err := command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(strings.Split(f.names(), ", "), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // The flag was added just now.
	}
}

// Format is the one that was asked for.
func (f *Flag) Format() Format { return Format(f.value) }

// Validate rejects an unknown format.
func (f *Flag) Validate() error {
	if !slices.Contains(f.formats, f.Format()) {
		return fmt.Errorf("there is no output format %q; use one of %s", f.value, f.names())
	}
	return nil
}

func (f *Flag) names() string {
	all := make([]string, len(f.formats))
	for i, format := range f.formats {
		all[i] = string(format)
	}
	return strings.Join(all, ", ")
}
