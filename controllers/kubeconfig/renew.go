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
	// renewBefore is how long before its end a token is renewed at the latest. So much may the clock of this manager be slow.
	renewBefore = 5*time.Minute + 30*time.Second
	// spread is over how much time before that the renewals of many clusters are spread.
	spread = 2 * time.Minute
	// fastClock is how much later than now a token may have been signed, by a manager whose clock was fast. STS refuses a
	// token that is more than 5 minutes ahead of its own clock.
	fastClock = 5 * time.Minute
	// soonest is the least time between two looks at a token that can not be made to last.
	soonest = 30 * time.Second
)

// RenewAt is when a token that ends at expiry is renewed: 5.5 to 7.5 minutes earlier. The key, a name for the cluster, decides
// when in between, and does so in every manager alike, so that a thousand clusters are not renewed in the same second.
func RenewAt(expiry time.Time, key string) time.Time {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key))
	early := time.Duration(hash.Sum32()) % (spread / time.Millisecond) * time.Millisecond
	return expiry.Add(-renewBefore - early)
}

// Due tells whether a token that ends at expiry is to be renewed now. One from the future is: of two managers one has a
// wrong clock, and STS may not take the token yet.
func Due(expiry time.Time, key string, now time.Time) bool {
	return !now.Before(RenewAt(expiry, key)) || expiry.Sub(now) > tokenLife+fastClock
}

// Source is what a kubeconfig with a token is made from.
type Source struct {
	// Cluster is the name that EKS knows, Region where it is.
	Cluster, Region string
	// Endpoint is the URL of the API server; CA its certificate authority, as EKS gives it.
	Endpoint, CA string
}

// Kubeconfig gives the kubeconfig to publish, and when to ask again. That is the published one, byte for byte, as long as it
// was made from the same source and is not due; else one with a new token. Both data and an error mean that the
// published one was due and could not be renewed, but has not ended: keep it, tell the error, and ask again.
func (s Source) Kubeconfig(ctx context.Context, tokens Tokens, published []byte, now time.Time) (data []byte, next time.Time, err error) {
	ends, kept := s.made(published)
	kept = kept && now.Before(ends)
	if kept && !Due(ends, s.key(), now) {
		return published, s.next(ends, now), nil
	}
	data, ends, err = s.renew(ctx, tokens)
	switch {
	case err == nil:
		return data, s.next(ends, now), nil
	case kept:
		return published, now.Add(soonest), err
	}
	return nil, now.Add(soonest), err
}

// made tells whether a kubeconfig is what would be made from this source with the token that is in it, and when it ends.
func (s Source) made(published []byte) (time.Time, bool) {
	token, ok := tokenOf(published)
	if !ok || !regionForm.MatchString(s.Region) {
		return time.Time{}, false
	}
	host, err := stsHost(context.Background(), s.Region)
	if err != nil || host != token.host {
		return time.Time{}, false
	}
	same, err := ForToken(s.Cluster, s.Endpoint, s.CA, token.text)
	return token.ends, err == nil && bytes.Equal(same, published)
}

func (s Source) renew(ctx context.Context, tokens Tokens) ([]byte, time.Time, error) {
	token, ends, err := tokens.Token(ctx, s.Cluster, s.Region)
	if err != nil {
		return nil, time.Time{}, err
	}
	data, err := ForToken(s.Cluster, s.Endpoint, s.CA, token)
	return data, ends, err
}

func (s Source) next(ends, now time.Time) time.Time {
	if next := RenewAt(ends, s.key()); next.After(now) {
		return next
	}
	return now.Add(soonest)
}

func (s Source) key() string { return s.Region + "/" + s.Cluster + "/" + s.Endpoint }
