// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
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

// eksToken is the content of a token.
type eksToken struct {
	text, host string
	// expires is when the token expires.
	expires time.Time
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
