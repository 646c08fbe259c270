// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/test/builder"
)

const (
	accessKey    = "AKIDEXAMPLE"
	secretKey    = "hunter2/+key"
	sessionToken = "hunter2/+session=="
)

var signedAt = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// tokensAt makes tokens with fixed credentials, temporary ones where they have an end, at a fixed time.
func tokensAt(t *testing.T, now, end time.Time) *kubeconfig.AWS {
	t.Helper()
	isolate(t)
	fixed := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey, SessionToken: sessionToken, CanExpire: !end.IsZero(), Expires: end}, nil
	})
	return kubeconfig.NewAWS(clocktesting.NewFakePassiveClock(now), false, config.WithCredentialsProvider(fixed), silent(t))
}

// token that was made at signedAt.
func token(t *testing.T, cluster, region string) string {
	t.Helper()
	made, _, err := tokensAt(t, signedAt, time.Time{}).Token(t.Context(), cluster, region)
	require.NoError(t, err)
	return made
}

// request is the URL in a token.
func request(t *testing.T, token string) *url.URL {
	t.Helper()
	encoded, ok := strings.CutPrefix(token, "k8s-aws-v1.")
	require.True(t, ok)
	require.NotContains(t, encoded, "=", "no padding")
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	require.NoError(t, err)
	address, err := url.Parse(string(text))
	require.NoError(t, err)
	return address
}

func TestATokenIsAPresignedRequestForTheCallersIdentity(t *testing.T) {
	address := request(t, token(t, "demo", "us-east-1"))
	assert.Equal(t, "https://sts.us-east-1.amazonaws.com/", (&url.URL{Scheme: address.Scheme, Host: address.Host, Path: address.Path}).String())
	// EKS refuses a token with any other parameter.
	assert.Equal(t, url.Values{
		"Action": {"GetCallerIdentity"}, "Version": {"2011-06-15"}, "X-Amz-Expires": {"60"}, "X-Amz-Algorithm": {"AWS4-HMAC-SHA256"},
		"X-Amz-Credential": {accessKey + "/20260304/us-east-1/sts/aws4_request"}, "X-Amz-Date": {"20260304T050607Z"},
		"X-Amz-Security-Token": {sessionToken}, "X-Amz-SignedHeaders": {"host;x-k8s-aws-id"},
		"X-Amz-Signature": {"c01c4cebb7139be8549ce045c5d73eb848d2e802d482ad03a1126b042c375c47"},
	}, address.Query(), "the signature was computed from the description of Signature Version 4")
	assert.NotContains(t, address.String(), url.QueryEscape(secretKey))
	assert.NotEqual(t, token(t, "demo", "us-east-1"), token(t, "other", "us-east-1"), "it is for one cluster")
}

func TestEachPartitionHasItsDomain(t *testing.T) {
	for region, domain := range map[string]string{
		"us-east-1": "amazonaws.com", "ap-northeast-1": "amazonaws.com", "xx-newland-9": "amazonaws.com",
		"us-gov-west-1": "amazonaws.com", "us-gov-east-1": "amazonaws.com",
		"cn-north-1": "amazonaws.com.cn", "cn-northwest-1": "amazonaws.com.cn",
		"eusc-de-east-1": "amazonaws.eu", "us-iso-east-1": "c2s.ic.gov", "us-isob-east-1": "sc2s.sgov.gov",
		"us-isof-south-1": "csp.hci.ic.gov", "eu-isoe-west-1": "cloud.adc-e.uk",
	} {
		assert.Equal(t, "sts."+region+"."+domain, request(t, token(t, "demo", region)).Host)
	}
}

// Nothing but the name of a cluster is ever asked of the owner of a token: it must not become part of the request.
func TestAnInvalidNameOrRegionIsNotSigned(t *testing.T) {
	tokens := tokensAt(t, signedAt, time.Time{})
	for name, row := range map[string]struct{ cluster, region string }{
		"no cluster":                   {"", "us-east-1"},
		"a cluster with another line":  {"demo\r\nX-Other: 1", "us-east-1"},
		"a cluster with a space":       {"demo demo", "us-east-1"},
		"a cluster with a long name":   {strings.Repeat("a", 101), "us-east-1"},
		"no region":                    {"demo", ""},
		"a region with another domain": {"demo", "evil.example.com/us-east-1"},
		"a region in capitals":         {"demo", "US-EAST-1"},
		"all regions":                  {"demo", "aws-global"},
	} {
		t.Run(name, func(t *testing.T) {
			made, _, err := tokens.Token(t.Context(), row.cluster, row.region)
			require.Error(t, err)
			assert.Empty(t, made)
		})
	}
}

func TestATokenEnds15MinutesAfterItWasSignedAndSaysSoItself(t *testing.T) {
	for name, row := range map[string]struct{ now, credentialsEnd, want time.Time }{
		"of a user":                              {signedAt, time.Time{}, signedAt.Add(15 * time.Minute)},
		"with a fraction of a second":            {signedAt.Add(999 * time.Millisecond), time.Time{}, signedAt.Add(15 * time.Minute)},
		"in another time zone":                   {signedAt.In(time.FixedZone("elsewhere", 9*3600)), time.Time{}, signedAt.Add(15 * time.Minute)},
		"of credentials that outlive it":         {signedAt, signedAt.Add(time.Hour), signedAt.Add(15 * time.Minute)},
		"of credentials that end before it does": {signedAt, signedAt.Add(9*time.Minute + 300*time.Millisecond), signedAt.Add(9 * time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			made, expires, err := tokensAt(t, row.now, row.credentialsEnd).Token(t.Context(), "demo", "us-east-1")
			require.NoError(t, err)
			assert.Equal(t, row.want, expires)

			data, err := kubeconfig.ForToken("demo", "https://eks.example.com", builder.CA(), made)
			require.NoError(t, err)
			read, ok := kubeconfig.Expiry(data)
			require.True(t, ok)
			assert.Equal(t, row.want, read)
		})
	}
}

func TestAKubeconfigWithoutATokenOfEKSHasNoExpiry(t *testing.T) {
	of := func(address string) string {
		return "k8s-aws-v1." + base64.RawURLEncoding.EncodeToString([]byte(address))
	}
	exec, err := kubeconfig.ForExec("demo", "us-east-1", "https://eks.example.com", builder.CA())
	require.NoError(t, err)
	for name, data := range map[string]string{
		"nothing":               "",
		"text":                  "hunter2",
		"no user":               "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {}}]}",
		"a command":             string(exec),
		"another token":         whole,
		"a token with padding":  with("", "token: k8s-aws-v1.YQ=="),
		"a token of no URL":     with("", "token: "+of("https://%zz")),
		"a token of no date":    with("", "token: "+of("https://sts.us-east-1.amazonaws.com/?Action=GetCallerIdentity")),
		"a token of wrong date": with("", "token: "+of("https://sts.us-east-1.amazonaws.com/?X-Amz-Date=yesterday")),
	} {
		t.Run(name, func(t *testing.T) {
			expires, ok := kubeconfig.Expiry([]byte(data))
			assert.False(t, ok)
			assert.Zero(t, expires)
		})
	}
}

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
			assert.Equal(t, row.due, kubeconfig.NeedsRenewal(signedAt.Add(15*time.Minute), key, row.now))
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
	t.Run("an invalid certificate authority", func(t *testing.T) {
		broken := source()
		broken.CA = encode("hunter2")
		data, _, err := broken.Kubeconfig(t.Context(), tokens, published, signedAt)
		require.ErrorContains(t, err, "certificate authority")
		assert.Nil(t, data, "nothing is stored")
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
