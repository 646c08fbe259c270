// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/redact"
	"github.com/capt-provider/capt/api/terraform"
)

var (
	// frame matches lines that only draw, and the characters before the text of a line: of the box of an error, and of the values in an excerpt.
	frame      = regexp.MustCompile(`(?m)^[ \t]*(?:[│╷╵├][ \t]*)*[╷╵├]─*[ \t]*(?:\n|\z)`)
	border     = regexp.MustCompile(`(?m)^│ ?`)
	valueMark  = regexp.MustCompile(`(?m)^([ \t]+)│ `)
	blankLines = regexp.MustCompile(`\n(?:[ \t]*\n){2,}`)
	trailing   = regexp.MustCompile(`(?m)[ \t\r]+$`)
)

// Text returns the complete text of Terraform in the message of condition Synced of a Workspace, as Terraform prints it, but without boxes
// and secrets; empty if some secrets are not known.
func Text(message string, secrets Secrets) string {
	readable := withoutTail(message)
	if secrets.Missing != nil && !quotesNoSecret.MatchString(readable) {
		return ""
	}
	output, whole := unpack(message)
	if whole = whole && len(output) < maxUnpacked; !whole { // The end may be a part of a secret, which is not recognized.
		output = output[:strings.LastIndex(output, "\n")+1]
	}
	output = color.ReplaceAllString(secrets.redact(output), "")
	output = valueMark.ReplaceAllString(border.ReplaceAllString(frame.ReplaceAllString(output, ""), ""), "$1")
	var parts []string
	for _, part := range split(trailing.ReplaceAllString(output, "")) {
		if part = strings.Trim(redactWrapped(part, secrets), "\n"); part != "" {
			parts = append(parts, blankLines.ReplaceAllString(part, "\n\n"))
		}
	}
	switch text := strings.Join(parts, "\n\n"); {
	case text == "":
		return causeOf(message, readable, secrets)
	case !whole:
		return text + "\n…"
	default:
		return text
	}
}

// split splits an output before each error and warning, up to a limit.
func split(output string) (parts []string) {
	from := 0
	for _, at := range heading.FindAllStringIndex(output, maxErrors) {
		parts = append(parts, output[from:at[0]])
		from = at[0]
	}
	return append(parts, output[from:])
}

// redactWrapped redacts an error. One that has a secret across a line break becomes one line, as in the messages of the manager.
func redactWrapped(part string, secrets Secrets) string {
	part = secrets.redact(part)
	line := oneLine(part)
	if redacted := secrets.redact(line); redacted != line {
		return redacted
	}
	return part
}

// diagnostic is an error as Terraform and OpenTofu print it:
//
//	Error: SUMMARY
//
//	  with ADDRESS,
//	  on FILE line N, in BLOCK:
//	   N: excerpt of the file
//	    ├────────────────
//	    │ values in the excerpt
//
//	DETAIL
type diagnostic struct {
	summary, detail string
	// file is "FILE line N".
	file string
	// subject is an address such as aws_vpc.this, or a block such as variable "zones".
	subject string
}

var (
	withLine = regexp.MustCompile(`^  with (.+),$`)
	onLine   = regexp.MustCompile(`^  on (.+? line \d+)(?:, in (.+))?:$`)
	excerpt  = regexp.MustCompile(`^\s*\d+: `)
	// declaration is an excerpt that declares a variable. Terraform does not name its block.
	declaration = regexp.MustCompile(`^\s*\d+: (variable "[^"]+")`)
	// noise of the AWS SDKs. Classes are matched before it is removed.
	noise = regexp.MustCompile(`(?:https response error )?StatusCode: \d+, (?:RequestID: [^,]*, )?(?:HostID: [^,]*, )?(?:api error )?|\s+status code: \d+, request id: \S+|\s*\{ RespMetadata: .*\}`)
	// boilerplate are paragraphs and sentences that do not depend on the error.
	boilerplate = regexp.MustCompile(`(?s)(?:Terraform|OpenTofu) acquires a state lock.*|This was checked by the validation rule at \S+|Use a -var or -var-file.*|Stack trace from.*|To see which modules are currently depending.*|\nPlease see https://registry\..*`)
)

// summarize returns the first error of an output, together with the one that determines its rule if that is another one; empty without errors.
func summarize(output string, decisive *rule) string {
	var found []string
	decided, total := false, 0
	for _, text := range diagnostics(output) {
		if !strings.HasPrefix(text, errorHeading) {
			continue
		}
		total++
		decides := decisive.isDecisive() && decisive.matches(newFlatText(text))
		if len(found) == 0 || decides && !decided {
			if line := parse(text).String(); !slices.Contains(found, line) {
				found = append(found, line)
			}
		}
		decided = decided || decides
	}
	shown := strings.Join(found, "; ")
	if total > len(found) {
		return fmt.Sprintf("%s (%d of %d errors)", strings.TrimRight(shown, "."), len(found), total)
	}
	return shown
}

