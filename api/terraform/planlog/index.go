// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planlog

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// maxLine is the maximum length of a line that is read. A plan writes about 1 KiB per resource.
	maxLine = 8 << 20
	// kept is how much of the beginning and of the end of a longer line is kept.
	kept = 4 << 10
	// maxNames and maxEntries limit the memory of an index.
	maxNames, maxEntries = 500, 4
)

// Index has the newest plans of the logs that it has read, by the name of the Workspace. The zero value is empty. It is not safe for
// concurrent use.
type Index struct {
	names map[string][]entry
	// cut is the time of the newest entry whose end, and with it the name, is missing.
	cut time.Time
}

// entry is one plan.
type entry struct {
	time    time.Time
	changes *Changes
	err     *UnknownError
	// What distinguishes plans of different Workspaces.
	log            string
	started, ended time.Time
	ids            map[uint64]uint64
	sum            uint64
	// clash is the time of the newest earlier plan of another Workspace, also if that is no longer kept.
	clash time.Time
}

// Scanned is what Scan has read.
type Scanned struct {
	// First and Last are the times of the first and of the last complete entry, of any kind; zero if there is none.
	First, Last time.Time
	// Bytes is the number of bytes, including an incomplete line at the end.
	Bytes int64
}

// Newest returns the changes of the newest plan of a Workspace since a time, with an UnknownError if they are not known.
func (x *Index) Newest(workspace string, since time.Time) (*Changes, error) {
	since = since.Truncate(time.Millisecond) // As the times in the log.
	all := slices.DeleteFunc(slices.Clone(x.names[workspace]), func(e entry) bool { return e.time.Before(since) })
	if len(all) == 0 {
		if !x.cut.Before(since) && !x.cut.IsZero() {
			return nil, unknownCut()
		}
		return nil, Unknown(NoEntry, "provider-terraform has logged no changes of Workspace %s since %s", workspace, since.UTC().Format(time.RFC3339))
	}
	newest := all[len(all)-1]
	switch {
	case !newest.clash.Before(since) && !newest.clash.IsZero():
		return nil, Unknown(Ambiguous, "provider-terraform plans several Workspaces with the name %s, in different namespaces or scopes, and its log does not distinguish them", workspace)
	case newest.err != nil:
		return nil, newest.err
	case !x.cut.Before(newest.time):
		return nil, unknownCut()
	}
	return newest.changes, nil
}

func unknownCut() *UnknownError {
	return Unknown(Incomplete, "the log of provider-terraform has an entry without its end")
}

// differs reports whether two plans cannot be of one Workspace: the provider does not plan it twice at the same time, and the state has a part of its
// resources, with their IDs, in common. If all resources were replaced or created between the plans, the changes are not known, either.
func (e entry) differs(other entry) bool {
	if e.started.IsZero() || other.started.IsZero() {
		return false // It has no lines of Terraform.
	}
	if e.log == other.log && e.sum != other.sum && e.started.Before(other.ended) && other.started.Before(e.ended) {
		return true
	}
	common := len(e.ids) == 0 && len(other.ids) == 0
	for address, id := range e.ids {
		found, ok := other.ids[address]
		if ok && found != id {
			return true
		}
		common = common || ok
	}
	return !common
}

// findClashes compares the plans of one name, in the order of their times.
func findClashes(entries []entry) {
	for i := range entries {
		e := &entries[i]
		for _, earlier := range entries[:i] {
			at := earlier.clash
			if e.differs(earlier) {
				at = earlier.time
			}
			if at.After(e.clash) {
				e.clash = at
			}
		}
	}
}

// Forget removes the plans before a time.
func (x *Index) Forget(before time.Time) {
	for name, entries := range x.names {
		if entries = slices.DeleteFunc(entries, func(e entry) bool { return e.time.Before(before) }); len(entries) == 0 {
			delete(x.names, name)
		} else {
			x.names[name] = entries
		}
	}
}

