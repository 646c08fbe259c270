// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package output prints documents as tables, with color on a terminal, and as JSON and YAML for programs. It also shows the progress of long
// operations.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mitchellh/go-wordwrap"
	"github.com/pmezard/go-difflib/difflib"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/api/validation/manifests"
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

// ForMachines reports whether the format is for programs.
func (f Format) ForMachines() bool { return f != Table && f != Wide }

// Style is what a piece of text means to users. The zero value is plain.
type Style int

const (
	// Plain text.
	Plain Style = iota
	// Good news: done, added.
	Good
	// Bad news: blocked, failed, removed.
	Bad
	// Attention is asked for: ambiguous, a warning.
	Attention
	// Faint is of less interest.
	Faint
	// Strong begins a section.
	Strong
)

// colors is how many colors a terminal has.
type colors int

const (
	none colors = iota
	// eight are those of the theme. On many light backgrounds, yellow and green can hardly be read.
	eight
	// manyColors have values that no theme changes. Those that are used have nearly the same contrast with black as with white: 4 to 5.
	manyColors
)

// Palette paints text, or leaves it as it is.
type Palette struct{ colors colors }

// newPalette returns the colors of a terminal, or none.
func newPalette(on bool) Palette {
	switch {
	case !on:
		return Palette{}
	case strings.Contains(os.Getenv("TERM"), "256color"), os.Getenv("COLORTERM") != "":
		return Palette{manyColors}
	}
	return Palette{eight}
}

// sequence is the parameter of the escape sequence for a style.
func (p Palette) sequence(style Style) string {
	codes := map[Style][2]string{Good: {"32", "38;5;29"}, Bad: {"31", "38;5;196"}, Attention: {"33", "38;5;130"}, Faint: {"2", "38;5;243"}, Strong: {"1", "1"}}
	return codes[style][p.colors-eight]
}

// Paint gives text a style. It escapes control characters, because text from objects could otherwise control the terminal.
func (p Palette) Paint(style Style, text string) string {
	text = printers.EscapeTerminal(text)
	if p.colors == none || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + p.sequence(style) + "m" + text + "\x1b[0m"
}

// Printer prints in one format.
type Printer struct {
	Palette
	Format Format
	to     io.Writer
	// width of the terminal, in columns; zero if it is none, or if all is shown.
	width int
	err   error
}

// Screen is a terminal with many colors that keeps in memory what is printed, for pictures and tests.
type Screen struct {
	bytes.Buffer
	Columns int
	Lines   int // Lines is zero if all are shown.
}

// HeightOf returns how many lines a terminal has, or false if the writer is none.
func HeightOf(to io.Writer) (lines int, is bool) {
	if screen, is := to.(*Screen); is {
		return screen.Lines, true
	}
	file, ok := to.(interface{ Fd() uintptr })
	if !ok || !printers.IsTerminal(to) {
		return 0, false
	}
	_, lines, err := term.GetSize(int(file.Fd()))
	return lines, err == nil
}

// Cropped is a text that fits a screen of so many lines: the first lines, how many more there are, and the last line.
func Cropped(text string, lines int) string {
	all := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	if lines < 4 || len(all) < lines {
		return text
	}
	shown := lines - 3
	return strings.Join(all[:shown], "") + fmt.Sprintf("… %d more lines\n", len(all)-shown-1) + all[len(all)-1] + "\n"
}

// NewPrinter prints to a writer, with color if it is a terminal that shows colors and the user did not disable them.
func NewPrinter(to io.Writer, format Format, noColor bool) *Printer {
	p := &Printer{Palette: newPalette(!noColor && printers.AllowsColorOutput(to)), Format: format, to: to}
	if screen, is := to.(*Screen); is {
		p.Palette, p.width = Palette{manyColors}, screen.Columns
	}
	if file, ok := to.(interface{ Fd() uintptr }); ok && printers.IsTerminal(to) {
		p.width = terminalWidth(int(file.Fd()))
	}
	if format != Table {
		p.width = 0
	}
	return p
}

