// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig generates the kubeconfigs of a cluster, and validates their sources.
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
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
)

// ErrNoCredentials means that the manager has no AWS credentials.
var ErrNoCredentials = errors.New("the manager has no AWS credentials; see docs/install-reference.md (Tokens for kubeconfigs)")

// Tokens creates tokens that authenticate the manager to EKS clusters.
type Tokens interface {
	// Available reports whether the manager has a source of credentials; if not, the error is ErrNoCredentials. A source with a temporary
	// failure counts.
	Available(ctx context.Context) error
	// Token returns a token for a cluster, and its expiry. The error has no secret.
	Token(ctx context.Context, cluster, region string) (token string, expires time.Time, err error)
}

const (
	// retrieveTimeout limits how long a reconcile waits for credentials: STS, the agent of EKS Pod Identity, or a command.
	retrieveTimeout = 5 * time.Second
	// retryAfter is how long a failure is cached, so that not each cluster waits for the same timeout.
	retryAfter = 30 * time.Second
	// rereadAfter is how long credentials without expiry are used: the mounted Secret that they are read from may be rotated.
	rereadAfter = time.Minute
	// refreshBefore is how long before their expiry credentials are renewed. A token expires with the credentials that signed it, so this
	// must be longer than the time before which tokens are renewed.
	refreshBefore = renewBefore + renewalSpread + time.Minute
)

// AWS creates tokens with the credentials of this process, from the default chain of the AWS SDK: environment, web identity of a
// ServiceAccount, shared configuration, EKS Pod Identity.
type AWS struct {
	clock   clock.PassiveClock
	options []func(*config.LoadOptions) error
	// instanceMetadata is true when credentials of the EC2 instance may be used.
	instanceMetadata bool

	// lock guards the fields below, also while credentials are fetched, because all callers need the same ones. It is a channel and not a
	// mutex, so that a caller can stop waiting.
	lock        chan struct{}
	credentials aws.Credentials
	problem     error
	// next is when credentials are fetched again.
	next time.Time
}

var _ Tokens = &AWS{}

// NewAWS returns a source of tokens. It reads credentials at the first use. Credentials of the EC2 instance are used only with
// instanceMetadata: they belong to the node, and outside of EC2 the request is slow. options are options of the AWS SDK.
func NewAWS(clock clock.PassiveClock, instanceMetadata bool, options ...func(*config.LoadOptions) error) *AWS {
	if !instanceMetadata {
		options = append(slices.Clone(options), config.WithEC2IMDSClientEnableState(imds.ClientDisabled))
	}
	return &AWS{clock: clock, options: options, instanceMetadata: instanceMetadata, lock: make(chan struct{}, 1)}
}

// Available implements Tokens.
func (a *AWS) Available(ctx context.Context) error {
	if _, err := a.currentCredentials(ctx); errors.Is(err, ErrNoCredentials) {
		return err
	}
	return nil
}

