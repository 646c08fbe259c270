// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
)

// Column of a table.
type Column struct {
	// Name is one word. It may have any case.
	Name string
	// Wide columns are shown by -o wide only.
	Wide bool
	// Optional columns are left out if the terminal is too narrow, the last one first.
	Optional bool
	// Prose is how many lines a cell may have on a narrow terminal, if this is the last column and has sentences.
	Prose int
	// Style of a cell; nil is plain.
	Style func(cell string) Style
}

// Rows are the cells of a table, one for each column, wide ones included.
type Rows [][]string

// Table prints a table as kubectl does; nothing if it has no rows. Without -o wide, it fits the terminal.
func (p *Printer) Table(columns []Column, rows Rows) {
	if len(rows) == 0 {
		return
	}
	columns, rows = p.shown(columns, rows)
	var prose *prose
	if p.width > 0 {
		columns, rows, prose = p.fit(columns, rows)
	}
	text, err := printed(columns, rows)
	if err != nil {
		p.err = err
		return
	}
	p.text(p.painted(text, columns, prose))
}

// shown are the columns that the format has. Empty cells get a dash.
func (p *Printer) shown(columns []Column, rows Rows) (some []Column, cells Rows) {
	cells = make(Rows, len(rows))
	for j, column := range columns {
		if column.Wide && !p.Wide() {
			continue
		}
		some = append(some, column)
		for i := range rows {
			cell := rows[i][j]
			if cell == "" {
				cell = "-"
			}
			cells[i] = append(cells[i], cell)
		}
	}
	return some, cells
}

// printed is a table without styles.
func printed(columns []Column, rows Rows) (string, error) {
	table := &metav1.Table{}
	for _, column := range columns {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: column.Name, Type: "string"})
	}
	for _, row := range rows {
		cells := make([]any, 0, len(row))
		for _, cell := range row {
			cells = append(cells, cell)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
	}
	var buffer bytes.Buffer
	err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, &buffer)
	return buffer.String(), err
}

