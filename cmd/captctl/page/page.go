// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package page is the page of captctl report: one HTML file that loads nothing. The package knows nothing of Kubernetes; it only lays out text.
package page

import (
	"crypto/sha256"
	_ "embed" // For the template, the style and the script.
	"encoding/base64"
	"html/template"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/capt-provider/capt/cmd/captctl/picture"
)

// Page is everything that is shown. All texts may come from objects: the template escapes them.
type Page struct {
	Scope     string // Scope is which Clusters are shown.
	From      string // From is the management cluster.
	Generated Time
	Version   string // Version of captctl.
	Counts    []Count
	Clusters  []Cluster
}

// Class is what a text means: good, bad, attention or plain. It is never shown without its text.
type Class string

// State is a text with its meaning.
type State struct {
	Text  string
	Class Class
}

// Count is how many Clusters are in a state.
type Count struct {
	State
	Clusters int
}

// Time is a time with the text that is shown for it; the zero value is shown as empty.
type Time struct {
	Text string
	At   time.Time
}

// Machine is the time for programs.
func (t Time) Machine() string { return t.At.UTC().Format(time.RFC3339) }

// Cluster is a row of the table, and a section.
type Cluster struct {
	Name              string // Name has the namespace.
	State, Health     State
	Version, Endpoint string
	Age, Applied      Time
	Paused            bool
	Progress          *Progress
	Summary           string // Summary is the cause in one line.
	Cause             *Cause
	Next              string
	Commands          []string
	Tables            []Table
	Graph             *picture.Picture
}

// Open reports whether the section of the Cluster is open at first.
func (c Cluster) Open() bool { return c.Cause != nil || c.Paused }

// Progress of an operation.
type Progress struct {
	Percent int32
	Text    string
}

// Cause is why a Cluster is not Ready.
type Cause struct {
	Object, Reason, Message string
	Since                   Time
}

// Table has a caption, names of columns and rows.
type Table struct {
	Caption string
	Columns []string
	Rows    [][]State
}

//go:embed page.html.tmpl
var source string

//go:embed page.css
var style string

//go:embed page.js
var script string

// parsed is the template with style and script, and their hashes in its policy: a browser runs no other script, whatever a Cluster reports.
var parsed = sync.OnceValues(func() (*template.Template, error) {
	styles := picture.Style + style
	templates, err := picture.Template()
	if err != nil {
		return nil, err
	}
	templates.Funcs(template.FuncMap{
		"style":  func() template.CSS { return template.CSS(styles) }, //nolint:gosec // It is embedded.
		"script": func() template.JS { return template.JS(script) },   //nolint:gosec // It is embedded.
	})
	policy := strings.NewReplacer("STYLE-HASH", hash(styles), "SCRIPT-HASH", hash(script))
	return templates.New("page").Parse(policy.Replace(source))
})

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Write writes the page.
func (p *Page) Write(to io.Writer) error {
	templates, err := parsed()
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := templates.ExecuteTemplate(&text, "page", p); err != nil {
		return err
	}
	_, err = io.WriteString(to, picture.Printable(text.String()))
	return err
}