// Token implements Tokens.
func (a *AWS) Token(ctx context.Context, cluster, region string) (string, time.Time, error) {
	credentials, err := a.currentCredentials(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	// A token cannot outlive its credentials. If they expire earlier, date the token back, so that its expiry can be read from the token.
	at := a.clock.Now().UTC().Truncate(time.Second)
	if last := credentials.Expires.Add(-tokenLifetime); credentials.CanExpire && last.Before(at) {
		at = last.UTC().Truncate(time.Second)
	}
	token, err := sign(ctx, credentials, cluster, region, at)
	if err != nil {
		return "", time.Time{}, err
	}
	return token, at.Add(tokenLifetime), nil
}

func (a *AWS) currentCredentials(ctx context.Context) (aws.Credentials, error) {
	select {
	case a.lock <- struct{}{}:
		defer func() { <-a.lock }()
	case <-ctx.Done():
		return aws.Credentials{}, ctx.Err()
	}
	if now := a.clock.Now(); !now.Before(a.next) {
		a.fetch(ctx)
	}
	return a.credentials, a.problem
}

func (a *AWS) fetch(ctx context.Context) {
	// Other callers wait for the same credentials, so the context of this caller must not cancel the request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), retrieveTimeout)
	defer cancel()
	fetched, err := a.retrieve(ctx)
	now := a.clock.Now()
	a.next = now.Add(retryAfter)
	switch {
	case err == nil:
		a.credentials, a.problem = fetched, nil
		if !fetched.CanExpire {
			a.next = now.Add(rereadAfter)
		} else if early := fetched.Expires.Add(-refreshBefore); early.After(a.next) {
			a.next = early
		}
	case now.Before(a.credentials.Expires):
		// The cached credentials are still valid: retried later. Credentials without expiry are dropped in the default case.
	default:
		a.credentials, a.problem = aws.Credentials{}, err
	}
}

// retrieve determines the source of credentials each time, from the environment and two small files.
func (a *AWS) retrieve(ctx context.Context) (aws.Credentials, error) {
	loaded, err := config.LoadDefaultConfig(ctx, a.options...)
	if err != nil {
		return aws.Credentials{}, redactError(err)
	}
	source, ok := loaded.Credentials.(aws.CredentialProviderSource)
	if ok && !a.instanceMetadata && slices.Contains(source.ProviderSources(), aws.CredentialSourceIMDS) {
		return aws.Credentials{}, ErrNoCredentials
	}
	credentials, err := loaded.Credentials.Retrieve(ctx)
	switch {
	case err != nil:
		return aws.Credentials{}, redactError(err)
	case credentials.CanExpire && !a.clock.Now().Before(credentials.Expires):
		return aws.Credentials{}, errors.New("the AWS credentials of the manager have expired; renew them where the manager gets them from")
	}
	return credentials, nil
}

// redactError returns the parts of an error of the SDK that cannot be secret. The text can quote the output of a credential process.
func redactError(err error) error {
	const what = "the AWS credentials of the manager cannot be used"
	var (
		operation interface {
			error
			Service() string
			Operation() string
		}
		answer interface {
			error
			ErrorCode() string
		}
		profile config.SharedConfigProfileNotExistError
		file    *fs.PathError
		network *net.OpError
		lookup  *net.DNSError
		message = what
	)
	if errors.As(err, &operation) {
		message += fmt.Sprintf(": %s %s", operation.Service(), operation.Operation())
	}
	switch {
	case errors.As(err, &answer) && plainValue.MatchString(answer.ErrorCode()):
		return fmt.Errorf("%s: AWS answered %s", message, answer.ErrorCode())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer within %s", message, retrieveTimeout)
	case errors.As(err, &profile):
		return fmt.Errorf("%s: the profile of AWS_PROFILE does not exist", message)
	case errors.As(err, &file):
		return fmt.Errorf("%s: %s %s: %w", message, file.Op, file.Path, file.Err)
	case errors.As(err, &lookup):
		return fmt.Errorf("%s: %s cannot be resolved", message, lookup.Name) // The rest differs each time.
	case errors.As(err, &network):
		return fmt.Errorf("%s: %s: %w", message, network.Op, network.Err)
	}
	return fmt.Errorf("%s: details omitted: they may contain credentials. Run \"aws sts get-caller-identity\" in the same environment to see them", message)
}

// Errors of Check for kubeconfigs that are valid but cannot be published.
var (
	// ErrUnsafe: the kubeconfig runs a command or reads files on the machine that uses it. Cluster API and this manager use it in their
	// Pods, so it is never published.
	ErrUnsafe = errors.New("a published kubeconfig must not run commands or read local files")
	// ErrGetToken: the kubeconfig runs only "aws eks get-token", as ForExec writes it. Users can use it; Cluster API has neither that
	// command nor AWS credentials.
	ErrGetToken = errors.New("the kubeconfig runs \"aws eks get-token\", but Cluster API has no AWS CLI")
	// ErrShortLived: the kubeconfig has an EKS token, for example of the Terraform data source aws_eks_cluster_auth. It expires 15 minutes
	// after Terraform ran, see Expiry.
	ErrShortLived = errors.New("the kubeconfig has an EKS token, which expires 15 minutes after Terraform created it")
)

// plainValue matches values that the AWS CLI does not interpret as an option, a file or an address.
var plainValue = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

var errNoContext = errors.New("current-context of the kubeconfig does not exist")

// Check validates a kubeconfig for Cluster API: it must parse, its current context must name a cluster with a server, and it must be
// self-contained. Any author of a Terraform module can provide it. The error never quotes the data; it is ErrUnsafe, ErrGetToken or
// ErrShortLived where one of these applies.
func Check(data []byte) error {
	if len(data) == 0 {
		return errNoContext
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return errors.New("the value is not a kubeconfig")
	}
	context, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return errNoContext
	}
	cluster, ok := config.Clusters[context.Cluster]
	if !ok || cluster.Server == "" {
		return errors.New("the current context of the kubeconfig has no cluster with a server")
	}
	if err := selfContained(config); err != nil {
		return err
	}
	user := config.AuthInfos[context.AuthInfo]
	switch {
	case user == nil:
		return nil
	case user.Exec != nil:
		return ErrGetToken
	}
	if _, ok := parseToken(user.Token); ok {
		return ErrShortLived
	}
	return nil
}

// selfContained checks all clusters and users, because another context can use them.
func selfContained(config *clientcmdapi.Config) error {
	for _, cluster := range config.Clusters {
		if cluster.CertificateAuthority != "" {
			return unsafeError("certificate-authority: use certificate-authority-data")
		}
	}
	for _, user := range config.AuthInfos {
		if problem := externalReference(user); problem != "" {
			return unsafeError(problem)
		}
	}
	return nil
}

func unsafeError(field string) error { return fmt.Errorf("%w: it has %s", ErrUnsafe, field) }

