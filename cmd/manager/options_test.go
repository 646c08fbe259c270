// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/prometheus/common/version"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
)

// A manager that merely has credentials, for whatever purpose, issues no token that acts as it.
func TestTokensAreCreatedOnlyOnRequest(t *testing.T) {
	container := decode[appsv1.Deployment](t, installed(t), "Deployment").Spec.Template.Spec.Containers[0]
	assert.Equal(t, "false", setting(t, container, "eks-tokens"))

	for _, row := range []struct {
		args  []string
		made  bool
		valid bool
	}{
		{nil, false, true},
		{[]string{"--eks-tokens"}, true, true},
		{[]string{"--eks-tokens", "--eks-tokens-instance-metadata"}, true, true},
		{[]string{"--eks-tokens-instance-metadata"}, false, false},
	} {
		o := newOptions()
		require.NoError(t, o.command().ParseFlags(row.args))
		err := o.validate() // Validating the logging options fails when it is called again.
		assert.Equal(t, row.made, o.controllers.Tokens != nil, row.args)
		assert.Equal(t, row.valid, err == nil || !strings.Contains(err.Error(), "--eks-tokens"), row.args)
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
	assert.ErrorContains(t, newOptions().command().ParseFlags([]string{"--feature-gates=Recover=false"}), "unrecognized feature gate: Recover")
}
