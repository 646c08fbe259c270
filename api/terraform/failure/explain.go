// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package failure explains errors of provider-terraform: their class, what failed and why, without secrets, and what to do. It is pure.
package failure

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/redact"
)

// maxMessageLength limits messages of conditions and events, in bytes.
const maxMessageLength = 1024

// Report is an error of provider-terraform for users.
type Report struct {
	Class Class
	// Reason is one of the reasons of WorkspaceTemplateApply.
	Reason string
	// Message has at most 1,024 bytes, and no secrets.
	Message string
}

// stage is an operation of the provider. The beginning of its message names it.
type stage struct {
	// prefix and part must both be in the message.
	prefix, part string
	reason       string
	failed       string
	advice       string
	// final is true when the advice of the stage is better than that of the class.
	final bool
}

const correctTemplate = "correct the WorkspaceTemplate or the variables."

// stages in the order in which they are matched. The last one matches every message.
var stages = []stage{
	{
		part: "because it is being terminated", reason: infrav1.NamespaceTerminatingReason, final: true,
		failed: "provider-terraform cannot work in a namespace that is being deleted, so nothing is destroyed (crossplane-runtime issue 1150)",
		advice: "Destroy the resources of the Terraform state manually, then remove the finalizers of the Workspace. Next time, delete the Cluster first, and the namespace when the Cluster is gone.",
	},
	{
		part: "cannot determine creation result", reason: infrav1.CreateInterruptedReason, final: true,
		failed: "provider-terraform was terminated during the first apply, and does not continue by itself",
		advice: "Check which resources exist in AWS and in the state. Then remove the annotation crossplane.io/external-create-pending from the Workspace, and change another annotation in the same command (docs/provider-terraform.md).",
	},
	{
		prefix: "connect failed", part: "cannot initialize Terraform", reason: infrav1.PlanFailedReason,
		failed: "Terraform init failed",
		advice: "Correct the module in the WorkspaceTemplate, or the backend in the ProviderConfig.",
	},
	{
		prefix: "connect failed", reason: infrav1.ProviderConfigFailedReason,
		failed: "provider-terraform cannot use the ProviderConfig",
		advice: "Create or correct the ProviderConfig of the WorkspaceTemplate, and its credentials.",
	},
	{
		prefix: "observe failed", reason: infrav1.PlanFailedReason,
		failed: "Terraform plan failed", advice: "Correct the WorkspaceTemplate or the variables.",
	},
	{
		prefix: "delete failed", reason: infrav1.DestroyFailedReason,
		failed: "Terraform destroy failed", advice: retries,
	},
	{
		reason: infrav1.ApplyFailedReason,
		failed: "Terraform apply failed", advice: retries + persists + correctTemplate,
	},
}

const (
	retries  = "provider-terraform retries."
	persists = " If the error persists, "
)

// adviceOf is the advice for classes whose cause is known better than the stage.
var adviceOf = map[Class]string{
	ClassAuth:        "The credentials were rejected or lack a permission. Correct the credentials of the ProviderConfig. " + retries,
	ClassQuota:       "A limit of the AWS account is reached. Request an increase, or delete resources that are not needed. " + retries,
	ClassThrottle:    "AWS limits the rate of requests. " + retries + " No action is needed unless this lasts for more than an hour.",
	ClassLock:        "Another run holds the lock of the Terraform state, or AWS is changing the same resource. " + retries + " If no run is active, remove the lock of the state with terraform force-unlock.",
	ClassTimeout:     "The operation exceeded its timeout. " + retries + persists + "raise --timeout of provider-terraform, or the timeouts in the module.",
	ClassInterrupted: "The run was interrupted before it saved its state. " + retries + persists + "compare the state with AWS.",
	ClassNetwork:     "AWS, a registry or the backend is not reachable. " + retries + persists + "check DNS, proxies and firewalls.",
}

// varFileError is the prefix of the error that the provider cannot read the Secret or ConfigMap of a varFile. The rest is the response of the
// API server, which has names and no values: nothing was read, and Terraform did not run.
const varFileError = "cannot determine Terraform options: cannot get tfvars: "

