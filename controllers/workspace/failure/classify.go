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

// Class says of an error of Terraform whether it goes away by itself, and if not, who can mend it.
type Class string

const (
	// ClassAuth is a refusal: credentials are missing, expired or wrong, or they do not allow what the module does. A
	// person must renew them or change a policy. A retry before that is wasted, and can lock an account.
	ClassAuth Class = "Auth"
	// ClassQuota is a limit of the account, or of AWS's capacity. A person must have it raised, or remove something. A
	// retry before that is wasted.
	ClassQuota Class = "Quota"
	// ClassThrottle is a limit of the rate of requests. A retry helps, later rather than sooner: it is load, too.
	ClassThrottle Class = "Throttle"
	// ClassLock is somebody else at work: another run holds the lock of the state, or AWS changes the same thing, as
	// with two Fargate profiles of one cluster. A retry helps when the other is done. If there is no other, it died, and
	// a person must remove its lock.
	ClassLock Class = "Lock"
	// ClassTimeout is work that took longer than Terraform or its provider waits. A retry helps if the work goes on.
	ClassTimeout Class = "Timeout"
	// ClassConfig is a request that can not be met as it is: the module, its variables or the ProviderConfig are wrong,
	// or contradict what exists. A person must change them, or what exists. A retry before that is wasted.
	ClassConfig Class = "Config"
	// ClassInterrupted is a run that ended before it could record what it made: it was killed, or could not save its
	// state. A retry can make things twice, or fail since they exist, so a person should compare the state with AWS.
	ClassInterrupted Class = "Interrupted"
	// ClassNetwork is a service that was not reached, or had a fault of its own: names, connections, certificates, and
	// AWS's 5xx. A retry helps when the network or the service is back.
	ClassNetwork Class = "Network"
	// ClassUnknown is everything else. A retry can help; a person should read the message.
	ClassUnknown Class = "Unknown"
)

// Classes returns every class.
func Classes() []Class {
	return []Class{ClassAuth, ClassQuota, ClassThrottle, ClassLock, ClassTimeout, ClassConfig, ClassInterrupted, ClassNetwork, ClassUnknown}
}

// Passes tells whether errors of the class are expected to go away by themselves, so that the retries of the provider help.
func (c Class) Passes() bool {
	switch c {
	case ClassThrottle, ClassLock, ClassTimeout, ClassNetwork:
		return true
	case ClassAuth, ClassQuota, ClassConfig, ClassInterrupted, ClassUnknown:
	}
	return false
}

// Bounds of what is looked at. The API server keeps 32 KiB of a message. Packed text of 64 KiB is more than that holds,
// and what it can unpack to is 1,000 times as much.
const (
	maxReadable = 32 << 10
	maxPacked   = 64 << 10
	maxUnpacked = 256 << 10
)

const (
	tailMark   = "To see the full error run:"
	packedMark = `echo "`
	noSummary  = "Summary: ." // The output had no line with an error.
)

// Classify tells the class of the message of a Workspace's condition Synced. What people read is looked at first, since
// it names the first error; then the whole output of Terraform that is packed behind it, error by error, as far as the
// message was not cut off and within bounds. Nothing of the output is kept.
func Classify(message string) Class {
	readable, _, _ := strings.Cut(message, tailMark)
	readable, _, _ = strings.Cut(readable, packedMark)
	class, vague := match(readable[:min(len(readable), maxReadable)])
	if class != ClassUnknown && !vague {
		return class
	}
	output, whole := unpack(message)
	for _, text := range diagnostics(output) {
		found, stillVague := match(text)
		if found != ClassUnknown && !stillVague {
			return found
		}
		if class == ClassUnknown {
			class = found
		}
	}
	// Terraform never fails without a word. The provider leaves out the signal that ended it.
	if class == ClassUnknown && whole && output == "" && strings.Contains(readable, noSummary) {
		return ClassInterrupted
	}
	return class
}

// unpack returns the output that is packed at the end of a message, and whether it is the whole of it.
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
	// Of what was cut off or is no base64, the part before it is good.
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
	colour  = regexp.MustCompile("\x1b\\[[0-9;]*m")
)

// diagnostics cuts an output into its errors, in their order. Warnings are left out; what stands before the first error
// comes last.
func diagnostics(output string) []string {
	output = colour.ReplaceAllString(output, "")
	headings := heading.FindAllStringSubmatchIndex(output, -1)
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

// match finds the first rule that fits a text. It is vague when the rest of the output may know better.
func match(text string) (class Class, vague bool) {
	text = flat(text)
	lower := strings.ToLower(text)
	for _, r := range rules {
		if r.matches(text, lower) {
			return r.class, r.vague
		}
	}
	return ClassUnknown, false
}

// flat undoes the line breaks and boxes of the command line, which fall between any two words.
func flat(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("│╷╵├─", r)
	}), " ")
}

// Says tells whether an error of Terraform has one of some codes, which are words in the case in which AWS writes them, or
// of some phrases, which are in lower case and match in any case and anywhere. It is for rules that are finer than classes.
func Says(message string, codes, phrases []string) bool {
	text := flat(message)
	return rule{codes: codes, phrases: phrases}.matches(text, strings.ToLower(text))
}

// rule gives the class of the texts that it matches.
type rule struct {
	class Class
	// vague is true for summaries of Terraform whose detail tells the cause.
	vague bool
	// codes are words, in the case in which AWS writes them.
	codes []string
	// phrases are in lower case, and match in any case and anywhere.
	phrases []string
	// summaries are in lower case, and match at the beginning of an error only.
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
		// The provider and the command line each have their heading.
		if strings.Contains(lower, "summary: "+summary) || strings.HasPrefix(lower, "error: "+summary) {
			return true
		}
	}
	return false
}

// hasWord tells whether a text has a word that is not part of a longer one, nor of a name with dashes.
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
