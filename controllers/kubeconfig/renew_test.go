// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/test/builder"
)

func TestWhenATokenIsDue(t *testing.T) {
	const key = "us-east-1/demo"
	at := kubeconfig.RenewAt(signedAt.Add(15*time.Minute), key)
	for name, row := range map[string]struct {
		now time.Time
		due bool
	}{
		"just signed":     {signedAt, false},
		"before its time": {at.Add(-time.Millisecond), false},
		"at its time":     {at, true},
		"at the latest":   {signedAt.Add(9*time.Minute + 30*time.Second), true},
		"after its end":   {signedAt.Add(time.Hour), true},
		"signed by a clock that is a little fast":      {signedAt.Add(-5 * time.Minute), false},
		"signed by a clock that is too fast for AWS":   {signedAt.Add(-5*time.Minute - time.Second), true},
		"signed before this clock was set back a year": {signedAt.AddDate(-1, 0, 0), true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.due, kubeconfig.Due(signedAt.Add(15*time.Minute), key, row.now))
		})
	}
}

func TestTheRenewalsOfAThousandClustersAreSpread(t *testing.T) {
	expiry, inSecond := signedAt.Add(15*time.Minute), map[int64]int{}
	for i := range 1000 {
		key := fmt.Sprintf("us-east-1/cluster-%d", i)
		at := kubeconfig.RenewAt(expiry, key)
		require.Equal(t, at, kubeconfig.RenewAt(expiry, key), "the same in every manager")
		left := expiry.Sub(at)
		require.GreaterOrEqual(t, left, 5*time.Minute+30*time.Second)
		require.Less(t, left, 7*time.Minute+30*time.Second)
		inSecond[at.Unix()]++
	}
	for _, count := range inSecond {
		assert.LessOrEqual(t, count, 30, "of 1000 over 120 seconds")
	}
	assert.Greater(t, len(inSecond), 100)
}

// minter makes tokens at a time that a test moves.
type minter struct {
	t       *testing.T
	now     time.Time
	end     time.Time
	problem error
	made    int
}

func (m *minter) Available(context.Context) error { return m.problem }

func (m *minter) Token(ctx context.Context, cluster, region string) (string, time.Time, error) {
	if m.problem != nil {
		return "", time.Time{}, m.problem
	}
	m.made++
	return tokensAt(m.t, m.now, m.end).Token(ctx, cluster, region)
}

func source() kubeconfig.Source {
	return kubeconfig.Source{Cluster: "demo", Region: "us-east-1", Endpoint: "https://eks.example.com:443", CA: builder.CA()}
}

func TestAKubeconfigIsKeptUntilItsTokenIsDue(t *testing.T) {
	tokens := &minter{t: t, now: signedAt}
	first, next, err := source().Kubeconfig(t.Context(), tokens, nil, signedAt)
	require.NoError(t, err)
	require.Equal(t, 1, tokens.made)
	assert.Greater(t, next.Sub(signedAt), 7*time.Minute)

	again, same, err := source().Kubeconfig(t.Context(), tokens, first, next.Add(-time.Second))
	require.NoError(t, err)
	assert.Equal(t, string(first), string(again))
	assert.Equal(t, next, same)
	assert.Equal(t, 1, tokens.made, "no token for nothing")

	tokens.now = next
	second, later, err := source().Kubeconfig(t.Context(), tokens, first, next)
	require.NoError(t, err)
	assert.NotEqual(t, string(first), string(second))
	expires, ok := kubeconfig.Expiry(second)
	require.True(t, ok)
	assert.WithinDuration(t, next.Add(15*time.Minute), expires, time.Second)
	assert.True(t, later.After(next))
}

func TestAKubeconfigFromAnotherSourceIsReplaced(t *testing.T) {
	tokens := &minter{t: t, now: signedAt}
	published, _, err := source().Kubeconfig(t.Context(), tokens, nil, signedAt)
	require.NoError(t, err)
	for name, change := range map[string]func(*kubeconfig.Source){
		"another cluster":   func(s *kubeconfig.Source) { s.Cluster = "other" },
		"another region":    func(s *kubeconfig.Source) { s.Region = "eu-west-1" },
		"another endpoint":  func(s *kubeconfig.Source) { s.Endpoint = "https://other.example.com:443" },
		"another authority": func(s *kubeconfig.Source) { s.CA = encode(decoded(t) + decoded(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			changed := source()
			change(&changed)
			data, _, err := changed.Kubeconfig(t.Context(), tokens, published, signedAt)
			require.NoError(t, err)
			assert.NotEqual(t, string(published), string(data))
		})
	}
	t.Run("of another client", func(t *testing.T) {
		data, _, err := source().Kubeconfig(t.Context(), tokens, []byte(whole), signedAt)
		require.NoError(t, err)
		assert.Equal(t, string(published), string(data))
	})
}

func TestAKubeconfigThatCannotBeRenewedServesUntilItExpires(t *testing.T) {
	tokens := &minter{t: t, now: signedAt}
	published, due, err := source().Kubeconfig(t.Context(), tokens, nil, signedAt)
	require.NoError(t, err)
	tokens.problem = errors.New("no credentials today")

	data, next, err := source().Kubeconfig(t.Context(), tokens, published, due)
	require.ErrorIs(t, err, tokens.problem)
	assert.Equal(t, string(published), string(data))
	assert.Equal(t, due.Add(30*time.Second), next)

	data, _, err = source().Kubeconfig(t.Context(), tokens, published, signedAt.Add(15*time.Minute))
	require.ErrorIs(t, err, tokens.problem)
	assert.Nil(t, data)
}

// The instance metadata of EC2 gives new credentials as late as five minutes before the end of the old ones.
func TestCredentialsThatEndSoonMakeNoWritesForNothing(t *testing.T) {
	now := signedAt
	tokens := &minter{t: t, now: now, end: signedAt.Add(5 * time.Minute)}
	published, next, err := source().Kubeconfig(t.Context(), tokens, nil, now)
	require.NoError(t, err)
	assert.Equal(t, now.Add(30*time.Second), next, "and no busy loop")

	now = next
	tokens.now = now
	again, _, err := source().Kubeconfig(t.Context(), tokens, published, now)
	require.NoError(t, err)
	assert.Equal(t, string(published), string(again), "the same credentials sign the same token")
}

func TestAnInvalidCertificateAuthorityIsReportedAndNothingIsStored(t *testing.T) {
	tokens := &minter{t: t, now: signedAt}
	published, _, err := source().Kubeconfig(t.Context(), tokens, nil, signedAt)
	require.NoError(t, err)
	broken := source()
	broken.CA = encode("hunter2")
	data, _, err := broken.Kubeconfig(t.Context(), tokens, published, signedAt)
	require.ErrorContains(t, err, "certificate authority")
	assert.Nil(t, data)
}
