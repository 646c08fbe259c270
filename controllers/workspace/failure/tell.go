// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package failure makes something that people can act upon out of the errors of provider-terraform: what kind of failure it is,
// what to do, and what Terraform said, without secrets. It is pure.
package failure

import (
	"cmp"
	"strings"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/redact"
)

// maxMessageLength bounds what goes into conditions and events, in bytes.
const maxMessageLength = 1024

// Told is an error of provider-terraform as people read it.
type Told struct {
	Class Class
	// Reason is one of the reasons of WorkspaceTemplateApply.
	Reason string
	// Message says what failed, what to do about it, and what Terraform said, without secrets, in at most 1,024 bytes.
	Message string
}

// stage is what the provider was doing when it failed. It says so in the first words of its message.
type stage struct {
	// prefix and part must both be in the message.
	prefix, part string
	reason       string
	advice       string
}

// stages come in the order in which they are looked for.
var stages = []stage{
	{
		part: "because it is being terminated", reason: infrav1.NamespaceTerminatingReason,
		advice: "provider-terraform can not work in a namespace that is being deleted, so nothing is destroyed (crossplane-runtime issue 1150); destroy what the Terraform state lists by hand, then remove the finalizers of the Workspace. Next time delete the Cluster, and the namespace when the Cluster is gone.",
	},
	{
		part: "cannot determine creation result", reason: infrav1.CreateInterruptedReason,
		advice: "the provider died while Terraform applied for the first time, and does not go on by itself; check what exists in AWS and in the state, then remove the annotation crossplane.io/external-create-pending from the Workspace and change another one in the same command, since its removal alone does not wake the provider (docs/provider-terraform.md).",
	},
	{
		prefix: "connect failed", part: "cannot initialize Terraform", reason: infrav1.PlanFailedReason,
		advice: "Terraform could not initialise; correct the module in the WorkspaceTemplate, or the backend in the ProviderConfig:",
	},
	{
		prefix: "connect failed", reason: infrav1.ProviderConfigFailedReason,
		advice: "create or correct the ProviderConfig that the WorkspaceTemplate names, and its credentials:",
	},
	{
		prefix: "observe failed", reason: infrav1.PlanFailedReason,
		advice: "Terraform could not plan; correct the WorkspaceTemplate or the variables:",
	},
	{
		prefix: "delete failed", reason: infrav1.DestroyFailedReason,
		advice: "Terraform could not destroy; it is tried again:",
	},
	{
		reason: infrav1.ApplyFailedReason,
		advice: "Terraform could not apply; it is tried again, correct the WorkspaceTemplate or the variables if that does not help:",
	},
}

// causes is advice that is better than that of the stage, since it knows why it failed.
var causes = map[Class]string{
	ClassAuth:        "AWS or the API server turned the credentials away, or they lack a permission; correct those of the ProviderConfig. It is tried again:",
	ClassQuota:       "a limit of the AWS account is reached; have it raised, or delete what is not needed. It is tried again:",
	ClassThrottle:    "AWS answers that there are too many requests; it is tried again, nothing needs to be done unless this goes on for an hour:",
	ClassLock:        "something else is at work: another run holds the lock of the Terraform state, or AWS changes the same thing. It is tried again. If it is the state and no run is alive, remove the lock with terraform force-unlock:",
	ClassTimeout:     "it took longer than it may; it is tried again. Raise --timeout of provider-terraform, or the timeouts in the module, if that does not help:",
	ClassInterrupted: "the run ended before it could record what it made; it is tried again. Compare the state with AWS if that does not help:",
	ClassNetwork:     "AWS, a registry or the backend could not be reached; it is tried again. Check DNS, proxies and firewalls if that does not help:",
}

// noFile is what the provider says, after what failed, when it can not read the Secret or ConfigMap of a file of variables. It
// goes on with the answer of the API server, which has names and no values: nothing was read, and Terraform did not run.
const noFile = "cannot determine Terraform options: cannot get tfvars: "

// Tell puts an error of provider-terraform, the message of condition Synced, into CAPT's words. secrets are values that must
// not be told. Where they are not known, nothing of what Terraform said is.
func Tell(message string, secrets [][]byte, unknown bool) Told {
	said := withoutTail(message)
	told := Told{Class: Classify(message)}
	for _, s := range stages {
		if strings.HasPrefix(said, s.prefix) && strings.Contains(said, s.part) {
			told.Reason, told.Message = s.reason, s.advice
			break
		}
	}
	if cause, stage := causes[told.Class], stageOf[told.Reason]; cause != "" && stage != "" {
		told.Message = stage + ": " + cause
	} else if told.Reason == infrav1.DestroyFailedReason {
		told.Message = cmp.Or(inUseAdvice(message), told.Message)
	}
	if _, why, _ := strings.Cut(said, " failed: "); strings.HasPrefix(why, noFile) {
		told.Message = stageOf[told.Reason] + ": a Secret or ConfigMap that varFiles of the Workspace names can not be read; make it again, or correct the WorkspaceTemplate. It is tried again:"
		unknown = false
	}
	if unknown {
		told.Message += " what Terraform said is left out, since the Secrets that it may quote can not be read; see condition Synced of the Workspace"
	} else {
		told.Message += " " + oneLine(redact.Text(said, secrets))
	}
	told.Message = truncate(told.Message)
	return told
}

// stageOf names what failed, where the cause takes the place of the advice. The other stages know better than any cause.
var stageOf = map[string]string{
	infrav1.PlanFailedReason:           "Terraform could not plan",
	infrav1.ApplyFailedReason:          "Terraform could not apply",
	infrav1.DestroyFailedReason:        "Terraform could not destroy",
	infrav1.ProviderConfigFailedReason: "provider-terraform could not use the ProviderConfig",
}

// withoutTail is the part of a provider's error that people can read. Errors of Terraform end in a compressed copy of the
// whole output, which can hold secrets and is far too long for a condition.
func withoutTail(message string) string {
	for _, mark := range []string{tailMark, packedMark} {
		if i := strings.Index(message, mark); i >= 0 {
			message = message[:i]
		}
	}
	return message
}

// OneLine makes a short text of one line out of an error, without what looks like a secret.
func OneLine(message string) string { return truncate(oneLine(redact.Text(withoutTail(message), nil))) }

func oneLine(message string) string {
	return strings.TrimRight(strings.Join(strings.Fields(message), " "), " :")
}

func truncate(message string) string {
	if len(message) <= maxMessageLength {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessageLength-len("…")], "") + "…"
}
