// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/sandbox/apiserver"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/manifests"
	"github.com/capt-provider/capt/test/sandbox/pki"
	"github.com/capt-provider/capt/test/sandbox/process"
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
	if err := s.installProviderPod(ctx); err != nil {
		return err
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

// ProviderPodName is the name of the provider's Pod, and providerContainer that of its container.
const (
	ProviderPodName   = "provider-terraform-0"
	providerContainer = "package-runtime"
)

// installProviderPod writes the Pod of the provider, which has run since before this call, and the Node with the address of the kubelet, and lets
// the manager read the log.
func (s *Sandbox) installProviderPod(ctx context.Context) error {
	if !s.options.runKubelet() {
		return nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "sandbox"}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ProviderNamespace, Name: ProviderPodName, Labels: map[string]string{terraform.ProviderPodLabel: "provider-terraform"}},
		Spec:       corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: providerContainer, Image: "sandbox/provider-terraform"}}},
	}
	for _, object := range []client.Object{node, pod} {
		if err := s.client.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(s.port(kubeletPort)) //nolint:gosec // A port.
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: providerContainer, ContainerID: "sandbox://" + ProviderPodName, Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: pod.CreationTimestamp}},
	}}
	if err := errors.Join(s.client.Status().Update(ctx, node), s.client.Status().Update(ctx, pod)); err != nil {
		return err
	}
	user, err := s.InstalledManagerUser()
	if err != nil {
		return err
	}
	objects, err := s.captObjects()
	if err != nil {
		return err
	}
	role := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { // Installations rename it.
		return o.GetKind() == "ClusterRole" && strings.HasSuffix(o.GetName(), "plan-reader")
	})
	if role < 0 {
		return errors.New("the installation has no ClusterRole for the log of the provider")
	}
	binding := manifests.ClusterRoleBinding("capt-plan-reader", objects[role].GetName(), user)
	binding.SetKind("RoleBinding")
	binding.SetNamespace(ProviderNamespace)
	return manifests.Apply(ctx, s.client, binding)
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

// Dir is the sandbox's directory.
func (s *Sandbox) Dir() string { return s.dir }

// Config returns the administrator's client configuration, without a client-side rate limit.
func (s *Sandbox) Config() *rest.Config { return rest.CopyConfig(s.config) }

// Kubeconfig is the path of the administrator's kubeconfig.
func (s *Sandbox) Kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

// KubeconfigOf is the path of a component's kubeconfig.
func (s *Sandbox) KubeconfigOf(name string) string {
	if name == admin {
		return s.Kubeconfig()
	}
	return filepath.Join(s.dir, "kubeconfigs", name)
}

// EnvFile is the path of a shell script that sets KUBECONFIG and PATH for the sandbox in a directory.
func EnvFile(dir string) string { return filepath.Join(dir, "env") }

func (s *Sandbox) writeEnvFile() error {
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
	path := ""
	for _, program := range []string{Kubectl, Clusterctl, Captctl} {
		path += quote(filepath.Dir(s.Binary(program))) + ":"
	}
	script := "export KUBECONFIG=" + quote(s.Kubeconfig()) + "\n" +
		"export KUBECACHEDIR=" + quote(filepath.Join(s.dir, "kube-cache")) + " # Another sandbox may have had the same address.\n" +
		"export PATH=" + path + "\"$PATH\"\n" +
		"export CLUSTERCTL_DISABLE_VERSIONCHECK=true # It would look for a newer release on the internet.\n"
	return os.WriteFile(EnvFile(s.dir), []byte(script), 0o600)
}

// UseKubeconfig makes a component use another kubeconfig from its next start on, for example one that points to a proxy.
// KubeconfigOf still returns the path of the kubeconfig that points to the API server.
func (s *Sandbox) UseKubeconfig(name, path string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.kubeconfigs[name] = path
}

func (s *Sandbox) kubeconfigInUse(name string) string {
	s.lock.Lock()
	defer s.lock.Unlock()
	if path, ok := s.kubeconfigs[name]; ok {
		return path
	}
	return s.KubeconfigOf(name)
}

// ConfigOf returns the client configuration of a component. Tests that run the component in their own process use it, so
// that the audit log shows the component's user.
func (s *Sandbox) ConfigOf(name string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.KubeconfigOf(name))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", name, err)
	}
	config.QPS = -1
	return config, nil
}

// Binary is the path of a program. The file exists if the sandbox runs the program, or after Build.
func (s *Sandbox) Binary(name string) string { return s.state.Binaries[name] }

