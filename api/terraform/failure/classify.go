// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package failure explains errors of provider-terraform: their class, what failed and why, without secrets, and what to do. It is pure.
package failure

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/redact"
	"github.com/capt-provider/capt/api/terraform"
)

// Class is the class of a Terraform error. It determines whether retries help and, if not, what the user must correct.
type Class string

const (
	// ClassAuth: credentials are missing, expired, wrong, or lack a permission. Retries do not help before a user renews them or
	// changes a policy, and can lock an account.
	ClassAuth Class = "Auth"
	// ClassQuota: a quota of the account, or the capacity of AWS. Retries do not help before the quota is raised or resources are deleted.
	ClassQuota Class = "Quota"
	// ClassThrottle: a rate limit of requests. Later retries help.
	ClassThrottle Class = "Throttle"
	// ClassLock: another run holds the lock of the state, or AWS is changing the same resource, as with two Fargate profiles of one
	// cluster. Retries help once the other run ends. If it was killed, the user must remove its lock.
	ClassLock Class = "Lock"
	// ClassTimeout: an operation took longer than Terraform or its provider waits. Retries help if the operation continues.
	ClassTimeout Class = "Timeout"
	// ClassConfig: the module, its variables or the ProviderConfig are wrong, or contradict what exists. Retries do not help before a
	// user changes them, or what exists.
	ClassConfig Class = "Config"
	// ClassInterrupted: a run ended before it saved its state. A retry can create resources twice, or fail because they exist, so a
	// user should compare the state with AWS.
	ClassInterrupted Class = "Interrupted"
	// ClassNetwork: a service is not reachable, or has an internal error: DNS, connections, certificates, and status codes 5xx of AWS.
	// Retries help once the network or the service works again.
	ClassNetwork Class = "Network"
	// ClassProviderPod: the Pod of provider-terraform: its disk is full, its plugin cache or a working directory is damaged, or it has too little
	// memory. No module causes these errors. Retries help once it has space and memory, and initializes the directory again.
	ClassProviderPod Class = "ProviderPod"
	// ClassUnknown: all other errors. Retries can help.
	ClassUnknown Class = "Unknown"
)

// IsTransient reports whether errors of the class are expected to end by themselves, so that the retries of the provider help.
func (c Class) IsTransient() bool {
	switch c {
	case ClassThrottle, ClassLock, ClassTimeout, ClassNetwork, ClassProviderPod:
		return true
	case ClassAuth, ClassQuota, ClassConfig, ClassInterrupted, ClassUnknown:
	}
	return false
}

// Limits of what is parsed. The API server stores at most 32 KiB of a message. Packed text can be unpacked to 1,000 times its size.
const (
	maxReadable = 32 << 10
	maxPacked   = 64 << 10
	maxUnpacked = 256 << 10
	maxErrors   = 100
)

const (
	tailMark   = "To see the full error run:"
	packedMark = `echo "`
	noSummary  = "Summary: ." // The output has no line with an error.
)

// diagnose returns the rule for the message of condition Synced of a Workspace. The readable part is matched first, because it names
// the first error; then the errors in the packed output, in order, as far as the message was not truncated and within limits.
func diagnose(message string) *rule {
	best := firstRule(message)
	if output, _ := unpack(message); best.object == ObjectTemplate && strings.Contains(output, "on "+ConfigurationFile+" line") {
		return configuration
	}
	return best
}

func firstRule(message string) *rule {
	readable := withoutTail(message)
	destroys := strings.HasPrefix(readable, destroyPrefix)
	output, _ := unpack(message)
	if !destroys && unsaved.matches(newFlatText(readable+" "+output)) {
		return unsaved
	}
	best := ruleOf(readable[:min(len(readable), maxReadable)], destroys)
	for _, text := range diagnostics(output) {
		if best.isDecisive() {
			return best
		}
		if found := ruleOf(text, destroys); found.isDecisive() || best == unclassified {
			best = found
		}
	}
	// Terraform always prints an error, unless it was killed by a signal, which the provider does not report.
	if best == unclassified && HasNoText(message) {
		return killed
	}
	return best
}

// HasNoText reports whether a message of the provider has no error of Terraform: Terraform was killed, or has written the error to standard
// output, as with -json.
func HasNoText(message string) bool {
	output, whole := unpack(message)
	return whole && output == "" && strings.Contains(withoutTail(message), noSummary)
}

