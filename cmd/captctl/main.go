// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Captctl manages CAPT clusters; see docs/captctl.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/command"
	"github.com/capt-provider/capt/migrate"
)

// garbagePercent is how much garbage there may be to what is in use. A fleet of 1,000 clusters is to fit into 200 MiB, and 100, as it
// is by default, is too much for that. It takes little more time, of which captctl waits most.
const garbagePercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	ctrllog.SetLogger(klog.Background())
	// The first interrupt lets a command end in good order; the second ends it at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	err := command.New(os.Args[0], os.Args[1:], streams).ExecuteContext(ctx)
	os.Exit(int(report(ctx, streams, err)))
}

// report says what went wrong, and returns the exit code. That something is pending, or to be decided, is not an error.
func report(ctx context.Context, streams genericiooptions.IOStreams, err error) migrate.Outcome {
	outcome := migrate.OutcomeOf(err)
	switch {
	case err == nil:
	case outcome == migrate.Pending, outcome == migrate.NeedsDecision:
		fmt.Fprintln(streams.ErrOut, cli.Line(err))
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(streams.ErrOut, "Error: interrupted:", cli.Line(err))
	default:
		fmt.Fprintln(streams.ErrOut, "Error:", cli.Line(err))
	}
	return outcome
}
