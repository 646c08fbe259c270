// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var start = time.Date(2026, time.November, 28, 17, 0, 0, 0, time.UTC)

// line is one line of Terraform's output.
func line(at time.Time, kind, content string) string {
	return fmt.Sprintf(`{"@level":"info","@message":"with a value","@module":"tofu.ui","@timestamp":%q,%s,"type":%q}`+"\n", at.Format("2006-01-02T15:04:05.000000Z07:00"), content, kind)
}

func planned(action, address, more string) string {
	return line(start, "planned_change", fmt.Sprintf(`"change":{"resource":{"addr":%q,"resource":%q,"resource_type":"aws_vpc"},"action":%q%s}`, address, address, action, more))
}

func summary(counts string) string {
	return line(start, "change_summary", `"changes":{`+counts+`,"operation":"plan"}`)
}

func refreshed(address, id string) string {
	return line(start, "refresh_start", fmt.Sprintf(`"hook":{"resource":{"addr":%q},"id_key":"id","id_value":%q}`, address, id))
}

// logged is an entry as the provider writes it, on one line or on several.
func logged(at time.Time, name, operation, message string, debug bool) string {
	stamp := at.Format("2006-01-02T15:04:05.000Z0700")
	if debug {
		return fmt.Sprintf("%s\tINFO\tprovider-terraform\t%s\t{\"request\": {\"name\":%q}, \"operation\": %q}\n", stamp, message, name, operation)
	}
	quoted, _ := json.Marshal(message) //nolint:errchkjson // A string.
	return fmt.Sprintf(`{"level":"info","ts":%q,"logger":"provider-terraform","msg":%s,"request":{"name":%q},"operation":%q}`+"\n", stamp, quoted, name, operation)
}

const one = `"add":1,"change":0,"import":0,"remove":0,"forget":0`

// eachFormat runs a test with both formats of the log.
func eachFormat(t *testing.T, run func(t *testing.T, entry func(second int, name, message string) string)) {
	t.Helper()
	for name, debug := range map[string]bool{"json": false, "console": true} {
		t.Run(name, func(t *testing.T) {
			run(t, func(second int, name, message string) string {
				return logged(start.Add(time.Duration(second)*time.Second), name, "plan", message, debug)
			})
		})
	}
}

func requireUnknown(t testing.TB, reason Reason, err error) {
	t.Helper()
	var unknown *UnknownError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, reason, unknown.Reason, unknown.Message)
}

func TestTheChangesOfAPlan(t *testing.T) {
	eachFormat(t, func(t *testing.T, entry func(int, string, string) string) {
		message := line(start, "version", `"tofu":"1.12.6"`) +
			refreshed("aws_vpc.a", "vpc-1") +
			line(start, "resource_drift", `"change":{"resource":{"addr":"aws_vpc.a","resource":"aws_vpc.a","resource_type":"aws_vpc"},"action":"update"}`) +
			planned("update", "aws_vpc.a", "") +
			planned("read", "data.aws_region.here", `,"reason":"read_because_config_unknown"`) +
			planned("create", `aws_vpc.b["x\ty"]`, "") +
			planned("delete", "aws_vpc.c", `,"reason":"delete_because_no_resource_config"`) +
			planned("replace", "aws_vpc.d", `,"reason":"cannot_update"`) +
			planned("import", "aws_vpc.e", `,"importing":{"id":"value"}`) +
			planned("update", "aws_vpc.f", `,"importing":{"id":"value"}`) +
			planned("move", "aws_vpc.g", `,"previous_resource":{"addr":"aws_vpc.z"}`) +
			planned("remove", "aws_vpc.h", "") +
			planned("noop", "aws_vpc.i", "") +
			planned("noop", "ephemeral.x.y", "") +
			line(start, "diagnostic", `"diagnostic":{"severity":"warning","summary":"with a value","detail":"with a value"}`) +
			summary(`"add":3,"change":2,"import":2,"remove":2,"forget":2`) +
			line(start, "outputs", `"outputs":{"o":{"sensitive":false,"action":"update"},"same":{"action":"noop"},"a":{"sensitive":true,"action":"create"}}`)
		changes, err := Read(strings.NewReader(entry(0, "other", "")+entry(1, "w", message)+entry(2, "other", "")), "w", start)
		require.NoError(t, err)
		vpc := func(address string, action Action, reason string) Resource {
			return Resource{Address: "aws_vpc." + address, Type: "aws_vpc", Action: action, Reason: reason}
		}
		want := &Changes{
			Time:   start.Add(time.Second),
			Counts: Counts{Create: 2, Update: 2, Replace: 1, Delete: 1, Import: 2, Forget: 2, Move: 1},
			Total:  9,
			Resources: []Resource{
				vpc("d", Replace, "cannot_update"), vpc("c", Delete, "delete_because_no_resource_config"), vpc("h", Forget, ""), vpc("i", Forget, ""),
				vpc("a", Update, ""), vpc("f", Update, ""), vpc("b[\"x\\ty\"]", Create, ""), vpc("e", Import, ""), vpc("g", Move, ""),
			},
			Destroys:   []string{"aws_vpc"},
			DriftTotal: 1, Drift: []Resource{vpc("a", Update, "")},
			OutputTotal: 2, Outputs: []Output{{"a", Create}, {"o", Update}},
			Warnings: 1,
		}
		assert.True(t, want.Time.Equal(changes.Time))
		changes.Time = want.Time
		require.Equal(t, want, changes)
		require.Equal(t, 2, changes.Destructive())
		require.NotContains(t, fmt.Sprint(changes), "value")
	})
}

