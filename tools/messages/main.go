// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Messages writes docs/messages.md: all texts that users may see, found in the source by where they go.
package main

import (
	"fmt"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// class of texts, in the order of the document. A text that goes to several places is listed in the first.
type class int

const (
	none class = iota
	conditionReasons
	conditionMessages
	eventReasons
	eventMessages
	admission
	outcomes
	managerErrors
	managerFlags
	logs
	metricHelps
	captctlOutput
	captctlErrors
	captctlFlags
	hidden
)

var titles = map[class]string{
	conditionReasons: "Reasons of conditions", conditionMessages: "Messages of conditions", eventReasons: "Reasons and actions of events",
	eventMessages: "Messages of events", admission: "Errors and warnings of admission", outcomes: "Why a controller waits or stops (logs)",
	managerErrors: "Errors of the manager (logs, and conditions that report an error)", managerFlags: "Flags of the manager", logs: "Logs", metricHelps: "Metrics",
	captctlOutput: "Output of captctl", captctlErrors: "Errors of captctl", captctlFlags: "Flags of captctl",
}

// sinks are parameters ("function#parameter") and fields ("package.field") that take texts of a class.
var sinks = []struct {
	class class
	names *regexp.Regexp
}{
	{conditionReasons, regexp.MustCompile(`^k8s\.io/apimachinery/pkg/apis/meta/v1\.Reason$`)},
	{conditionMessages, regexp.MustCompile(`^k8s\.io/apimachinery/pkg/apis/meta/v1\.Message$`)},
	{eventReasons, regexp.MustCompile(`\.EventRecorder\)\.Eventf#(reason|action)$`)},
	{eventMessages, regexp.MustCompile(`\.EventRecorder\)\.Eventf#(note|args)$`)},
	{admission, regexp.MustCompile(`/validation/field\.\w+#(detail|validValues)$|/api/validation.*#(message|format)$`)},
	{outcomes, regexp.MustCompile(`/controllers/engine\.Wait#reason$`)},
	{managerErrors, regexp.MustCompile(`^(fmt\.Errorf#format|errors\.New#text)$`)},
	{managerFlags, regexp.MustCompile(`(^flag|/pflag)\.FlagSet\)\.\w+#usage$|/pflag\.Usage$`)},
	{logs, regexp.MustCompile(`logr\.Logger\)\.(Info|Error)#msg$`)},
	{metricHelps, regexp.MustCompile(`^github\.com/prometheus/client_golang/prometheus\.Help$`)},
	{captctlOutput, regexp.MustCompile(`^json .*/(migrate|cmd)/?`)},
	// The help of commands is in captctl.md; the others compare texts, or take names of files and fields.
	{hidden, regexp.MustCompile(`^github\.com/spf13/cobra\.|^(regexp|strings|slices|os|path/filepath)\.|unstructured\.\w+#fields$`)},
}

const introduction = `# Messages

<!-- Written by make generate from the source. -->

All texts that CAPT shows, by where users meet them and by the file that has them; ` + "`<…>`" + ` is filled in when CAPT runs.
Not in this list: descriptions of fields (` + "`kubectl explain`" + `) and messages of their validation rules, which are in the CRDs; messages of
admission policies, in ` + "`config/policy`" + `; the help of captctl's commands, in [captctl.md](captctl.md).
`

func main() {
	if err := run("docs/messages.md"); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	directory, err := os.Getwd()
	if err != nil {
		return err
	}
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax | packages.NeedModule},
		"./api/...", "./controllers/...", "./migrate/...", "./webhooks/...", "./cmd/...")
	if err != nil {
		return err
	}
	var all []text
	flows, parts := flow{}, map[types.Object]string{}
	for _, one := range loaded {
		if len(one.Errors) > 0 {
			return one.Errors[0]
		}
		for i, file := range one.Syntax {
			name, err := filepath.Rel(directory, one.CompiledGoFiles[i])
			if err != nil {
				return err
			}
			if strings.HasPrefix(filepath.Base(name), "zz_generated") || strings.HasPrefix(name, "cmd/captctl/reference") {
				continue
			}
			all = append(all, source{one, flows, parts}.texts(file, filepath.ToSlash(name))...)
		}
	}
	document, err := write(all, flows.classes(sinkOf(parts)), sinkOf(parts))
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(document), 0o644) //nolint:gosec // A document is readable by all users.
}

