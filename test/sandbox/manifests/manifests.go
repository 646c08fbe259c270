// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifests reads Kubernetes manifests, adapts them to a control plane without a cluster network, and installs
// them.
package manifests

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox/process"
)

// Load reads a file, a directory with a kustomization, or a directory of YAML files.
func Load(path string) ([]*unstructured.Unstructured, error) {
	options := resource.FilenameOptions{Filenames: []string{path}}
	if _, err := os.Stat(filepath.Join(path, "kustomization.yaml")); err == nil {
		options = resource.FilenameOptions{Kustomize: path}
	}
	objects, err := read(resource.NewLocalBuilder().Unstructured().FilenameParam(false, &options))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return objects, nil
}

// Decode reads a stream of YAML documents and skips empty ones.
func Decode(data []byte) ([]*unstructured.Unstructured, error) {
	return read(resource.NewLocalBuilder().Unstructured().Stream(bytes.NewReader(data), "manifests"))
}

func read(builder *resource.Builder) (objects []*unstructured.Unstructured, err error) {
	infos, err := builder.Flatten().Do().Infos()
	for _, info := range infos {
		objects = append(objects, info.Object.(*unstructured.Unstructured))
	}
	return objects, err
}

type cached struct {
	// Sources is the checksum of the files that the objects were made of.
	Sources string                       `json:"sources"`
	Objects []*unstructured.Unstructured `json:"objects"`
}

// Cached is Load for a directory, except that it runs kustomize only when a file below the sources has changed: that takes seconds for large
// definitions. It keeps the objects in a file.
func Cached(file, dir string, sources ...string) ([]*unstructured.Unstructured, error) {
	sum := ""
	for _, source := range sources {
		hash, err := dirhash.HashDir(source, source, dirhash.Hash1)
		if err != nil {
			return nil, err
		}
		sum += hash
	}
	content := cached{}
	if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &content) == nil && content.Sources == sum {
		return content.Objects, nil
	}
	objects, err := Load(dir)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(cached{sum, objects})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	return objects, process.WriteFile(file, data)
}

// Set has the manifests of a component in the order of their installation: namespaces before the objects in them, and CRDs before objects
// of their kind. Admission is last: until its webhook server responds, a webhook rejects all requests for its objects.
type Set struct {
	Namespaces  []*unstructured.Unstructured
	Definitions []*unstructured.Unstructured
	Access      []*unstructured.Unstructured
	Admission   []*unstructured.Unstructured
}

// Sort returns the objects that the sandbox can use and drops those that need a cluster. An unknown kind is an error: a test
// must not pass because something was not installed.
func Sort(objects []*unstructured.Unstructured) (set Set, err error) {
	for _, object := range objects {
		switch object.GetKind() {
		case "Namespace":
			set.Namespaces = append(set.Namespaces, object)
		case "CustomResourceDefinition":
			set.Definitions = append(set.Definitions, object)
		case "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount":
			set.Access = append(set.Access, object)
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
			"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding":
			set.Admission = append(set.Admission, object)
		// The sandbox runs processes instead of Pods, on loopback, and signs their certificates itself.
		case "Deployment", "PodDisruptionBudget", "NetworkPolicy", "Service", "Issuer", "Certificate":
		default:
			return Set{}, fmt.Errorf("%s %s: add this kind to Sort of package manifests", object.GetKind(), object.GetName())
		}
	}
	return set, nil
}

// Aggregate adds to every aggregated ClusterRole the rules of the ClusterRoles that it selects. In a cluster, a controller
// does this, which many sandboxes do not run.
func Aggregate(objects []*unstructured.Unstructured) {
	for _, role := range objects {
		selectors, found, _ := unstructured.NestedSlice(role.Object, "aggregationRule", "clusterRoleSelectors")
		if !found || role.GetKind() != "ClusterRole" {
			continue
		}
		var rules []any
		for _, other := range objects {
			if other.GetKind() != "ClusterRole" || other == role || !slices.ContainsFunc(selectors, selects(other)) {
				continue
			}
			more, _, _ := unstructured.NestedSlice(other.Object, "rules")
			rules = append(rules, more...)
		}
		delete(role.Object, "aggregationRule")
		role.Object["rules"] = rules
	}
}

func selects(object *unstructured.Unstructured) func(any) bool {
	return func(item any) bool {
		selector, ok := item.(map[string]any)
		if !ok {
			return false
		}
		wanted, _, _ := unstructured.NestedStringMap(selector, "matchLabels")
		return len(wanted) > 0 && labels.SelectorFromSet(wanted).Matches(labels.Set(object.GetLabels()))
	}
}

const rbac = "rbac.authorization.k8s.io"

// ClusterRole has the rules of a role.
func ClusterRole(name string, rules ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbac + "/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": name}, "rules": rules,
	}}
}

// ClusterRoleBinding gives a role to a user.
func ClusterRoleBinding(name, role, user string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbac + "/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": name},
		"roleRef":  map[string]any{"apiGroup": rbac, "kind": "ClusterRole", "name": role},
		"subjects": []any{map[string]any{"apiGroup": rbac, "kind": "User", "name": user}},
	}}
}

// timeout is the longest that Kubernetes allows. With the five seconds of CAPT's manifests, requests fail on a machine that runs several control planes.
const timeout = 30 * time.Second

