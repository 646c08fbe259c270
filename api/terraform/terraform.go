// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package terraform has the part of provider-terraform's Workspace API that CAPT reads and writes, in both scopes: tf.upbound.io
// (cluster-scoped) and tf.m.upbound.io (namespaced). Field names, enums and semantics are those of provider-terraform v0.18 to v1.1.
//
// +kubebuilder:object:generate=true
package terraform

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// HasNoValue reports whether a text means that there is no value: tools print it for an empty result, and a module returns it as an output.
func HasNoValue(text string) bool {
	return slices.Contains([]string{"", "null", "nil", "<nil>", "none", "undefined", "<no value>"}, strings.ToLower(strings.TrimSpace(text)))
}

// IsComposite reports whether an output is a list or an object, which status has as JSON, so that it cannot be an ID.
func IsComposite(text string) bool {
	return strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{")
}

// ParseEndpoint splits the output cluster_endpoint, a URL or host[:port], into host and port. The host has neither scheme
// nor brackets. Errors never quote the text, which may contain credentials.
func ParseEndpoint(text string) (host string, port int32, err error) {
	const defaultPort = 443 // The port of an endpoint without one: EKS serves on 443.
	parsed, err := url.Parse(withScheme(strings.TrimSpace(text)))
	if HasNoValue(text) || err == nil && HasNoValue(parsed.Hostname()) {
		return "", 0, errors.New("it has no value, or the text of one that does not exist, such as null or None")
	}
	if err != nil || parsed.Scheme != "https" || !hasOnlyHostAndPort(parsed) {
		return "", 0, errors.New("it is neither an https URL nor host[:port]")
	}
	if parsed.Port() == "" {
		return parsed.Hostname(), defaultPort, nil
	}
	number, err := strconv.ParseUint(parsed.Port(), 10, 16)
	if err != nil || number == 0 {
		return "", 0, errors.New("it has no valid port")
	}
	return parsed.Hostname(), int32(number), nil
}

// withScheme returns an address as a URL: host[:port] gets the scheme https.
func withScheme(address string) string {
	if strings.Contains(address, "://") {
		return address
	}
	if ip := net.ParseIP(address); ip != nil && ip.To4() == nil {
		address = "[" + address + "]"
	}
	return "https://" + address
}

func hasOnlyHostAndPort(u *url.URL) bool {
	return u.User == nil && (u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == ""
}

// Names of the Terraform outputs that CAPT understands. Templates publish them; see docs/templates.md.
const (
	// OutputVPCID is the ID of the VPC, for example vpc-0abc1234.
	OutputVPCID = "vpc_id"
	// OutputVPCConfig is a file of Terraform variables that describes the VPC; it is read from the connection Secret. CheckVPCConfig
	// documents the format. The VPC template and the templates of Fargate profiles determine its variables.
	OutputVPCConfig = "vpc_config"
	// OutputAvailabilityZones is a list of zones, or a comma-separated string of them.
	OutputAvailabilityZones = "availability_zones"
	// OutputClusterEndpoint is the URL or host[:port] of the EKS API server.
	OutputClusterEndpoint = "cluster_endpoint"
	// OutputClusterName is the name of the EKS cluster.
	OutputClusterName = "cluster_name"
	// OutputClusterVersion is the Kubernetes version that EKS runs, for example 1.31.
	OutputClusterVersion = "cluster_version"
	// OutputClusterCA is the base64 encoded PEM of the EKS certificate authority, as EKS returns it.
	OutputClusterCA = "cluster_certificate_authority_data"
	// OutputKubeconfig is a complete kubeconfig; it is sensitive, so it appears only in the connection Secret.
	OutputKubeconfig = "kubeconfig"
	// OutputNodeGroupARN is the ARN of a node group.
	OutputNodeGroupARN = "node_group_arn"
	// OutputNodeGroupSize is the number of nodes of a node group.
	OutputNodeGroupSize = "node_group_size"
	// OutputNodeGroupVersion is the Kubernetes version of a node group.
	OutputNodeGroupVersion = "node_group_version"
)

// PublishedOutputs lists the outputs that may appear in status in addition to publishOutputs of the template. None of them is a
// secret. Outputs that Terraform marks as sensitive never appear in status.
func PublishedOutputs() []string {
	return []string{
		OutputAvailabilityZones, "cluster_arn", OutputClusterEndpoint, OutputClusterName, OutputClusterVersion,
		"oidc_provider_arn", "private_subnets", "public_subnets", OutputVPCID, OutputNodeGroupARN, OutputNodeGroupSize, OutputNodeGroupVersion,
	}
}

// placeholder matches ${name} and $${name} in the strings of a template. Any other text in ${…} is an expression for Terraform.
var placeholder = regexp.MustCompile(`\$?\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// Escaping is what $${name} means.
type Escaping int

const (
	// EscapeKept is $${name} in a module: Terraform's escape of a text ${name}, which stays.
	EscapeKept Escaping = iota
	// EscapeRemoved is $${name} in another field, which becomes the text ${name}.
	EscapeRemoved
	// NoEscape: $${name} is a dollar sign before a placeholder.
	NoEscape
)

// ReplacePlaceholders replaces each placeholder ${name} of a text by what value returns.
func ReplacePlaceholders(text string, escaping Escaping, value func(name string) string) string {
	if !strings.Contains(text, "${") { // Much faster, for modules.
		return text
	}
	return placeholder.ReplaceAllStringFunc(text, func(match string) string {
		name := strings.Trim(match, "${}")
		switch {
		case !strings.HasPrefix(match, "$$"):
			return value(name)
		case escaping == EscapeRemoved:
			return match[1:]
		case escaping == NoEscape:
			return "$" + value(name)
		}
		return match
	})
}

// EscapePlaceholders returns the text of a field of a template that is rendered to a text, whatever the variables are.
func EscapePlaceholders(text string) string {
	return ReplacePlaceholders(text, NoEscape, func(name string) string { return "$${" + name + "}" })
}

// Placeholders returns the names in the placeholders of a text, in their order.
func Placeholders(text string, escaping Escaping) (names []string) {
	ReplacePlaceholders(text, escaping, func(name string) string {
		names = append(names, name)
		return ""
	})
	return names
}

// HasEscape reports whether a text has $${name}.
func HasEscape(text string) bool {
	return strings.Contains(text, "$${") && slices.ContainsFunc(placeholder.FindAllString(text, -1), func(match string) bool { return strings.HasPrefix(match, "$$") })
}

// HasPlaceholder reports whether a text has a placeholder.
func HasPlaceholder(text string) bool { return len(Placeholders(text, EscapeKept)) > 0 }

// Reference is a place in a spec that names a Secret or ConfigMap.
// +kubebuilder:object:generate=false
type Reference struct {
	// Kind of the object: Secret or ConfigMap.
	Kind string
	// Namespace points to the field in the spec, so that callers can change it.
	Namespace *string
	// Object is the name of the object, or name/key if the reference has a key.
	Object string
	// Path of the reference.
	Path *field.Path
	// Connection is true for the Secret that receives the outputs, which is written and not read.
	Connection bool
}

// References lists every place of a spec that names a Secret or ConfigMap. The security rules are checked over this list, so
// a new kind of reference must be added here.
func (s *WorkspaceSpec) References(path *field.Path) []Reference {
	var refs []Reference
	key := func(kind string, ref *KeyReference, path *field.Path) {
		if ref != nil {
			refs = append(refs, Reference{Kind: kind, Namespace: &ref.Namespace, Object: ref.Name + "/" + ref.Key, Path: path})
		}
	}
	params := path.Child("forProvider")
	for i := range s.ForProvider.VarFiles {
		key("ConfigMap", s.ForProvider.VarFiles[i].ConfigMapKeyRef, params.Child("varFiles").Index(i).Child("configMapKeyRef"))
		key("Secret", s.ForProvider.VarFiles[i].SecretKeyRef, params.Child("varFiles").Index(i).Child("secretKeyRef"))
	}
	for i := range s.ForProvider.Env {
		key("ConfigMap", s.ForProvider.Env[i].ConfigMapKeyRef, params.Child("env").Index(i).Child("configMapKeyRef"))
		key("Secret", s.ForProvider.Env[i].SecretKeyRef, params.Child("env").Index(i).Child("secretKeyRef"))
	}
	if ref := s.WriteConnectionSecretToRef; ref != nil {
		refs = append(refs, Reference{Kind: "Secret", Namespace: &ref.Namespace, Object: ref.Name, Path: path.Child("writeConnectionSecretToRef"), Connection: true})
	}
	return refs
}

// SecretKeys lists the keys of Secrets that the Workspace takes values from.
func (s *WorkspaceSpec) SecretKeys() []KeyReference {
	var refs []KeyReference
	for _, file := range s.ForProvider.VarFiles {
		if file.SecretKeyRef != nil {
			refs = append(refs, *file.SecretKeyRef)
		}
	}
	for _, env := range s.ForProvider.Env {
		if env.SecretKeyRef != nil {
			refs = append(refs, *env.SecretKeyRef)
		}
	}
	return refs
}

const (
	// wholeRevision is how many digits a revision has.
	wholeRevision = 2 * sha256.Size
	// shortRevision is how many of them texts show. Earlier versions recorded no more.
	shortRevision = 12
)

// Revision returns a hash of the spec of a Workspace: SHA-256, as 64 hexadecimal digits. JSON encoding sorts the keys of maps, so the hash does
// not depend on their order. An error means that content cannot be encoded as JSON.
func Revision(content any) (string, error) {
	canonical, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// ShortRevision returns the first digits of a revision, for texts. Nothing may be decided by them: two contents with the same ones are found in
// half a minute.
func ShortRevision(revision string) string { return revision[:min(len(revision), shortRevision)] }

// IsShortRevision reports whether a value can be a revision as earlier versions recorded it.
func IsShortRevision(value string) bool { return len(value) == shortRevision }

// IsWholeRevision reports whether a value can be a revision with all of its digits.
func IsWholeRevision(value string) bool { return len(value) == wholeRevision }

// IsRecordedAs reports whether a recorded value is a revision, or how earlier versions recorded it. It is only for status that reports, such as times:
// it must not decide which content is applied.
func IsRecordedAs(revision, recorded string) bool {
	return recorded == revision || IsShortRevision(recorded) && recorded == ShortRevision(revision)
}

// Condition of provider-terraform, and its reason while the Workspace is paused.
const (
	ConditionSynced = "Synced"
	ReasonPaused    = "ReconcilePaused"
)

// Failure returns condition Synced if it is an error, of any generation; nil if the Workspace has no error.
func (w *Workspace) Failure() *metav1.Condition {
	synced := meta.FindStatusCondition(w.Status.Conditions, ConditionSynced)
	if synced == nil || synced.Status != metav1.ConditionFalse || synced.Reason == ReasonPaused {
		return nil
	}
	return synced
}

// LastStatus is when the provider last changed the status; zero if unknown.
func (w *Workspace) LastStatus() time.Time {
	return LatestWrite(w, func(entry metav1.ManagedFieldsEntry) bool { return entry.Subresource == "status" })
}

// LatestWrite is the time of the latest matching write of an object; zero if there is none.
func LatestWrite(object metav1.Object, matches func(metav1.ManagedFieldsEntry) bool) (last time.Time) {
	for _, entry := range object.GetManagedFields() {
		if entry.Time != nil && entry.Time.After(last) && matches(entry) {
			last = entry.Time.Time
		}
	}
	return last
}

// The specs keep unknown fields. A newer provider-terraform may have more fields, and a template that uses one must not lose it, neither
// in the API server nor in CAPT.

// UnmarshalJSON reads the known fields and keeps the others in Unknown.
func (s *WorkspaceSpec) UnmarshalJSON(data []byte) error {
	type known WorkspaceSpec
	if err := json.Unmarshal(data, (*known)(s)); err != nil {
		return err
	}
	var err error
	s.Unknown, err = unknownFields(data, s)
	return err
}

// MarshalJSON writes the known fields and those in Unknown.
func (s WorkspaceSpec) MarshalJSON() ([]byte, error) {
	type known WorkspaceSpec
	return withUnknown(known(s), s.Unknown)
}

// UnmarshalJSON reads the known fields and keeps the others in Unknown.
func (in *WorkspaceParameters) UnmarshalJSON(data []byte) error {
	type known WorkspaceParameters
	if err := json.Unmarshal(data, (*known)(in)); err != nil {
		return err
	}
	var err error
	in.Unknown, err = unknownFields(data, in)
	return err
}

// MarshalJSON writes the known fields and those in Unknown.
func (in WorkspaceParameters) MarshalJSON() ([]byte, error) {
	type known WorkspaceParameters
	return withUnknown(known(in), in.Unknown)
}

// unknownFields returns the fields of a JSON object that a type, given as a pointer to a struct, does not have; nil when there are none.
func unknownFields(data []byte, typed any) (UnknownFields, error) {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	t := reflect.TypeOf(typed).Elem()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		delete(all, name)
	}
	if len(all) == 0 {
		return nil, nil
	}
	unknown := make(UnknownFields, len(all))
	for name, raw := range all {
		unknown[name] = runtime.RawExtension{Raw: raw}
	}
	return unknown, nil
}

// withUnknown returns the JSON of the known fields with the unknown fields added.
func withUnknown(known any, unknown UnknownFields) ([]byte, error) {
	data, err := json.Marshal(known)
	if err != nil || len(unknown) == 0 {
		return data, err
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	for name, raw := range unknown {
		// A known field takes precedence over an unknown one of the same name.
		if _, ok := all[name]; !ok {
			all[name] = raw.Raw
		}
	}
	return json.Marshal(all)
}

const (
	// CreatePendingAnnotation is set on a Workspace before its first apply. If it stays, the apply was interrupted.
	CreatePendingAnnotation = "crossplane.io/external-create-pending"
	// PausedAnnotation stops the provider if it is "true" (https://docs.crossplane.io/latest/managed-resources/managed-resources/#paused).
	PausedAnnotation = "crossplane.io/paused"
	// ProviderPodLabel is the label of the Pods of Crossplane's providers.
	ProviderPodLabel = "pkg.crossplane.io/provider"
)

// IsProviderPod reports whether a Pod with ProviderPodLabel is one of provider-terraform.
func IsProviderPod(pod *corev1.Pod) bool {
	return strings.Contains(pod.Labels[ProviderPodLabel], "terraform") || slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return strings.Contains(c.Image, "provider-terraform")
	})
}

// ProviderConfigSpec is what a run of Terraform uses of a ProviderConfig of any kind.
// +kubebuilder:object:generate=false
type ProviderConfigSpec struct {
	// Credentials are files in the directory in which Terraform runs.
	Credentials []Credentials `json:"credentials,omitempty"`
	// Configuration is Terraform code that is added to each module.
	Configuration *string `json:"configuration,omitempty"`
	// BackendFile has arguments of the backend.
	BackendFile *string `json:"backendFile,omitempty"`
}

// Credentials are a file with credentials.
// +kubebuilder:object:generate=false
type Credentials struct {
	// Filename within the directory in which Terraform runs.
	Filename string `json:"filename"`
	// Source is None, Secret, Environment or Filesystem; the last two are those of the provider's Pod.
	Source string `json:"source"`
	// SecretRef names the key of the source Secret.
	SecretRef *KeyReference `json:"secretRef,omitempty"`
}

// ProviderConfigSpecOf decodes a ProviderConfig. One in a namespace refers to Secrets of its namespace only.
func ProviderConfigSpecOf(config *unstructured.Unstructured) (*ProviderConfigSpec, error) {
	var typed struct {
		Spec ProviderConfigSpec `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(config.Object, &typed); err != nil {
		return nil, fmt.Errorf("decoding %s %s: %w", config.GetKind(), config.GetName(), err)
	}
	for i := range typed.Spec.Credentials {
		if ref := typed.Spec.Credentials[i].SecretRef; ref != nil && config.GetNamespace() != "" {
			ref.Namespace = config.GetNamespace()
		}
	}
	return &typed.Spec, nil
}

// finalizerOwners are the owners of finalizers whose domain, or whole name, ends like this; the first match counts.
var finalizerOwners = [][2]string{
	{"infrastructure.cluster.x-k8s.io", ofCAPT}, {"controlplane.cluster.x-k8s.io", ofCAPT}, {"cluster.x-k8s.io", "Cluster API"}, {"crossplane.io", ofProvider},
	{"argoproj.io", "Argo CD"}, {"fluxcd.io", "Flux"}, {"foregroundDeletion", garbageCollector}, {"orphan", garbageCollector},
}

const (
	ofCAPT           = "CAPT"
	ofProvider       = "provider-terraform"
	garbageCollector = "Kubernetes' garbage collector, which waits for what the object owns"
)

func finalizerOwner(finalizer string) string {
	domain, _, _ := strings.Cut(finalizer, "/")
	for _, known := range finalizerOwners {
		if strings.HasSuffix(domain, known[0]) {
			return known[1]
		}
	}
	return "probably a controller of " + domain
}

// WaitingForFinalizers is why an object that is being deleted still exists although CAPT is done, or why provider-terraform does not destroy a Workspace yet: it
// waits until its finalizer is the last one. It is empty if there are no finalizers of others. The text ends with the command that edits the object, whose resource is an argument of kubectl.
func WaitingForFinalizers(object metav1.Object, resource string) string {
	var others []string
	for _, finalizer := range object.GetFinalizers() {
		owner := finalizerOwner(finalizer)
		switch owner {
		case ofCAPT:
			return ""
		case ofProvider:
			continue
		}
		others = append(others, fmt.Sprintf("%s (%s)", finalizer, owner))
	}
	if object.GetDeletionTimestamp().IsZero() || len(others) == 0 {
		return ""
	}
	slices.Sort(others)
	if namespace := object.GetNamespace(); namespace != "" {
		resource += " -n " + namespace
	}
	return fmt.Sprintf(
		"waiting for finalizers of other controllers: %s. Find out what each controller waits for; if it does not run any more, remove its finalizer: %s %s",
		strings.Join(others, ", "), "kubectl edit "+resource, object.GetName())
}

// EditCommandIn returns the command in a message that has the text of WaitingForFinalizers; empty if it has none. Errors of Terraform are in messages, too, so
// nothing else may follow.
func EditCommandIn(message string) string {
	if found := editCommand.FindStringSubmatch(message); found != nil {
		return found[1]
	}
	return ""
}

var editCommand = regexp.MustCompile(`finalizers of other controllers: .*finalizer: (kubectl edit [a-z0-9.]+(?: -n [a-z0-9-]+)? [a-z0-9][a-z0-9.-]*)$`)