// put adds an entry. One that is read again, or is older than all that are kept, changes nothing.
func (x *Index) put(name string, e entry) {
	entries := x.names[name]
	if slices.ContainsFunc(entries, func(other entry) bool { return other.log == e.log && other.time.Equal(e.time) && other.sum == e.sum }) {
		return
	}
	if x.names == nil {
		x.names = map[string][]entry{}
	}
	entries = append(entries, e)
	slices.SortStableFunc(entries, func(a, b entry) int { return a.time.Compare(b.time) })
	findClashes(entries)
	x.names[name] = slices.Clone(entries[max(0, len(entries)-maxEntries):])
	if len(x.names) <= maxNames {
		return
	}
	oldest, at := "", time.Time{}
	for name, entries := range x.names {
		if last := entries[len(entries)-1].time; oldest == "" || last.Before(at) {
			oldest, at = name, last
		}
	}
	delete(x.names, oldest)
}

// Read reads a log, and returns the newest changes of a Workspace since a time. An entry whose beginning is missing is not older.
func Read(log io.Reader, workspace string, since time.Time) (*Changes, error) {
	x := Index{}
	if _, err := x.scan(&scan{index: &x, time: since}, log); err != nil {
		return nil, err
	}
	return x.Newest(workspace, since)
}

// Scan adds the entries of a log with a name. The log may begin at a time: an entry whose beginning is missing is older, or was read before. An entry
// whose end is missing because the log ends there is not added: the next scan finds it. The error is that of the reader, and what was read before is
// added.
func (x *Index) Scan(log io.Reader, name string) (Scanned, error) {
	return x.scan(&scan{index: x, log: name, partial: true}, log)
}

func (x *Index) scan(s *scan, log io.Reader) (Scanned, error) {
	s.reader = bufio.NewReaderSize(log, 64<<10)
	for {
		line, long, err := s.line()
		switch {
		case errors.Is(err, io.EOF):
			return s.Scanned, nil
		case err != nil:
			return s.Scanned, err
		}
		s.read(line, long)
	}
}

// scan reads one log.
type scan struct {
	Scanned
	index   *Index
	log     string
	partial bool
	reader  *bufio.Reader
	buffer  []byte
	// time of the last entry, and the one that is open, in the format with several lines.
	time time.Time
	open *plan
}

// line returns the next line that is complete. Of one that is longer than maxLine, it returns the beginning and the end.
func (s *scan) line() (line []byte, long bool, err error) {
	s.buffer = s.buffer[:0]
	for {
		part, err := s.reader.ReadSlice('\n')
		s.Bytes += int64(len(part))
		s.buffer = append(s.buffer, part...)
		if len(s.buffer) > maxLine || long && len(s.buffer) > 2*kept {
			long = true
			s.buffer = append(s.buffer[:kept], s.buffer[len(s.buffer)-kept:]...)
		}
		switch {
		case err == nil:
			return bytes.TrimRight(s.buffer, "\r\n"), long, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
	}
}

var (
	// header begins an entry of the format with several lines: time, level, and the rest.
	header = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[^\t]*)\t[A-Z]+\t`)
	// stamp is the time in an entry on one line.
	stamp = regexp.MustCompile(`"ts":("[^"]+"|[0-9.eE+]+)`)
	// trailer ends an entry about a plan, also one whose beginning is missing.
	trailer = regexp.MustCompile(`"request":\s*\{"name":\s*"([^"\\]+)"\},\s*"operation":\s*"plan"\}$`)
)

// fields of an entry.
type fields struct {
	Request struct {
		Name string `json:"name"`
	} `json:"request"`
	Operation string `json:"operation"`
}

func (s *scan) read(line []byte, long bool) {
	match := header.FindSubmatch(line[:min(len(line), 128)])
	switch {
	case match != nil:
		s.header(parseTime(string(match[1])), line[len(match[0]):], long)
	case bytes.HasPrefix(line, []byte(`{"level":`)):
		s.abandon()
		s.json(line, long)
	case s.open != nil:
		s.continued(line, long)
	default: // A line of another writer, or the rest of an entry whose beginning is missing.
		if match := trailer.FindSubmatch(line); match != nil && (!s.partial || !s.First.IsZero()) {
			s.incomplete(string(match[1]), "its beginning is missing")
		}
	}
}

