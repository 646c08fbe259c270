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
	"unicode"
	"unicode/utf8"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/redact"
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
	// ClassUnknown: all other errors. Retries can help.
	ClassUnknown Class = "Unknown"
)

// IsTransient reports whether errors of the class are expected to end by themselves, so that the retries of the provider help.
func (c Class) IsTransient() bool {
	switch c {
	case ClassThrottle, ClassLock, ClassTimeout, ClassNetwork:
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

// classify returns the class of the message of condition Synced of a Workspace. The readable part is matched first, because it names
// the first error; then the errors in the packed output, in order, as far as the message was not truncated and within limits.
func classify(message string) Class {
	readable, _, _ := strings.Cut(message, tailMark)
	readable, _, _ = strings.Cut(readable, packedMark)
	class, vague := classOf(readable[:min(len(readable), maxReadable)])
	if class != ClassUnknown && !vague {
		return class
	}
	output, whole := unpack(message)
	for _, text := range diagnostics(output) {
		found, stillVague := classOf(text)
		if found != ClassUnknown && !stillVague {
			return found
		}
		if class == ClassUnknown {
			class = found
		}
	}
	// Terraform always prints an error, unless it was killed by a signal, which the provider does not report.
	if class == ClassUnknown && whole && output == "" && strings.Contains(readable, noSummary) {
		return ClassInterrupted
	}
	return class
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

// classOf returns the class of the first rule that matches a text. vague is true if the rest of the output may have a more specific class.
func classOf(text string) (class Class, vague bool) {
	text = flatten(text)
	lower := strings.ToLower(text)
	for _, r := range rules {
		if r.matches(text, lower) {
			return r.class, r.vague
		}
	}
	return ClassUnknown, false
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
	text := flatten(message)
	return rule{codes: codes, phrases: phrases}.matches(text, strings.ToLower(text))
}

// rule is the class of the texts that it matches.
type rule struct {
	class Class
	// vague is true for summaries of Terraform whose cause is in the detail.
	vague bool
	// codes are whole words, with the case of AWS.
	codes []string
	// phrases are in lower case, and match in any case and anywhere.
	phrases []string
	// summaries are in lower case, and match only at the beginning of an error.
	summaries []string
}

func (r rule) matches(text, lower string) bool {
	for _, code := range r.codes {
		if hasWord(text, code) {
			return true
		}
	}
	for _, phrase := range r.phrases {
		if strings.Contains(lower, phrase) {
			return true
		}
	}
	for _, summary := range r.summaries {
		// The provider and the command line have different headings.
		if strings.Contains(lower, "summary: "+summary) || strings.HasPrefix(lower, "error: "+summary) {
			return true
		}
	}
	return false
}

// hasWord reports whether a text has a word that is not part of a longer one or of a name with dashes.
func hasWord(text, word string) bool {
	for from := 0; ; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			return false
		}
		at, from = from+at, from+at+len(word)
		last, _ := utf8.DecodeLastRuneInString(text[:at])
		next, _ := utf8.DecodeRuneInString(text[from:])
		if !inWord(last) && !inWord(next) {
			return true
		}
	}
}

func inWord(r rune) bool {
	return r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// rules in the order in which they are matched: specific texts first. A throttled or unreachable service comes before credentials that
// could not be read from it, and a deadline after what used up the time.
var rules = []rule{
	{class: ClassLock,
		codes: []string{
			"ConditionalCheckFailedException", "PreconditionFailed", // The s3 backend with DynamoDB, and with a lock file.
			"ConcurrentModificationException", "ConcurrentModification", "OperationAborted", // IAM, Route 53, S3.
		},
		phrases: []string{
			"state is already locked by another", "lock info:", // The kubernetes backend of either tool; every backend.
			"error locking state", "workspace is already locked", "error releasing the state lock", // Terraform's core.
			" in status creating", " in status updating", " in status deleting", "currently has an update in progress", // EKS changes one profile of a cluster at a time.
			"' is not in active status",                                   // EKS, while the cluster is created or deleted (from the API, as moto mocks it).
			"another operation (install/upgrade/rollback) is in progress", // Helm.
		}},
	{class: ClassInterrupted,
		phrases: []string{
			"cannot determine creation result",                           // Crossplane's runtime: the provider was terminated during a create.
			"shutdown while running terraform command: context canceled", // provider-terraform was stopped.
			"execution halted", "operation canceled", "request cancelled", //nolint:misspell // Terraform's core after SIGTERM, as it spells it.
			"context canceled",                           // An AWS request under way at that moment.
			"plugin did not respond", " plugin crashed!", // Terraform's core: the plugin of a provider crashed, or ran out of memory.
			"failed to save state", "failed to persist state to backend", "errored.tfstate", // Terraform's core.
		}},
	{class: ClassConfig,
		phrases: []string{"because it is being terminated"}}, // The API server: the namespace is being deleted.
	{class: ClassThrottle,
		codes: []string{ // Codes that the AWS SDK treats as throttling, and those of IAM that EKS returns.
			"Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException",
			"TooManyRequestsException", "ProvisionedThroughputExceededException", "TransactionInProgressException", "RequestLimitExceeded",
			"BandwidthLimitExceeded", "SlowDown", "PriorRequestNotComplete", "EC2ThrottledException", "IAMThrottling", "IamThrottling",
		},
		phrases: []string{
			"rate exceeded", "request limit exceeded", "has been throttled", // Messages of these codes, when other errors quote them.
			"statuscode: 429", "status code: 429", "too many requests", // HTTP, from AWS and registries.
			"failed to get rate limit token", "retry quota exceeded", // The AWS SDK limits itself.
			"client rate limiter wait returned an error", // client-go limits itself.
		}},
	{class: ClassQuota,
		codes: []string{ // EC2's capacity and spot instances, S3.
			"InsufficientInstanceCapacity", "InsufficientHostCapacity", "MaxSpotInstanceCountExceeded", "TooManyBuckets",
		},
		phrases: []string{
			"limitexceeded",                                                     // VpcLimitExceeded, LimitExceeded of IAM, ResourceLimitExceededException of EKS and 100 more.
			"servicequotaexceeded", "cannot exceed quota", "reached your quota", // IAM, auto scaling.
			"exceeded quota:", // A ResourceQuota of Kubernetes.
		}},
	{class: ClassAuth,
		codes: []string{
			"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedAccess", "NotAuthorized", "AuthFailure", // Policies.
			"InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "SignatureDoesNotMatch", "IncompleteSignature",
			"MissingAuthenticationToken", "MissingAuthenticationTokenException", "InvalidToken", "InvalidIdentityToken", // Keys.
			"ExpiredToken", "ExpiredTokenException", "RequestExpired", "RequestTimeTooSkewed", // Age, and clocks.
			"OptInRequired", "SubscriptionRequiredException", "PendingVerification", // The account.
			"Unauthorized", "Forbidden", // Kubernetes, registries.
		},
		phrases: []string{
			"is not authorized to perform", "statuscode: 403", "status code: 403", "statuscode: 401", "status code: 401", // AWS.
			"missing permissions for ",                                                           // EKS, under the code of a bad request (awsdocs/amazon-eks-user-guide issue 279, aws-cdk issue 7614).
			"no ec2 imds role found",                                                             // The AWS SDK when all sources of credentials failed, also because of the network.
			" is forbidden: user ",                                                               // Kubernetes' RBAC, as the kubernetes backend returns it.
			"you must be logged in to the server", "asked for the client to provide credentials", // Kubernetes.
		}},
	{class: ClassLock, vague: true,
		phrases: []string{"error acquiring the state lock"}}, // Terraform's core: the lock may be held, refused or not reachable.
	{class: ClassNetwork,
		codes: []string{ // Internal errors of AWS.
			"InternalFailure", "InternalError", "InternalServerError", "InternalServerException", "ServerException",
			"ServiceUnavailable", "ServiceUnavailableException",
		},
		phrases: []string{
			"dial tcp", "no such host", "server misbehaving", "connection refused", "connection reset by peer", "connection timed out",
			"no route to host", "network is unreachable", "i/o timeout", "tls handshake timeout", "x509:", "client.timeout exceeded",
			"request canceled while waiting for connection", "unexpected eof", `": eof`, "broken pipe", "proxyconnect tcp",
			"http2: client connection lost",                                                          // Go's net, crypto and net/http.
			"request send failed",                                                                    // The AWS SDK before one of those.
			"could not connect to", "could not resolve host", "temporary failure in name resolution", // Registries, git.
			"statuscode: 500", "statuscode: 502", "statuscode: 503", "statuscode: 504", "bad gateway", "service unavailable", "gateway timeout",
			"etcdserver:", "was unable to return a response in the time allotted", // Kubernetes.
		}},
	{class: ClassAuth, vague: true,
		phrases: []string{
			"cannot get credentials",                                                                                                        // provider-terraform: the Secret that a ProviderConfig names.
			"no valid credential sources", "failed to refresh cached credentials", "cannot assume iam role", "static credentials are empty", // The AWS provider.
		}},
	{class: ClassTimeout,
		codes: []string{"RequestTimeout", "RequestTimeoutException", "DeadlineExceeded"}, // AWS, gRPC.
		phrases: []string{
			"timeout while waiting for", "couldn't find resource (", // The AWS provider's waiters.
			"timed out waiting for", "operation timed out", // Kubernetes, Helm.
			"context deadline exceeded", "signal: killed", // Go, and provider-terraform when its own timeout passed.
		}},
	{class: ClassConfig,
		codes: []string{
			"ValidationException", "ValidationError", "InvalidParameter", "InvalidParameterException", "InvalidParameterValue",
			"InvalidParameterValueException", "InvalidParameterCombination", "InvalidRequest", "InvalidRequestException", "InvalidInput",
			"MissingParameter", "UnknownParameter", "MalformedPolicyDocument", "UnsupportedOperation", "UnsupportedAvailabilityZoneException",
			"InvalidSubnet", "InvalidVpc", "InvalidVpcID", "InvalidSubnetID", "InvalidGroup", "InvalidPermission", "InvalidKMSKey",
			"ResourceInUseException", "ResourceNotFoundException", "NoSuchBucket", "NoSuchEntity", "DependencyViolation", "DeleteConflict",
			"EntityAlreadyExists", "AlreadyExistsException", "BucketAlreadyExists", "BucketAlreadyOwnedByYou", "BucketNotEmpty", // AWS.
			"NodeCreationFailure", "Ec2SubnetInvalidConfiguration", // Health issues of node groups.
		},
		phrases: []string{
			".notfound:", ".duplicate:", ".malformed:", "already exists", // AWS, by the suffix of the code.
			"no available releases match", "match any of the checksums", "s3 bucket does not exist", `" does not exist`, "no configuration has been provided", // Installation, backends.
			"cannot get providerconfig", "failed to resolve provider config", // provider-terraform v0 and v1.
			"admission webhook",                                                                                                     // Kubernetes.
			"cannot get provider config", "cannot resolve variables", "cannot get tfvars", "refusing to modify uncontrolled secret", // provider-terraform.
		},
		summaries: []string{ // Terraform's core.
			"invalid ", "unsupported ", "missing ", "reference to undeclared", "duplicate ", "conflicting ", "incorrect ", "inconsistent conditional",
			"no value for required variable", "value for undeclared variable", "argument or block definition required", "unclosed ", "unterminated ",
			"call to unknown function", "error in function call", "not enough function arguments", "too many function arguments", "cycle: ",
			"attempt to index null value", "attempt to get attribute from null value", "iteration over null value", "unexpected attribute",
			"module not installed", "unreadable module directory", "inconsistent dependency lock file", "provider configuration not present",
			"backend initialization required", "backend configuration changed", "instance cannot be destroyed",
			"resource precondition failed", "resource postcondition failed", "module output value precondition failed", "check block assertion failed", "failed to read ",
		}},
	{class: ClassNetwork, vague: true,
		summaries: []string{ // Installation: a version that does not exist, or a registry that is not reachable.
			"failed to query available provider packages", "failed to resolve provider packages", "failed to install provider", "failed to download module",
		}},
}

// inUseCode is the error code of EC2 for a resource that other resources still use.
const inUseCode = "DependencyViolation"

// namedResources limits how many resources a message names.
const namedResources = 10

// networkID matches IDs of network resources of EC2. They are not confidential.
var networkID = regexp.MustCompile(`\b(?:vpc|vpce|subnet|sg|eni|igw|eigw|nat|rtb|acl|eipalloc)-[0-9a-f]{8}(?:[0-9a-f]{9})?\b`)

// inUseAdvice names the resources that cannot be destroyed because others use them, from all errors of the run; empty when there are none.
func inUseAdvice(message string) string {
	output, _ := unpack(message)
	var ids []string
	found := false
	for _, text := range append(diagnostics(output), withoutTail(message)) {
		if strings.Contains(text, inUseCode) {
			found = true
			ids = append(ids, networkID.FindAllString(text, -1)...)
		}
	}
	if !found {
		return ""
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	named := "it"
	if more := len(ids) - namedResources; more > 0 {
		named = fmt.Sprintf("%s and %d more", strings.Join(ids[:namedResources], ", "), more)
	} else if len(ids) > 0 {
		named = strings.Join(ids, ", ")
	}
	return fmt.Sprintf("Resources that are not in the Terraform state still use %s, usually load balancers, network interfaces or security groups that workloads created. "+
		"Delete them as described in docs/deletion.md (Leftovers in the VPC). "+retries, named)
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
	class := classify(message)
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
