// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"k8s.io/cli-runtime/pkg/printers"
)

// Otherwise the width of ü and … would depend on the locale, which terminals ignore.
func init() { text.OverrideRuneWidthEastAsianWidth(false) }

// Column of a table.
type Column struct {
	// Name is one word. It may have any case.
	Name string
	// Wide columns are shown by -o wide only.
	Wide bool
	// Optional columns are left out if the terminal is too narrow, the last one first.
	Optional bool
	// Whole columns are not shortened: they have few values, which users know by their beginning and end.
	Whole bool
	// Prose is how many lines a cell may have on a narrow terminal, if this is the last column and has sentences.
	Prose int
	// Style of a cell; nil is plain.
	Style func(cell string) Style
	// RowStyle of a cell by the number of its row; where it is plain, Style decides.
	RowStyle func(row int) Style
}

// RowsThat need an action are red.
func RowsThat(needAction func(row int) bool) func(row int) Style {
	return func(row int) Style { return map[bool]Style{true: Bad}[needAction(row)] }
}

// NeedsAction prints a summary below a table and, in red, the names of the rows that need an action, which would otherwise be out of sight.
func (p *Printer) NeedsAction(summary, names string) {
	p.Blank()
	p.Text("", Plain, summary)
	if names != "" {
		p.Text("", Bad, "Needs action: "+names)
	}
}

// Rows are the cells of a table, one for each column, wide ones included.
type Rows [][]string

// Table prints a table as kubectl does; nothing if it has no rows. Without -o wide, it fits the terminal.
func (p *Printer) Table(columns []Column, rows Rows) {
	if len(rows) == 0 {
		return
	}
	columns, rows = p.shown(columns, rows)
	var below []string
	style := columns[len(columns)-1].RowStyle
	if p.width > 0 {
		columns, below = p.fit(columns, rows)
	}
	for i, line := range strings.Split(p.aligned(columns, rows), "\n") {
		if p.width > 1 && columns[len(columns)-1].Prose == 0 { // Long words of prose can be copied.
			line = text.Snip(line, p.width, "…") // Wrapped lines of a table cannot be read. -o wide shows all.
		}
		p.text(line + "\n")
		if i > 0 && below != nil && below[i-1] != "" {
			p.Text(proseIndent, rowStyle(style, i-1), below[i-1])
		}
	}
}

// Section prints a table after an empty line; nothing if it has no rows.
func (p *Printer) Section(columns []Column, rows Rows) {
	if len(rows) > 0 {
		p.Blank()
		p.Table(columns, rows)
	}
}

func (p *Printer) aligned(columns []Column, rows Rows) string {
	writer := table.NewWriter()
	writer.SetStyle(table.Style{Box: table.BoxStyle{PaddingRight: strings.Repeat(" ", padding)}})
	writer.SuppressTrailingSpaces()
	header := table.Row{}
	for _, column := range columns {
		header = append(header, p.Paint(Strong, strings.ToUpper(column.Name)))
	}
	writer.AppendHeader(header)
	for i, row := range rows {
		cells := table.Row{}
		for j, column := range columns {
			style := rowStyle(column.RowStyle, i)
			if row[j] == "-" && style == Bad {
				style = Plain // An empty cell has no color.
			}
			if column.Style != nil && style == Plain {
				style = column.Style(row[j])
			}
			cells = append(cells, p.Paint(style, row[j]))
		}
		writer.AppendRow(cells)
	}
	return writer.Render()
}

func rowStyle(of func(row int) Style, row int) Style {
	if of == nil {
		return Plain
	}
	return of(row)
}

// shown are the columns that the format has. Empty cells get a dash, and prose is on one line.
func (p *Printer) shown(columns []Column, rows Rows) (some []Column, cells Rows) {
	cells = make(Rows, len(rows))
	for j, column := range columns {
		if column.Wide && !p.Wide() {
			continue
		}
		some = append(some, column)
		for i := range rows {
			cell := rows[i][j]
			if column.Prose > 0 {
				cell = OneLine(cell)
			}
			cells[i] = append(cells[i], cmp.Or(cell, "-"))
		}
	}
	return some, cells
}

const (
	// padding is between the columns of kubectl's tables.
	padding = 3
	// narrowestProse is the narrowest column of prose, and narrowestCell that of anything else. Columns are left out before a cell is narrower than readableCell.
	narrowestProse, narrowestCell, readableCell = 32, 12, 16
	// proseIndent is that of prose below its row.
	proseIndent = "    "
)