// To returns a printer of the same format, colors and width that prints elsewhere.
func (p *Printer) To(writer io.Writer) *Printer {
	return &Printer{Palette: p.Palette, Format: p.Format, width: p.width, to: writer}
}

// Wide reports whether more columns and all lines are shown.
func (p *Printer) Wide() bool { return p.Format == Wide }

// Document prints a document for machines, and calls forUsers for a table.
func (p *Printer) Document(document any, forUsers func(*Printer)) error {
	switch p.Format {
	case JSON:
		return p.JSON(document)
	case YAML:
		data, err := yaml.Marshal(document)
		if err != nil {
			return err
		}
		_, err = p.to.Write(data)
		return err
	default:
		forUsers(p)
		return p.err
	}
}

// JSON prints a document as JSON, in any format.
func (p *Printer) JSON(document any) error {
	encoder := json.NewEncoder(p.to)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}

// Linef prints a line. Callers pass text from objects through Paint, which escapes control characters.
// After an error of the writer nothing more is printed.
func (p *Printer) Linef(format string, args ...any) { p.text(fmt.Sprintf(format, args...) + "\n") }

// Text prints the lines of a text, each after an indent. On a terminal it breaks them between words.
func (p *Printer) Text(indent string, style Style, text string) {
	for line := range strings.SplitSeq(p.wrapped(text, p.width-len(indent)), "\n") {
		if line == "" {
			p.Blank()
			continue
		}
		p.Linef("%s%s", indent, p.Paint(style, line))
	}
}

// Title prints a title and a text on the same line. On a terminal, further lines of the text are indented.
func (p *Printer) Title(title string, style Style, text string) {
	p.Item(title, p.Paint(Strong, title), "  ", style, text)
}

// Item prints a label, which is painted already, and a text on the same line. On a terminal, further lines of the text have an indent.
func (p *Printer) Item(label, painted, indent string, style Style, text string) {
	label = strings.ReplaceAll(label, " ", "\u00a0") // It is not broken.
	first, rest, more := strings.Cut(p.wrapped(label+" "+text, p.width), "\n")
	p.Linef("%s%s", painted, p.Paint(style, strings.TrimPrefix(first, label)))
	if more {
		p.Text(indent, style, OneLine(rest))
	}
}

// Fields prints names and values, one per line, without those that have no value.
func (p *Printer) Fields(fields [][2]string) {
	for _, field := range fields {
		if field[1] != "" {
			p.Linef("%-10s %s", field[0], field[1])
		}
	}
}

// Commands prints commands. Their lines are not broken, so that they can be copied.
func (p *Printer) Commands(indent string, commands []string) {
	for _, command := range commands {
		p.Linef("%s%s", indent, p.Paint(Plain, command))
	}
}

// NextStep prints what to do next, after an empty line.
func (p *Printer) NextStep(step string, commands []string) {
	p.Blank()
	p.Title("Next step:", Plain, step)
	p.Commands("  ", commands)
}

// Findings prints one line per finding, in the form that editors and CI systems recognize.
func (p *Printer) Findings(findings manifests.Findings) {
	for _, finding := range findings {
		style := map[manifests.Level]Style{manifests.LevelError: Bad, manifests.LevelWarning: Attention}[finding.Level]
		position := fmt.Sprintf("%s:%d:%d: ", finding.File, finding.Line, max(1, finding.Column))
		p.Item(position+string(finding.Level)+":", p.Paint(Plain, position)+p.Paint(style, string(finding.Level))+":", "    ", Plain, OneLine(finding.Text()))
	}
}

// Blank prints an empty line.
func (p *Printer) Blank() { p.text("\n") }

func (p *Printer) text(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.to, text)
	}
}

// Count is "1 object" or "2 objects".
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Moment is in UTC: the reader may be in another time zone.
func Moment(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }

// Ago is how long ago something was, as kubectl prints ages; empty if that is not known.
func Ago(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(at)) + " ago"
}

// Age is how long ago something was, as kubectl prints it in tables; empty if that is not known.
func Age(now time.Time, at *metav1.Time) string {
	if at.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(at.Time))
}

