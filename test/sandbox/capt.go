// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/test/sandbox/binaries"
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

// Install installs CAPT into a sandbox that began without it (Options.NoCRDs), as users do: definitions, access rules, the
// manager with arguments of its own after those of the options, and its webhooks. It returns when the manager is ready.
func (s *Sandbox) Install(ctx context.Context, args ...string) error {
	if err := binaries.Build(ctx, s.options.Log, binaries.Manager); err != nil {
		return err
	}
	if err := s.installPointed(ctx); err != nil {
		return err
	}
	return s.StartManager(ctx, args...)
}

// StartManager starts the manager of a sandbox that was installed with Install, with other arguments than it had. It must not be
// running: stop it with StopComponent first. StartComponent and Restart keep these arguments.
func (s *Sandbox) StartManager(ctx context.Context, args ...string) error {
	if _, p, err := s.running(Manager); err == nil && p != nil && !p.Ended() {
		return fmt.Errorf("%s is running already", Manager)
	}
	c := s.manager(args...)
	c.moved = s.installPointed
	if err := s.launch(ctx, c); err != nil {
		return err
	}
	set, err := s.captSet(Manager + webhookPort)
	if err != nil {
		return err
	}
	return manifests.Apply(ctx, s.client, set.Admission...)
}

// installPointed installs definitions that are converted where the manager is, or will be.
func (s *Sandbox) installPointed(ctx context.Context) error {
	set, err := s.captSet(Manager + webhookPort)
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

// captSet reads what users of CAPT install. With a port, its webhooks are served there; without one nobody converts, and
// the stored version of each kind is the only one.
func (s *Sandbox) captSet(port string) (manifests.Set, error) {
	objects, err := s.captObjects()
	if err != nil {
		return manifests.Set{}, err
	}
	if port != "" {
		return s.pointed(objects, port)
	}
	set, err := manifests.Sort(objects)
	if err != nil {
		return manifests.Set{}, err
	}
	return set, manifests.WithoutConversion(set.Definitions)
}

func (s *Sandbox) captObjects() ([]*unstructured.Unstructured, error) {
	if s.options.Installation != "" {
		return manifests.Load(s.options.Installation)
	}
	return manifests.Load(filepath.Join(s.root, "config", "default"))
}

// InstalledManagerUser is the user as whom the manager runs: ManagerUser unless Options.Installation names another.
func (s *Sandbox) InstalledManagerUser() (string, error) {
	user, _, err := s.managerUser()
	return user, err
}

func (s *Sandbox) managerUser() (user, namespace string, err error) {
	objects, err := s.captObjects()
	if err != nil {
		return "", "", err
	}
	for _, object := range objects {
		if object.GetKind() == "ServiceAccount" {
			return "system:serviceaccount:" + object.GetNamespace() + ":" + object.GetName(), object.GetNamespace(), nil
		}
	}
	return "", "", errors.New("no ServiceAccount is installed")
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
