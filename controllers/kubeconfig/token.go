// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"context"
	"encoding/base64"
	"errors"
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
	// tokenPrefix begins every token of EKS; what follows is a presigned URL in base64url without padding.
	tokenPrefix = "k8s-aws-v1."
	// tokenLife is how long EKS and STS take a token after the date in it (the EKS API reference and aws-iam-authenticator say
	// so). X-Amz-Expires has no say: it is 60 in all tokens, since older authenticators refuse more.
	tokenLife    = 15 * time.Minute
	tokenExpires = "60"
	// clusterHeader binds a token to one cluster: it is signed, and EKS verifies with the name of its own cluster.
	clusterHeader = "x-k8s-aws-id"
	dateFormat    = "20060102T150405Z"
	// emptyPayload is the SHA-256 of nothing.
	emptyPayload = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

var (
	regionForm = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$`)
	// clusterForm is what EKS allows. The name is the value of a header, and it may come from a Terraform output.
	clusterForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`)
)

// sign makes a token of EKS: the URL of an STS request that says who the signer is, signed for one cluster. It needs no
// network. The query holds exactly the parameters that EKS accepts, which a request of the STS client would not.
func sign(ctx context.Context, credentials aws.Credentials, cluster, region string, at time.Time) (string, error) {
	switch {
	case !clusterForm.MatchString(cluster):
		return "", errors.New("a token needs a name of a cluster that EKS allows")
	case !regionForm.MatchString(region):
		return "", errors.New("a token needs a region of AWS")
	}
	host, err := stsHost(ctx, region)
	if err != nil {
		return "", err
	}
	query := url.Values{"Action": {"GetCallerIdentity"}, "Version": {"2011-06-15"}, "X-Amz-Expires": {tokenExpires}}
	address := url.URL{Scheme: "https", Host: host, Path: "/", RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return "", errors.New("the request to sign can not be made")
	}
	request.Header.Set(clusterHeader, cluster)
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, credentials, request, emptyPayload, "sts", region, at)
	if err != nil {
		return "", errors.New("the request can not be signed")
	}
	return tokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(signed)), nil
}

// stsHost is the regional endpoint of STS. The SDK knows the domains of AWS's partitions, and nobody is asked for it.
func stsHost(ctx context.Context, region string) (string, error) {
	parameters := sts.EndpointParameters{Region: &region}.WithDefaults()
	endpoint, err := sts.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, parameters)
	if err != nil {
		return "", errors.New("the endpoint of STS in the region is not known")
	}
	return endpoint.URI.Host, nil
}

// bearer is what can be read from a token.
type bearer struct {
	text, host string
	// ends is when EKS takes the token no longer.
	ends time.Time
}

func readToken(token string) (bearer, bool) {
	encoded, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok {
		return bearer{}, false
	}
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return bearer{}, false
	}
	address, err := url.Parse(string(text))
	if err != nil {
		return bearer{}, false
	}
	signed, err := time.Parse(dateFormat, address.Query().Get("X-Amz-Date"))
	if err != nil {
		return bearer{}, false
	}
	return bearer{text: token, host: address.Host, ends: signed.Add(tokenLife)}, true
}

// tokenOf is the token of EKS with which the current context of a kubeconfig authenticates.
func tokenOf(data []byte) (bearer, bool) {
	config, err := clientcmd.Load(data)
	if err != nil {
		return bearer{}, false
	}
	context, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return bearer{}, false
	}
	user, ok := config.AuthInfos[context.AuthInfo]
	if !ok {
		return bearer{}, false
	}
	return readToken(user.Token)
}

// Expiry is when the token of EKS in a kubeconfig ends; false when its current context holds none. It is read from the
// token itself, so that a manager that was just started knows when to renew it.
func Expiry(data []byte) (time.Time, bool) {
	token, ok := tokenOf(data)
	return token.ends, ok
}
