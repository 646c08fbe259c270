// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"regexp"
	"sort"
	"strings"
)

// publicForms matches values that are never a secret.
var publicForms = regexp.MustCompile(`^(?:` + strings.Join([]string{
	`(?i:true|false|null|none|default|enabled|disabled)`,
	`(?:af|ap|ca|cn|eu|il|me|mx|sa|us|us-gov)-(?:central|(?:north|south)(?:east|west)?|east|west)-\d[a-z]?`, // Regions and zones.
	`arn:aws[a-z-]*:[^\s"']+`,
	`(?:vpc|subnet|sg|sgr|rtb|rtbassoc|igw|nat|eigw|eni|eipalloc|eipassoc|acl|vpce|pcx|tgw|i|ami|lt|vol|snap|dopt|pl|fl)-[0-9a-f]{8}(?:[0-9a-f]{9})?`,
	`\d{12}`,                               // Accounts.
	`\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?`, // Addresses and their ranges.
	`v?\d+(?:\.\d+){1,3}`,                  // Versions.
	`[a-z]\d[a-z0-9-]*\.(?:nano|micro|small|medium|large|\d*xlarge|metal)`, // Types of instances.
}, "|") + `)$`)

// isPublic reports whether a value has a form that is never a secret.
func isPublic(value string) bool {
	return len(value) <= maxPublic && publicForms.MatchString(value)
}

// lookalike finds text that looks like a secret: the last group of the pattern that matched, or the whole match.
type lookalike struct {
	pattern *regexp.Regexp
	// keep reports whether a match is not a secret.
	keep func(string) bool
	// bare is true for secrets without quotes, which end at a space or a delimiter.
	bare bool
}

const (
	// passwordName and secretName are suffixes of names of secrets.
	passwordName = `(?i:pass(?:word|wd|phrase)|pwd)`
	secretName   = `(?i:secret|token|credential|signature|authorization|(?:api|access|secret|private|client|signing|encryption|account|shared)[_.-]?key)(?i:s|[_-]?(?:data|value|base64))?`
	// afterName matches the text between a name and its separator: a quote, which can be escaped.
	afterName = `\\*["']?[ \t]*`
	// quotedValue has escaped, double or single quotes. Its end can be truncated.
	quotedValue = `(?:\\+"((?:[^"\\\n]|\\[^"\n])+)|"((?:[^"\\\n]|\\.)+)|'([^'\n]+))`
	bareValue   = `([^\s"'\\,;&(\[{=:][^\s"',;&:]*)`
)

var lookalikePatterns = []lookalike{
	{pattern: regexp.MustCompile(`(?:AKIA|ASIA)[A-Z0-9]{16}`)},                                        // AWS access keys.
	{pattern: regexp.MustCompile(`k8s-aws-v1\.[A-Za-z0-9_=-]+`)},                                      // EKS tokens.
	{pattern: regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+){0,2}`)},                    // JWTs.
	{pattern: regexp.MustCompile(`(?:gh[pousr]_|github_pat_|glpat-)[A-Za-z0-9_-]{16,}`)},              // Tokens of git hosts.
	{pattern: regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\z)`)}, // PEM, also truncated.
	{pattern: regexp.MustCompile(`[A-Za-z0-9]://([^\s/?#"'<>]+)@`), keep: func(s string) bool { return s == "git" }},
	{pattern: regexp.MustCompile(`(?i)authorization` + afterName + `[:=]\s*\\*["']?((?:basic|bearer|negotiate|token)\s+[^\s"'\\,]+|(?:digest|aws4-hmac-sha256)\s+[^\s"'\\]+(?:\s+\w+=[^\s"'\\]+)*)`)},
	{pattern: regexp.MustCompile(`(?i)bearer\s+([A-Za-z0-9._~+/=-]{8,})`), keep: isWord},
	{pattern: regexp.MustCompile(`(?:` + passwordName + `|` + secretName + `)` + afterName + `(?:=>?|:)[ \t]*` + quotedValue), keep: isPublic},
	{pattern: regexp.MustCompile(`(?:` + passwordName + `|` + secretName + `)` + afterName + `=>?[ \t]*` + bareValue), keep: isPublicOrExpression, bare: true},
	{pattern: regexp.MustCompile(passwordName + afterName + `:[ \t]*` + bareValue), keep: isPublicOrExpression, bare: true},
	{pattern: regexp.MustCompile(secretName + afterName + `:[ \t]*` + bareValue), keep: isProse, bare: true},
	{pattern: regexp.MustCompile(`(?i:request|host)[ _-]?(?i:id)["':= ]{1,4}[A-Za-z0-9+/=-]+|[A-Za-z0-9+/_-]+={0,2}`), keep: looksLikeName},
}