// unpack returns the output that is packed at the end of a message, and whether it is complete.
func unpack(message string) (output string, whole bool) {
	start := strings.LastIndex(message, packedMark)
	if start < 0 {
		return "", false
	}
	packed := message[start+len(packedMark):]
	packed = packed[:min(len(packed), maxPacked)]
	if end := strings.IndexByte(packed, '"'); end >= 0 {
		packed = packed[:end]
	}
	// The message may be truncated: what can be decoded is used.
	zipped, _ := base64.StdEncoding.DecodeString(packed[:len(packed)&^3])
	reader, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return "", false
	}
	text, err := io.ReadAll(io.LimitReader(reader, maxUnpacked))
	return string(text), err == nil
}

var (
	heading = regexp.MustCompile(`(?m)^[ \t│|]*(Error|Warning): `)
	color   = regexp.MustCompile("\x1b\\[[0-9;]*m")
)

// diagnostics splits an output into its errors, in order, without warnings. The text before the first error comes last.
func diagnostics(output string) []string {
	output = color.ReplaceAllString(output, "")
	headings := heading.FindAllStringSubmatchIndex(output, maxErrors)
	if headings == nil {
		return []string{output}
	}
	var errs []string
	for i, at := range headings {
		end := len(output)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		if output[at[2]:at[3]] == "Error" {
			errs = append(errs, output[at[2]:end])
		}
	}
	return append(errs, output[:headings[0][0]])
}

func ruleOf(text string, destroys bool) *rule {
	flat := newFlatText(text)
	if !destroys && unsaved.matches(flat) {
		return unsaved
	}
	for i := range rules {
		if r := &rules[i]; (destroys || !r.destroys) && r.matches(flat) {
			return r
		}
	}
	return unclassified
}

// flatten removes line breaks and the box characters of Terraform's output, which can be between any two words.
func flatten(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("│╷╵├─", r)
	}), " ")
}

// Matches reports whether an error of Terraform has one of the codes, which are whole words with the case of AWS, or one of the
// phrases, which are in lower case and match in any case and anywhere. It is for rules that are finer than classes.
func Matches(message string, codes, phrases []string) bool {
	return (&rule{codes: codes, phrases: phrases}).matches(newFlatText(message))
}

// flatText is a text on one line, also in lower case, and without the headings of the provider and of the command line.
type flatText struct{ text, lower, summary string }

func newFlatText(text string) flatText {
	text = flatten(text)
	lower := strings.ToLower(text)
	return flatText{text, lower, strings.TrimPrefix(lower[len(wrappers.FindString(text)):], "error: ")}
}

// isDecisive reports whether the rest of an output cannot have a more specific error.
func (r *rule) isDecisive() bool { return r != unclassified && !r.vague }

func (r *rule) matches(t flatText) bool {
	contains := func(phrase string) bool { return strings.Contains(t.lower, phrase) }
	if len(r.also) > 0 && !slices.ContainsFunc(r.also, contains) {
		return false
	}
	return slices.ContainsFunc(r.codes, func(code string) bool { return redact.HasWord(t.text, code, "-_") }) || slices.ContainsFunc(r.phrases, contains) ||
		slices.ContainsFunc(r.summaries, func(start string) bool { return strings.HasPrefix(t.summary, start) })
}

// namedResources limits how many resources a message names.
const namedResources = 10

// networkID matches IDs of network resources of EC2. They are not confidential.
var networkID = regexp.MustCompile(`\b(?:vpc|vpce|subnet|sg|eni|igw|eigw|nat|rtb|acl|eipalloc)-[0-9a-f]{8}(?:[0-9a-f]{9})?\b`)

// inUse names the parts of a VPC that cannot be destroyed because others use them, from all errors of the run.
func inUse(message string) string {
	output, _ := unpack(message)
	var ids []string
	for _, text := range append(diagnostics(output), withoutTail(message)) {
		if ruleOf(text, true).advice == networkLeftover.advice {
			ids = append(ids, networkID.FindAllString(text, -1)...)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if more := len(ids) - namedResources; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:namedResources], ", "), more)
	}
	return cmp.Or(strings.Join(ids, ", "), "it")
}

var (
	lockID      = regexp.MustCompile(`\bID(?::\s+|=)([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b`)
	lockCreated = regexp.MustCompile(`\bCreated:\s+(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\S* \+0000 UTC`)
	lockHolder  = regexp.MustCompile(`\bWho:\s+([\w.-]{1,64}@[\w.-]{1,253})\s`) // User and host name.
)