const errorHeading = "Error: "

func parse(text string) diagnostic {
	var d diagnostic
	var summary, detail []string
	inSummary, inValues := true, false
	for _, line := range strings.Split(strings.TrimPrefix(text, errorHeading), "\n") {
		line = strings.TrimRight(strings.TrimPrefix(strings.TrimPrefix(line, "│ "), "│"), " ")
		with, on := withLine.FindStringSubmatch(line), onLine.FindStringSubmatch(line)
		switch {
		case line == "":
			inSummary, inValues = false, false
			detail = append(detail, "")
		case with != nil:
			d.subject = with[1]
		case on != nil && d.file == "":
			inSummary, inValues = false, true
			d.file, d.subject = on[1], cmp.Or(d.subject, on[2])
		case inSummary:
			summary = append(summary, line)
		case inValues:
			if match := declaration.FindStringSubmatch(line); match != nil {
				d.subject = cmp.Or(d.subject, match[1])
			}
		case !excerpt.MatchString(line) && strings.Trim(line, "╷╵") != "":
			detail = append(detail, line)
		}
	}
	d.summary = strings.TrimRight(oneLine(strings.Join(summary, "\n")), ".")
	d.detail = oneLine(boilerplate.ReplaceAllString(strings.Join(detail, "\n"), ""))
	return d
}

// String is the diagnostic on one line: `variable "zones" (main.tf line 5): SUMMARY: DETAIL`.
func (d diagnostic) String() string {
	where := d.subject
	switch {
	case where != "" && d.file != "":
		where += " (" + d.file + ")"
	case where == "":
		where = d.file
	}
	parts := slices.DeleteFunc([]string{where, d.summary, d.detail}, func(part string) bool { return part == "" })
	return noise.ReplaceAllString(strings.Join(parts, ": "), "")
}

// Secrets are secret values that the output of Terraform may contain.
type Secrets struct {
	Values [][]byte
	// Public are texts that every reader of the error can read. Their words are not redacted.
	Public []string
	// Missing is why some of the values are not known; nil if all are. Then the text of Terraform is omitted.
	Missing error
	// LostKey names a key that a Secret does not have: provider-terraform passes nothing in its place, so Terraform finds variables without a value.
	LostKey string
	// workspace is the Workspace that failed; nil if it is not known.
	workspace *terraform.Workspace
}

// ProviderConfig are the arguments with which kubectl finds the ProviderConfig of the Workspace; empty if that is not known.
func (s *Secrets) ProviderConfig() string {
	if s.workspace == nil || s.workspace.Spec.ProviderConfigRef == nil {
		return ""
	}
	ref := s.workspace.Spec.ProviderConfigRef
	switch {
	case s.workspace.Namespace == "":
		return "providerconfig." + terraform.ScopeCluster.GroupVersionKind().Group + " " + ref.Name
	case ref.Kind == "ProviderConfig":
		return fmt.Sprintf("providerconfig.%s -n %s %s", terraform.ScopeNamespaced.GroupVersionKind().Group, s.workspace.Namespace, ref.Name)
	}
	return "clusterproviderconfig." + terraform.ScopeNamespaced.GroupVersionKind().Group + " " + ref.Name
}

func (s *Secrets) workspaceArguments() string {
	if s.workspace.Namespace == "" {
		return "workspace." + terraform.ScopeCluster.GroupVersionKind().Group + " " + s.workspace.Name
	}
	return fmt.Sprintf("workspace.%s -n %s %s", terraform.ScopeNamespaced.GroupVersionKind().Group, s.workspace.Namespace, s.workspace.Name)
}

// named returns an advice with the names of what it is about, where they are known. failed is the error.
func (s *Secrets) named(advice, failed string) string {
	if s.workspace == nil {
		return advice
	}
	advice = strings.ReplaceAll(advice, uidOfWorkspace, string(s.workspace.UID))
	advice = strings.Replace(advice, workspaceArguments, s.workspaceArguments(), 1)
	if secret := s.workspace.Spec.WriteConnectionSecretToRef; secret != nil {
		advice = strings.Replace(advice, secretArguments, fmt.Sprintf("secret -n %s %s", cmp.Or(secret.Namespace, s.workspace.Namespace), secret.Name), 1)
	}
	if ref := s.workspace.Spec.ProviderConfigRef; ref != nil {
		advice = strings.Replace(advice, "the ProviderConfig", fmt.Sprintf("the ProviderConfig (%s %s)", cmp.Or(ref.Kind, "ProviderConfig"), ref.Name), 1)
	}
	var fields []string
	read := ""
	add := func(kind string, ref *terraform.KeyReference, format string, args ...any) {
		if ref == nil {
			return
		}
		namespace := cmp.Or(ref.Namespace, s.workspace.Namespace)
		if strings.Contains(failed, fmt.Sprintf("%s %q", kind, ref.Name)) || strings.Contains(failed, fmt.Sprintf("%s %s/%s", kind, namespace, ref.Name)) {
			fields, read = append(fields, "spec.template.spec.forProvider."+fmt.Sprintf(format, args...)), fmt.Sprintf("%s %s/%s", kind, namespace, ref.Name)
		}
	}
	for i, file := range s.workspace.Spec.ForProvider.VarFiles {
		add("ConfigMap", file.ConfigMapKeyRef, "varFiles[%d].configMapKeyRef", i)
		add("Secret", file.SecretKeyRef, "varFiles[%d].secretKeyRef", i)
	}
	for i, env := range s.workspace.Spec.ForProvider.Env {
		add("ConfigMap", env.ConfigMapKeyRef, "env[%d].configMapKeyRef", i)
		add("Secret", env.SecretKeyRef, "env[%d].secretKeyRef", i)
	}
	if read == "" {
		return advice
	}
	return fmt.Sprintf("%s is read by %s of the WorkspaceTemplate. %s", read, strings.Join(fields, ", "), advice)
}

