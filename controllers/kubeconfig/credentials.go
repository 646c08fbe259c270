// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"k8s.io/utils/clock"
)

// ErrNoCredentials means that the manager has no AWS credentials.
var ErrNoCredentials = errors.New("the manager has no AWS credentials; see docs/install.md (Tokens for kubeconfigs)")

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

// currentCredentials returns the credentials, and renews them when necessary.
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
