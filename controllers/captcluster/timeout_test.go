// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func TestATimeoutKeepsTheCause(t *testing.T) {
	for name, row := range map[string]struct {
		options []builder.Option
		running time.Duration
		change  func(f *Facts)
		want    string
	}{
		"by default":           {nil, 15 * time.Minute, nil, "VPCReadyTimeout"},
		"not yet":              {nil, 15*time.Minute - 1, nil, "ApplyFailed"},
		"another timeout":      {[]builder.Option{builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.TimeoutSeconds = 60 })}, time.Minute, nil, "VPCReadyTimeout"},
		"paused":               {nil, time.Hour, func(f *Facts) { f.Paused = "annotation" }, "ApplyFailed"},
		"up to date meanwhile": {nil, time.Hour, func(f *Facts) { f.Apply = made(map[string]string{"vpc_id": "vpc-1"}).Apply }, "Ready"},
	} {
		captCluster, facts := builder.CAPTCluster("demo", row.options...), withApply(builder.NotUpToDate(infrav1.ApplyFailedReason, "no more VPCs"))
		facts.Running = row.running
		if row.change != nil {
			row.change(facts)
		}
		report(captCluster, facts)
		ready := meta.FindStatusCondition(captCluster.Status.Conditions, infrav1.ReadyCondition)
		assert.Equal(t, row.want, ready.Reason, name)
		if row.want == infrav1.VPCReadyTimeoutReason {
			assert.Contains(t, ready.Message, "(spec.vpc.template.timeoutSeconds): WorkspaceTemplateApply demo-vpc: no more VPCs", name)
		}
	}
}