// WebhookServer is the address of a component's webhooks.
type WebhookServer struct {
	// Address is host and port on loopback.
	Address string
	// Bundle is the certificate authority, in PEM, that signed its certificate.
	Bundle []byte
}

// Point makes the API server call webhooks directly. The manifests name a Service, which a control plane without nodes cannot
// reach. Objects of other kinds are not changed.
func (s WebhookServer) Point(objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if err := s.point(object); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

func (s WebhookServer) point(object *unstructured.Unstructured) error {
	switch object.GetKind() {
	case "CustomResourceDefinition":
		config, found, err := unstructured.NestedMap(object.Object, "spec", "conversion", "webhook", "clientConfig")
		if err != nil || !found {
			return err
		}
		s.rewrite(config)
		return unstructured.SetNestedMap(object.Object, config, "spec", "conversion", "webhook", "clientConfig")
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		if err != nil {
			return err
		}
		for _, item := range webhooks {
			webhook, ok := item.(map[string]any)
			if !ok {
				return fmt.Errorf("a webhook is a %T", item)
			}
			config, ok := webhook["clientConfig"].(map[string]any)
			if !ok {
				return fmt.Errorf("webhook %v has no clientConfig", webhook["name"])
			}
			s.rewrite(config)
			webhook["timeoutSeconds"] = int64(timeout / time.Second)
		}
		return unstructured.SetNestedSlice(object.Object, webhooks, "webhooks")
	default:
		return nil
	}
}

func (s WebhookServer) rewrite(config map[string]any) {
	if service, ok := config["service"].(map[string]any); ok {
		path, _ := service["path"].(string)
		config["url"] = "https://" + s.Address + path
		delete(config, "service")
	}
	config["caBundle"] = base64.StdEncoding.EncodeToString(s.Bundle)
}

// WithoutConversion makes CRDs with a conversion webhook serve only the stored version. It is for a sandbox without that
// webhook: the API server would only change apiVersion, and an object in another version would miss most of its fields.
func WithoutConversion(definitions []*unstructured.Unstructured) error {
	for _, object := range definitions {
		strategy, _, err := unstructured.NestedString(object.Object, "spec", "conversion", "strategy")
		if err != nil {
			return fmt.Errorf("conversion of %s: %w", object.GetName(), err)
		}
		if strategy != "Webhook" {
			continue
		}
		unstructured.RemoveNestedField(object.Object, "spec", "conversion")
		versions, _, err := unstructured.NestedSlice(object.Object, "spec", "versions")
		if err != nil {
			return fmt.Errorf("versions of %s: %w", object.GetName(), err)
		}
		for _, item := range versions {
			if version, ok := item.(map[string]any); ok && version["storage"] != true {
				version["served"] = false
			}
		}
		if err := unstructured.SetNestedSlice(object.Object, versions, "spec", "versions"); err != nil {
			return err
		}
	}
	return nil
}

// FieldManager is the field manager of everything that the sandbox installs.
const FieldManager = "sandbox"

// parallel is the number of objects that are applied concurrently. More would only be queued in the API server.
const parallel = 8

// Apply applies the objects with server-side apply, several in parallel.
func Apply(ctx context.Context, c client.Client, objects ...*unstructured.Unstructured) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, object := range objects {
		group.Go(func() error {
			// A copy, because the response overwrites the argument.
			configuration := client.ApplyConfigurationFromUnstructured(object.DeepCopy())
			if err := c.Apply(ctx, configuration, client.FieldOwner(FieldManager), client.ForceOwnership); err != nil {
				return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// WaitEstablished returns when the API server serves all CRDs.
func WaitEstablished(ctx context.Context, c client.Client, definitions []*unstructured.Unstructured) error {
	for _, definition := range definitions {
		name := definition.GetName()
		err := wait.PollUntilContextCancel(ctx, 25*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
				return false, err
			}
			return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established), nil
		})
		if err != nil {
			return fmt.Errorf("waiting for %s to be served: %w", name, err)
		}
	}
	return nil
}

// WaitAggregated returns when every aggregated ClusterRole, such as edit, has the rules of the ClusterRoles that it selects.
func WaitAggregated(ctx context.Context, c client.Client) error {
	var incomplete string
	err := wait.PollUntilContextCancel(ctx, 25*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		roles := &rbacv1.ClusterRoleList{}
		if err := c.List(ctx, roles); err != nil {
			return false, err
		}
		var err error
		incomplete, err = incompleteRole(roles.Items)
		return err == nil && incomplete == "", err
	})
	if err != nil {
		return fmt.Errorf("waiting for the rules of ClusterRole %q: %w", incomplete, err)
	}
	return nil
}

// incompleteRole returns the name of an aggregated role that lacks a rule.
func incompleteRole(roles []rbacv1.ClusterRole) (string, error) {
	for _, role := range roles {
		if role.AggregationRule == nil {
			continue
		}
		for i := range role.AggregationRule.ClusterRoleSelectors {
			selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
			if err != nil {
				return "", err
			}
			for _, other := range roles {
				if selector.Matches(labels.Set(other.Labels)) && !includes(role.Rules, other.Rules) {
					return role.Name, nil
				}
			}
		}
	}
	return "", nil
}

func includes(all, some []rbacv1.PolicyRule) bool {
	return !slices.ContainsFunc(some, func(rule rbacv1.PolicyRule) bool {
		return !slices.ContainsFunc(all, func(other rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(rule, other) })
	})
}
