// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
	"github.com/capt-provider/capt/test/builder"
)

// A wrong host of a module is an error of the network, which may end at any time.
func TestAPreviewWithoutAResultEndsAfterTenMinutes(t *testing.T) {
	const transient = "observe failed: cannot init Terraform configuration: Could not download module: dial tcp: lookup gti.example.com: no such host"
	for want, provider := range map[string]func(p *previewing){
		"no result within 10m: provider-terraform did not plan it": func(*previewing) {},
		"no such host": func(p *previewing) { p.shows(builder.PlanFailed, "", builder.WithError(transient)) },
		"is being deleted, and still has finalizers": func(p *previewing) {
			preview := p.preview()
			builder.WithFinalizers("example.com/mine")(preview)
			p.update(preview)
			p.remove(p.preview())
			p.reconciler.Clock = clocktesting.NewFakePassiveClock(p.preview().GetDeletionTimestamp().Time)
		},
	} {
		t.Run(want, func(t *testing.T) {
			p := newPreviewing(t)
			p.look()
			provider(p)
			began := p.reconciler.Clock.Now()
			assert.InDelta(t, 10*time.Minute, p.look().RequeueAfter, float64(time.Second), "once, at the deadline")
			assert.Empty(t, p.result())
			p.reconciler.Clock = clocktesting.NewFakePassiveClock(began.Add(10 * time.Minute))
			p.look()
			assert.Equal(t, infrav1.PreviewUnavailable, p.result())
			assert.Contains(t, p.get("demo-vpc").Status.Preview.Message, want)
			assert.Equal(t, previews.RejectedInterval, p.look().RequeueAfter.Round(time.Minute))
			if preview := p.preview(); preview != nil {
				assert.NotNil(t, preview.GetDeletionTimestamp())
			}
			assert.Empty(t, p.mustWrite(), "at rest nothing is written")
			_, err := p.reconciler.slots.Take(client.ObjectKey{Name: "other"}, "", began.Add(11*time.Minute), func() ([]client.ObjectKey, error) { return nil, nil })
			require.NoError(t, err)
			running, _ := p.reconciler.CountPreviews()
			assert.Equal(t, 1, running, "its slot is free")
		})
	}
}

func TestPreviewsAreLimited(t *testing.T) {
	p := newPreviewing(t)
	p.remove(p.preview())
	p.reconciler.slots.Release(client.ObjectKey{Namespace: builder.Namespace, Name: "demo-vpc"}, now)
	for i := range previews.MaxPreviews {
		key := client.ObjectKey{Namespace: "other", Name: string(rune('a' + i))}
		wait, err := p.reconciler.slots.Take(key, "other/vpc", now, func() ([]client.ObjectKey, error) { return nil, nil })
		require.NoError(t, err)
		require.Zero(t, wait)
	}
	assert.Equal(t, 30*time.Second, p.look().RequeueAfter)
	assert.Nil(t, p.preview())
	p.reconciler.slots.Release(client.ObjectKey{Namespace: "other", Name: "a"}, now)
	p.look()
	assert.NotNil(t, p.preview())
}