// painted adds the styles of cells to a table that is aligned already, because escape sequences would count as part of the widths. The first line,
// which has the names of the columns, shows where each begins. Further lines of prose follow their row.
func (p *Printer) painted(text string, columns []Column, more *prose) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	starts := starts(lines[0], columns)
	for i, line := range lines {
		runes := p.cut([]rune(line))
		var b strings.Builder
		for j, column := range columns {
			from, to := min(starts[j], len(runes)), min(starts[j+1], len(runes))
			cell := strings.TrimRight(string(runes[from:to]), " ")
			style := Plain
			switch {
			case i == 0:
				style = Strong
			case column.Style != nil:
				style = column.Style(strings.TrimSpace(cell))
			}
			b.WriteString(p.Paint(style, cell) + strings.Repeat(" ", to-from-utf8.RuneCountInString(cell)))
		}
		lines[i] = strings.TrimRight(b.String(), " ")
		if i > 0 && more != nil {
			lines[i] += more.below(p, i-1, starts)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// cut shortens a line to the width of the terminal: wrapped lines of a table cannot be read. -o wide shows all.
func (p *Printer) cut(line []rune) []rune {
	if p.width < 2 || len(line) <= p.width {
		return line
	}
	return append(line[:p.width-1:p.width-1], '…')
}

// starts returns the offset at which each column begins in the first line; after the last one, math.MaxInt.
func starts(header string, columns []Column) (offsets []int) {
	from := 0
	for _, column := range columns {
		from += strings.Index(header[from:], strings.ToUpper(column.Name))
		offsets = append(offsets, from)
		from += len(column.Name)
	}
	return append(offsets, math.MaxInt)
}

const (
	// padding is between the columns of kubectl's tables.
	padding = 3
	// narrowestProse is the narrowest column of prose, and narrowestCell that of anything else.
	narrowestProse, narrowestCell = 32, 12
	// proseIndent is that of prose below its row.
	proseIndent = "    "
)

// prose has the lines that follow the rows of a table.
type prose struct {
	lines [][]string
	// isLast is true if the prose continues the last column, and false if all of it is below its row.
	isLast bool
}

// fit makes a table as narrow as the terminal: it leaves out optional columns, breaks prose into lines, in its column or, if that is too narrow, below
// each row, and shortens the cells of the widest columns.
func (p *Printer) fit(columns []Column, rows Rows) ([]Column, Rows, *prose) {
	all, last := widths(columns, rows), len(columns)-1
	fixed := all
	if columns[last].Prose > 0 {
		fixed = all[:last]
	}
	if i := lastOptional(columns); i >= 0 && p.total(fixed) > p.width {
		return p.fit(without(columns, rows, i))
	}
	switch {
	case p.total(all) <= p.width:
		return columns, rows, nil
	case columns[last].Prose == 0:
		p.shorten(rows, all)
		return columns, rows, nil
	}
	if space := p.width - p.total(fixed) - padding; space >= narrowestProse || all[last] <= 2*space && longestWord(rows, last) < space-len(" .") {
		return columns, rows, p.inColumn(rows, space, columns[last].Prose)
	}
	more := &prose{}
	for i, row := range rows {
		var lines []string
		if row[last] != "-" {
			lines = p.proseLines(row[last], p.width-len(proseIndent), columns[last].Prose)
		}
		more.lines, rows[i] = append(more.lines, lines), row[:last]
	}
	p.shorten(rows, fixed)
	return columns[:last], rows, more
}

// inColumn breaks the cells of the last column into lines, and leaves the first one in its row.
func (p *Printer) inColumn(rows Rows, width, most int) *prose {
	more := &prose{isLast: true}
	for _, row := range rows {
		lines := p.proseLines(row[len(row)-1], width, most)
		row[len(row)-1], more.lines = lines[0], append(more.lines, lines[1:])
	}
	return more
}

// proseLines breaks prose into at most so many lines.
func (p *Printer) proseLines(text string, width, most int) []string {
	lines := strings.Split(p.wrapped(text, width-len(" .")), "\n")
	if len(lines) > most {
		last := []rune(lines[most-1]) // A word that is too long is not broken elsewhere, so that it can be copied.
		lines = append(lines[:most-1], string(last[:min(len(last), max(width-len(" ."), 0))])+" …")
	}
	return lines
}

// widths are those of columns with all of their text.
func widths(columns []Column, rows Rows) []int {
	all := make([]int, len(columns))
	for j := range columns {
		all[j] = len(columns[j].Name)
		for i := range rows {
			all[j] = max(all[j], utf8.RuneCountInString(printers.EscapeTerminal(rows[i][j])))
		}
	}
	return all
}

func longestWord(rows Rows, column int) (length int) {
	for _, row := range rows {
		for word := range strings.FieldsSeq(row[column]) {
			length = max(length, utf8.RuneCountInString(word))
		}
	}
	return length
}

func lastOptional(columns []Column) int {
	for i, column := range slices.Backward(columns) {
		if column.Optional {
			return i
		}
	}
	return -1
}

// without is a table without a column.
func without(columns []Column, rows Rows, i int) ([]Column, Rows) {
	fewer := make(Rows, len(rows))
	for j, row := range rows {
		fewer[j] = slices.Delete(slices.Clone(row), i, i+1)
	}
	return slices.Delete(slices.Clone(columns), i, i+1), fewer
}

// total is the width of a table.
func (p *Printer) total(widths []int) (total int) {
	for _, width := range widths {
		total += width
	}
	return total + padding*max(0, len(widths)-1)
}

// shorten shortens the widest columns until the table fits.
func (p *Printer) shorten(rows Rows, widths []int) {
	for p.total(widths) > p.width && slices.Max(widths) > narrowestCell {
		widths[slices.Index(widths, slices.Max(widths))]--
	}
	for _, row := range rows {
		for j := range widths {
			row[j] = shortened(row[j], widths[j])
		}
	}
}

// below are the lines that follow a row.
func (m *prose) below(p *Printer, row int, starts []int) string {
	indent := proseIndent
	if m.isLast {
		indent = strings.Repeat(" ", starts[len(starts)-2])
	}
	var b strings.Builder
	for _, line := range m.lines[row] {
		b.WriteString("\n" + indent + p.Paint(Plain, line))
	}
	return b.String()
}
