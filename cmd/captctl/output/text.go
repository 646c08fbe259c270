// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mitchellh/go-wordwrap"
	"k8s.io/apimachinery/pkg/util/duration"
)

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

// OneLine is a text without line breaks.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// narrowest is the narrowest text that is broken into lines.
const narrowest = 20

// wrapped is a text with line breaks between words, so that its lines fit the width; as it is if the width is unknown.
func (p *Printer) wrapped(text string, width int) string {
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
	runes := []rune(text)
	return string(runes[:width/2]) + "…" + string(runes[len(runes)-(width-1)/2:])
}