func isVarFileError(readable string) bool {
	_, why, _ := strings.Cut(readable, " failed: ")
	return strings.HasPrefix(why, varFileError)
}

// CompleteText is before the command at the end of the messages about errors of Terraform.
const CompleteText = " Complete text: "

// Command is the command that shows the complete text of the error of a WorkspaceTemplateApply.
func Command(apply *infrav1.WorkspaceTemplateApply) string {
	return fmt.Sprintf("captctl logs -n %s workspacetemplateapply/%s", apply.Namespace, apply.Name)
}

// Explain explains the message of condition Synced of a Workspace. command shows the complete text.
func Explain(message string, secrets Secrets, command string) Report {
	readable := withoutTail(message)
	class := Classify(message)
	at := stageOf(readable)
	advice := at.advice
	switch {
	case at.final:
	case adviceOf[class] != "":
		advice = adviceOf[class]
	case at.reason == infrav1.DestroyFailedReason:
		advice = cmp.Or(inUseAdvice(message), advice)
	}
	if isVarFileError(readable) {
		advice = "A Secret or ConfigMap in varFiles of the Workspace cannot be read. Recreate it, or correct the WorkspaceTemplate. " + retries
		secrets.Missing = nil
	}
	cause := "details omitted: they may contain credentials"
	if secrets.Missing == nil {
		cause = causeOf(message, readable, secrets.Values)
	}
	if command != "" {
		advice += CompleteText + command
	}
	limit := maxMessageLength - len(at.failed) - len(": ") - len(". ") - len(advice)
	return Report{Class: class, Reason: at.reason, Message: at.failed + ": " + sentence(Truncate(cause, limit)) + " " + advice}
}

// sentence is a text that ends as a sentence does.
func sentence(text string) string {
	if text = strings.TrimRight(text, "."); strings.HasSuffix(text, "?") || strings.HasSuffix(text, "!") {
		return text
	}
	return text + "."
}

func stageOf(readable string) stage {
	for _, s := range stages[:len(stages)-1] {
		if strings.HasPrefix(readable, s.prefix) && strings.Contains(readable, s.part) {
			return s
		}
	}
	return stages[len(stages)-1]
}

// wrappers matches the prefixes that the provider and Crossplane's runtime add to an error.
var wrappers = regexp.MustCompile(`^(?:(?:connect|observe|create|update|delete) failed: )?(?:cannot (?:initialize|diff \(i\.e\. plan\)|apply|destroy) Terraform configuration: )?(?:Terraform encountered an error\. Summary: )?`)

// causeOf returns the error of Terraform or of the provider, on one line.
func causeOf(message, readable string, secrets [][]byte) string {
	output, _ := unpack(message)
	cause := summarize(redact.Text(output, secrets))
	if cause == "" {
		cause = readable[len(wrappers.FindString(readable)):]
	}
	if cause = oneLine(redact.Text(oneLine(cause), secrets)); strings.Trim(cause, ". ") == "" {
		return "Terraform printed no error; it was probably killed, for example because provider-terraform reached its memory limit"
	}
	return cause
}

// withoutTail returns the readable part of a message, without the compressed copy of the output at its end, which is too long for a condition.
func withoutTail(message string) string {
	for _, mark := range []string{tailMark, packedMark} {
		if i := strings.Index(message, mark); i >= 0 {
			message = message[:i]
		}
	}
	return message
}

// OneLine returns a message shortened to one line, without the compressed output of Terraform, and with secrets redacted.
func OneLine(message string) string {
	return Truncate(oneLine(redact.Text(withoutTail(message), nil)), maxMessageLength)
}

func oneLine(message string) string {
	return strings.TrimRight(strings.Join(strings.Fields(message), " "), " :")
}

// Truncate shortens a message that exceeds the limit, in bytes, and marks the truncation.
func Truncate(message string, limit int) string {
	if len(message) <= limit {
		return message
	}
	return strings.ToValidUTF8(message[:limit-len("…")], "") + "…"
}
