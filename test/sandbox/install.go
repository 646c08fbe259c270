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

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// installDefinitions installs all CRDs and access rules, those of Cluster API and of CAPT in parallel.
func (s *Sandbox) installDefinitions(ctx context.Context) error {
	namespaces := []*unstructured.Unstructured{namespace(ManagerNamespace), namespace(ProviderNamespace)}
	if err := manifests.Apply(ctx, s.client, namespaces...); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if s.options.ClusterAPI || s.options.ClusterAPIDefinitions {
		group.Go(func() error { return s.installClusterAPI(ctx) })
	}
	if !s.options.NoCRDs {
		group.Go(func() error { return s.installCAPT(ctx) })
		group.Go(func() error {
			return s.installPath(ctx, filepath.Join(s.root, "test", "provider", "config", "crd"))
		})
	}
	group.Go(func() error { return manifests.Apply(ctx, s.client, providerAccess()...) })
	for _, path := range s.options.Manifests {
		group.Go(func() error { return s.installPath(ctx, path) })
	}
	return group.Wait()
}

// installSet installs everything in a set except admission, and returns when the CRDs are established.
func (s *Sandbox) installSet(ctx context.Context, set manifests.Set) error {
	if err := manifests.Apply(ctx, s.client, set.Namespaces...); err != nil {
		return err
	}
	if err := manifests.Apply(ctx, s.client, append(set.Definitions, set.Access...)...); err != nil {
		return err
	}
	return manifests.WaitEstablished(ctx, s.client, set.Definitions)
}

func (s *Sandbox) installPath(ctx context.Context, path string) error {
	objects, err := manifests.Load(path)
	if err != nil {
		return err
	}
	set, err := manifests.Sort(objects)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return s.installSet(ctx, set)
}

// installAdmission runs last: until a webhook is served, it rejects all requests for its objects.
func (s *Sandbox) installAdmission(ctx context.Context) error {
	var objects []*unstructured.Unstructured
	if s.options.ClusterAPI {
		set, err := s.clusterAPIManifests(ctx)
		if err != nil {
			return err
		}
		objects = append(objects, set.Admission...)
	}
	if s.options.runManager() && !s.options.NoCRDs {
		set, err := s.captSet(Manager + webhookPort)
		if err != nil {
			return err
		}
		objects = append(objects, set.Admission...)
	}
	return manifests.Apply(ctx, s.client, objects...)
}

// installClusterAPI installs Cluster API's CRDs and access rules from the module that core is built from. Without its controllers, it
// installs only the CRDs, without the conversion webhook.
func (s *Sandbox) installClusterAPI(ctx context.Context) error {
	set, err := s.clusterAPIManifests(ctx)
	if err == nil && !s.options.ClusterAPI {
		set, err = manifests.Set{Definitions: set.Definitions}, manifests.WithoutConversion(set.Definitions)
	}
	if err != nil {
		return err
	}
	return s.installSet(ctx, set)
}

// clusterAPISource is the directory of the source of Cluster API.
func (s *Sandbox) clusterAPISource(ctx context.Context) (string, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.clusterAPIDir != "" {
		return s.clusterAPIDir, nil
	}
	var err error
	s.clusterAPIDir, err = binaries.Source(ctx, s.root, binaries.ClusterAPICore)
	return s.clusterAPIDir, err
}

func (s *Sandbox) clusterAPIManifests(ctx context.Context) (manifests.Set, error) {
	source, err := s.clusterAPISource(ctx)
	if err != nil {
		return manifests.Set{}, err
	}
	config := filepath.Join(source, "core", "config")
	objects, err := s.built(filepath.Join(config, "default"), config)
	if err != nil {
		return manifests.Set{}, err
	}
	manifests.Aggregate(objects)
	return s.withWebhooksAt(objects, ClusterAPI+webhookPort)
}

// withWebhooksAt sorts objects and makes the API server call their webhooks at the given port.
func (s *Sandbox) withWebhooksAt(objects []*unstructured.Unstructured, port string) (manifests.Set, error) {
	server := manifests.WebhookServer{Address: s.address(port), Bundle: s.authority.Bundle()}
	if err := server.Point(objects); err != nil {
		return manifests.Set{}, err
	}
	return manifests.Sort(objects)
}

func namespace(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "Namespace",
		"metadata":   map[string]any{"name": name},
	}}
}

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

// ProviderConfigName is the name of the provider's configurations in both scopes.
const ProviderConfigName = "sandbox"

// providerAccess lets the provider reconcile Workspaces and what these read and write: Secrets with connection details and with
// Terraform state, the Leases that lock that state, and ConfigMaps.
func providerAccess() []*unstructured.Unstructured {
	const role = "provider-terraform"
	rule := func(groups, resources []any) map[string]any {
		return map[string]any{"apiGroups": groups, "resources": resources, "verbs": []any{"*"}}
	}
	return []*unstructured.Unstructured{
		manifests.ClusterRole(role,
			rule([]any{"tf.upbound.io", "tf.m.upbound.io"}, []any{"*"}),
			rule([]any{""}, []any{"secrets", "configmaps", "events"}),
			rule([]any{"events.k8s.io"}, []any{"events"}),
			rule([]any{"coordination.k8s.io"}, []any{"leases"})),
		manifests.ClusterRoleBinding("sandbox-"+role, role, ProviderUser),
	}
}

// configureProvider creates the provider's configuration for each scope. It describes this machine to every Terraform module, so that the
// samples need no paths.
func (s *Sandbox) configureProvider(ctx context.Context) error {
	if !s.options.Provider {
		return nil
	}
	var objects []*unstructured.Unstructured
	for _, kind := range [][2]string{
		{"tf.upbound.io/v1beta1", "ProviderConfig"},
		{"tf.m.upbound.io/v1beta1", "ClusterProviderConfig"},
	} {
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": kind[0],
			"kind":       kind[1],
			"metadata":   map[string]any{"name": ProviderConfigName},
			"spec":       map[string]any{"pluginCache": false, "backendFile": s.backendFile(), "configuration": s.terraformConfiguration()},
		}})
	}
	return manifests.Apply(ctx, s.client, objects...)
}

// backendFile configures Terraform's kubernetes backend.
func (s *Sandbox) backendFile() string {
	file := hclwrite.NewEmptyFile()
	set(file.Body(), "secret_suffix", ProviderConfigName)
	set(file.Body(), "namespace", ProviderNamespace)
	set(file.Body(), "config_path", s.KubeconfigOf(Provider))
	return string(file.Bytes())
}

// terraformConfiguration is added to every module.
func (s *Sandbox) terraformConfiguration() string {
	file := hclwrite.NewEmptyFile()
	terraform := file.Body().AppendNewBlock("terraform", nil)
	terraform.Body().AppendNewBlock("backend", []string{"kubernetes"})
	locals := file.Body().AppendNewBlock("locals", nil)
	set(locals.Body(), "sandbox_command", s.Binary(binaries.Sandbox))
	set(locals.Body(), "sandbox_dir", s.dir)
	return string(file.Bytes())
}

// set writes a string, quoted so that no character of a path has a meaning in HCL.
func set(body *hclwrite.Body, name, value string) { body.SetAttributeValue(name, cty.StringVal(value)) }