// OneLine is a text without line breaks.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// wrapped is a text with line breaks between words, so that its lines fit the width; as it is if the width is unknown.
func (p *Printer) wrapped(text string, width int) string {
	const narrowest = 20 // The narrowest text that is broken into lines.
	if p.width == 0 {
		return text
	}
	return wordwrap.WrapString(text, uint(max(width, narrowest)))
}

// shortened replaces the middle of a text that is too long: names differ at their ends. Of Kind/name, also in a tree, the kind is shortened first.
func shortened(text string, width int) string {
	excess := utf8.RuneCountInString(text) - width
	if excess <= 0 || width < 2 {
		return text
	}
	at := max(0, strings.IndexFunc(text, unicode.IsLetter))
	space := width - utf8.RuneCountInString(text[:at])
	if kind, name, found := strings.Cut(text[at:], "/"); found && space > 2*narrowestCell {
		kind = shortened(kind, max(narrowestCell, utf8.RuneCountInString(kind)-excess))
		return text[:at] + kind + "/" + shortened(name, space-1-utf8.RuneCountInString(kind))
	}
	if space <= narrowestCell/2 {
		at, space = 0, width
	}
	runes := []rune(text[at:])
	return text[:at] + string(runes[:space/2]) + "…" + string(runes[len(runes)-(space-1)/2:])
}

// Value is the value of a field as YAML; empty if the field is not there. A block is put below the name of the field.
type Value struct {
	text  string
	block bool
}

// several reports whether it has more than one line.
func (v Value) several() bool { return strings.Contains(v.text, "\n") }

// JSONValue is a JSON value as YAML.
func JSONValue(document json.RawMessage) Value {
	text, err := yaml.JSONToYAML(document)
	switch {
	case len(document) == 0:
		return Value{}
	case err != nil:
		return Value{text: string(document)}
	}
	first := bytes.TrimSpace(document)[0]
	return Value{text: strings.TrimSuffix(string(text), "\n"), block: len(document) > 2 && (first == '{' || first == '[')}
}

// ValueOf is a value as YAML; text of several lines is left as it is.
func ValueOf(of any) Value {
	if of == nil {
		return Value{}
	}
	if text, ok := of.(string); ok && strings.Contains(text, "\n") {
		return Value{text: strings.TrimSuffix(text, "\n"), block: true}
	}
	document, err := json.Marshal(of)
	if err != nil {
		return Value{text: fmt.Sprint(of)}
	}
	return JSONValue(document)
}

// Change shows a field before and after. Of two long texts only the lines that differ are shown, with some around them.
func (p *Printer) Change(indent, field string, before, after Value) {
	if before.several() && after.several() {
		p.Linef("%s  %s:", indent, p.Paint(Plain, field))
		p.lines(indent, before.text, after.text)
		return
	}
	p.side(indent, "- ", Bad, field, before)
	p.side(indent, "+ ", Good, field, after)
}

func (p *Printer) side(indent, sign string, style Style, field string, v Value) {
	switch {
	case v.text == "":
	case v.block:
		p.Linef("%s%s", indent, p.Paint(style, sign+field+":"))
		for _, line := range strings.Split(v.text, "\n") {
			p.Linef("%s%s", indent, p.Paint(style, sign+"  "+line))
		}
	default:
		p.Linef("%s%s", indent, p.Paint(style, sign+field+": "+v.text))
	}
}

func (p *Printer) lines(indent, before, after string) {
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: difflib.SplitLines(before), B: difflib.SplitLines(after), Context: 2})
	if err != nil {
		text = "-" + before + "\n+" + after
	}
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		style := Plain
		switch {
		case strings.HasPrefix(line, "-"):
			style = Bad
		case strings.HasPrefix(line, "+"):
			style = Good
		case strings.HasPrefix(line, "@@"):
			style = Faint
		}
		p.Linef("%s%s", indent, p.Paint(style, line))
	}
}

// FieldPath is a JSON pointer as YAML users write paths, for example metadata.annotations["a/b"].
func FieldPath(pointer string) string {
	var b strings.Builder
	for _, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		if strings.ContainsAny(part, "./") {
			b.WriteString("[" + strconv.Quote(part) + "]")
		} else {
			b.WriteString("." + part)
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}