// lockOf returns the lock of the state that another run holds, as far as the message has it. Its ID and its time are not confidential.
func lockOf(message string) (lock Lock) {
	output, _ := unpack(message)
	output = flatten(output)
	if match := lockID.FindStringSubmatch(output); match != nil {
		lock.ID = match[1]
	}
	if match := lockCreated.FindStringSubmatch(output); match != nil {
		lock.Created, _ = time.Parse(time.DateTime, match[1])
	}
	if match := lockHolder.FindStringSubmatch(output); match != nil {
		lock.Holder = match[1]
	}
	return lock
}

// maxMessageLength limits messages of conditions and events, in bytes.
const maxMessageLength = 1024

// Report is an error of provider-terraform for users.
type Report struct {
	Class Class
	// Reason is one of the reasons of WorkspaceTemplateApply.
	Reason string
	// Message has at most 1,024 bytes, and no secrets.
	Message string
	// Object is what to look at first.
	Object Object
	// Unsaved is true if the run has created resources that are not in the state, which could not be saved: no run may follow.
	Unsaved bool
	// Lock is the lock of the state, if another run holds it.
	Lock Lock
}

// Lock is a lock of the state.
type Lock struct {
	ID string
	// Created is when the lock was taken; zero if it is not known.
	Created time.Time
	// Holder is the user and the host of the run that took it: the host is the name of the Pod of provider-terraform; empty if it is not known.
	Holder string
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
		failed: "provider-terraform was terminated during the first apply, and waits until its annotation " + terraform.CreatePendingAnnotation + " is removed from the Workspace",
		advice: "CAPT removes it, if spec.recovery of the owner allows it and the state is remote: conditions Recovering of the owner and CreateRecoverable of this object report it. " +
			"Otherwise check which resources exist in AWS and in the state, then remove it and change another annotation in the same command (docs/provider-terraform.md, After an interrupted create).",
	},
	{
		prefix: "connect failed", part: "cannot initialize Terraform", reason: infrav1.PlanFailedReason,
		failed: "Terraform init failed",
		advice: "Correct the module in the WorkspaceTemplate, or the backend in the ProviderConfig.",
	},
	{
		prefix: "connect failed", part: "cannot select Terraform workspace", reason: infrav1.PlanFailedReason,
		failed: "Terraform cannot use the backend of its state", advice: retries + persists + "correct the backend in the ProviderConfig.",
	},
	{
		prefix: "connect failed", part: " Terraform module: ", reason: infrav1.PlanFailedReason,
		failed: "provider-terraform cannot fetch the module", advice: retries,
	},
	{
		prefix: "connect failed", part: "cannot resolve variables: ", reason: infrav1.PlanFailedReason,
		failed: "provider-terraform cannot read the environment variables", advice: retries,
	},
	{
		prefix: "connect failed", part: "no space left on device", reason: infrav1.PlanFailedReason,
		failed: "provider-terraform cannot prepare the run", advice: retries,
	},
	{
		prefix: "connect failed", part: "Terraform configuration", reason: infrav1.PlanFailedReason,
		failed: "provider-terraform cannot prepare the run", advice: retries,
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
		prefix: destroyPrefix, reason: infrav1.DestroyFailedReason,
		failed: "Terraform destroy failed", advice: retries + persists + correctTemplate,
	},
	{
		reason: infrav1.ApplyFailedReason,
		failed: "Terraform apply failed", advice: retries + persists + correctTemplate,
	},
}

const (
	destroyPrefix = "delete failed"

	retries  = "provider-terraform retries."
	persists = " If the error persists, "
)

// adviceOf is the advice for classes whose cause is known better than the stage.
var adviceOf = map[Class]string{
	ClassAuth:        "The credentials were rejected or lack a permission. Correct the credentials of the ProviderConfig. " + retries,
	ClassQuota:       "A limit of the AWS account is reached. Request an increase, or delete resources that are not needed. " + retries,
	ClassThrottle:    "AWS limits the rate of requests. " + retries + persists + "request a higher limit, or run fewer Workspaces at the same time (--max-reconcile-rate of provider-terraform).",
	ClassLock:        "Another run holds the lock of the Terraform state. " + retries,
	ClassTimeout:     "The operation exceeded its timeout. " + retries + persists + "raise --timeout of provider-terraform, or the timeouts in the module.",
	ClassInterrupted: "The run was interrupted before it saved its state, for example because provider-terraform was stopped or ran out of memory. " + retries + persists + "compare the state with AWS.",
	ClassNetwork:     "AWS, a registry or the backend is not reachable. " + retries + persists + "check DNS, proxies and firewalls.",
}

