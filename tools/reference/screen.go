// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	_ "embed" // For the objects and the template.
	"fmt"
	"html/template"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/picture"
)

// fleetObjects are three Clusters as CAPT reported them in a sandbox, without the fields that captctl does not read.
//
//go:embed fleet.yaml
var fleetObjects string

//go:embed screen.svg.tmpl
var screenTemplate string

// columns of the terminal in the picture.
const columns = 100

func recorded() time.Time { return time.Date(2026, time.November, 27, 6, 22, 48, 0, time.UTC) }

// screenDocument is a picture of a terminal with the commands that a user needs first when a Cluster is not Ready.
func screenDocument() (string, error) {
	objects, err := objectsOf(fleetObjects)
	if err != nil {
		return "", err
	}
	screen := &output.Screen{Columns: columns}
	environment := cli.NewEnvironment(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: screen, ErrOut: io.Discard})
	environment.Clock = clocktesting.NewFakeClock(recorded())
	environment.Access.Connect = func(*rest.Config) (client.WithWatch, error) {
		return fake.NewClientBuilder().WithScheme(cli.Scheme()).WithObjects(objects...).
			WithIndex(&eventsv1.Event{}, "regarding.name", func(object client.Object) []string { return []string{object.(*eventsv1.Event).Regarding.Name} }).Build(), nil
	}
	server := "http://127.0.0.1:1"
	environment.Access.APIServer = &server
	for _, run := range []struct {
		command   *cobra.Command
		arguments []string
	}{{fleet.NewGet(environment), []string{}}, {fleet.NewDescribe(environment), []string{"team-b/checkout"}}} {
		fmt.Fprintf(screen, "\x1b[1m$ captctl %s\x1b[0m\n", strings.Join(append([]string{run.command.Name()}, run.arguments...), " "))
		run.command.SetArgs(run.arguments)
		if err := run.command.ExecuteContext(context.Background()); err != nil {
			return "", err
		}
		fmt.Fprintln(screen)
	}
	return screenPicture("captctl get and captctl describe, which name the cause and the next step", screen.String())
}

func objectsOf(file string) (objects []client.Object, err error) {
	decoder := serializer.NewCodecFactory(cli.Scheme()).UniversalDeserializer()
	for document := range strings.SplitSeq(file, "\n---\n") {
		object, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object.(client.Object)) //nolint:forcetypeassert // The file has no lists.
	}
	return objects, nil
}

// Measures of the picture in pixels. The width of a character is set for each text, so that all fonts align.
const (
	charWidth, lineHeight, margin = 8, 18, 16
)

type word struct {
	X, Width    int
	Class, Text string
}

type line struct {
	Y     int
	Words []word
}

// sequence matches the escape sequences of package output.
var sequence = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// screenPicture draws what is on a terminal as SVG.
func screenPicture(label, text string) (string, error) {
	classes := map[string]string{"": "", "0": "", "1": "strong", "38;5;29": "good", "38;5;196": "bad", "38;5;130": "attention", "38;5;243": "faint"}
	var lines []line
	for i, text := range strings.Split(strings.TrimSpace(text), "\n") {
		next, class, column := line{Y: margin + (i+1)*lineHeight - 5}, "", 0
		add := func(text string) {
			after := column + utf8.RuneCountInString(text)
			column += utf8.RuneCountInString(text) - utf8.RuneCountInString(strings.TrimLeft(text, " "))
			if text = strings.TrimSpace(text); text != "" {
				next.Words = append(next.Words, word{margin + column*charWidth, utf8.RuneCountInString(text) * charWidth, class, text})
			}
			column = after
		}
		for text != "" {
			at := sequence.FindStringSubmatchIndex(text)
			if at == nil {
				add(text)
				break
			}
			add(text[:at[0]])
			class, text = classes[text[at[2]:at[3]]], text[at[1]:]
		}
		lines = append(lines, next)
	}
	parsed, err := template.New("screen").Parse(screenTemplate)
	if err != nil {
		return "", err
	}
	var svg strings.Builder
	err = parsed.Execute(&svg, map[string]any{
		"Label": label, "Lines": lines, "Width": 2*margin + columns*charWidth, "Height": 2*margin + len(lines)*lineHeight,
	})
	return picture.Printable(svg.String()), err
}
