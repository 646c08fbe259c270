// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/common/version"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
)

// The manager needs AWS credentials for nothing else, so one that has them is meant to create tokens.
func TestTokensAreCreatedByDefaultIfThereAreCredentials(t *testing.T) {
	container := decode[appsv1.Deployment](t, installed(t), "Deployment").Spec.Template.Spec.Containers[0]
	assert.Equal(t, "Auto", setting(t, container, "eks-tokens"))

	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	made := func(args ...string) bool {
		o := newOptions()
		require.NoError(t, o.command().ParseFlags(args))
		return o.tokens(t.Context()) != nil
	}
	assert.False(t, made(), "there are no credentials")
	assert.True(t, made("--eks-tokens"), "they may come later")

	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "made-up")
	for flag, want := range map[string]bool{"--eks-tokens=auto": true, "--eks-tokens": true, "--eks-tokens=true": true, "--eks-tokens=false": false} {
		assert.Equal(t, want, made(flag), flag)
	}
	assert.True(t, made())
}

func TestTheFlagsOfTokensAreChecked(t *testing.T) {
	require.ErrorContains(t, newOptions().command().ParseFlags([]string{"--eks-tokens=maybe"}), "must be Auto, true or false")
	for _, args := range [][]string{{"--eks-tokens-instance-metadata"}, {"--eks-tokens", "--eks-tokens-instance-metadata"}, {"--eks-tokens=false", "--eks-tokens-instance-metadata"}} {
		o := newOptions()
		require.NoError(t, o.command().ParseFlags(args))
		err := o.validate() // Validating the logging options fails when it is called again.
		assert.Equal(t, args[0] != "--eks-tokens=false", err == nil || !strings.Contains(err.Error(), "--eks-tokens"), args)
	}
}

func TestTheVersionIsPrinted(t *testing.T) {
	command := newOptions().command()
	output := &strings.Builder{}
	command.SetOut(output)
	command.SetArgs([]string{"--version"})
	require.NoError(t, command.ExecuteContext(t.Context()))
	assert.Equal(t, "manager version "+version.Info()+"\n", output.String())
	assert.Contains(t, output.String(), "revision=")
}

func TestAStatePrefixIsALabel(t *testing.T) {
	for prefix, valid := range map[string]bool{
		"": true, "prod": true, "eu-1": true, "12345678901234567890": true,
		"123456789012345678901": false, "Prod": false, "a.b": false, "-a": false, "a-": false, "a/b": false,
	} {
		o := newOptions()
		require.NoError(t, o.command().ParseFlags([]string{"--state-prefix=" + prefix}))
		err := o.validate() // Validating the logging options fails when it is called again.
		assert.Equal(t, valid, err == nil || !strings.Contains(err.Error(), "--state-prefix"), "%s: %v", prefix, err)
	}
}

func TestTheDefaultPolicyOfRolloutsIsChecked(t *testing.T) {
	for policy, valid := range map[string]bool{"": true, "{strategy: Staged, preview: Always}": true, "Staged": false} {
		o := newOptions()
		require.NoError(t, o.command().ParseFlags([]string{"--default-rollout=" + policy}))
		err := o.validate() // Validating the logging options fails when it is called again.
		assert.Equal(t, valid, err == nil || !strings.Contains(err.Error(), "--default-rollout"), "%s: %v", policy, err)
	}
}

// The phases would be checked when the migrator starts otherwise, which can be months later.
func TestPhasesToSkipAreChecked(t *testing.T) {
	for phases, valid := range map[string]bool{
		"StorageVersionMigration": true, "StorageVersionMigration,CleanupManagedFields": true, "All": false, "storageVersionMigration": false,
	} {
		o := newOptions()
		require.NoError(t, o.command().ParseFlags([]string{"--skip-crd-migration-phases=" + phases}))
		err := o.validate() // Validating the logging options fails when it is called again.
		assert.Equal(t, valid, err == nil || !strings.Contains(err.Error(), "--skip-crd-migration-phases"), "%s: %v", phases, err)
	}
}

func TestFeatureGates(t *testing.T) {
	o := newOptions()
	require.NoError(t, o.command().ParseFlags([]string{"--feature-gates=Recovery=false"}))
	assert.False(t, o.features.Enabled(featureRecovery))
	assert.True(t, o.features.Enabled(featureHealthProbes))
	_ = o.validate() // Validating the logging options fails when it is called again.
	assert.False(t, o.controllers.Recovery)
	assert.True(t, o.controllers.HealthProbes)
	assert.ErrorContains(t, newOptions().command().ParseFlags([]string{"--feature-gates=Recover=false"}), "unrecognized feature gate: Recover")
}