// quotesNoSecret matches errors of the provider before Terraform runs, and before it has a value from varFiles or env. The rest is the
// response of the API server, of the operating system or of git: it has names and no values.
var quotesNoSecret = regexp.MustCompile(`^(?:connect failed: (?:cannot resolve variables: |cannot get credentials: |failed to resolve provider config: |cannot get ProviderConfig: |cannot get (?:remote|Flux Artefact) Terraform module: |cannot make |cannot write )` + //nolint:misspell // As the provider spells it.
	`|cannot determine creation result|(?:observe|create|update|delete) failed: cannot determine Terraform options: cannot get tfvars: )`)

// CompleteText is before the command at the end of the messages about errors of Terraform.
const CompleteText = " Complete text: "

// Command is the command that shows the complete text of the error of a WorkspaceTemplateApply.
func Command(apply *infrav1.WorkspaceTemplateApply) string {
	return fmt.Sprintf("captctl logs -n %s workspacetemplateapply/%s", apply.Namespace, apply.Name)
}

// Explain explains the message of condition Synced of a Workspace. command shows the complete text.
func Explain(message string, secrets Secrets, command string) Report {
	readable := withoutTail(message)
	found, at := diagnose(message), stageOf(readable)
	report := Report{Class: found.class, Reason: at.reason, Object: found.object, Unsaved: found == unsaved}
	advice := cmp.Or(found.advice, adviceOf[found.class], at.advice)
	switch {
	case at.final:
		advice = at.advice
	case found.object == ObjectLock:
		report.Lock = lockOf(message)
		advice += report.Lock.advice()
	case advice == networkLeftover.advice:
		advice = fmt.Sprintf(advice, inUse(message))
	}
	advice = secrets.named(advice, readable)
	if quotesNoSecret.MatchString(readable) {
		secrets.Missing = nil
	}
	cause := "details omitted: they may contain credentials"
	switch {
	case secrets.Missing == nil:
		cause = causeOf(message, readable, secrets)
	case secrets.LostKey != "" && found.object == ObjectTemplate:
		cause, advice, report.Object = secrets.LostKey+", which Terraform reads variables from; "+cause, lostKey, ObjectSecret
	}
	if command != "" {
		advice += CompleteText + command
	}
	limit := maxMessageLength - len(at.failed) - len(": ") - len(". ") - len(advice)
	report.Message = at.failed + ": " + sentence(Truncate(cause, limit)) + " " + advice
	return report
}

// lostKey is the advice about a key that a Secret does not have.
const lostKey = "Restore the key, or correct varFiles and env of the WorkspaceTemplate. " + retries

// advice is how to remove a lock.
func (l Lock) advice() string {
	taken, ended := "", "the run that took it has ended"
	if !l.Created.IsZero() {
		taken = " It was taken at " + l.Created.Format(time.RFC3339)
		if l.Holder != "" {
			taken += " by " + l.Holder
		}
		taken += "."
	}
	if _, host, known := strings.Cut(l.Holder, "@"); known {
		ended += ", because there is no Pod " + host + " any more, or it was restarted since (captctl describe checks this)"
	}
	return taken + " If " + ended + ", remove the lock: terraform force-unlock " + cmp.Or(l.ID, "ID") + " (docs/provider-terraform.md, A lock that a run has left)."
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
var wrappers = regexp.MustCompile(`^(?:(?:connect|observe|create|update|delete) failed: )?(?:cannot (?:initialize|diff \(i\.e\. plan\)|apply|destroy|select|list|delete) Terraform (?:configuration|workspace|resources|outputs): )?(?:Terraform encountered an error\. Summary: )?`)

// causeOf returns the error of Terraform or of the provider, on one line.
func causeOf(message, readable string, secrets Secrets) string {
	output, _ := unpack(message)
	cause := summarize(secrets.redact(output), diagnose(message))
	if cause == "" {
		cause = readable[len(wrappers.FindString(readable)):]
	}
	if strings.Trim(cause, ". ") == "" { // Terraform prints some errors without "Error:".
		cause = secrets.redact(output)
	}
	if cause = oneLine(secrets.redact(oneLine(color.ReplaceAllString(cause, "")))); strings.Trim(cause, ". ") == "" {
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
