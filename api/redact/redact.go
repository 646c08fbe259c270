// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package redact removes secrets from texts that users read. Its functions are pure.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// Placeholder replaces a secret.
	Placeholder = "[redacted]"
	// minSecret is the minimal length of a secret. Shorter values match parts of words.
	minSecret = 6
	// maxPublic is the maximal length of public values. An ARN has at most 2,048 characters.
	maxPublic = 2048
	// maxRounds is the maximum number of times that a text is redacted: the text around a redacted secret may look like another one.
	maxRounds = 8
	// maxNesting is the maximum depth of documents in documents, such as JSON in a line of a tfvars file.
	maxNesting = 4
)

// Text replaces secrets in a text by "[redacted]". Call it before a text is truncated: a part of a secret may not be recognized.
//
// Known values are replaced in all forms: as they are, and as encoded by JSON, Go, HCL, URLs and base64; also the lines of a value, its
// strings if it is JSON, and assigned values if it is a tfvars, environment or credentials file. Callers pass only secret values: not, for
// example, the name and endpoint of a cluster. Values with a public form are never replaced: booleans, regions, ARNs, IDs of
// resources and accounts, addresses, versions, instance types, and values with less than six characters.
//
// A value in a document that has a name and is a word of a public text, such as the spec of the object that failed, is kept: every reader of the
// error can read it there, and without it a sentence cannot be understood. This does not apply to names of secrets, such as password.
//
// Text that looks like a secret is also replaced: keys and tokens of AWS, Kubernetes and git hosts, JWTs, PEM, passwords in URLs, headers
// with credentials, values with names such as password, and long random text. This is a heuristic.
//
// It is idempotent and takes linear time. The text grows at most to three times its size.
func Text(text string, known [][]byte, public ...string) string {
	values := secrets{limit: len(text), public: public, addedValues: map[string]bool{}, addedForms: map[string]bool{}, forms: map[string][]string{}}
	for _, value := range known {
		values.add(string(value), maxNesting)
	}
	for range maxRounds {
		before := text
		if text = values.redactOnce(text); text == before {
			break
		}
	}
	return text
}

// Value returns the redacted value of a variable. For some names, for example password, the whole value is a secret.
func Value(name, value string) string {
	if assigned := name + ` = "value"`; Text(assigned, nil) != assigned {
		return Placeholder
	}
	return Text(value, nil)
}

var (
	// word is a name, an identifier, a path or a number.
	word        = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._/:@-]*[A-Za-z0-9])?$`)
	secretNames = regexp.MustCompile(passwordName + `|` + secretName + `|(?i:cred|auth|cert|otp|pin$|salt|seed|kubeconfig)`)
)

const maxWord = 253

// IsSecretName reports whether values with a name are secrets by their name.
func IsSecretName(name string) bool { return secretNames.MatchString(name) }

// IsWordOf reports whether a value with a name is a word of a public text, and not a secret by its name.
func IsWordOf(public []string, name, value string) bool {
	if name == "" || IsSecretName(name) || len(value) > maxWord || !word.MatchString(value) || len(findLookalikes(value)) > 0 {
		return false
	}
	return slices.ContainsFunc(public, func(text string) bool { return HasWord(text, value, "") })
}

// HasWord reports whether a text has a word that is not part of a longer one. Words have letters, digits, and the characters of joining.
func HasWord(text, word, joining string) bool {
	inWord := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(joining, r)
	}
	for from := 0; ; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			return false
		}
		at, from = from+at, from+at+len(word)
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[from:])
		if !inWord(before) && !inWord(after) {
			return true
		}
	}
}

// redactOnce redacts a text in one pass. Earlier replacements are kept as they are.
func (s secrets) redactOnce(text string) string {
	pieces := strings.Split(text, Placeholder)
	for i, piece := range pieces {
		spans := append(s.findKnown(piece), findLookalikes(piece)...)
		slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
		var out strings.Builder
		end, begun := 0, false
		for _, sp := range spans {
			if !begun || sp.from > end { // Adjacent secrets are one.
				out.WriteString(piece[end:sp.from] + Placeholder)
			}
			end, begun = max(end, sp.to), true
		}
		out.WriteString(piece[end:])
		pieces[i] = out.String()
	}
	return strings.Join(pieces, Placeholder)
}

// span is a part of a text, in bytes.
type span struct{ from, to int }

// secrets are known values in all encodings; an encoded value is called a form.
type secrets struct {
	// limit is the length of the text in bytes: longer forms cannot occur in it.
	limit int
	// public are texts whose words are not secrets.
	public []string
	// addedValues and addedForms are the sets of values and forms that were added already.
	addedValues, addedForms map[string]bool
	// forms are the forms by their first minSecret bytes, so that a search takes linear time.
	forms map[string][]string
}

// findKnown finds the known values in a text. At each position, the longest form is used.
func (s secrets) findKnown(text string) []span {
	var spans []span
	for i := 0; i+minSecret <= len(text); i++ {
		longest := 0
		for _, form := range s.forms[text[i:i+minSecret]] {
			if len(form) > longest && strings.HasPrefix(text[i:], form) {
				longest = len(form)
			}
		}
		if longest > 0 {
			spans = append(spans, span{i, i + longest})
		}
	}
	return spans
}

var (
	// assignment is a line of a tfvars, environment or AWS credentials file.
	assignment = regexp.MustCompile(`^([\w."'-]+)\s*=\s*(.+)$`)
	// lastName matches the name before a quoted string.
	lastName = regexp.MustCompile(`([\w.-]+)"?\s*[=:]\s*$`)
	// quotation is a string in double quotes.
	quotation = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
	// assignmentSign matches the text after a quoted string that is a name, not a value.
	assignmentSign = regexp.MustCompile(`^\s*[=:]`)
)

// add adds a value, and the values within it if it is a document.
func (s secrets) add(value string, nesting int) {
	value = strings.TrimSpace(value)
	if len(value) < minSecret || nesting == 0 || s.addedValues[value] || isPublic(value) {
		return
	}
	s.addedValues[value] = true
	s.encode(value)

	switch {
	case s.addJSON(value, nesting-1):
	case strings.ContainsAny(value, "\r\n"):
		for line := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '\r' || r == '\n' }) {
			s.add(line, nesting-1)
		}
	default:
		s.addLine(value, nesting-1)
	}
}

