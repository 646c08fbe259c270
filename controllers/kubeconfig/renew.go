// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"context"
	"hash/fnv"
	"time"
)

const (
	// renewBefore is how long before its expiry a token is renewed at the latest. It tolerates a clock of the manager that is slow by this time.
	renewBefore = 5*time.Minute + 30*time.Second
	// renewalSpread is the period before that over which the renewals of many clusters are distributed.
	renewalSpread = 2 * time.Minute
	// maxClockSkew is how far in the future a token may have been signed, by a manager whose clock is fast. STS refuses a token that is more
	// than 5 minutes in the future.
	maxClockSkew = 5 * time.Minute
	// minRenewalInterval is the minimum time between two renewals.
	minRenewalInterval = 30 * time.Second
)

// RenewAt is when a token is renewed: 5.5 to 7.5 minutes before its expiry. The key of the cluster determines the exact time, in every
// manager, so that not all clusters are renewed in the same second.
func RenewAt(expiry time.Time, key string) time.Time {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key))
	early := time.Duration(hash.Sum32()) % (renewalSpread / time.Millisecond) * time.Millisecond
	return expiry.Add(-renewBefore - early)
}

// NeedsRenewal reports whether a token must be renewed now. That includes a token from the future: a manager with a wrong clock signed it, and
// STS may reject it.
func NeedsRenewal(expiry time.Time, key string, now time.Time) bool {
	return !now.Before(RenewAt(expiry, key)) || expiry.Sub(now) > tokenLifetime+maxClockSkew
}

// Source is the input of a kubeconfig with a token.
type Source struct {
	// Cluster is the name of the EKS cluster.
	Cluster, Region string
	// Endpoint is the URL of the API server; CA is its certificate authority, in the format of EKS.
	Endpoint, CA string
}

// Kubeconfig returns the kubeconfig to publish, and when to call again. It returns the published kubeconfig while that has the same source and
// its token needs no renewal, otherwise one with a new token. If it returns data and an error, the token could not be renewed but has not expired:
// keep the published kubeconfig, report the error, and retry.
func (s Source) Kubeconfig(ctx context.Context, tokens Tokens, published []byte, now time.Time) (data []byte, next time.Time, err error) {
	ends, kept := s.matches(published)
	kept = kept && now.Before(ends)
	if kept && !NeedsRenewal(ends, s.key(), now) {
		return published, s.nextRenewal(ends, now), nil
	}
	data, ends, err = s.renew(ctx, tokens)
	switch {
	case err == nil:
		return data, s.nextRenewal(ends, now), nil
	case kept:
		return published, now.Add(minRenewalInterval), err
	}
	return nil, now.Add(minRenewalInterval), err
}

// matches reports whether a kubeconfig has this source, and the expiry of its token.
func (s Source) matches(published []byte) (time.Time, bool) {
	token, ok := tokenOf(published)
	if !ok || !regionPattern.MatchString(s.Region) {
		return time.Time{}, false
	}
	host, err := stsHost(context.Background(), s.Region)
	if err != nil || host != token.host {
		return time.Time{}, false
	}
	same, err := ForToken(s.Cluster, s.Endpoint, s.CA, token.text)
	return token.expires, err == nil && bytes.Equal(same, published)
}

func (s Source) renew(ctx context.Context, tokens Tokens) ([]byte, time.Time, error) {
	token, ends, err := tokens.Token(ctx, s.Cluster, s.Region)
	if err != nil {
		return nil, time.Time{}, err
	}
	data, err := ForToken(s.Cluster, s.Endpoint, s.CA, token)
	return data, ends, err
}

func (s Source) nextRenewal(ends, now time.Time) time.Time {
	if next := RenewAt(ends, s.key()); next.After(now) {
		return next
	}
	return now.Add(minRenewalInterval)
}

func (s Source) key() string { return s.Region + "/" + s.Cluster + "/" + s.Endpoint }