func sinkOf(parts map[types.Object]string) func(types.Object) class {
	return func(object types.Object) class {
		if object == nil || object.Pkg() == nil {
			return none
		}
		name := object.Pkg().Path() + "." + object.Name()
		if part, ok := parts[object]; ok {
			name = part + "#" + object.Name()
		}
		for _, sink := range sinks {
			if sink.names.MatchString(name) {
				return sink.class
			}
		}
		return none
	}
}

var (
	filledIn = regexp.MustCompile(`<[^>]*>`)
	prose    = regexp.MustCompile(`\pL{2}.* |.* .*\pL{2}`)
	reason   = regexp.MustCompile(`^[A-Z]\w+$`)
)

// classified is the class that a text is listed in. One that leads nowhere belongs to what its package is for.
func classified(t text, found class) class {
	inCommand := strings.HasPrefix(t.file, "cmd/captctl/") || strings.HasPrefix(t.file, "migrate/")
	switch {
	case (found == conditionReasons || found == eventReasons) && reason.MatchString(t.text):
		return found
	case !prose.MatchString(filledIn.ReplaceAllString(t.text, "#")):
		return hidden
	case found == managerErrors && inCommand:
		return captctlErrors
	case found == managerFlags && inCommand:
		return captctlFlags
	case found != none:
		return found
	}
	return ofPackage(t.file, inCommand)
}

func ofPackage(file string, inCommand bool) class {
	if inCommand {
		return captctlOutput
	}
	for prefix, class := range map[string]class{"webhooks/": admission, "api/validation/": admission, "cmd/manager/": logs} {
		if strings.HasPrefix(file, prefix) {
			return class
		}
	}
	return conditionMessages
}

// withReason puts the reason of a condition or an event before its message.
func withReason(t text, of class, at func(place) class) string {
	line := t.text
	for to, reason := range t.beside {
		known := at(to)
		isReason := of == conditionMessages && known == conditionReasons || of == eventMessages && known == eventReasons && to.object.Name() != "action"
		if isReason && reason != "" {
			line = reason + ": " + line
		}
	}
	return line
}

func write(all []text, classes map[place]class, sink func(types.Object) class) (string, error) {
	at := func(p place) class {
		if class := sink(p.object); class != none {
			return class
		}
		return classes[p]
	}
	lines := map[class]map[string][]string{}
	for _, t := range all {
		class := classified(t, at(t.to))
		if class == hidden || t.text == "" {
			continue
		}
		if lines[class] == nil {
			lines[class] = map[string][]string{}
		}
		lines[class][t.file] = append(lines[class][t.file], withReason(t, class, at))
	}
	var b strings.Builder
	b.WriteString(introduction)
	for class := conditionReasons; class < hidden; class++ {
		if len(lines[class]) == 0 {
			return "", fmt.Errorf("nothing found for %q: correct the sinks in tools/messages", titles[class])
		}
		fmt.Fprintf(&b, "\n## %s\n", titles[class])
		for _, file := range slices.Sorted(maps.Keys(lines[class])) {
			fmt.Fprintf(&b, "\n%s\n\n", file)
			slices.Sort(lines[class][file])
			for _, line := range slices.Compact(lines[class][file]) {
				fence := strings.Repeat("`", 1+min(1, strings.Count(line, "`")))
				fmt.Fprintf(&b, "- %s%s%s\n", fence, line, fence)
			}
		}
	}
	return b.String(), nil
}