// addLine adds the values within a single line: an assigned value, quoted strings, and text that looks like a secret.
func (s secrets) addLine(value string, nesting int) {
	name := ""
	if match := assignment.FindStringSubmatch(value); match != nil {
		name = match[1]
		s.addNamed(name, strings.Trim(match[2], `"',; `), nesting)
	}
	for _, match := range quotation.FindAllStringSubmatchIndex(value, -1) {
		if assignmentSign.MatchString(value[match[1]:]) {
			continue
		}
		path := name
		if inner := lastName.FindStringSubmatch(value[:match[0]]); inner != nil {
			path += "." + inner[1]
		}
		s.addNamed(path, value[match[2]:match[3]], nesting)
		if plain, err := strconv.Unquote(value[match[0]:match[1]]); err == nil {
			s.addNamed(path, plain, nesting)
		}
	}
	for _, sp := range findLookalikes(value) { // Such as the token in a kubeconfig.
		s.add(value[sp.from:sp.to], nesting)
	}
}

// addNamed adds a value with a name, unless it is a word of a public text.
func (s secrets) addNamed(name, value string, nesting int) {
	if !IsWordOf(s.public, name, value) {
		s.add(value, nesting)
	}
}

// addJSON adds the strings of a document, but not their names. It reports whether the value is JSON.
func (s secrets) addJSON(value string, nesting int) bool {
	var document any
	if json.Unmarshal([]byte(value), &document) != nil {
		return false
	}
	switch document.(type) {
	case string, []any, map[string]any:
		s.addLeaves("", document, nesting)
		return true
	}
	return false
}

// addLeaves adds all strings of a decoded JSON document. path has the names of the fields.
func (s secrets) addLeaves(path string, document any, nesting int) {
	switch value := document.(type) {
	case string:
		s.addNamed(path, value, nesting)
	case []any:
		for _, element := range value {
			s.addLeaves(path, element, nesting)
		}
	case map[string]any:
		for name, element := range value {
			s.addLeaves(path+"."+name, element, nesting)
		}
	}
}

// encode adds all forms of a value: as it is, and as encoded by Go, HCL, JSON, URLs and base64.
func (s secrets) encode(value string) {
	folded := strings.Join(strings.Fields(value), " ") // As in a message on one line.
	s.addForms(folded)
	if len(folded) > s.limit {
		return
	}
	s.addForms(value)

	quoted, ascii := strconv.Quote(value), strconv.QuoteToASCII(value)
	quoted = quoted[1 : len(quoted)-1]
	s.addForms(quoted, ascii[1:len(ascii)-1], strings.NewReplacer("${", "$${", "%{", "%%{").Replace(quoted)) // Go, HCL.
	for _, escapeHTML := range []bool{true, false} {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(escapeHTML)
		if encoder.Encode(value) == nil {
			s.addForms(out.String()[1 : out.Len()-len("\"\n")])
		}
	}

	s.addForms(url.QueryEscape(value), url.PathEscape(value), url.User(value).String())
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		s.addForms(encoding.EncodeToString([]byte(value)), encoding.WithPadding(base64.NoPadding).EncodeToString([]byte(value)))
		for shift := range 3 { // The value may be a part of the encoded text, as in base64 of "user:password".
			text := encoding.EncodeToString(append(make([]byte, shift), value...))
			s.addForms(text[(shift*8+5)/6 : (shift+len(value))*8/6])
		}
	}
}

// addForms adds forms of a value. redactOnce searches only between placeholders, so a form that contains one is added in parts.
func (s secrets) addForms(forms ...string) {
	for _, form := range forms {
		for part := range strings.SplitSeq(form, Placeholder) {
			if len(part) >= minSecret && len(part) <= s.limit && !s.addedForms[part] {
				s.addedForms[part] = true
				s.forms[part[:minSecret]] = append(s.forms[part[:minSecret]], part)
			}
		}
	}
}

// publicForms matches values that are never a secret.
var publicForms = regexp.MustCompile(`^(?:` + strings.Join([]string{
	`(?i:true|false|null|none|default|enabled|disabled)`,
	`Config|ExecCredential|get-token|IfAvailable|client\.authentication\.k8s\.io/v1(?:alpha1|beta1)?`,       // The vocabulary of kubeconfigs.
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
