// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command upstream runs the real provider-terraform with the flags of the test provider, so that tests with OpenTofu can use it in place of the latter.
// docs/provider-terraform.md has the commands. One sandbox at a time: the real provider serves metrics at a fixed port.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

// program is the environment variable with the path of the real provider.
const program = "UPSTREAM_PROVIDER"

// terraform records each command in a file of the directory of the Workspaces, and runs OpenTofu.
const terraform = "#!/bin/sh\necho \"$(basename \"$PWD\") $1\" >> '%s'\nexec '%s' \"$@\"\n"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func run() error {
	flags := flag.NewFlagSet("upstream", flag.ExitOnError)
	klog.InitFlags(flags)
	kubeconfig, tofu, dir := flags.String("kubeconfig", "", ""), flags.String("tofu", "tofu", ""), flags.String("work-dir", "", "")
	health, metrics := flags.String("health-addr", "", ""), flags.String("metrics-addr", "", "")
	_ = flags.Duration("creation-grace", 0, "The real provider has 30 s.")
	debug := flags.Bool("debug", false, "")
	passed := []string{"--poll-jitter=0s"}
	for _, name := range []string{"poll", "timeout", "max-reconcile-rate", "log-encoding"} {
		flags.Func(name, "", func(text string) error { passed = append(passed, "--"+name+"="+text); return nil })
	}
	_ = flags.Parse(os.Args[1:])
	if *debug {
		passed = append(passed, "--debug")
	}

	bin, log := filepath.Join(*dir, ".bin"), filepath.Join(*dir, ".terraform.log")
	config := filepath.Join(bin, "terraformrc") // The real image has an empty one.
	if err := errors.Join(os.MkdirAll(bin, 0o750), os.WriteFile(config, nil, 0o600),
		os.WriteFile(filepath.Join(bin, "terraform"), fmt.Appendf(nil, terraform, log, *tofu), 0o700)); err != nil { // #nosec G306 -- It is a program.
		return err
	}
	command := exec.Command(os.Getenv(program), passed...) //nolint:gosec // The user names the program.
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.Env = append(os.Environ(), "KUBECONFIG="+*kubeconfig, "XP_TF_DIR="+*dir, "HOME="+bin, "TF_CLI_CONFIG_FILE="+config, "PATH="+bin+":"+os.Getenv("PATH"))
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		for s := range signals {
			_ = command.Process.Signal(s)
		}
	}()
	serve(*health, func(http.ResponseWriter, *http.Request) {})
	serve(*metrics, func(w http.ResponseWriter, _ *http.Request) { writeRuns(w, log) })
	return command.Wait()
}

func serve(address string, handler http.HandlerFunc) {
	if address != "" && address != "0" {
		server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: time.Minute}
		go func() { _ = server.ListenAndServe() }()
	}
}

// writeRuns writes how often OpenTofu has applied and destroyed, as the metric of the test provider with the UID of the Workspace.
func writeRuns(w http.ResponseWriter, log string) {
	runs, _ := os.ReadFile(log) // #nosec G304 -- It is written by run.
	counts := map[string]int{}
	for line := range bytes.Lines(runs) {
		var workspace, operation string
		if n, _ := fmt.Sscan(string(line), &workspace, &operation); n == 2 {
			counts[fmt.Sprintf("capt_test_provider_runs_total{operation=%q,workspace=%q}", operation, workspace)]++
		}
	}
	for series, n := range counts {
		fmt.Fprintf(w, "%s %d\n", series, n)
	}
}