// passed notes the time of a complete entry.
func (s *scan) passed(at time.Time) {
	if at.IsZero() {
		return
	}
	if s.First.IsZero() {
		s.First = at
	}
	s.time, s.Last = at, at
}

// incomplete adds an entry whose changes are not known, at the time of the last one.
func (s *scan) incomplete(name, why string) {
	s.index.put(name, entry{time: s.time, log: s.log, err: Unknown(Incomplete, "the entry in the log of provider-terraform is incomplete: %s", why)})
}

// json reads an entry on one line.
func (s *scan) json(line []byte, long bool) {
	at := time.Time{}
	if match := stamp.FindSubmatch(line[:min(len(line), 256)]); match != nil {
		at = parseTime(strings.Trim(string(match[1]), `"`))
	}
	match := trailer.FindSubmatch(line)
	s.passed(at)
	if long {
		if match != nil {
			s.index.put(string(match[1]), entry{time: s.time, log: s.log, err: Unknown(TooLarge, "the entry in the log of provider-terraform is larger than %d MiB", maxLine>>20)})
		}
		return
	}
	var e struct {
		fields
		Message string `json:"msg"`
	}
	switch err := json.Unmarshal(line, &e); {
	case err != nil:
		s.cut(s.time)
	case e.Operation == "" && !strings.HasPrefix(e.Message, `{"@`): // Of something else than Terraform.
	case at.IsZero():
		s.cut(s.time)
	default:
		p := newPlan(at)
		for text := range strings.Lines(e.Message) {
			p.add([]byte(strings.TrimSuffix(text, "\n")))
		}
		s.put(e.fields, p)
	}
}

// cut notes an entry that has no end.
func (s *scan) cut(at time.Time) {
	if at.After(s.index.cut) {
		s.index.cut = at
	}
}

// put adds an entry that has its end.
func (s *scan) put(f fields, p *plan) {
	of := slices.Contains([]string{"plan", "apply", "destroy"}, f.Operation) && f.Request.Name != ""
	if p.json && (p.other || p.summary == nil || !of) { // It may have parts of two entries, and the name of the second.
		s.cut(p.changes.Time)
	}
	if !of || f.Operation != "plan" {
		return
	}
	changes, err := p.result()
	s.index.put(f.Request.Name, entry{
		time: p.changes.Time, changes: changes, err: err, log: s.log, started: p.started, ended: p.ended, ids: p.ids, sum: p.sum.Sum64(),
	})
}

// header begins an entry of the format with several lines.
func (s *scan) header(at time.Time, rest []byte, long bool) {
	s.abandon()
	if at.IsZero() {
		at = s.time
	}
	s.open = newPlan(at)
	_, text, _ := bytes.Cut(rest, []byte("\t")) // The name of the logger.
	s.continued(text, long)
}

// abandon ends an entry that has no end. If it has lines of a plan, they were cut.
func (s *scan) abandon() {
	if s.open == nil {
		return
	}
	if s.open.json {
		s.cut(s.open.changes.Time)
	}
	s.passed(s.open.changes.Time)
	s.open = nil
}

// continued reads a line of an open entry, which may be its last one.
func (s *scan) continued(line []byte, long bool) {
	text, end := line, []byte(nil)
	if i := bytes.LastIndex(line, []byte("\t{")); i >= 0 {
		text, end = line[:i], line[i+1:]
	}
	f, p := fields{}, s.open
	closed := end != nil && json.Unmarshal(end, &f) == nil
	if !closed {
		text = line
	}
	if p.add(text); long {
		p.fail(TooLarge, "a line in the log of provider-terraform is longer than %d MiB", maxLine>>20)
	}
	if !closed {
		return
	}
	s.open = nil
	s.passed(p.changes.Time)
	s.put(f, p)
}

// parseTime reads the time of an entry: as zap writes it, or a number of seconds.
func parseTime(text string) time.Time {
	for _, layout := range []string{"2006-01-02T15:04:05.000Z0700", time.RFC3339Nano} {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	var seconds float64
	if json.Unmarshal([]byte(cmp.Or(text, "x")), &seconds) != nil {
		return time.Time{}
	}
	return time.UnixMilli(int64(seconds * 1000))
}