func TestTheNewestPlanSinceATime(t *testing.T) {
	eachFormat(t, func(t *testing.T, entry func(int, string, string) string) {
		of := func(address string) string { return planned("create", address, "") + summary(one) }
		log := entry(0, "w", of("a")) + entry(10, "w", of("b")) + entry(20, "v", of("c"))
		changes, err := Read(strings.NewReader(log), "w", start)
		require.NoError(t, err)
		require.Equal(t, "b", changes.Resources[0].Address)
		_, err = Read(strings.NewReader(log), "w", start.Add(11*time.Second))
		requireUnknown(t, NoEntry, err)
		require.EqualError(t, err, "what changes is not known: provider-terraform has logged no changes of Workspace w since 2026-11-28T17:00:11Z")

		x := Index{}
		scanned, err := x.Scan(strings.NewReader(log), "pod")
		require.NoError(t, err)
		require.Equal(t, []any{true, true, int64(len(log))}, []any{scanned.First.Equal(start), scanned.Last.Equal(start.Add(20 * time.Second)), scanned.Bytes})
		_, err = x.Scan(strings.NewReader(entry(20, "v", of("c"))+entry(30, "w", of("d"))), "pod")
		require.NoError(t, err)
		changes, err = x.Newest("w", start)
		require.NoError(t, err)
		require.Equal(t, "d", changes.Resources[0].Address)
		_, err = x.Newest("v", start)
		require.NoError(t, err, "an entry that is read twice is one")
		x.Forget(start.Add(25 * time.Second))
		require.Len(t, x.names, 1)
	})
}

