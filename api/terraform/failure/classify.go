// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
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

// Classes returns every class.
func Classes() []Class {
	return []Class{ClassAuth, ClassQuota, ClassThrottle, ClassLock, ClassTimeout, ClassConfig, ClassInterrupted, ClassNetwork, ClassUnknown}
}

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

// Classify returns the class of the message of condition Synced of a Workspace. The readable part is matched first, because it names
// the first error; then the errors in the packed output, in order, as far as the message was not truncated and within limits.
func Classify(message string) Class {
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
