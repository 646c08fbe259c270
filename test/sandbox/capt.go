// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// installCAPT installs CAPT's CRDs and access rules.
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

// Install installs CAPT into a sandbox that was started without it (Options.NoCRDs): CRDs, access rules, the manager and its
// webhooks. The arguments follow those of the options. It returns when the manager is ready.
func (s *Sandbox) Install(ctx context.Context, args ...string) error {
	if err := binaries.Build(ctx, s.options.Log, binaries.Manager); err != nil {
		return err
	}
	if err := s.installConverted(ctx); err != nil {
		return err
	}
	return s.StartManager(ctx, args...)
}

// StartManager starts a manager that was installed with Install with other arguments. It must not be running: stop it with
// StopComponent first. StartComponent and Restart keep these arguments.
func (s *Sandbox) StartManager(ctx context.Context, args ...string) error {
	if _, p := s.running(Manager); p != nil && !p.Ended() {
		return fmt.Errorf("%s is already running", Manager)
	}
	if err := s.launch(ctx, s.manager(s.installConverted, args...)); err != nil {
		return err
	}
	set, err := s.captSet(Manager + webhookPort)
	if err != nil {
		return err
	}
	return manifests.Apply(ctx, s.client, set.Admission...)
}

// installConverted installs CRDs whose conversion webhook is at the manager's port. The manager may start later.
func (s *Sandbox) installConverted(ctx context.Context) error {
	set, err := s.captSet(Manager + webhookPort)
	if err != nil {
		return err
	}
	return s.installSet(ctx, set)
}

// captSet reads the manifests that users of CAPT install. With the name of a port, the webhooks are called there. Without
// it, nothing converts, so only the stored version of each kind is served.
func (s *Sandbox) captSet(port string) (manifests.Set, error) {
	objects, err := s.captObjects()
	if err != nil {
		return manifests.Set{}, err
	}
	if port != "" {
		return s.withWebhooksAt(objects, port)
	}
	set, err := manifests.Sort(objects)
	if err != nil {
		return manifests.Set{}, err
	}
	return set, manifests.WithoutConversion(set.Definitions)
}

func (s *Sandbox) captObjects() ([]*unstructured.Unstructured, error) {
	config := filepath.Join(s.root, "config")
	return s.built(cmp.Or(s.options.Installation, filepath.Join(config, "default")), config)
}

// built returns what kustomize builds of a directory, which may refer to a base.
func (s *Sandbox) built(dir, base string) ([]*unstructured.Unstructured, error) {
	name := strings.Trim(strings.ReplaceAll(dir, string(filepath.Separator), "-"), "-")
	return manifests.Cached(filepath.Join(s.root, "bin", "manifests", name+".json"), dir, dir, base)
}

// InstalledManagerUser is the user of the manager: ManagerUser unless Options.Installation has another ServiceAccount.
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
	return "", "", errors.New("the installation has no ServiceAccount")
}

// AllowDelete adds the annotation that CAPT's admission policies require for the deletion of an object.
func AllowDelete(ctx context.Context, c client.Client, object client.Object) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, naming.AllowDeleteAnnotation)
	return c.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("user"))
}
