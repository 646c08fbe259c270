// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// tokenPrefix is the prefix of EKS tokens. A presigned URL in base64url without padding follows.
	tokenPrefix = "k8s-aws-v1."
	// tokenLifetime is how long EKS and STS accept a token after its date (EKS API reference, aws-iam-authenticator). X-Amz-Expires is
	// ignored: it is 60 in all tokens, because older authenticators refuse more.
	tokenLifetime = 15 * time.Minute
	tokenExpires  = "60"
	// clusterHeader binds a token to one cluster: it is signed, and EKS verifies it with the name of its cluster.
	clusterHeader = "x-k8s-aws-id"
	dateFormat    = "20060102T150405Z"
	// emptyPayload is the SHA-256 of an empty payload.
	emptyPayload = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

var (
	regionPattern = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$`)
	// clusterNamePattern matches names that EKS allows. The name becomes a header, and may come from a Terraform output.
	clusterNamePattern = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`)
)

// sign creates an EKS token: a presigned URL of the STS request GetCallerIdentity, bound to one cluster. It needs no network. The query has
// exactly the parameters that EKS accepts, unlike a request of the STS client.
func sign(ctx context.Context, credentials aws.Credentials, cluster, region string, at time.Time) (string, error) {
	switch {
	case !clusterNamePattern.MatchString(cluster):
		return "", fmt.Errorf("%q is not a valid name of an EKS cluster", cluster)
	case !regionPattern.MatchString(region):
		return "", fmt.Errorf("%q is not a valid AWS region; correct spec.region", region)
	}
	host, err := stsHost(ctx, region)
	if err != nil {
		return "", err
	}
	query := url.Values{"Action": {"GetCallerIdentity"}, "Version": {"2011-06-15"}, "X-Amz-Expires": {tokenExpires}}
	address := url.URL{Scheme: "https", Host: host, Path: "/", RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return "", errors.New("cannot create the request to sign")
	}
	request.Header.Set(clusterHeader, cluster)
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, credentials, request, emptyPayload, "sts", region, at)
	if err != nil {
		return "", errors.New("cannot sign the request")
	}
	return tokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(signed)), nil
}

// stsHost is the regional endpoint of STS. The SDK knows the domains of the AWS partitions without a request.
func stsHost(ctx context.Context, region string) (string, error) {
	parameters := sts.EndpointParameters{Region: &region}.WithDefaults()
	endpoint, err := sts.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, parameters)
	if err != nil {
		return "", fmt.Errorf("the STS endpoint of AWS region %q is unknown; correct spec.region", region)
	}
	return endpoint.URI.Host, nil
}

type eksToken struct {
	text, host string
	expires    time.Time
}

func parseToken(token string) (eksToken, bool) {
	encoded, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok {
		return eksToken{}, false
	}
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return eksToken{}, false
	}
	address, err := url.Parse(string(text))
	if err != nil {
		return eksToken{}, false
	}
	signed, err := time.Parse(dateFormat, address.Query().Get("X-Amz-Date"))
	if err != nil {
		return eksToken{}, false
	}
	return eksToken{text: token, host: address.Host, expires: signed.Add(tokenLifetime)}, true
}

// tokenOf is the EKS token of the current context of a kubeconfig.
func tokenOf(data []byte) (eksToken, bool) {
	if !bytes.Contains(data, []byte(tokenPrefix)) { // Nothing that writes kubeconfigs escapes these characters.
		return eksToken{}, false
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return eksToken{}, false
	}
	context, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return eksToken{}, false
	}
	user, ok := config.AuthInfos[context.AuthInfo]
	if !ok {
		return eksToken{}, false
	}
	return parseToken(user.Token)
}

// Expiry is when the EKS token of a kubeconfig expires; false when its current context has none. It is read from the token, so it is known
// after a restart.
func Expiry(data []byte) (time.Time, bool) {
	token, ok := tokenOf(data)
	return token.expires, ok
}

// certificates decodes the certificate authority of EKS, base64 of PEM, exactly once, and checks every block: clients silently skip
// invalid blocks, so a broken chain would be reported only as an unknown authority.
//
// An expired certificate is not an error: during a rotation a bundle has old and new ones, the clock of this manager may be wrong, and the
// probe of the API server reports when none is valid.
func certificates(ca string) ([]byte, error) {
	bundle, err := base64.StdEncoding.DecodeString(ca)
	if err != nil {
		return nil, errors.New("the certificate authority is not valid base64")
	}
	rest, number := bundle, 0
	for {
		block, after := pem.Decode(rest)
		read := rest[:len(rest)-len(after)]
		if block == nil {
			read = rest
		}
		begins := bytes.Count(read, []byte("-----BEGIN"))
		if block == nil && begins == 0 {
			break
		}
		number++
		// The decoder skips invalid blocks, so the block that it found may not be the first one.
		if block == nil || begins > 1 {
			return nil, fmt.Errorf("block %d of the certificate authority is not complete PEM", number)
		}
		if problem := blockProblem(block); problem != "" {
			return nil, fmt.Errorf("block %d of the certificate authority %s", number, problem)
		}
		rest = after
	}
	if number == 0 {
		return nil, errors.New("the certificate authority is not base64-encoded PEM, the format of EKS")
	}
	return bundle, nil
}

// blockProblem describes an invalid block. The error of the parser is omitted, because it quotes names in the certificate.
func blockProblem(block *pem.Block) string {
	switch {
	case strings.Contains(block.Type, "PRIVATE KEY"):
		return "is a private key, which must not be published: remove it from the output, and replace the key"
	case block.Type != "CERTIFICATE":
		return "is not a certificate"
	case len(block.Headers) > 0:
		return "has PEM headers, so clients skip it"
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return "has a certificate that cannot be parsed"
	}
	return ""
}

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
