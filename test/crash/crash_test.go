// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/crash/proxy"
)

// everything adds cases that take long and show little more: a manager that is killed before a write leaves what one leaves
// that was killed after the write before.
var everything = os.Getenv("CAPT_CRASH") == "all"

func TestKillingTheManagerLosesNothing(t *testing.T) {
	for _, scope := range terraform.Scopes() {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			s := startStage(t)
			t.Cleanup(func() { t.Logf("%d restarts took %v", len(s.restarts), s.restarts) })
			t.Run("a WorkspaceTemplateApply is created, changed and deleted", func(t *testing.T) {
				before := everything || scope == terraform.ScopeNamespaced
				newWorld(t, s, scope).compare(ofWorkspaceTemplateApply, before, creation, change, deletion)
			})
			t.Run("what was made is destroyed although its owner is deleted meanwhile", func(t *testing.T) {
				newWorld(t, s, scope).deletedWhileDown(proxy.After)
				if everything {
					newWorld(t, s, scope).deletedWhileDown(proxy.Before)
				}
			})
			if everything || scope == terraform.ScopeNamespaced {
				t.Run("a WorkspaceTemplate is created and deleted", func(t *testing.T) {
					newWorld(t, s, scope).compare(ofWorkspaceTemplate, everything, creation, deletion)
				})
			}
			if scope == terraform.ScopeCluster { // CAPT v0.3 knew no other.
				t.Run("what CAPT v0.3 made is adopted, changed and deleted", func(t *testing.T) {
					newWorld(t, s, scope).compare(ofWorkspaceTemplateApply, everything, adoption, change, deletion)
				})
			}
		})
	}
}

// deletedWhileDown deletes everything while the manager is down, after each write of a creation. Webhooks do not block
// deletion, so users can do that at any time.
func (w *world) deletedWhileDown(moment proxy.Moment) {
	w.Helper()
	for n := 1; n <= maxWrites; n++ {
		w.killed, w.deadly = w.stage.proxy.Arm(proxy.Target{Number: n, Moment: moment, Resources: ofWorkspaceTemplateApply}), nil
		creation.begin(w)
		died := false
		w.await("the manager is killed, or done", func(ctx context.Context) error {
			select {
			case write := <-w.killed:
				died = true
				w.Logf("deleted while the manager was down, %s", write)
				return nil
			default:
			}
			if err := creation.end(ctx, w); err != nil {
				return err
			}
			if !w.stage.proxy.Disarm() {
				return errors.New("the last write of all kills the manager")
			}
			return nil
		})
		deletion.begin(w)
		if died {
			w.stage.revive(w.T)
		}
		w.await("everything goes", func(ctx context.Context) error { return deletion.end(ctx, w) })
		w.awaitSilence()
		require.LessOrEqual(w, len(w.everSeen()), 1, "Workspaces, killed %s write %d", moment, n)
		if !died {
			return
		}
	}
	w.Fatalf("a creation has more than %d writes", maxWrites)
}