// arnPattern matches ARNs, which are never secrets.
var arnPattern = regexp.MustCompile(`arn:aws[a-z-]*:[\w:/.+*@-]*`)

// findLookalikes finds text that looks like a secret.
func findLookalikes(text string) []span {
	var spans []span
	names := arnPattern.FindAllStringIndex(text, -1)
	for _, l := range lookalikePatterns {
		for from := 0; from < len(text); {
			match := l.pattern.FindStringSubmatchIndex(text[from:])
			if match == nil {
				break
			}
			start, end := lastGroup(match)
			start, end = start+from, end+from
			if l.keep != nil && l.keep(text[start:end]) {
				if start > from+match[0] { // The match begins with a name: what follows may be the name of another value.
					end = start
				}
			} else {
				if l.bare {
					end += len(text[end:]) - len(strings.TrimLeftFunc(text[end:], inBareValue))
				}
				if !isWithin(names, start, end) {
					spans = append(spans, span{start, end})
				}
			}
			from = end
		}
	}
	return spans
}

// isWithin reports whether one of several sorted ranges contains a range.
func isWithin(ranges [][]int, start, end int) bool {
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i][1] >= end })
	return i < len(ranges) && ranges[i][0] <= start
}

// lastGroup returns the last group that matched, otherwise the whole match.
func lastGroup(match []int) (start, end int) {
	for i := len(match) - 2; i > 0; i -= 2 {
		if match[i] >= 0 {
			return match[i], match[i+1]
		}
	}
	return match[0], match[1]
}

// inBareValue reports whether a character can be part of a secret without quotes.
func inBareValue(r rune) bool { return !strings.ContainsRune(" \t\r\n\v\f\"',;&", r) }

// hclReference matches HCL expressions in excerpts of modules.
var hclReference = regexp.MustCompile(`^(?:\$\{|(?:var|local|data|module|each|self|random_password|(?:aws|tls|kubernetes|helm)_\w+)\.[A-Za-z_])`)

// isPublicOrExpression reports whether a value is public, or an HCL expression.
func isPublicOrExpression(value string) bool {
	return isPublic(value) || hclReference.MatchString(value)
}

// isProse reports whether the text after a name and a colon is part of a sentence, as in "ExpiredToken: The".
func isProse(value string) bool {
	return len(value) < minSecret || !strings.ContainsAny(value, "0123456789") || strings.HasPrefix(value, "http") || isPublicOrExpression(value)
}

// isWord reports whether the text after "Bearer" is a word, as in "bearer authentication".
func isWord(value string) bool {
	return len(value) < 20 && !strings.ContainsAny(value, "0123456789")
}

// idPattern matches IDs of requests, objects and AWS resources, which are random text but not secrets.
var idPattern = regexp.MustCompile(`[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|[a-z]+-[0-9a-f]{17}`)

// looksLikeName reports whether a long string is a name or a path, and not random text. In a name, the kind of character (upper case,
// lower case, digit, separator) changes about every fifth character, in random text about every second one.
func looksLikeName(run string) bool {
	run = strings.TrimRight(idPattern.ReplaceAllString(run, ""), "=")
	if len(run) < 40 || strings.ContainsAny(run, `:="' `) { // Only the alternative for request IDs matches these separators.
		return true
	}
	kinds, changes, last := map[rune]int{}, 0, rune(0)
	for _, r := range run {
		kind := kindOf(r)
		if kind != last && (last != 'A' || kind != 'a') { // A word can begin with a capital.
			changes++
		}
		kinds[kind]++
		last = kind
	}
	if kinds['0'] == 0 || kinds['a']+kinds['A'] == 0 {
		return true
	}
	if strings.Trim(run, "0123456789abcdef") == "" || strings.Trim(run, "0123456789ABCDEF") == "" {
		return false
	}
	if strings.ContainsAny(run, "-_") {
		return changes*100 < len(run)*35
	}
	return changes*100 < len(run)*28
}

// kindOf returns '0' for a digit, 'a' for a lower-case letter, 'A' for an upper-case letter, and '/' for any other character.
func kindOf(r rune) rune {
	switch {
	case r >= '0' && r <= '9':
		return '0'
	case r >= 'a' && r <= 'z':
		return 'a'
	case r >= 'A' && r <= 'Z':
		return 'A'
	}
	return '/'
}
