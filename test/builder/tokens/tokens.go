// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package tokens makes tokens of EKS for tests.
package tokens

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/test/builder"
)

// SecretKey signs the tokens. No status, event or log may show it.
const SecretKey = "hunter2/+key"

// Identity creates tokens with fixed keys, or fails.
type Identity struct {
	kubeconfig.Tokens
	Problem error
	// Made counts the tokens.
	Made int
}

// With creates an identity that has a clock.
func With(now clock.PassiveClock) *Identity {
	keys := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: SecretKey}, nil
	})
	return &Identity{Tokens: kubeconfig.NewAWS(now, false, config.WithCredentialsProvider(keys))}
}

// Token counts the tokens.
func (i *Identity) Token(ctx context.Context, cluster, region string) (string, time.Time, error) {
	if i.Problem != nil {
		return "", time.Time{}, i.Problem
	}
	i.Made++
	return i.Tokens.Token(ctx, cluster, region)
}

// At is a token for an EKS cluster, signed at a time. The same name, region, keys and second make the same token.
func At(t *testing.T, cluster string, at time.Time) string {
	t.Helper()
	token, _, err := With(clocktesting.NewFakePassiveClock(at)).Token(t.Context(), cluster, builder.Region)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// Kubeconfig is one with a token of EKS cluster demo, as Terraform creates it.
func Kubeconfig(t *testing.T, host string, at time.Time) string {
	t.Helper()
	data, err := kubeconfig.ForToken("from-terraform", "https://"+host, builder.CA(), At(t, "demo", at))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
