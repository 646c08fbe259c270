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

package view_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/backup"
	"github.com/capt-provider/capt/migrate/crds"
	"github.com/capt-provider/capt/migrate/execute"
	"github.com/capt-provider/capt/migrate/journal"
	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/migrate/preflight"
	"github.com/capt-provider/capt/migrate/storage"
	"github.com/capt-provider/capt/migrate/verify"
)

var now = time.Date(2026, 10, 22, 12, 0, 0, 0, time.UTC)

func TestWhatARunDidSaysWhatComesNext(t *testing.T) {
	partly := &execute.Result{
		PlanID: "0123456789ab", Command: journal.Apply, Outcome: journal.Partly,
		Steps: journal.Counts{Total: 10, Written: 4, Already: 2, Failed: 1}, Storage: journal.Counts{Total: 30},
		Failures: []execute.Failure{{Object: demo, Why: "refers to its WorkspaceTemplateApply", Error: "the API server says no:\n it is busy"}},
		Backup:   &journal.Backup{Host: "laptop", Dir: "/backups/capt", Sum: "abc"},
	}
	golden(t, "result-partly", output.Table, func(p *output.Printer) { view.Result(p, partly) })
	done := &execute.Result{PlanID: "0123456789ab", Command: journal.Apply, Outcome: journal.Done, Steps: journal.Counts{Total: 1, Written: 1}}
	golden(t, "result-done", output.Table, func(p *output.Printer) { view.Result(p, done) })
	dry := &execute.Result{PlanID: "0123456789ab", Command: journal.Rollback, Outcome: journal.Done, DryRun: true}
	golden(t, "result-dry-run", output.Table, func(p *output.Printer) { view.Result(p, dry) })
}

func TestMigrationsAreShownWithWhoIsAtWork(t *testing.T) {
	states := []journal.State{
		{
			PlanID: "0123456789ab", Command: journal.Apply, Phase: journal.Ended, Outcome: journal.Partly, Message: "1 of 10 failed", Updated: metav1.NewTime(now.Add(-time.Hour)),
			Steps: journal.Counts{Total: 10, Written: 4, Already: 2, Failed: 1}, Storage: journal.Counts{Total: 30}, Runs: 2, Run: "laptop-1-a",
		},
		{PlanID: "ba9876543210", Command: journal.Rollback, Object: "CAPTControlPlane/default/demo", Phase: journal.RollingBack, Updated: metav1.NewTime(now.Add(-2 * time.Second)), Runs: 1, Run: "server-2-b"},
	}
	holder := &lock.Holder{Identity: "server-2-b", Since: now.Add(-time.Minute), Until: now.Add(10 * time.Second)}
	golden(t, "status", output.Table, func(p *output.Printer) { view.Migrations(p, states, holder, now) })
	golden(t, "status-wide", output.Wide, func(p *output.Printer) { view.Migrations(p, states, nil, now) })
}

func TestChecksAreShownWithWhatToDo(t *testing.T) {
	report := &preflight.Report{Phases: []preflight.Phase{preflight.Adopt, preflight.Storage}, Checks: []preflight.Check{
		{Name: preflight.CheckPermissions, Status: preflight.Failed, Message: "2 are missing: have them granted", Objects: []string{"patch captclusters", "create leases"}},
		{Name: preflight.CheckProvider, Status: preflight.OK, Message: "provider-terraform v1.1 is healthy", Objects: []string{"Provider x"}},
		{Name: preflight.CheckGitOps, Status: preflight.Warning, Message: "Flux writes 1 object back: change its manifests", Objects: []string{"CAPTCluster default/demo"}},
	}}
	golden(t, "preflight", output.Table, func(p *output.Printer) { view.Preflight(p, report) })
	golden(t, "preflight-wide", output.Wide, func(p *output.Printer) { view.Preflight(p, report) })
}

func TestPromisesAreShownWithWhatBrokeThem(t *testing.T) {
	report := verify.Report{Plan: "0123456789ab", Checks: []verify.Check{
		{Name: "WorkspacesUntouched", OK: true, Message: "2 Workspaces are as they were", Notes: []verify.Deviation{{Object: vpcLive, Message: "its status has moved on"}}},
		{Name: "Adopted", Message: "1 of 2 is not adopted", Objects: []verify.Deviation{{Object: demo, Message: "it refers to nothing"}}},
	}}
	golden(t, "verify", output.Table, func(p *output.Printer) { view.Verification(p, report) })
}

func TestOfManyObjectsTheFirstAreShown(t *testing.T) {
	check := verify.Check{Name: "Adopted", Message: "none is adopted"}
	result := &execute.Result{PlanID: "0123456789ab", Outcome: journal.Partly}
	for range 30 {
		check.Objects = append(check.Objects, verify.Deviation{Object: demo, Message: "it refers to nothing"})
		result.Failures = append(result.Failures, execute.Failure{Object: demo, Error: "no"})
	}
	for format, lines := range map[output.Format]int{output.Table: 20, output.Wide: 30} {
		var out bytes.Buffer
		p := output.NewPrinter(&out, format, false)
		require.NoError(t, p.Document(nil, func(p *output.Printer) {
			view.Verification(p, verify.Report{Checks: []verify.Check{check}})
			view.Result(p, result)
		}))
		assert.Equal(t, 2*lines, strings.Count(out.String(), "CAPTControlPlane default/demo"))
		assert.Equal(t, format == output.Table, strings.Contains(out.String(), "and 10 more, which -o wide shows"))
	}
}

func TestOtherReports(t *testing.T) {
	golden(t, "crds", output.Table, func(p *output.Printer) {
		view.Definitions(p, &crds.Report{Found: crds.Older, Next: "install this CAPT's CRDs, and run captctl migrate crds again", Steps: []crds.Step{
			{Name: crds.StepExport, Done: true, Message: "2 objects exported and verified", Objects: []string{"default/a", "default/b"}},
			{Name: crds.StepDelete, Message: "the definition is deleted"},
		}})
	})
	golden(t, "finalize", output.Table, func(p *output.Printer) {
		view.Finalized(p, storage.Report{Kinds: []storage.KindReport{
			{Kind: "CAPTCluster", Objects: 12, Passes: 1, Before: []string{migrate.LegacyVersion, migrate.Version}, After: []string{migrate.Version}},
			{Kind: "CAPTControlPlaneTemplate", Note: "nothing was ever stored in v1beta1"},
		}})
	})
	about := &backup.About{PlanID: "0123456789ab", Taken: metav1.NewTime(now), Files: map[string]int{"a": 3, "b": 4}}
	golden(t, "backup", output.Table, func(p *output.Printer) { view.Backup(p, "/backups/capt", about, nil) })
	golden(t, "backup-changed", output.Table, func(p *output.Printer) {
		view.Backup(p, "/backups/capt", about, []backup.Problem{{File: "a.jsonl", Problem: "Changed"}})
	})
}
