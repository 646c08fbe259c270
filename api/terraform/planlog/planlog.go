// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package planlog reads from the log of provider-terraform what Terraform would change. For a Workspace with
// enableTerraformCLILogging and planArgs ["-json"], the provider logs the output of each plan that has changes as one entry. The result is
// either all changes of the newest entry, or the reason why they are not known; never a part of them.
//
// The result has no values: neither of attributes, variables and outputs, nor texts of diagnostics, which may quote them. It has
// addresses, which contain keys of for_each; Terraform accepts no sensitive value there.
package planlog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"hash"
	"hash/fnv"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxListed is how many resources, resources with drift and outputs a result lists at most.
const MaxListed = 50

const (
	// maxAddress is the maximum length of an address. A longer one is cut.
	maxAddress = 512
	// clockStep is by how much a line may be newer than its entry: the provider logs when Terraform has ended, in milliseconds.
	clockStep = 10 * time.Millisecond
	// maxIDs is for how many resources the IDs are compared between two plans.
	maxIDs = 256
)

// Action is what Terraform would do with a resource or an output.
type Action string

// The actions, in the order in which resources are listed.
const (
	Replace Action = "replace"
	Delete  Action = "delete"
	Forget  Action = "forget" // Terraform no longer manages the resource, and does not destroy it.
	Update  Action = "update"
	Create  Action = "create"
	Import  Action = "import"
	Move    Action = "move" // Another address in the state.
)

var order = []Action{Replace, Delete, Forget, Update, Create, Import, Move}

// Resource is a resource that would change.
type Resource struct {
	Address, Type string
	Action        Action
	// Reason is Terraform's, for example cannot_update; empty for most changes.
	Reason string
}

// Output is an output that would change.
type Output struct {
	Name   string
	Action Action
}

// Counts are numbers of resources. One that is imported and updated is counted as both, and one that is forgotten and created, too.
type Counts struct{ Create, Update, Replace, Delete, Import, Forget, Move int }

// Destructive is the number of resources that would be replaced or deleted.
func (c Counts) Destructive() int { return c.Replace + c.Delete }

// Changes are what Terraform would change.
type Changes struct {
	// Time is when the provider logged the plan.
	Time time.Time
	Counts
	// Total is the number of resources that would change. Resources lists the first MaxListed of them: replaced and deleted ones first,
	// then by address.
	Total     int
	Resources []Resource
	// Destroys are the types of all resources that would be replaced or deleted, sorted. A longer one than maxAddress is cut.
	Destroys []string
	// DriftTotal and Drift are resources that were changed outside of Terraform: how they differ from the state.
	DriftTotal int
	Drift      []Resource
	// Outputs lists the first MaxListed outputs of OutputTotal.
	OutputTotal int
	Outputs     []Output
	// Warnings is the number of Terraform's warnings.
	Warnings int
}

// Reason is why changes are not known.
type Reason string

// Reasons that the log gives.
const (
	NoEntry     Reason = "NoEntry"     // The provider has logged no plan since then, or one without changes.
	PlanFailed  Reason = "PlanFailed"  // With -json, the provider does not keep the error. Without it, the Workspace reports the error.
	NotJSON     Reason = "NotJSON"     // Not planned with -json.
	Incomplete  Reason = "Incomplete"  // A part of the entry is missing.
	TooLarge    Reason = "TooLarge"    // The entry is larger than what is read.
	Ambiguous   Reason = "Ambiguous"   // Several Workspaces have this name: the log has no namespaces.
	Unsupported Reason = "Unsupported" // The plan has something that this package does not know.
)

// UnknownError is the reason why changes are not known.
type UnknownError struct {
	Reason  Reason
	Message string
}

func (e *UnknownError) Error() string { return "what changes is not known: " + e.Message }

// Unknown returns the reason why changes are not known.
func Unknown(reason Reason, format string, args ...any) *UnknownError {
	return &UnknownError{reason, fmt.Sprintf(format, args...)}
}

// plan collects the lines of Terraform's output.
type plan struct {
	changes Changes
	// summary is Terraform's own count; nil before it is read.
	summary map[string]int
	// destroys are the types of the resources that would be replaced or deleted.
	destroys map[string]bool
	// noops are changes to which OpenTofu gives no action: it forgets the resource, and creates another one.
	noops int
	// problem is the first reason not to know the changes.
	problem *UnknownError
	// json is set by a line of -json, whole or not, and other by any other line, or one that is newer than the entry. With both, parts of two entries
	// may be one: the log has lost what was between them.
	json, other bool
	// The times of the first and the last line, and the IDs of resources, distinguish Workspaces.
	started, ended time.Time
	ids            map[uint64]uint64
	// sum is a hash of all lines.
	sum hash.Hash64
}