func TestWhyChangesAreNotKnown(t *testing.T) {
	created := planned("create", "a", "")
	for name, c := range map[string]struct {
		reason  Reason
		message string
	}{
		"a plan with -json that failed":     {PlanFailed, ""},
		"a plan that failed":                {NotJSON, "\nError: with a value\n\ttext\n"},
		"a plan without -json":              {NotJSON, "\nTerraform will perform the following actions:\n  # a will be created\n\nPlan: 1 to add, 0 to change, 0 to destroy.\n"},
		"no summary":                        {Incomplete, created},
		"two summaries":                     {Incomplete, created + summary(one) + summary(one)},
		"a change is missing":               {Incomplete, summary(one)},
		"a change too many":                 {Incomplete, created + created + summary(one)},
		"another change":                    {Incomplete, planned("update", "a", "") + summary(one)},
		"a change without action":           {Incomplete, planned("noop", "a", "") + summary(one)},
		"a summary of half a line":          {Incomplete, created + summary(one)[:100] + "\n"},
		"an address that is cut":            {Incomplete, strings.Replace(created, `"addr":"a"`, `"addr":""`, 1) + summary(one)},
		"a line that is newer":              {Incomplete, created + strings.ReplaceAll(summary(one), ":00:00.", ":00:03.")},
		"other text":                        {Incomplete, created + "text\n" + summary(one)},
		"a summary without counts":          {Incomplete, planned("read", "a", "") + line(start, "change_summary", `"changes":{"operation":"plan"}`)},
		"an unknown action of an output":    {Unsupported, created + summary(one) + line(start, "outputs", `"outputs":{"o":{"action":"explode"}}`)},
		"an unknown action":                 {Unsupported, planned("explode", "a", "") + summary(one)},
		"an unknown count":                  {Unsupported, created + summary(one+`,"action_invocation":1`)},
		"changes that are deferred":         {Unsupported, created + summary(one) + line(start, "deferred_change", `"deferred":{}`)},
		"a line with an error, and a place": {PlanFailed, created + line(start, "diagnostic", `"diagnostic":{"severity":"error","summary":"with a value","address":"aws_vpc.a","range":{"filename":"modules/x/main.tf","start":{"line":5}}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			eachFormat(t, func(t *testing.T, entry func(int, string, string) string) {
				whole := entry(0, "w", created+summary(one))
				_, err := Read(strings.NewReader(whole+entry(1, "w", c.message)), "w", start)
				requireUnknown(t, c.reason, err)
				require.NotContains(t, err.Error(), "value")
			})
		})
	}
}

// A line that ends in the middle, before and after others.
func TestEntriesOfWhichAPartIsMissing(t *testing.T) {
	eachFormat(t, func(t *testing.T, entry func(int, string, string) string) {
		old, whole, other := entry(0, "w", planned("create", "a", "")+summary(one)), entry(1, "w", planned("create", "b", "")+summary(one)), entry(2, "v", "")
		for name, c := range map[string]struct {
			log    string
			reason Reason // Empty if the old changes are right.
		}{
			"beginning":                     {whole[len(whole)/2:] + other, Incomplete},
			"beginning, after another":      {old + whole[len(whole)/2:] + other, Incomplete},
			"middle":                        {old + whole[:len(whole)/2] + whole[len(whole)*3/4:] + other, Incomplete},
			"end, before another":           {old + whole[:len(whole)/2] + "\n" + other, Incomplete},
			"end of the only one":           {whole[:len(whole)/2] + "\n" + other, Incomplete},
			"end of the log":                {old + whole[:len(whole)/2], ""},
			"end of the log, with its line": {old + whole[:len(whole)-1], ""},
			"of another writer":             {"I1128 17:00:00.000000       1 reflector.go:1] text\n" + old + "text\n", ""},
		} {
			t.Run(name, func(t *testing.T) {
				changes, err := Read(iotest.HalfReader(strings.NewReader(c.log)), "w", start)
				if c.reason != "" {
					requireUnknown(t, c.reason, err)
					return
				}
				require.NoError(t, err)
				require.Equal(t, "a", changes.Resources[0].Address)
			})
		}
	})
}

// The API server returns lines, and parts of long lines, since a second: an entry that was read before may begin in its middle.
func TestAScanMayBeginInAnEntry(t *testing.T) {
	eachFormat(t, func(t *testing.T, entry func(int, string, string) string) {
		one, two := entry(1, "w", planned("create", "a", "")+summary(one)), entry(2, "v", planned("create", "b", "")+summary(one))
		x := Index{}
		for _, log := range []string{one + two, one[len(one)/2:] + two} {
			_, err := x.Scan(strings.NewReader(log), "pod")
			require.NoError(t, err)
			for _, name := range []string{"w", "v"} {
				_, err = x.Newest(name, start)
				require.NoError(t, err)
			}
		}
		_, err := x.Scan(strings.NewReader(two+one[len(one)/2:]), "pod")
		require.NoError(t, err)
		_, err = x.Newest("w", start)
		requireUnknown(t, Incomplete, err)
	})
}

func TestBothFormatsInOneLog(t *testing.T) {
	message := planned("create", "a", "") + summary(one)
	lines := logged(start, "v", "plan", message, true)
	log := lines[:strings.LastIndex(lines, "\t")] + logged(start.Add(time.Second), "w", "plan", planned("delete", "b", "")+summary(`"add":0,"change":0,"remove":1`), false)
	changes, err := Read(strings.NewReader(log), "w", start)
	require.NoError(t, err)
	require.Equal(t, []Action{Delete}, []Action{changes.Resources[0].Action})
	_, err = Read(strings.NewReader(log), "v", start)
	requireUnknown(t, Incomplete, err)
}

// The output of another module may look like an entry. Only in the format with several lines it is one, if the author knows the name.
func TestTextInAnEntryOnOneLineIsNoEntry(t *testing.T) {
	forged := logged(start, "demo", "plan", planned("create", "aws_vpc.a", "")+summary(one), true)
	_, err := Read(strings.NewReader(logged(start, "other", "apply", "Outputs:\n"+forged, false)), "demo", start)
	requireUnknown(t, Incomplete, err) // It is not known which entry the lines of JSON are from.
	_, err = Read(strings.NewReader(logged(start, "other", "apply", "Outputs:\n"+forged, true)), "demo", start)
	require.NoError(t, err)
}

func TestTwoWorkspacesOfOneName(t *testing.T) {
	eachFormat(t, func(t *testing.T, entry func(int, string, string) string) {
		changes := planned("create", "a", "") + summary(one)
		ours := refreshed("x", "1") + changes
		for name, log := range map[string]string{
			"another ID":       entry(1, "w", ours) + entry(2, "w", refreshed("x", "2")+refreshed("y", "3")+changes),
			"other resources":  entry(1, "w", ours) + entry(2, "w", refreshed("y", "3")+changes),
			"no resources":     entry(1, "w", ours) + entry(2, "w", changes),
			"at the same time": entry(1, "w", ours+line(start.Add(time.Second), "log", `"x":1`)) + entry(2, "w", strings.ReplaceAll(changes, ":00:00.0", ":00:00.5")),
		} {
			_, err := Read(strings.NewReader(log), "w", start)
			requireUnknown(t, Ambiguous, err)
			_, err = Read(strings.NewReader(log), "w", start.Add(2*time.Second))
			require.NoError(t, err, "%s: before the time that was asked for", name)
		}
		others := ""
		for second := range 2 * maxEntries {
			others += entry(3+second, "w", refreshed("y", "3")+changes)
		}
		_, err := Read(strings.NewReader(entry(2, "w", ours)+others), "w", start)
		requireUnknown(t, Ambiguous, err)
		_, err = Read(strings.NewReader(entry(2, "w", ours)+others), "w", start.Add(3*time.Second))
		require.NoError(t, err)
		_, err = Read(strings.NewReader(entry(0, "w", ours)+entry(1, "w", refreshed("x", "1")+refreshed("y", "2")+changes)), "w", start)
		require.NoError(t, err)
	})
}

func TestMemoryIsLimited(t *testing.T) {
	eachFormat(t, func(t *testing.T, entry func(int, string, string) string) {
		many := &strings.Builder{}
		for i := range 2000 {
			many.WriteString(planned("create", fmt.Sprintf("aws_vpc.a[%04d]%s", i, strings.Repeat("ä", 400)), ""))
		}
		many.WriteString(planned("delete", "z", "") + summary(`"add":2000,"change":0,"remove":1`))
		require.Greater(t, many.Len(), 1<<20)
		changes, err := Read(strings.NewReader(entry(0, "w", many.String())), "w", start)
		require.NoError(t, err)
		require.Equal(t, []any{2001, MaxListed, "z"}, []any{changes.Total, len(changes.Resources), changes.Resources[0].Address})
		require.Less(t, len(changes.Resources[1].Address), maxAddress+4)

		long := entry(1, "w", planned("create", "a", "")+line(start, "log", `"x":"`+strings.Repeat("x", maxLine)+`"`)+summary(one))
		_, err = Read(strings.NewReader(entry(0, "w", planned("create", "a", "")+summary(one))+long), "w", start)
		requireUnknown(t, TooLarge, err)

		x := Index{}
		for i := range maxNames + 10 {
			_, err := x.Scan(strings.NewReader(entry(i, fmt.Sprint("w", i), "")+entry(i, "w", fmt.Sprint(i))), "")
			require.NoError(t, err)
		}
		require.Len(t, x.names, maxNames)
		require.Len(t, x.names["w"], maxEntries)
		require.NotContains(t, x.names, "w0")
	})
}

func TestAReaderThatFails(t *testing.T) {
	x := Index{}
	_, err := x.Scan(iotest.ErrReader(os.ErrDeadlineExceeded), "")
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	_, err = Read(iotest.ErrReader(os.ErrDeadlineExceeded), "w", start)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-28T17:57:19.026Z": "2026-11-28T17:57:19.026Z", "2026-11-28T18:57:19.026+0100": "2026-11-28T17:57:19.026Z",
		"2026-11-28T17:57:19Z": "2026-11-28T17:57:19Z", "1795888639.5": "2026-11-28T17:57:19.5Z", "": "0001-01-01T00:00:00Z",
	} {
		require.Equal(t, want, parseTime(text).UTC().Format(time.RFC3339Nano), text)
	}
}

// What the real provider has logged is not part of this repository.
func TestTheLogsOfTheRealProvider(t *testing.T) {
	reference := os.Getenv("CAPT_REFERENCE")
	if reference == "" {
		reference = filepath.Join("..", "..", "..", "..", "shared", "reference")
	}
	for file, since := range map[string]time.Time{
		"plan-json.log":  time.Date(2026, time.November, 28, 17, 57, 20, 0, time.UTC),
		"plan-debug.log": time.Date(2026, time.November, 28, 17, 57, 50, 0, time.UTC),
	} {
		log, err := os.ReadFile(filepath.Join(reference, "provider-logs", file))
		if err != nil {
			t.Skipf("no logs of provider-terraform in %s; CAPT_REFERENCE names the folder of the reference data", reference)
		}
		changes, err := Read(bytes.NewReader(log), "w1-preview", since)
		require.NoError(t, err, file)
		data := func(name string, action Action, reason string) Resource {
			return Resource{Address: "terraform_data." + name, Type: "terraform_data", Action: action, Reason: reason}
		}
		require.Equal(t, &Changes{
			Time: changes.Time, Counts: Counts{Create: 1, Update: 1, Replace: 1, Delete: 1}, Total: 4,
			Resources: []Resource{
				data("b", Replace, "cannot_update"), data("gone", Delete, "delete_because_no_resource_config"),
				data("a", Update, ""), data("new", Create, ""),
			},
			Destroys: []string{"terraform_data"}, OutputTotal: 1, Outputs: []Output{{"o", Update}},
		}, changes, file)
		if file == "plan-json.log" {
			_, err = Read(bytes.NewReader(log), "w1-preview", since.Add(-time.Minute))
			requireUnknown(t, Ambiguous, err)
		}
	}
}

// generated is a random log and its entries of one Workspace.
type generated struct {
	log     []byte
	entries []span
}

type span struct {
	from, to int
	changes  Changes
}

func generate(r *rand.Rand) generated {
	g, debug := generated{}, r.IntN(2) == 0
	for i := range 2 + r.IntN(6) {
		at, name, s := start.Add(time.Duration(i)*time.Second), []string{"w", "v"}[r.IntN(2)], span{from: len(g.log)}
		timed := func(message string) string {
			return strings.ReplaceAll(message, "17:00:00.", fmt.Sprintf("17:00:%02d.", i))
		}
		if r.IntN(3) == 0 {
			g.log = append(g.log, "I1128 17:00:00.000000       1 reflector.go:1] text of another writer\n"...)
			s.from = len(g.log)
		}
		if r.IntN(4) == 0 {
			g.log = append(g.log, logged(at, name, "apply", timed(planned("create", "applied", "")+summary(one)), debug)...)
			continue
		}
		message := refreshed("x", "1")
		for range 1 + r.IntN(4) {
			action := []Action{Create, Update, Delete, Replace}[r.IntN(4)]
			address := fmt.Sprintf("aws_vpc.r%d", r.IntN(1000))
			message += planned(string(action), address, "")
			s.changes.Resources = append(s.changes.Resources, Resource{Address: address, Type: "aws_vpc", Action: action})
			switch action {
			case Create:
				s.changes.Create++
			case Update:
				s.changes.Update++
			case Delete:
				s.changes.Delete++
			default:
				s.changes.Replace++
			}
		}
		c := s.changes.Counts
		message += summary(fmt.Sprintf(`"add":%d,"change":%d,"remove":%d`, c.Create+c.Replace, c.Update, c.Delete+c.Replace))
		g.log = append(g.log, logged(at, name, "plan", timed(message), debug)...)
		s.to = len(g.log)
		if s.changes.Resources = first(s.changes.Resources); name == "w" {
			g.entries = append(g.entries, s)
		}
	}
	return g
}

// Whatever part of a log is missing, the changes are those of the newest entry that is not missing as a whole, or not known.
func checkRemoval(t testing.TB, seed uint64, from, to int) (known bool) {
	t.Helper()
	g := generate(rand.New(rand.NewPCG(seed, 0)))
	from, to = min(max(from, 0), len(g.log)), min(max(to, 0), len(g.log))
	if from > to {
		from, to = to, from
	}
	if from < to {
		to = min(max(to, from+200), len(g.log)) // A log does not lose single letters.
	}
	// A line loses its beginning or its end, but not both to another one.
	if removed := g.log[from:to]; bytes.ContainsRune(removed, '\n') {
		if (from+to)%2 == 0 {
			to = from + bytes.LastIndexByte(removed, '\n')
		} else {
			from = bytes.LastIndexByte(g.log[:from], '\n') + 1
		}
	}
	changes, err := Read(bytes.NewReader(slices.Concat(g.log[:from], g.log[to:])), "w", start)
	if err != nil {
		var unknown *UnknownError
		require.ErrorAs(t, err, &unknown)
		require.True(t, from < to || unknown.Reason == NoEntry && len(g.entries) == 0, "seed %d: %v", seed, err)
		return false
	}
	for _, e := range slices.Backward(g.entries) {
		if assert.ObjectsAreEqual([]any{e.changes.Counts, e.changes.Resources}, []any{changes.Counts, changes.Resources}) {
			return true
		}
		left := max(0, from-e.from) + max(0, e.to-to)
		isGone := from < e.to && to > e.from && left < 120 // Nothing of it is there, or nothing that shows that it was a plan.
		isLast := from < e.to && to > e.from && (e.to == len(g.log) || bytes.Count(g.log[to:], []byte("\n")) <= 1)
		require.True(t, isGone || isLast, "seed %d without %d to %d: %v instead of %v", seed, from, to, changes, e.changes)
	}
	require.Fail(t, "changes of no entry", "seed %d without %d to %d: %v", seed, from, to, changes)
	return false
}

func TestAMissingPartNeverGivesOtherChanges(t *testing.T) {
	known := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		from := r.IntN(6000)
		if checkRemoval(t, seed, from, from+r.IntN(1+r.IntN(3000))) {
			known++
		}
		checkRemoval(t, seed, 0, 0)
	}
	require.Greater(t, known, 300)
}

func FuzzAMissingPartNeverGivesOtherChanges(f *testing.F) {
	f.Add(uint64(1), 0, 10)
	f.Fuzz(func(t *testing.T, seed uint64, from, to int) { checkRemoval(t, seed, from, to) })
}

func FuzzAnyLog(f *testing.F) {
	f.Add([]byte(logged(start, "w", "plan", planned("create", "a", "")+summary(one), true)))
	f.Add([]byte(logged(start, "w", "plan", planned("create", "a", "")+summary(one), false)))
	f.Fuzz(func(t *testing.T, log []byte) {
		changes, err := Read(bytes.NewReader(log), "w", start)
		require.Equal(t, err == nil, changes != nil)
	})
}
