// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package stage is where whole clusters are played: Cluster API, CAPT's manager and the controllers of Kubernetes are real,
// and Terraform follows a script. Each test has a namespace of its own, a World, in which its Cluster is called Demo.
package stage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// parallel is how many tests run at a time. They wait for most of their time, so that may be many more than there are
// processors; yet each of them must see what it waits for in time.
const parallel = 20

// Stage is a control plane with everything that a Cluster needs, and a provider that does what scripts say.
type Stage struct {
	*sandbox.Sandbox
	// Scripts say what Terraform does, and tell what it did.
	Scripts *scripted.World
	// API talks to the control plane as its administrator.
	API client.WithWatch
}

// Run starts a stage, runs the tests of a package on it, and returns the exit code for TestMain. Whatever the tests were
// about, CAPT must not have written a Cluster in any of them. The sandbox is as most tests want it, but for the changes.
func Run(m *testing.M, into **Stage, change ...func(*sandbox.Options)) int {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
		return complain("Preparing the tests", err)
	}
	dir, err := os.MkdirTemp("", "capt-stage-")
	if err != nil {
		return complain("Preparing the tests", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := start(ctx, dir, change)
	if err != nil {
		return complain("Starting the sandbox", err)
	}
	defer func() {
		if err := s.Stop(context.Background()); err != nil {
			complain("Stopping the sandbox", err)
		}
	}()
	*into = s
	code := m.Run()
	if err := s.clustersWritten(); err != nil {
		code = complain("Looking into the audit log", err)
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, s.Logs(sandbox.Manager, 60))
	}
	return code
}

func complain(what string, err error) int {
	fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
	return 1
}

func start(ctx context.Context, dir string, change []func(*sandbox.Options)) (*Stage, error) {
	s := &Stage{Scripts: scripted.At(filepath.Join(dir, "scripts"))}
	options := sandbox.Options{
		Log: os.Stderr, ClusterAPI: true, KubeControllerManager: true, Provider: true, Manager: true, AuditPolicy: []byte(auditPolicy),
		ProviderArgs: []string{"--executor=scripted", "--script-dir=" + filepath.Join(dir, "scripts"), "--max-reconcile-rate=50"},
	}
	for _, apply := range change {
		apply(&options)
	}
	var err error
	s.Sandbox, err = sandbox.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(s.Config())
	config.WarningHandler = rest.NoWarnings{} // Warnings of admission are tested where it is.
	s.API, err = client.NewWithWatch(config, client.Options{Scheme: controllers.Scheme()})
	if err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// auditPolicy logs writes alone: reads are many, and nobody asks about them.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: None
  verbs: [get, list, watch]
- level: Metadata
`

// clustersWritten returns an error when CAPT has written, or tried to write, a Cluster.
func (s *Stage) clustersWritten() error {
	user, err := s.InstalledManagerUser()
	if err != nil {
		return err
	}
	events, err := s.AuditEvents(audit.Filter{User: user, Verbs: audit.Writes, Group: "cluster.x-k8s.io"})
	if err == nil && len(events) > 0 {
		err = fmt.Errorf("CAPT writes what is Cluster API's: %s %s", events[0].Verb, events[0].RequestURI)
	}
	return err
}
