// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

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

// Blank prints an empty line.
func (p *Printer) Blank() { p.text("\n") }

func (p *Printer) text(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.to, text)
	}
}
