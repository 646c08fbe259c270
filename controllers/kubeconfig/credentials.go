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

// ErrNoCredentials says that nobody gave AWS credentials to this manager.
var ErrNoCredentials = errors.New("this manager has no AWS credentials")

// Tokens makes tokens with which EKS clusters know this manager.
type Tokens interface {
	// Available tells whether the manager was given credentials at all; if not, the error is ErrNoCredentials. Credentials that
	// do not work at the moment are credentials: a caller that turned to something else would come back a minute later.
	Available(ctx context.Context) error
	// Token gives a token for a cluster, and when it ends. The error holds no secret.
	Token(ctx context.Context, cluster, region string) (token string, expires time.Time, err error)
}

const (
	// patience bounds how long a reconcile waits for credentials: STS, the agent of EKS Pod Identity, or a command.
	patience = 5 * time.Second
	// retryAfter is how long a failure stands, so that a thousand clusters do not each wait for the same timeout.
	retryAfter = 30 * time.Second
	// rereadAfter is how long credentials without an end are used before they are read again: the Secret that a file is
	// mounted from may have been rotated.
	rereadAfter = time.Minute
	// refreshBefore is how long before their end credentials are renewed. A token ends with the credentials that signed it, so
	// this must be longer than the time at which tokens are renewed.
	refreshBefore = renewBefore + spread + time.Minute
)

// AWS makes tokens with the credentials of this process, found as all of AWS's tools find them: environment, web identity
// of a ServiceAccount, shared configuration, EKS Pod Identity.
type AWS struct {
	clock   clock.PassiveClock
	options []func(*config.LoadOptions) error
	// instanceMetadata is true when credentials of the EC2 instance may be used.
	instanceMetadata bool

	// turn is taken by who looks at what follows, and kept while credentials are fetched: all others need the same ones.
	turn        chan struct{}
	credentials aws.Credentials
	problem     error
	// next is when credentials are fetched again.
	next time.Time
}

var _ Tokens = &AWS{}

// NewAWS uses no credentials before the first call. Those of the EC2 instance count only with instanceMetadata: they are
// the node's and not meant for its Pods, and asking for them takes long where there are none. The options are of the SDK.
func NewAWS(clock clock.PassiveClock, instanceMetadata bool, options ...func(*config.LoadOptions) error) *AWS {
	if !instanceMetadata {
		options = append(slices.Clone(options), config.WithEC2IMDSClientEnableState(imds.ClientDisabled))
	}
	return &AWS{clock: clock, options: options, instanceMetadata: instanceMetadata, turn: make(chan struct{}, 1)}
}

// Available implements Tokens.
func (a *AWS) Available(ctx context.Context) error {
	if _, err := a.current(ctx); errors.Is(err, ErrNoCredentials) {
		return err
	}
	return nil
}

// Token implements Tokens.
func (a *AWS) Token(ctx context.Context, cluster, region string) (string, time.Time, error) {
	credentials, err := a.current(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	// The token ends with the credentials. Its date says so, as if it had been signed earlier: whoever reads it then knows.
	at := a.clock.Now().UTC().Truncate(time.Second)
	if last := credentials.Expires.Add(-tokenLife); credentials.CanExpire && last.Before(at) {
		at = last.UTC().Truncate(time.Second)
	}
	token, err := sign(ctx, credentials, cluster, region, at)
	if err != nil {
		return "", time.Time{}, err
	}
	return token, at.Add(tokenLife), nil
}

// current credentials, fetched when it is time.
func (a *AWS) current(ctx context.Context) (aws.Credentials, error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return aws.Credentials{}, ctx.Err()
	}
	if now := a.clock.Now(); !now.Before(a.next) {
		a.fetch(ctx)
	}
	return a.credentials, a.problem
}

func (a *AWS) fetch(ctx context.Context) {
	// Others wait for the same credentials, so a caller that gives up does not decide for them.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
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
		// They were fetched early enough for another attempt. Those without an end are not held on to: they were taken away.
	default:
		a.credentials, a.problem = aws.Credentials{}, err
	}
}

// retrieve finds the source of credentials anew each time: that only reads the environment and two small files.
func (a *AWS) retrieve(ctx context.Context) (aws.Credentials, error) {
	loaded, err := config.LoadDefaultConfig(ctx, a.options...)
	if err != nil {
		return aws.Credentials{}, problemWith(err)
	}
	source, ok := loaded.Credentials.(aws.CredentialProviderSource)
	if ok && !a.instanceMetadata && slices.Contains(source.ProviderSources(), aws.CredentialSourceIMDS) {
		return aws.Credentials{}, ErrNoCredentials
	}
	credentials, err := loaded.Credentials.Retrieve(ctx)
	switch {
	case err != nil:
		return aws.Credentials{}, problemWith(err)
	case credentials.CanExpire && !a.clock.Now().Before(credentials.Expires):
		return aws.Credentials{}, errors.New("the AWS credentials of this manager have ended, and their source gives no newer ones")
	}
	return credentials, nil
}

// problemWith tells of an error of the SDK only what can not be secret. The whole text can: it quotes what a credential
// process printed, for example.
func problemWith(err error) error {
	const what = "the AWS credentials of this manager can not be used"
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
		told    = what
	)
	if errors.As(err, &operation) {
		told += fmt.Sprintf(": %s %s", operation.Service(), operation.Operation())
	}
	switch {
	case errors.As(err, &answer) && plain.MatchString(answer.ErrorCode()):
		return fmt.Errorf("%s: AWS answered %s", told, answer.ErrorCode())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer within %s", told, patience)
	case errors.As(err, &profile):
		return fmt.Errorf("%s: the profile that AWS_PROFILE names does not exist", told)
	case errors.As(err, &file):
		return fmt.Errorf("%s: %s %s: %w", told, file.Op, file.Path, file.Err)
	case errors.As(err, &lookup):
		return fmt.Errorf("%s: the address of %s can not be looked up", told, lookup.Name) // The rest differs each time.
	case errors.As(err, &network):
		return fmt.Errorf("%s: %s: %w", told, network.Op, network.Err)
	}
	return fmt.Errorf("%s: the reason is not told, since it could hold a secret; \"aws sts get-caller-identity\" with the same environment tells it", told)
}