// externalReference names the field of a user that refers to something outside of the kubeconfig; empty when there is none.
func externalReference(user *clientcmdapi.AuthInfo) string {
	switch {
	case user.Exec != nil && !isGetToken(user.Exec):
		return "exec: use a token or a client certificate"
	case user.AuthProvider != nil:
		return "auth-provider: use a token or a client certificate"
	case user.TokenFile != "":
		return "tokenFile: use token"
	case user.ClientCertificate != "":
		return "client-certificate: use client-certificate-data"
	case user.ClientKey != "":
		return "client-key: use client-key-data"
	}
	return ""
}

// isGetToken reports whether a command is "aws eks get-token" with only the options of ForExec, in any order. The environment must be
// empty, because it determines which program runs and what it loads. Other options could, for example, assume a role with the
// credentials of the user.
func isGetToken(exec *clientcmdapi.ExecConfig) bool {
	if exec.Command != "aws" || len(exec.Env) > 0 {
		return false
	}
	words := []string{}
	for i := 0; i < len(exec.Args); i++ {
		switch arg := exec.Args[i]; arg {
		case "--cluster-name", "--region", "--output":
			i++
			if i == len(exec.Args) || !plainValue.MatchString(exec.Args[i]) {
				return false
			}
		default:
			words = append(words, arg)
		}
	}
	return slices.Equal(words, []string{"eks", "get-token"})
}

// ForExec returns a kubeconfig that gets its credentials from "aws eks get-token". ca is the certificate authority of EKS, base64 of PEM.
func ForExec(clusterName, region, endpoint, ca string) ([]byte, error) {
	if !clusterNamePattern.MatchString(clusterName) || !regionPattern.MatchString(region) {
		return nil, errors.New("the name or the region of the EKS cluster is invalid; correct spec.region, or output \"cluster_name\" of the module") // The AWS CLI could, for example, read a file.
	}
	return encode(clusterName, endpoint, ca, &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion:      "client.authentication.k8s.io/v1beta1",
		Command:         "aws",
		Args:            []string{"eks", "get-token", "--cluster-name", clusterName, "--region", region, "--output", "json"},
		InstallHint:     "Install version 2 of the AWS CLI, and configure credentials with access to the EKS cluster.",
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}})
}

// ForToken returns a kubeconfig with a bearer token. ca is the certificate authority of EKS. The result is deterministic.
func ForToken(clusterName, endpoint, ca, token string) ([]byte, error) {
	return encode(clusterName, endpoint, ca, &clientcmdapi.AuthInfo{Token: token})
}

// CheckCA reports why a certificate authority is not in the format of EKS; nil if it is.
func CheckCA(ca string) error {
	_, err := certificates(ca)
	return err
}

func encode(clusterName, endpoint, ca string, user *clientcmdapi.AuthInfo) ([]byte, error) {
	bundle, err := certificates(ca)
	if err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[clusterName] = &clientcmdapi.Cluster{Server: endpoint, CertificateAuthorityData: bundle}
	config.AuthInfos[clusterName] = user
	config.Contexts[clusterName] = &clientcmdapi.Context{Cluster: clusterName, AuthInfo: clusterName}
	config.CurrentContext = clusterName
	return clientcmd.Write(*config)
}

// ErrInsecure means that a kubeconfig does not verify the certificate of the API server.
var ErrInsecure = errors.New("the kubeconfig does not verify the certificate of the API server, so CAPT does not send its credentials")

// ClientConfig returns the configuration of a client with the address and the credentials of a kubeconfig, and the address. The error never quotes the
// data. It is ErrGetToken or ErrUnsafe if the manager would have to run a command or to read a file, and ErrInsecure.
func ClientConfig(data []byte) (*rest.Config, *url.URL, error) {
	switch err := Check(data); {
	case err == nil, errors.Is(err, ErrShortLived):
	case errors.Is(err, ErrGetToken), errors.Is(err, ErrUnsafe):
		return nil, nil, fmt.Errorf("CAPT does not run commands or read files that a kubeconfig names: %w", err)
	default:
		return nil, nil, err
	}
	return clientConfig(data)
}

// AnonymousConfig is ClientConfig without credentials, also for a kubeconfig with which only users can get some (ErrGetToken).
func AnonymousConfig(data []byte) (*rest.Config, *url.URL, error) {
	if err := Check(data); err != nil && !errors.Is(err, ErrGetToken) && !errors.Is(err, ErrShortLived) {
		return nil, nil, err
	}
	config, address, err := clientConfig(data)
	if err != nil {
		return nil, nil, err
	}
	return rest.AnonymousClientConfig(config), address, nil
}

func clientConfig(data []byte) (*rest.Config, *url.URL, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, nil, errors.New("the value is not a kubeconfig") // The error can quote the value.
	}
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, nil, errors.New("the address in the kubeconfig is invalid")
	}
	if config.Insecure || address.Scheme != "https" {
		return nil, nil, ErrInsecure
	}
	return config, address, nil
}

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
