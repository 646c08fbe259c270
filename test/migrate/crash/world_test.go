/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package crash_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// everything kills at every call, and takes its time.
var everything = os.Getenv("CAPT_CRASH") == "all"

// journalNamespace is where CAPT is installed.
const journalNamespace = "capt-system"

// shared is the fleet under today's definitions. Tests that write follow one another.
var shared *world

type world struct {
	*legacy.World
	etcd
	// dir is a folder for all tests, and captctl the path of the program.
	dir, captctl string
	// legacy is what etcd held before the first migration; nil until there is a plan of it.
	legacy moment
	// told is the story of apply; nil before the first test.
	told *story
}

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "captctl-crash-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	shared = &world{dir: dir, captctl: filepath.Join(dir, "captctl")}
	defer func() {
		if shared.World == nil {
			return
		}
		if err := shared.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "Stopping the sandbox:", err)
		}
	}()
	if err := shared.make(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Making the fleet:", err)
		return 1
	}
	code := m.Run()
	if code != 0 {
		fmt.Fprintln(os.Stderr, shared.Logs(sandbox.Manager, 40))
	}
	return code
}

// make builds captctl, and makes the fleet meanwhile.
func (w *world) make(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		out, err := exec.CommandContext(ctx, "go", "build", "-o", w.captctl, "../../../cmd/captctl").CombinedOutput()
		if err != nil {
			return fmt.Errorf("building captctl: %w\n%s", err, out)
		}
		return nil
	})
	group.Go(func() (err error) {
		if w.World, err = legacy.Start(ctx, sandbox.Options{Log: os.Stderr}); err != nil {
			return err
		}
		running, err := state.Load(w.Dir())
		if err != nil {
			return err
		}
		w.endpoint = running.EtcdEndpoint
		if _, err := w.Create(ctx, fleet, legacy.Names{Namespace: "first", Other: "second", Prefix: "crash-"}); err != nil {
			return err
		}
		return w.Upgrade(ctx)
	})
	return group.Wait()
}

// fleet is three clusters: one that lacks nothing but its migration; one whose WorkspaceTemplateApplies were made by hand and
// are referred to by nothing, with helpers; and one that lost its status, in another namespace than its templates.
var fleet = legacy.Fixture{Clusters: func(names legacy.Names) []legacy.Cluster {
	elsewhere := names
	elsewhere.Namespace = names.Other
	third := legacy.Named()["templates-in-default"].Clusters(elsewhere)[0]
	third.Name, third.StatusWiped, third.Unreferenced = names.Prefix+"third", true, true
	return []legacy.Cluster{
		{Namespace: names.Namespace, Name: names.Prefix + "first"},
		{Namespace: names.Namespace, Name: names.Prefix + "second", Unreferenced: true, HandMade: true, Helpers: true, Apply: names.Prefix + "by-hand"},
		third,
	}
}}
