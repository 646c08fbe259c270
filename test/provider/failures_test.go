// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// failure is an operation that fails, what the Workspace then shows, and what it shows one round after it no longer
// fails.
type failure struct {
	arrange func(s *stage)
	fail    operation
	want    row
	mended  row
}

func failures() map[string]failure {
	update := func(s *stage) {
		s.toRest()
		s.edit(module("v2"))
	}
	withMessage := func(r row, message string) row {
		r.synced, r.message = "False/ReconcileError", message
		return r
	}
	return map[string]failure{
		"init": {
			arrange: func(s *stage) { s.create() }, fail: operationInit,
			want: row{
				marks: "external-name", synced: "False/ReconcileError", secret: "-",
				message: "connect failed: cannot initialize Terraform configuration: Terraform encountered an error. Summary: boom.",
			},
			mended: row{marks: created, ready: "False/Creating", synced: "True/ReconcileSuccess", secret: filledV1},
		},
		"first plan": {
			arrange: func(s *stage) { s.create() }, fail: operationPlan,
			want: row{
				marks: "external-name", synced: "False/ReconcileError", secret: "-",
				message: "observe failed: cannot diff (i.e. plan) Terraform configuration: Terraform encountered an error. Summary: boom.",
			},
			mended: row{marks: created, ready: "False/Creating", synced: "True/ReconcileSuccess", secret: filledV1},
		},
		"first apply": {
			arrange: func(s *stage) { s.create() }, fail: operationApply,
			want: row{
				marks: failing, ready: "False/Creating", synced: "False/ReconcileError",
				message: "create failed: cannot apply Terraform configuration: Terraform encountered an error. Summary: boom.",
			},
			mended: row{marks: created + " failed", ready: "False/Creating", synced: "True/ReconcileSuccess", secret: filledV1},
		},
		"later plan": {
			arrange: update, fail: operationPlan,
			want:   withMessage(restV1, "observe failed: cannot diff (i.e. plan) Terraform configuration: Terraform encountered an error. Summary: boom."),
			mended: row{marks: created, ready: "True/Available", synced: "True/ReconcileSuccess", outputs: shownV2, secret: filledV2},
		},
		"update": {
			arrange: update, fail: operationApply,
			want:   withMessage(restV1, "update failed: cannot apply Terraform configuration: Terraform encountered an error. Summary: boom."),
			mended: row{marks: created, ready: "True/Available", synced: "True/ReconcileSuccess", outputs: shownV2, secret: filledV2},
		},
		"destroy": {
			arrange: func(s *stage) { s.toRest(); s.delete() }, fail: operationDestroy,
			want: withMessage(row{marks: created, ready: "False/Deleting", outputs: shownV1, secret: filledV1},
				"delete failed: cannot destroy Terraform configuration: Terraform encountered an error. Summary: boom."),
			mended: row{marks: created, ready: "False/Deleting", synced: "True/ReconcileSuccess", outputs: shownV1, secret: filledV1},
		},
	}
}

func TestFailures(t *testing.T) {
	boom := errors.New("Terraform encountered an error. Summary: boom. To see the full error run: echo \"x\"")
	for name, tc := range failures() {
		t.Run(name, func(t *testing.T) {
			inBothScopes(t, func(s *stage) {
				tc.arrange(s)
				s.fail[tc.fail] = boom
				first, second := s.reconcile().RequeueAfter, s.reconcile().RequeueAfter
				require.Equal(s, tc.want, s.row())
				require.Equal(s, 2*first, second, "waits twice as long each time")
				require.LessOrEqual(s, first, 4*time.Second)

				delete(s.fail, tc.fail)
				s.reconcile()
				require.Equal(s, tc.mended, s.row())
			})
		})
	}
}
