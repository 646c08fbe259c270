// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Captctl manages CAPT clusters; see docs/captctl.md.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/command"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

// garbagePercent is by how much the heap may outgrow the memory in use before the garbage collector runs (GOGC). A fleet of 1,000 clusters
// must fit into 200 MiB, for which Go's default of 100 is too much. The cost in time is small: captctl mostly waits for the API server.
const garbagePercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	ctrllog.SetLogger(klog.Background())
	// The first interrupt cancels the context, so that a command can finish what it is writing and release its lock; a second kills the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	err := command.New(os.Args[0], os.Args[1:], streams).ExecuteContext(ctx)
	os.Exit(int(report(ctx, streams, err)))
}

// report prints what went wrong, and returns the exit code. Pending work and missing decisions are printed without "Error:".
func report(ctx context.Context, streams genericiooptions.IOStreams, err error) migrate.Outcome {
	outcome := migrate.OutcomeOf(err)
	prefix := "Error: "
	switch {
	case err == nil:
		return outcome
	case outcome == migrate.Pending, outcome == migrate.NeedsDecision:
		prefix = ""
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		prefix = "Error: interrupted: "
	}
	output.NewPrinter(streams.ErrOut, output.Table, true).Text("", output.Plain, prefix+cli.Line(err))
	return outcome
}
