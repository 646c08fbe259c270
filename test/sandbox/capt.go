/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// installCAPT installs CAPT's definitions and access rules.
func (s *Sandbox) installCAPT(ctx context.Context) error {
	port := ""
	if s.options.runManager() {
		port = Manager + webhookPort
	}
	set, err := s.captSet(port)
	if err != nil {
		return err
	}
	return s.installSet(ctx, set)
}

// InstallWebhooks makes CAPT's conversion, defaulting and validation call a port of loopback. It is for tests that run
// CAPT's webhooks in their own process, with the certificate from WebhookCertDir.
func (s *Sandbox) InstallWebhooks(ctx context.Context, port int) error {
	s.lock.Lock()
	s.ports[Manager+webhookPort] = port
	s.lock.Unlock()
	set, err := s.captSet(Manager + webhookPort)
	if err != nil {
		return err
	}
	if err := s.installSet(ctx, set); err != nil {
		return err
	}
	return manifests.Apply(ctx, s.client, set.Admission...)
}

// captSet reads CAPT's own configuration. With a port, its webhooks are served there; without one, definitions are
// installed without conversion.
func (s *Sandbox) captSet(port string) (manifests.Set, error) {
	objects, err := s.captObjects()
	if err != nil {
		return manifests.Set{}, err
	}
	manifests.Aggregate(objects)
	objects = append(objects, bindManager(objects)...)
	if port != "" {
		return s.pointed(objects, port)
	}
	set := manifests.Sort(objects)
	manifests.WithoutConversion(set.Definitions)
	return set, nil
}

// captObjects prefers what users install, config/default, and otherwise takes the parts there are.
func (s *Sandbox) captObjects() ([]*unstructured.Unstructured, error) {
	config := filepath.Join(s.root, "config")
	if exists(config, "default", "kustomization.yaml") {
		return manifests.Load(filepath.Join(config, "default"))
	}
	definitions := filepath.Join("crd", "bases")
	if exists(config, "crd", "kustomization.yaml") {
		definitions = "crd"
	}
	var objects []*unstructured.Unstructured
	for _, part := range []string{definitions, filepath.Join("rbac", "role.yaml"), filepath.Join("webhook", "manifests.yaml")} {
		if !exists(config, part) {
			continue
		}
		loaded, err := manifests.Load(filepath.Join(config, part))
		if err != nil {
			return nil, err
		}
		objects = append(objects, loaded...)
	}
	for _, object := range objects {
		label(object)
	}
	return objects, nil
}

func exists(elements ...string) bool {
	_, err := os.Stat(filepath.Join(elements...))
	return err == nil
}

// label marks a definition with the contract it follows, where kustomize has not done so. Cluster API finds the version
// of a kind to use by this label.
func label(object *unstructured.Unstructured) {
	const contract = "cluster.x-k8s.io/v1beta2"
	labels := object.GetLabels()
	if object.GetKind() != "CustomResourceDefinition" || labels[contract] != "" {
		return
	}
	if labels == nil {
		labels = map[string]string{}
	}
	labels[contract] = "v1beta2"
	object.SetLabels(labels)
}

// bindManager binds the manager's roles to its user, unless the configuration does so itself.
func bindManager(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	if slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ClusterRoleBinding" }) {
		return nil
	}
	var bindings []*unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() == "ClusterRole" && strings.HasSuffix(object.GetName(), "manager-role") {
			bindings = append(bindings, clusterRoleBinding(object.GetName(), ManagerUser))
		}
	}
	return bindings
}

// clusterRoleBinding gives a user a ClusterRole of the same name.
func clusterRoleBinding(role, user string) *unstructured.Unstructured {
	const group = "rbac.authorization.k8s.io"
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1",
		"kind":       "ClusterRoleBinding",
		"metadata":   map[string]any{"name": "sandbox-" + role},
		"roleRef":    map[string]any{"apiGroup": group, "kind": "ClusterRole", "name": role},
		"subjects":   []any{map[string]any{"apiGroup": group, "kind": "User", "name": user}},
	}}
}