func newPlan(at time.Time) *plan {
	return &plan{changes: Changes{Time: at}, ids: map[uint64]uint64{}, destroys: map[string]bool{}, sum: fnv.New64a()}
}

func hashOf(text string) uint64 {
	sum := fnv.New64a()
	sum.Write([]byte(text))
	return sum.Sum64()
}

// message is one line of Terraform's output, without what may have values.
type message struct {
	Timestamp time.Time      `json:"@timestamp"`
	Type      string         `json:"type"`
	Change    change         `json:"change"`
	Changes   map[string]any `json:"changes"`
	Outputs   map[string]struct {
		Action string `json:"action"`
	} `json:"outputs"`
	Diagnostic diagnostic `json:"diagnostic"`
	Hook       struct {
		Resource resource `json:"resource"`
		ID       string   `json:"id_value"`
	} `json:"hook"`
}

type resource struct {
	Address string `json:"addr"`
	Type    string `json:"resource_type"`
	Local   string `json:"resource"`
}

type change struct {
	Resource  resource       `json:"resource"`
	Action    string         `json:"action"`
	Reason    string         `json:"reason"`
	Importing map[string]any `json:"importing"`
}

type diagnostic struct {
	Severity string `json:"severity"`
	Address  string `json:"address"`
	Range    struct {
		Filename string `json:"filename"`
		Start    struct {
			Line int `json:"line"`
		} `json:"start"`
	} `json:"range"`
}

func (p *plan) add(line []byte) {
	p.sum.Write(line)
	p.sum.Write([]byte("\n"))
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	p.json = p.json || bytes.HasPrefix(line, []byte(`{"@`))
	m := message{}
	if err := json.Unmarshal(line, &m); err != nil || m.Type == "" || m.Timestamp.IsZero() || m.Timestamp.After(p.changes.Time.Add(clockStep)) {
		p.other = true
		return
	}
	if p.started.IsZero() {
		p.started = m.Timestamp
	}
	p.ended = m.Timestamp
	p.read(m)
}

func (p *plan) read(m message) {
	switch m.Type {
	case "planned_change":
		p.change(m.Change)
	case "resource_drift":
		p.drift(m.Change)
	case "change_summary":
		p.summarize(m.Changes)
	case "outputs":
		p.outputs(m)
	case "diagnostic":
		p.diagnose(m.Diagnostic)
	case "refresh_start":
		if len(p.ids) < maxIDs && m.Hook.ID != "" {
			p.ids[hashOf(m.Hook.Resource.Address)] = hashOf(m.Hook.ID)
		}
	case "deferred_change":
		p.fail(Unsupported, "Terraform defers changes until others are applied")
	}
}

// fail keeps the first reason.
func (p *plan) fail(reason Reason, format string, args ...any) {
	if p.problem == nil {
		p.problem = Unknown(reason, format, args...)
	}
}

// action returns an action of this package, and false for what changes nothing.
func (p *plan) action(text string) (Action, bool) {
	switch action := Action(text); {
	case slices.Contains(order, action):
		return action, true
	case text == "remove":
		return Forget, true
	case !slices.Contains([]string{"noop", "no-op", "read", "open", "renew", "close"}, text): // These change nothing.
		p.fail(Unsupported, "Terraform plans the action %s, which this version of CAPT does not know", word(text))
	}
	return "", false
}

func (p *plan) change(c change) {
	action, ok := p.action(c.Action)
	switch {
	case !c.isWhole():
		p.other = true
		return
	case !ok && (c.Action == "read" || strings.HasPrefix(c.Resource.Local, "ephemeral.")):
		return
	case !ok:
		p.noops++
		action = Forget
	}
	counts := &p.changes.Counts
	number := map[Action]*int{
		Replace: &counts.Replace, Delete: &counts.Delete, Forget: &counts.Forget, Update: &counts.Update, Create: &counts.Create, Move: &counts.Move,
	}
	if n := number[action]; n != nil {
		*n++
	}
	if len(c.Importing) > 0 { // Also with another action than Import.
		counts.Import++
	}
	if r := c.as(action); action == Replace || action == Delete {
		p.destroys[r.Type] = true
	}
	p.changes.Total++
	p.changes.Resources = list(p.changes.Resources, c.as(action))
}

// isWhole reports whether nothing is missing in the middle of the line.
func (c change) isWhole() bool {
	return c.Resource.Address != "" && c.Resource.Type != "" && strings.HasSuffix(c.Resource.Address, c.Resource.Local)
}