// AuditEvents returns the logged requests that match the filter. It requires Options.AuditLog.
func (s *Sandbox) AuditEvents(filter audit.Filter) ([]auditv1.Event, error) {
	if !s.options.AuditLog {
		return nil, fmt.Errorf("the audit log is disabled: set Options.AuditLog")
	}
	return audit.Read(apiserver.Config{Dir: s.pkiDir()}.AuditLog(), filter)
}

// WebhookCertDir holds the serving certificate (tls.crt, tls.key) of CAPT's webhooks.
func (s *Sandbox) WebhookCertDir() string { return s.servingDir(Manager) }

// Attach returns the sandbox that another process runs in a directory. It can be used like one of this process, except that
// Stop leaves it running, that nothing can be installed in it, and that StartComponent starts everything that was stopped.
func Attach(dir string) (*Sandbox, error) {
	recorded, err := process.Load(dir)
	if err != nil {
		return nil, err
	}
	if !recorded.Ready {
		return nil, fmt.Errorf("the sandbox in %s has not finished starting", dir)
	}
	root, err := binaries.Root()
	if err != nil {
		return nil, err
	}
	s := &Sandbox{
		options:  Options{Log: io.Discard, AuditLog: recorded.AuditLog, Installation: recorded.Installation},
		root:     root,
		dir:      dir,
		state:    *recorded,
		ports:    recorded.Ports,
		attached: true,
	}
	s.config, err = s.ConfigOf(admin)
	return s, err
}

type identity struct {
	user   string
	groups []string
}

func groupsOf(namespace string) []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
}

var identities = map[string]identity{
	admin:                 {AdminUser, []string{"system:masters"}},
	KubeControllerManager: {"system:kube-controller-manager", nil},
	ClusterAPI:            {ClusterAPIUser, groupsOf(ClusterAPINamespace)},
	Manager:               {ManagerUser, groupsOf(ManagerNamespace)},
	Provider:              {ProviderUser, groupsOf(ProviderNamespace)},
	Captctl:               {CaptctlUser, nil},
	Reader:                {ReaderUser, nil},
	Flux:                  {FluxUser, groupsOf("flux-system")},
}

const admin = "admin"

func (s *Sandbox) pkiDir() string { return filepath.Join(s.dir, "pki") }

// servingDir holds the serving certificate of a component, in the files that controller-runtime expects.
func (s *Sandbox) servingDir(name string) string { return filepath.Join(s.pkiDir(), name) }

// createCertificates creates the authority and all serving certificates. Client certificates follow with the
// kubeconfigs, once the API server's port is known.
func (s *Sandbox) createCertificates(context.Context) error {
	authority, err := pki.NewAuthority("sandbox")
	if err != nil {
		return err
	}
	s.authority = authority
	if err := os.MkdirAll(s.pkiDir(), 0o700); err != nil {
		return err
	}
	if err := apiserver.WritePKI(s.pkiDir(), authority); err != nil {
		return err
	}
	client, err := authority.Client("kube-apiserver-kubelet-client")
	if err != nil {
		return err
	}
	if err := client.Write(s.pkiDir(), "kubelet-client"); err != nil {
		return err
	}
	for _, name := range []string{ClusterAPI, Manager, Kubelet} {
		serving, err := authority.Server(name)
		if err != nil {
			return err
		}
		if err := serving.Write(s.servingDir(name), "tls"); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfigs writes a kubeconfig for every identity and sets the configuration of the sandbox's own client.
func (s *Sandbox) writeKubeconfigs(server string) error {
	if err := os.MkdirAll(filepath.Join(s.dir, "kubeconfigs"), 0o700); err != nil {
		return err
	}
	identities := maps.Clone(identities)
	if s.options.Installation != "" {
		user, namespace, err := s.managerUser()
		if err != nil {
			return err
		}
		identities[Manager] = identity{user, groupsOf(namespace)}
	}
	for name, identity := range identities {
		certificate, err := s.authority.Client(identity.user, identity.groups...)
		if err != nil {
			return err
		}
		kubeconfig, err := pki.Kubeconfig("sandbox", server, s.authority.Bundle(), identity.user, certificate)
		if err != nil {
			return err
		}
		if err := os.WriteFile(s.KubeconfigOf(name), kubeconfig, 0o600); err != nil {
			return err
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		return err
	}
	// The API server has priority and fairness; a client-side limit only slows down tests.
	config.QPS = -1
	s.config = config
	return nil
}
