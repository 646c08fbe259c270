// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
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

func mac(key []byte, text string) []byte {
	hash := hmac.New(sha256.New, key)
	hash.Write([]byte(text))
	return hash.Sum(nil)
}

// signature of a presigned request, from the description of Signature Version 4.
func signature(address *url.URL, cluster, region string) string {
	query := address.Query()
	date := query.Get("X-Amz-Date")
	parameters := []string{}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name != "X-Amz-Signature" {
			parameters = append(parameters, name+"="+strings.ReplaceAll(url.QueryEscape(query.Get(name)), "+", "%20"))
		}
	}
	empty := sha256.Sum256(nil)
	canonical := strings.Join([]string{
		"GET", "/", strings.Join(parameters, "&"), "host:" + address.Host, "x-k8s-aws-id:" + cluster, "", "host;x-k8s-aws-id", hex.EncodeToString(empty[:]),
	}, "\n")
	digest := sha256.Sum256([]byte(canonical))
	scope := date[:8] + "/" + region + "/sts/aws4_request"
	toSign := strings.Join([]string{"AWS4-HMAC-SHA256", date, scope, hex.EncodeToString(digest[:])}, "\n")
	key := mac(mac(mac(mac([]byte("AWS4"+secretKey), date[:8]), region), "sts"), "aws4_request")
	return hex.EncodeToString(mac(key, toSign))
}

func TestATokenIsAPresignedRequestForTheCallersIdentity(t *testing.T) {
	address := request(t, token(t, "demo", "us-east-1"))
	assert.Equal(t, "https://sts.us-east-1.amazonaws.com/", (&url.URL{Scheme: address.Scheme, Host: address.Host, Path: address.Path}).String())
	// EKS refuses a token with any other parameter.
	assert.Equal(t, url.Values{
		"Action": {"GetCallerIdentity"}, "Version": {"2011-06-15"}, "X-Amz-Expires": {"60"}, "X-Amz-Algorithm": {"AWS4-HMAC-SHA256"},
		"X-Amz-Credential": {accessKey + "/20260304/us-east-1/sts/aws4_request"}, "X-Amz-Date": {"20260304T050607Z"},
		"X-Amz-Security-Token": {sessionToken}, "X-Amz-SignedHeaders": {"host;x-k8s-aws-id"},
		"X-Amz-Signature": {signature(address, "demo", "us-east-1")},
	}, address.Query())
	assert.NotContains(t, address.String(), url.QueryEscape(secretKey))
}

func TestATokenIsForOneCluster(t *testing.T) {
	demo, other := request(t, token(t, "demo", "us-east-1")).Query(), request(t, token(t, "other", "us-east-1")).Query()
	assert.NotEqual(t, demo.Get("X-Amz-Signature"), other.Get("X-Amz-Signature"))
}

func TestEachPartitionHasItsDomain(t *testing.T) {
	for region, host := range map[string]string{
		"us-east-1":       "sts.us-east-1.amazonaws.com",
		"ap-northeast-1":  "sts.ap-northeast-1.amazonaws.com",
		"cn-north-1":      "sts.cn-north-1.amazonaws.com.cn",
		"cn-northwest-1":  "sts.cn-northwest-1.amazonaws.com.cn",
		"us-gov-west-1":   "sts.us-gov-west-1.amazonaws.com",
		"us-gov-east-1":   "sts.us-gov-east-1.amazonaws.com",
		"eusc-de-east-1":  "sts.eusc-de-east-1.amazonaws.eu",
		"us-iso-east-1":   "sts.us-iso-east-1.c2s.ic.gov",
		"us-isob-east-1":  "sts.us-isob-east-1.sc2s.sgov.gov",
		"us-isof-south-1": "sts.us-isof-south-1.csp.hci.ic.gov",
		"eu-isoe-west-1":  "sts.eu-isoe-west-1.cloud.adc-e.uk",
		"xx-newland-9":    "sts.xx-newland-9.amazonaws.com",
	} {
		t.Run(region, func(t *testing.T) {
			address := request(t, token(t, "demo", region))
			assert.Equal(t, host, address.Host)
			assert.Equal(t, signature(address, "demo", region), address.Query().Get("X-Amz-Signature"))
		})
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

func TestTwoTokensDifferOnlyInDateAndSignature(t *testing.T) {
	first := request(t, token(t, "demo", "us-east-1")).Query()
	for _, later := range []time.Duration{0, time.Second, 17 * time.Second, 59 * time.Second} {
		made, _, err := tokensAt(t, signedAt.Add(later), time.Time{}).Token(t.Context(), "demo", "us-east-1")
		require.NoError(t, err)
		second := request(t, made).Query()
		differ := []string{}
		for _, name := range slices.Sorted(maps.Keys(second)) {
			if !slices.Equal(first[name], second[name]) {
				differ = append(differ, name)
			}
		}
		want := []string{"X-Amz-Date", "X-Amz-Signature"}
		if later == 0 {
			want = []string{}
		}
		assert.Equal(t, want, differ)
		assert.Len(t, second, len(first))
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
