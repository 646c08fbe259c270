// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"math"
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
	// Style of a cell; nil is plain.
	Style func(cell string) Style
}

// Rows are the cells of a table, one for each column, wide ones included.
type Rows [][]string

// Table prints a table as kubectl does; nothing if it has no rows.
func (p *Printer) Table(columns []Column, rows Rows) {
	if len(rows) == 0 {
		return
	}
	table := &metav1.Table{}
	for _, column := range columns {
		definition := metav1.TableColumnDefinition{Name: column.Name, Type: "string"}
		if column.Wide {
			definition.Priority = 1
		}
		table.ColumnDefinitions = append(table.ColumnDefinitions, definition)
	}
	for _, row := range rows {
		cells := make([]any, 0, len(row))
		for _, cell := range row {
			if cell == "" {
				cell = "-"
			}
			cells = append(cells, cell)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
	}
	var buffer bytes.Buffer
	if err := printers.NewTablePrinter(printers.PrintOptions{Wide: p.Wide()}).PrintObj(table, &buffer); err != nil {
		p.err = err
		return
	}
	p.text(p.painted(buffer.String(), columns))
}

// painted adds the styles of cells to a table that is aligned already, because escape sequences would count as part of the widths. The first line,
// which has the names of the columns, shows where each begins.
func (p *Printer) painted(text string, columns []Column) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	shown, starts := p.starts(lines[0], columns)
	for i, line := range lines {
		runes := p.cut([]rune(line))
		var b strings.Builder
		for j, column := range shown {
			from, to := min(starts[j], len(runes)), min(starts[j+1], len(runes))
			cell := strings.TrimRight(string(runes[from:to]), " ")
			style := Plain
			switch {
			case i == 0:
				style = Strong
			case column.Style != nil:
				style = column.Style(cell)
			}
			b.WriteString(p.Paint(style, cell) + strings.Repeat(" ", to-from-utf8.RuneCountInString(cell)))
		}
		lines[i] = strings.TrimRight(b.String(), " ")
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

// starts returns the columns that are shown, and the offset at which each begins in the first line; after the last offset, math.MaxInt.
func (p *Printer) starts(header string, columns []Column) (shown []Column, starts []int) {
	from := 0
	for _, column := range columns {
		if column.Wide && !p.Wide() {
			continue
		}
		from += strings.Index(header[from:], strings.ToUpper(column.Name))
		shown, starts = append(shown, column), append(starts, from)
		from += len(column.Name)
	}
	return shown, append(starts, math.MaxInt)
}
