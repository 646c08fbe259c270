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

// Package manifest rewrites manifests, as people keep them in Git, from v1beta1 to v1beta2, with what an adoption wrote into
// the cluster. The text is edited, not printed anew: whatever a change does not concern stays as it is, to the byte.
//
// An object becomes what the conversion webhook makes of it. Of that the fields with v1beta2's default value, which the
// manifest does not mention, are left out. What was written is read again before it is given back; a document that does
// not then say what it should is left as it was. So is one that can not be understood: it is told, and never half done.
package manifest

import (
	"bytes"
	"slices"
	"strings"

	"github.com/capt-provider/capt/migrate"
)

// Severity of a note.
type Severity string

const (
	// Info: nothing to do.
	Info Severity = "Info"
	// Warning: look at it. Something that the manifest said is not said any more.
	Warning Severity = "Warning"
	// LeftAlone: the document was not touched. A person has to change it.
	LeftAlone Severity = "LeftAlone"
)

// Note says what a person should know.
type Note struct {
	File string `json:"file"`
	// Line counts from 1.
	Line     int      `json:"line"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
}

// Rewrite rewrites a file, which may hold many documents. Without a plan nothing is filled in. What is not of CAPT, and does
// not refer to it, comes back as it was.
func Rewrite(name string, data []byte, plan *migrate.Plan) ([]byte, []Note, error) {
	if !concerned(data) {
		return data, nil, nil
	}
	r := &rewriter{file: name, adoptions: adoptionsOf(plan)}
	var out bytes.Buffer
	for _, chunk := range split(data) {
		if chunk.separator || !concerned([]byte(strings.Join(chunk.lines, ""))) {
			chunk.writeTo(&out)
			continue
		}
		lines, err := r.document(chunk)
		if err != nil {
			return nil, nil, err
		}
		for _, line := range lines {
			out.WriteString(line)
		}
	}
	slices.SortStableFunc(r.notes, func(a, b Note) int { return a.Line - b.Line })
	return out.Bytes(), r.notes, nil
}

// concerned is a quick look: most files of a repository are not about CAPT.
func concerned(data []byte) bool {
	return bytes.Contains(data, []byte(infraGroup)) || bytes.Contains(data, []byte(controlPlaneGroup))
}

// chunk is a part of a file: a document, or the line between two of them.
type chunk struct {
	lines []string
	// first is the number of the first line in the file, from 1.
	first     int
	separator bool
}

func (c chunk) writeTo(out *bytes.Buffer) {
	for _, line := range c.lines {
		out.WriteString(line)
	}
}

// split a file at the lines that begin or end a document. No other line begins like them: YAML forbids that even within
// texts. What follows on such a line belongs to the document, which is then not understood; nobody writes that.
func split(data []byte) []chunk {
	lines := strings.SplitAfter(string(data), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	var chunks []chunk
	current := chunk{first: 1}
	for i, line := range lines {
		if !separates(line) {
			current.lines = append(current.lines, line)
			continue
		}
		chunks = append(chunks, current, chunk{lines: []string{line}, first: i + 1, separator: true})
		current = chunk{first: i + 2}
	}
	return append(chunks, current)
}

func separates(line string) bool {
	line = strings.TrimPrefix(line, byteOrderMark)
	for _, marker := range []string{"---", "..."} {
		if rest, found := strings.CutPrefix(line, marker); found {
			rest = strings.TrimSpace(rest)
			return rest == "" || strings.HasPrefix(rest, "#")
		}
	}
	return false
}

const byteOrderMark = "\ufeff"

// rewriter rewrites one file.
type rewriter struct {
	file      string
	adoptions *adoptions
	notes     []Note
}

func (r *rewriter) note(line int, severity Severity, message string) {
	r.notes = append(r.notes, Note{File: r.file, Line: line, Severity: severity, Message: message})
}