// fit makes a table as narrow as the terminal: it leaves out optional columns, breaks prose into lines, in its column or, if that is too narrow, below
// each row, and shortens the cells of the widest columns.
func (p *Printer) fit(columns []Column, rows Rows) (_ []Column, below []string) {
	all, last := widths(columns, rows), len(columns)-1
	fixed := all
	if columns[last].Prose > 0 {
		fixed = all[:last]
	}
	if i := p.leftOut(columns, fixed); i >= 0 {
		rows.drop(i)
		return p.fit(slices.Delete(columns, i, i+1), rows)
	}
	space := p.width - total(fixed) - padding
	switch {
	case columns[last].Prose == 0 || total(all) <= p.width:
		p.shorten(columns, rows, all)
		return columns, nil
	case space >= narrowestProse || all[last] <= 2*space && longestWord(rows, last) < space-len(" ."):
		for _, row := range rows {
			row[last] = p.prose(row[last], space, columns[last].Prose)
		}
		return columns, nil
	}
	for i, row := range rows {
		below = append(below, "")
		if row[last] != "-" {
			below[i] = p.prose(row[last], p.width-len(proseIndent), columns[last].Prose)
		}
		rows[i] = row[:last]
	}
	p.shorten(columns, rows, fixed)
	return columns[:last], below
}

// leftOut is the column to leave out of a table that is too wide: the last optional one or, if shortened cells are not enough, the last one; -1 if none is.
// A table of three columns is cut instead.
func (p *Printer) leftOut(columns []Column, widths []int) int {
	if total(widths) <= p.width {
		return -1
	}
	least := slices.Clone(widths)
	for j, column := range slices.Backward(columns[:len(widths)]) {
		if column.Optional {
			return j
		}
		if !column.Whole {
			least[j] = min(least[j], max(len(column.Name), readableCell))
		}
	}
	if len(least) > 3 && total(least) > p.width {
		return len(least) - 1
	}
	return -1
}

// prose breaks prose into at most so many lines.
func (p *Printer) prose(text string, width, most int) string {
	lines := strings.Split(p.wrapped(text, width-len(" .")), "\n")
	if len(lines) > most {
		last := []rune(lines[most-1]) // A word that is too long is not broken elsewhere, so that it can be copied.
		lines = append(lines[:most-1], string(last[:min(len(last), max(width-len(" ."), 0))])+" …")
	}
	return strings.Join(lines, "\n")
}

func widths(columns []Column, rows Rows) []int {
	all := make([]int, len(columns))
	for j := range columns {
		all[j] = max(len(columns[j].Name), widest(rows, j))
	}
	return all
}

func widest(rows Rows, column int) (width int) {
	for _, row := range rows {
		width = max(width, text.StringWidth(printers.EscapeTerminal(row[column])))
	}
	return width
}

func (r Rows) drop(column int) {
	for i := range r {
		r[i] = slices.Delete(r[i], column, column+1)
	}
}

func longestWord(rows Rows, column int) (length int) {
	for _, row := range rows {
		for word := range strings.FieldsSeq(row[column]) {
			length = max(length, text.StringWidth(word))
		}
	}
	return length
}

func total(widths []int) (total int) {
	for _, width := range widths {
		total += width
	}
	return total + padding*max(0, len(widths)-1)
}

// shortKinds are the short names of long kinds, as kubectl accepts them.
var shortKinds = map[string]string{"WorkspaceTemplateApply": "wta", "WorkspaceTemplate": "wt", "CAPTControlPlane": "captcp", "CAPTMachinePool": "captmp", "CAPTCluster": "captc"}

// word matches kinds, which reasons contain, too.
var word = regexp.MustCompile(`\w+`)

// widestToShorten returns the index of the widest column that may be shortened; -1 without one.
func widestToShorten(columns []Column, widths []int) int {
	found := -1
	for j := range widths {
		if !columns[j].Whole && widths[j] > narrowestCell && (found < 0 || widths[j] > widths[found]) {
			found = j
		}
	}
	return found
}

// shorten shortens the widest columns until the table fits: first the kinds of objects, then the middle of each cell.
func (p *Printer) shorten(columns []Column, rows Rows, widths []int) {
	if total(widths) > p.width {
		for _, row := range rows {
			for j := range widths {
				row[j] = word.ReplaceAllStringFunc(row[j], func(word string) string { return cmp.Or(shortKinds[word], word) })
			}
		}
		for j := range widths {
			widths[j] = min(widths[j], max(narrowestCell, widest(rows, j)))
		}
	}
	for total(widths) > p.width {
		j := widestToShorten(columns, widths)
		if j < 0 {
			break
		}
		widths[j]--
	}
	for _, row := range rows {
		for j := range widths {
			row[j] = shortened(row[j], widths[j])
		}
	}
}