func (p *plan) drift(c change) {
	if action, ok := p.action(c.Action); ok {
		p.changes.DriftTotal++
		p.changes.Drift = list(p.changes.Drift, c.as(action))
	}
}

func (p *plan) outputs(m message) {
	for name, output := range m.Outputs {
		if action, ok := p.action(output.Action); ok {
			p.changes.OutputTotal++
			p.changes.Outputs = append(p.changes.Outputs, Output{cut(name), action})
		}
	}
}

func (c change) as(action Action) Resource {
	return Resource{Address: cut(c.Resource.Address), Type: cut(c.Resource.Type), Action: action, Reason: word(c.Reason)}
}

// list adds a resource, and keeps the first MaxListed from time to time.
func list(all []Resource, r Resource) []Resource {
	if all = append(all, r); len(all) >= 4*MaxListed {
		return first(all)
	}
	return all
}

func first(all []Resource) []Resource {
	slices.SortStableFunc(all, func(a, b Resource) int {
		return cmp.Or(
			cmp.Compare(slices.Index(order, a.Action), slices.Index(order, b.Action)),
			strings.Compare(a.Address, b.Address), strings.Compare(a.Reason, b.Reason))
	})
	return slices.Clip(all[:min(len(all), MaxListed)])
}

// cut limits a text of a user, such as an address.
func cut(text string) string {
	if len(text) <= maxAddress {
		return text
	}
	end := maxAddress
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

var words = regexp.MustCompile(`^[a-z][a-z_-]{0,63}$`)

// word returns a word of Terraform's, and nothing of any other text.
func word(text string) string {
	if words.MatchString(text) {
		return text
	}
	return ""
}

func (p *plan) summarize(counts map[string]any) {
	if p.summary != nil {
		p.fail(Incomplete, "the entry has two summaries")
	}
	p.summary = map[string]int{}
	for name, value := range counts {
		if number, ok := value.(float64); ok {
			p.summary[name] = int(number)
		}
	}
}

// diagnose keeps where an error is. Its text may have values.
func (p *plan) diagnose(d diagnostic) {
	if d.Severity != "error" {
		p.changes.Warnings++
		return
	}
	where := ""
	if d.Range.Filename != "" {
		where += fmt.Sprintf(" at %s line %d", cut(path.Base(d.Range.Filename)), d.Range.Start.Line)
	}
	if d.Address != "" {
		where += " for " + cut(d.Address)
	}
	p.fail(PlanFailed, "the plan has an error%s", where)
}

// result returns the changes if they are complete.
func (p *plan) result() (*Changes, *UnknownError) {
	p.check()
	if p.problem != nil {
		return nil, p.problem
	}
	c := p.changes
	c.Create += p.noops
	c.Resources, c.Drift, c.Destroys = first(c.Resources), first(c.Drift), slices.Sorted(maps.Keys(p.destroys))
	slices.SortFunc(c.Outputs, func(a, b Output) int { return strings.Compare(a.Name, b.Name) })
	c.Outputs = c.Outputs[:min(len(c.Outputs), MaxListed)]
	return &c, nil
}

// check finds what is missing.
func (p *plan) check() {
	switch {
	case !p.json && !p.other:
		p.fail(PlanFailed, "the plan failed, and provider-terraform does not keep the error of a plan with -json")
	case !p.json:
		p.fail(NotJSON, "the plan was made without -json, or failed")
	case p.other:
		p.fail(Incomplete, "the entry in the log of provider-terraform has lines of something else")
	case p.summary == nil:
		p.fail(Incomplete, "the entry in the log of provider-terraform has no summary")
	default:
		p.compare()
	}
}

// compare compares the changes with Terraform's own count.
func (p *plan) compare() {
	counts := p.changes.Counts
	listed := map[string]int{
		"add": counts.Create + counts.Replace + p.noops, "change": counts.Update, "remove": counts.Delete + counts.Replace,
		"import": counts.Import, "forget": counts.Forget,
	}
	for _, name := range slices.Sorted(maps.Keys(p.summary)) {
		switch number, known := listed[name]; {
		case !known && p.summary[name] != 0:
			p.fail(Unsupported, "Terraform counts %d of %s, which this version of CAPT does not know", p.summary[name], cmp.Or(word(name), "something"))
		case known && number != p.summary[name]:
			p.fail(Incomplete, "the entry in the log of provider-terraform lists %d changes that count as %q, and its summary has %d", number, name, p.summary[name])
		}
	}
	for _, name := range []string{"add", "change", "remove"} {
		if _, ok := p.summary[name]; !ok {
			p.fail(Incomplete, "the summary in the log of provider-terraform has no count %q", name)
		}
	}
}