func (s Secrets) redact(text string) string { return redact.Text(text, s.Values, s.Public...) }

// add adds a value with a name, unless it is a word of a public text.
func (s *Secrets) add(name string, value []byte) {
	if redact.IsWordOf(s.Public, name, strings.TrimSpace(string(value))) {
		return
	}
	s.Values = append(s.Values, value)
	if redact.IsSecretName(name) && json.Valid(value) { // So the strings in it have this name, too.
		s.Values = append(s.Values, fmt.Appendf(nil, "{%q:%s}", name, value))
	}
}

// publicOf are the texts of a Workspace that are not confidential: its names, its spec with the module, and its outputs.
func publicOf(workspace *terraform.Workspace) []string {
	spec, _ := json.Marshal(workspace.Spec) // Without it, more is redacted.
	outputs, _ := json.Marshal(workspace.Status.AtProvider.Outputs)
	return []string{workspace.Name, workspace.Namespace, string(spec), workspace.Spec.ForProvider.Module, string(outputs)}
}

// variablesOf returns the names of environment variables by the keys of the Secrets that they are read from.
func variablesOf(workspace *terraform.Workspace) map[terraform.KeyReference]string {
	names := map[terraform.KeyReference]string{}
	for _, env := range workspace.Spec.ForProvider.Env {
		if env.SecretKeyRef != nil {
			names[*env.SecretKeyRef] += env.Name
		}
	}
	return names
}

// ReadSecret reads a Secret from the API server, and returns its errors.
type ReadSecret func(types.NamespacedName) (*corev1.Secret, error)

// SecretsOf reads the values that a failed Workspace takes from Secrets, and its sensitive outputs. Some are missing when a Secret cannot be
// read, no longer exists, or has changed since the error.
func SecretsOf(workspace *terraform.Workspace, read ReadSecret) (found Secrets) {
	found.Public, found.workspace = publicOf(workspace), workspace
	variables := variablesOf(workspace)
	reportedAt := workspace.LastStatus()
	if failed := workspace.Failure(); reportedAt.IsZero() && failed != nil {
		reportedAt = failed.LastTransitionTime.Time
	}
	get := func(namespace, name string) (*corev1.Secret, types.NamespacedName) {
		key := types.NamespacedName{Namespace: cmp.Or(namespace, workspace.Namespace), Name: name}
		secret, err := read(key)
		switch {
		case apierrors.IsNotFound(err):
			return &corev1.Secret{}, key
		case err != nil:
			found.Missing = cmp.Or(found.Missing, fmt.Errorf("reading Secret %s: %w", key, err))
			return &corev1.Secret{}, key
		}
		return secret, key
	}
	for _, ref := range workspace.Spec.SecretKeys() {
		secret, name := get(ref.Namespace, ref.Name)
		value, ok := secret.Data[ref.Key]
		switch { // The error may quote an earlier value.
		case !ok:
			found.LostKey = fmt.Sprintf("the Secret %s has no key %s", name, ref.Key)
			found.Missing = cmp.Or(found.Missing, errors.New(found.LostKey))
			continue
		case lastWrite(secret).After(reportedAt):
			found.Missing = cmp.Or(found.Missing, fmt.Errorf("the Secret %s has changed since the error", name))
		}
		found.add(variables[ref], value)
	}
	if ref := workspace.Spec.WriteConnectionSecretToRef; ref != nil {
		secret, _ := get(ref.Namespace, ref.Name)
		for name, value := range secret.Data {
			if _, shown := workspace.Status.AtProvider.Outputs[name]; !shown {
				found.add(name, value)
			}
		}
	}
	return found
}

// lastWrite is when a Secret was created, or last changed.
func lastWrite(secret *corev1.Secret) time.Time {
	last := terraform.LatestWrite(secret, func(metav1.ManagedFieldsEntry) bool { return true })
	if secret.CreationTimestamp.After(last) {
		return secret.CreationTimestamp.Time
	}
	return last
}
