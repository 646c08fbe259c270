// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/redact"
	"github.com/capt-provider/capt/test/provider/executor"
	"github.com/capt-provider/capt/test/provider/failures"
)

func TestOneLine(t *testing.T) {
	for name, row := range map[string]struct{ message, want string }{
		"the copy of the output is cut off": {
			"create failed: Summary: bad. To see the full error run: echo \"H4sIAAAA\" | base64 -d | gunzip", "create failed: Summary: bad."},
		"an older form of it, too":    {"create failed: bad: echo \"H4sIAAAA\" | base64 -d", "create failed: bad"},
		"line breaks become blanks":   {"create failed:\n\n  bad\tthing\n", "create failed: bad thing"},
		"what is readable stays":      {"observe failed: cannot diff", "observe failed: cannot diff"},
		"nothing":                     {"", ""},
		"only the copy of the output": {"echo \"H4sIAAAA\" | base64 -d | gunzip", ""},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, OneLine(row.message)) })
	}
}

func TestOneLineIsShortAndStaysText(t *testing.T) {
	for shift := range 4 {
		got := OneLine(strings.Repeat("x", shift) + strings.Repeat("東", 40_000))
		assert.LessOrEqual(t, len(got), 1024)
		assert.True(t, utf8.ValidString(got))
		assert.True(t, strings.HasSuffix(got, "…"))
	}
}

// failed is what the provider makes of what Terraform printed.
func failed(prefix, stderr string) string {
	return prefix + ": " + executor.Failure(stderr).Error()
}

func TestWhatFailedAndWhatToDoIsTold(t *testing.T) {
	const (
		create  = "create failed: cannot apply Terraform configuration"
		update  = "update failed: cannot apply Terraform configuration"
		observe = "observe failed: cannot diff (i.e. plan) Terraform configuration"
		destroy = "delete failed: cannot destroy Terraform configuration"
		connect = "connect failed: cannot initialize Terraform configuration"
	)
	for name, row := range map[string]struct {
		message, reason string
		class           Class
		parts           []string
	}{
		"a limit": {failed(create, "Error: creating EC2 VPC: VpcLimitExceeded: The maximum number of VPCs has been reached.\n"),
			infrav1.ApplyFailedReason, ClassQuota, []string{"Terraform could not apply: a limit of the AWS account", "VpcLimitExceeded"}},
		"rights": {failed(destroy, "Error: deleting EKS Cluster (demo): AccessDeniedException: no\n"),
			infrav1.DestroyFailedReason, ClassAuth, []string{"Terraform could not destroy: AWS or the API server turned the credentials away"}},
		"an argument": {failed(observe, "Error: Unsupported argument\n"),
			infrav1.PlanFailedReason, ClassConfig, []string{"could not plan; correct the WorkspaceTemplate", "Unsupported argument"}},
		"a registry": {failed(connect, "Error: Failed to query available provider packages\n\ndial tcp: lookup registry.opentofu.org: no such host\n"),
			infrav1.PlanFailedReason, ClassNetwork, []string{"could not plan: AWS, a registry or the backend could not be reached"}},
		"too many requests": {failed(update, "Error: ThrottlingException: Rate exceeded\n"),
			infrav1.ApplyFailedReason, ClassThrottle, []string{"too many requests", "nothing needs to be done"}},
		"something else": {failed(update, "Error: it is raining\n"),
			infrav1.ApplyFailedReason, ClassUnknown, []string{"Terraform could not apply; it is tried again", "it is raining"}},
		"no ProviderConfig": {`connect failed: cannot get ProviderConfig: ProviderConfig.tf.upbound.io "aws" not found`,
			infrav1.ProviderConfigFailedReason, ClassConfig, []string{"create or correct the ProviderConfig", `"aws" not found`}},
		"a create that was cut off": {"cannot determine creation result - remove the crossplane.io/external-create-pending annotation if it is safe to proceed",
			infrav1.CreateInterruptedReason, ClassInterrupted, []string{"does not go on by itself", "change another one in the same command"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Tell(row.message, nil, false)
			assert.Equal(t, row.reason, got.Reason)
			assert.Equal(t, row.class, got.Class)
			for _, part := range row.parts {
				assert.Contains(t, got.Message, part)
			}
			assert.NotContains(t, got.Message, "base64")
		})
	}
}

// Every class has advice of its own, or that of the stage is better.
func TestEverySampleIsToldInWordsAndWithoutItsOutput(t *testing.T) {
	for _, sample := range failures.Samples() {
		t.Run(sample.Name, func(t *testing.T) {
			got := Tell(failed("update failed: cannot apply Terraform configuration", sample.Stderr), nil, false)
			assert.Equal(t, Class(sample.Class), got.Class)
			assert.Equal(t, infrav1.ApplyFailedReason, got.Reason)
			assert.LessOrEqual(t, len(got.Message), maxMessageLength)
			assert.NotContains(t, got.Message, "echo ")
		})
	}
}

// The Secret that is gone is just what must be told, and its values can not be in the message.
func TestASecretOfVarFilesThatIsGoneIsNamed(t *testing.T) {
	const why = `cannot determine Terraform options: cannot get tfvars: secrets "demo-vpc-connection" not found`
	for what, reason := range map[string]string{"observe": infrav1.PlanFailedReason, "create": infrav1.ApplyFailedReason, "update": infrav1.ApplyFailedReason, "delete": infrav1.DestroyFailedReason} {
		got := Tell(what+" failed: "+why, nil, true)
		assert.Equal(t, reason, got.Reason)
		assert.Contains(t, got.Message, "that varFiles of the Workspace names can not be read; make it again")
		assert.Contains(t, got.Message, `secrets "demo-vpc-connection" not found`)
	}
	quoted := Tell(failed("update failed: cannot apply Terraform configuration", "Error: hunter22 cannot apply failed: "+why+"\n"), nil, true)
	assert.NotContains(t, quoted.Message, "demo-vpc-connection", "Terraform may say anything")
}

func TestASecretIsReplacedBeforeTheMessageIsShortened(t *testing.T) {
	secret := strings.Repeat("s3cret value\n with  blanks ", 20)
	message := "update failed: " + strings.Repeat("x", 850) + " " + secret
	got := Tell(message, [][]byte{[]byte(secret)}, false)
	assert.NotContains(t, got.Message, "s3cret")
	assert.Contains(t, got.Message, redact.Placeholder)
}

func TestWhatCanNotBeRedactedIsNotTold(t *testing.T) {
	got := Tell(failed("update failed: cannot apply Terraform configuration", "Error: VpcLimitExceeded: for hunter22\n"), nil, true)
	assert.Equal(t, ClassQuota, got.Class)
	assert.NotContains(t, got.Message, "hunter22")
	assert.Contains(t, got.Message, "see condition Synced of the Workspace")
}
