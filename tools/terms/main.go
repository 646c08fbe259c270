// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Terms finds words of terms.txt in the tracked Go, Markdown and YAML files. With -count it prints the hits per directory and
// succeeds.
package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed terms.txt
var list string

// term is a line of terms.txt.
type term struct {
	pattern, instead string
	word, allowed    *regexp.Regexp
}

func words(patterns ...string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(patterns, "|") + `)\b`)
}

func main() {
	count := flag.Bool("count", false, "Print the number of hits per directory, and succeed.")
	flag.Parse()
	hits, err := run(terms(list), os.Stdout, *count)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	case hits > 0 && !*count:
		fmt.Fprintf(os.Stderr, "%d lines have words that tools/terms/terms.txt replaces.\n", hits)
		os.Exit(1)
	}
}

func terms(list string) (found []term) {
	for line := range strings.Lines(list) {
		columns := strings.Split(strings.TrimRight(line, "\n")+"\t\t", "\t")
		if strings.HasPrefix(line, "#") || columns[0] == "" {
			continue
		}
		next := term{pattern: columns[0], instead: columns[1], word: words(columns[0])}
		if columns[2] != "" {
			next.allowed = regexp.MustCompile("(?i)" + columns[2])
		}
		found = append(found, next)
	}
	return found
}

func run(terms []term, out *os.File, count bool) (hits int, err error) {
	files, err := exec.Command("git", "ls-files", "-z", "--", "*.go", "*.md", "*.yaml").Output()
	if err != nil {
		return 0, fmt.Errorf("listing files: %w", err)
	}
	patterns := make([]string, 0, len(terms))
	for _, one := range terms {
		patterns = append(patterns, one.pattern)
	}
	anyOf, perDirectory := words(patterns...), map[string]int{}
	for _, name := range strings.Split(strings.Trim(string(files), "\x00"), "\x00") {
		text, err := os.ReadFile(name) //nolint:gosec // A tracked file.
		if os.IsNotExist(err) {
			continue // Deleted, and not committed.
		} else if err != nil {
			return 0, err
		}
		for _, hit := range inFile(terms, anyOf, name, text) {
			perDirectory[path.Dir(name)]++
			hits++
			if !count {
				fmt.Fprintln(out, hit)
			}
		}
	}
	if count {
		printed := make([]string, 0, len(perDirectory))
		for directory, hits := range perDirectory {
			printed = append(printed, fmt.Sprintf("%5d %s", hits, directory))
		}
		slices.Sort(printed)
		fmt.Fprintf(out, "%s\n%5d in all\n", strings.Join(printed, "\n"), hits)
	}
	return hits, nil
}

// inFile lists the lines of a file that have a word.
func inFile(terms []term, anyOf *regexp.Regexp, name string, text []byte) (hits []string) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for number := 1; lines.Scan(); number++ {
		if !anyOf.Match(lines.Bytes()) {
			continue
		}
		line := lines.Text()
		for _, one := range terms {
			word := one.word.FindString(line)
			if word != "" && (one.allowed == nil || !one.allowed.MatchString(name+": "+line)) {
				hits = append(hits, fmt.Sprintf("%s:%d: %q: write %s", name, number, word, one.instead))
				break
			}
		}
	}
	return hits
}
