// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs the control plane of a management cluster on one machine, without containers: etcd,
// kube-apiserver, kube-controller-manager, Cluster API core, CAPT and a provider for Terraform Workspaces. All of them
// listen on loopback only and keep their files in one directory. They end when the sandbox is stopped or its owner ends.
//
// Tests start a sandbox with Start, users with the sandbox command (make quickstart).
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox/apiserver"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/kubelet"
	"github.com/capt-provider/capt/test/sandbox/manifests"
	"github.com/capt-provider/capt/test/sandbox/pki"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// Sandbox is a running control plane. Its methods may be called from several goroutines.
type Sandbox struct {
	options   Options
	root      string
	dir       string
	authority *pki.Authority
	guard     *process.Guard
	config    *rest.Config
	client    client.Client

	// lock guards everything below.
	lock        sync.Mutex
	state       process.State
	ports       map[string]int
	components  map[string]*component
	kubeconfigs map[string]string
	// clusterAPIDir is the directory of the source of Cluster API, once it is known.
	clusterAPIDir string
	stopped       bool
	// attached is set when another process owns the sandbox.
	attached bool
}

// Start starts a sandbox and returns when all components are ready. If it fails or the context ends, it stops everything
// it started.
func Start(ctx context.Context, options Options) (*Sandbox, error) {
	options.complete()
	if err := binaries.Build(ctx, options.Log, options.binaries()...); err != nil {
		return nil, err
	}
	s, err := newSandbox(options)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func newSandbox(options Options) (*Sandbox, error) {
	root, err := binaries.Root()
	if err != nil {
		return nil, err
	}
	dir, err := makeDir(options.Dir)
	if err != nil {
		return nil, err
	}
	s := &Sandbox{
		options:     options,
		root:        root,
		dir:         dir,
		ports:       map[string]int{},
		components:  map[string]*component{},
		kubeconfigs: map[string]string{},
	}
	s.state.Kubeconfig = s.Kubeconfig()
	s.state.Binaries = map[string]string{}
	for _, name := range binaries.Names() {
		if s.state.Binaries[name], err = binaries.Path(root, name); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	if err := s.choosePorts(portNames()...); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if s.guard, err = process.StartReaper(s.Binary(binaries.Sandbox), dir, !keepDir()); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// makeDir creates the sandbox's directory. It must be empty, because Stop removes it.
func makeDir(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "capt-sandbox-")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s is not empty: the sandbox needs an empty directory, which it removes when it stops", dir)
	}
	return dir, os.MkdirAll(dir, 0o700)
}

func keepDir() bool { return os.Getenv("SANDBOX_KEEP") != "" }

// start runs the steps in order: each needs the one before it.
func (s *Sandbox) start(ctx context.Context) error {
	began := time.Now()
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"certificates", s.createCertificates},
		{"etcd and kube-apiserver", s.startControlPlane},
		{"CRDs and access rules", s.installDefinitions},
		{"controllers", s.startControllers},
		{"webhooks", s.installAdmission},
		{"provider configurations", s.configureProvider},
	} {
		stepBegan := time.Now()
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("starting the sandbox, %s: %w", step.name, err)
		}
		fmt.Fprintf(s.options.Log, "sandbox: %s (%s)\n", step.name, time.Since(stepBegan).Round(time.Millisecond))
	}
	fmt.Fprintf(s.options.Log, "sandbox: ready in %s in %s\n", s.dir, time.Since(began).Round(time.Millisecond))
	s.reportMissingManager()
	if err := s.writeEnvFile(); err != nil {
		return err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.state.Ready, s.state.Ports = true, maps.Clone(s.ports)
	s.state.AuditLog, s.state.Installation = s.options.AuditLog, s.options.Installation
	return s.state.Save(s.dir)
}

// Stop stops everything, clients before servers, and removes the directory. It may be called twice. A sandbox of another
// process (Attach) continues to run.
func (s *Sandbox) Stop(context.Context) error {
	s.lock.Lock()
	if s.stopped || s.attached {
		s.lock.Unlock()
		return nil
	}
	s.stopped = true
	s.lock.Unlock()

	if err := process.StopAll(s.dir, io.Discard); err != nil {
		return err // The reaper tries again.
	}
	err := s.guard.Release()
	if !keepDir() {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// Detach keeps the sandbox running when this process ends. Its directory identifies it (process.Load).
func (s *Sandbox) Detach() error {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.stopped = true
	return s.guard.Release()
}

func (s *Sandbox) logs() io.Writer { return s.options.Log }

// Options selects the components of a sandbox. The zero value is etcd and a kube-apiserver with the CRDs of CAPT and of
// Terraform Workspaces.
type Options struct {
	// Dir is the sandbox's directory. Start creates it and Stop removes it, so it must be empty or not exist. The default
	// is a new temporary directory. SANDBOX_KEEP=1 keeps it, including the logs.
	Dir string
	// Log receives one line per step. The default discards them.
	Log io.Writer

	// ClusterAPI installs Cluster API and runs its core with webhooks.
	ClusterAPI bool
	// ClusterAPIDefinitions installs Cluster API's CRDs without its controllers. ClusterAPI includes it.
	ClusterAPIDefinitions bool
	// Provider runs the provider for Terraform Workspaces and creates its configurations. With SANDBOX_PROVIDER=none,
	// the process is not started, so that another one can be used.
	Provider bool
	// ProviderPod adds a Node and a Pod of the provider, and a kubelet that has its log: kubectl logs works, and the manager may read it. Restarts
	// of the provider change neither Pod nor log.
	ProviderPod bool
	// Manager runs CAPT's manager and installs its webhooks. SANDBOX_MANAGER=none does neither, so that a manager can run
	// in a debugger.
	Manager bool
	// KubeControllerManager runs the controllers for garbage collection, namespaces, service accounts and aggregated ClusterRoles.
	// Tests of deletion need them, and tests of users with the roles view, edit and admin, which are empty without them.
	KubeControllerManager bool

	// AuditLog makes the API server log every request (see Sandbox.AuditEvents).
	AuditLog bool
	// AuditPolicy replaces the default policy, which logs users, verbs and objects but no bodies.
	AuditPolicy []byte
	// Fsync makes etcd wait for the disk. It is slow, and only needed by tests that kill etcd.
	Fsync bool
	// NoCRDs does not install the CRDs of CAPT and of Workspaces, for tests that install other versions first.
	NoCRDs bool
	// Installation is the directory of a kustomization that installs CAPT; the default is config/default. Its only
	// ServiceAccount is the manager's.
	Installation string
	// Manifests lists more files and directories to install: CRDs, namespaces and access rules.
	Manifests []string

	// Programs are built besides those that the sandbox runs.
	Programs []string

	// Extra arguments for single components. They come last and override others.
	APIServerArgs []string
	ProviderArgs  []string
	ManagerArgs   []string
	// ManagerEnv is added to the environment of CAPT's manager, as NAME=value.
	ManagerEnv []string
}

func (o *Options) complete() {
	if o.Log == nil {
		o.Log = io.Discard
	}
	o.AuditLog = o.AuditLog || len(o.AuditPolicy) > 0
}

// runProvider reports whether the provider's process runs. Its configurations depend on Provider only.
func (o *Options) runProvider() bool {
	return o.Provider && os.Getenv("SANDBOX_PROVIDER") != "none"
}

// runKubelet reports whether the log of the provider's Pod is served.
func (o *Options) runKubelet() bool { return o.ProviderPod && o.runProvider() }

func (o *Options) runManager() bool {
	return o.Manager && os.Getenv("SANDBOX_MANAGER") != "none"
}

// binaries lists what must be built. Tests build kubectl, clusterctl and the like on demand (Build).
func (o *Options) binaries() []string {
	names := append([]string{binaries.Etcd, binaries.KubeAPIServer, binaries.Sandbox}, o.Programs...)
	for name, wanted := range map[string]bool{
		binaries.KubeControllers: o.KubeControllerManager,
		binaries.ClusterAPICore:  o.ClusterAPI,
		binaries.Tofu:            o.Provider,
		binaries.Kwok:            o.Provider, // For node groups that Terraform creates.
		binaries.Provider:        o.runProvider(),
		binaries.Manager:         o.runManager(),
	} {
		if wanted {
			names = append(names, name)
		}
	}
	return names
}

// Names of the components.
const (
	Etcd                  = "etcd"
	APIServer             = "kube-apiserver"
	KubeControllerManager = "kube-controller-manager"
	ClusterAPI            = "cluster-api"
	Provider              = "provider"
	Manager               = "manager"
	Kubelet               = "kubelet"
)

// Identities without a component. Tests run programs with their kubeconfigs (see Sandbox.KubeconfigOf). They have no rights
// until a test grants some.
const (
	// Captctl is the user that runs the program of the same name.
	Captctl = binaries.Captctl
	// Reader is a second user of captctl, for tests with read-only rights.
	Reader = "reader"
	// Flux is the user of Flux's controllers.
	Flux = "flux"
)

// Namespaces of the components. They are the same as in a cluster.
const (
	ClusterAPINamespace = "capi-system"
	ManagerNamespace    = "capt-system"
	ProviderNamespace   = "crossplane-system"
)

// Users of the components: the user names of their ServiceAccounts in a cluster, so that role bindings and admission
// policies for a cluster also apply here.
const (
	ClusterAPIUser = "system:serviceaccount:capi-system:capi-manager"
	ManagerUser    = "system:serviceaccount:capt-system:capt-manager"
	ProviderUser   = "system:serviceaccount:crossplane-system:provider-terraform"
	AdminUser      = "sandbox-admin"
	CaptctlUser    = "captctl-user"
	ReaderUser     = "reader-user"
	FluxUser       = "system:serviceaccount:flux-system:kustomize-controller"
)

// Programs for users of the sandbox (see Sandbox.Binary).
const (
	Kubectl    = binaries.Kubectl
	Clusterctl = binaries.Clusterctl
	Tofu       = binaries.Tofu
)

// Build builds the named programs that are missing (all programs if none is named) and reports its progress on out.
func Build(ctx context.Context, out io.Writer, names ...string) error {
	return binaries.Build(ctx, out, names...)
}

const (
	// stopGrace is how long a component may take to end before it is killed. The provider waits for the commands that it runs, and the API server for
	// open watches, up to a minute.
	stopGrace, apiServerGrace = 20 * time.Second, 3 * time.Second
	// startTimeout limits waits for the components that have started.
	startTimeout = 3 * time.Minute
	// portAttempts limits how often a component is started when another process takes its ports.
	portAttempts = 5
)

type component struct {
	name, binary string
	// args and health are computed at each start, because ports may have changed. health is the URL that returns 200 when the component is
	// ready.
	args   func() []string
	health func() string
	env    []string
	// ports are the names, for Sandbox.port, of the ports it listens on.
	ports []string
	// moved is called after a port was changed, to update what refers to the old one.
	moved func(context.Context) error

	process *process.Process
}

func (s *Sandbox) choosePorts(names ...string) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, name := range names {
		port, err := process.FreePort()
		if err != nil {
			return err
		}
		s.ports[name] = port
	}
	return nil
}

func (s *Sandbox) port(name string) int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.ports[name]
}

func (s *Sandbox) address(name string) string { return process.Loopback(s.port(name)) }

// launch starts a component. If another process uses one of its ports, it gets new ones.
func (s *Sandbox) launch(ctx context.Context, c *component) error {
	s.lock.Lock()
	s.components[c.name] = c
	s.lock.Unlock()
	for attempt := 1; ; attempt++ {
		err := s.run(ctx, c)
		if err == nil || attempt == portAttempts || !process.PortTaken(err) {
			return err
		}
		if err := s.choosePorts(c.ports...); err != nil {
			return err
		}
		if c.moved != nil {
			if err := c.moved(ctx); err != nil {
				return err
			}
		}
	}
}

// run starts a component and returns when it is ready.
func (s *Sandbox) run(ctx context.Context, c *component) error {
	record := process.Recorded{
		Spec:   process.Spec{Name: c.name, Path: s.Binary(c.binary), Args: c.args(), Env: c.env, Dir: s.dir, Log: s.logPath(c.name)},
		Health: c.health(),
	}
	if c.name == APIServer || c.name == Kubelet {
		record.CA = filepath.Join(s.pkiDir(), "ca.crt")
	}
	started, err := record.Run(ctx, func(p *process.Process) error {
		s.lock.Lock()
		defer s.lock.Unlock()
		c.process = p
		s.state.Record(record)
		return s.state.Save(s.dir)
	})
	if err == nil {
		go s.watch(started)
	}
	return err
}

// watch reports a process that ended without being stopped, with its exit status and last log lines.
func (s *Sandbox) watch(p *process.Process) {
	<-p.Done()
	s.lock.Lock()
	stopped := s.stopped
	s.lock.Unlock()
	if stopped || p.Expected() {
		return
	}
	fmt.Fprintf(s.logs(), "sandbox: %v\n", p.Err())
}

// running returns the process of a component that this process has started, or nil.
func (s *Sandbox) running(name string) (*component, *process.Process) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if c, ok := s.components[name]; ok {
		return c, c.process
	}
	return nil, nil
}

// stop stops a component, which another process may have started (Attach).
func (s *Sandbox) stop(name string, grace time.Duration) error {
	if _, p := s.running(name); p != nil && !p.Ended() {
		p.Stop(grace)
		return nil
	}
	recorded, err := process.Load(s.dir)
	if err != nil {
		return err
	}
	if p := recorded.Process(name); p != nil {
		return p.Stop(grace)
	}
	return fmt.Errorf("the sandbox in %s has no component %s", s.dir, name)
}

// Kill kills a component and its child processes (SIGKILL) and returns when they have ended.
func (s *Sandbox) Kill(name string) error { return s.stop(name, 0) }

// StopComponent terminates a component, and kills it after a grace period.
func (s *Sandbox) StopComponent(_ context.Context, name string) error {
	if name == APIServer {
		return s.stop(name, apiServerGrace)
	}
	return s.stop(name, stopGrace)
}

// StartComponent starts a component that was stopped, killed or crashed, and returns when it is ready. It has its former ports, unless another process has
// taken one of them meanwhile.
func (s *Sandbox) StartComponent(ctx context.Context, name string) error {
	if s.attached {
		return process.RestartAll(ctx, s.dir, s.logs())
	}
	c, p := s.running(name)
	switch {
	case c == nil:
		return fmt.Errorf("the sandbox has no component %s", name)
	case p != nil && !p.Ended():
		return fmt.Errorf("%s is already running", name)
	}
	return s.launch(ctx, c)
}

// Restart calls StopComponent and StartComponent.
func (s *Sandbox) Restart(ctx context.Context, name string) error {
	if err := s.StopComponent(ctx, name); err != nil {
		return err
	}
	return s.StartComponent(ctx, name)
}

// Logs returns the last log lines of a component.
func (s *Sandbox) Logs(name string, lines int) string { return process.Tail(s.logPath(name), lines) }

func (s *Sandbox) logPath(name string) string { return filepath.Join(s.dir, "logs", name+".log") }

// startControlPlane starts etcd and the API server and creates the client.
func (s *Sandbox) startControlPlane(ctx context.Context) error {
	if err := s.launch(ctx, s.etcd()); err != nil {
		return err
	}
	s.lock.Lock()
	s.state.EtcdEndpoint = "http://" + process.Loopback(s.ports[etcdPort])
	s.lock.Unlock()
	if s.options.AuditLog {
		if err := apiserver.WriteAuditPolicy(s.pkiDir(), s.options.AuditPolicy); err != nil {
			return err
		}
	}
	if err := s.launch(ctx, s.apiServer()); err != nil {
		return err
	}
	if err := s.writeKubeconfigs(s.apiServerConfig().URL()); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	var err error
	s.client, err = client.New(s.config, client.Options{Scheme: scheme})
	return err
}

// Names of ports. Those of controllers begin with the name of the component.
const (
	etcdPort        = "etcd-client"
	etcdPeerPort    = "etcd-peer"
	apiServerPort   = "apiserver"
	kubeletPort     = "kubelet"
	healthPort      = "-health"
	webhookPort     = "-webhook"
	diagnosticsPort = "-diagnostics"
)

func portNames() []string {
	names := []string{etcdPort, etcdPeerPort, apiServerPort, kubeletPort}
	for _, component := range []string{KubeControllerManager, ClusterAPI, Provider, Manager} {
		names = append(names, component+healthPort, component+webhookPort, component+diagnosticsPort)
	}
	return names
}

func (s *Sandbox) etcd() *component {
	return &component{
		name: Etcd, binary: binaries.Etcd, ports: []string{etcdPort, etcdPeerPort}, health: s.healthURL("http", etcdPort, "/health"),
		args: func() []string {
			client, peer := s.address(etcdPort), s.address(etcdPeerPort)
			args := []string{
				"--name=sandbox",
				"--data-dir=" + filepath.Join(s.dir, "etcd"),
				"--listen-client-urls=http://" + client,
				"--advertise-client-urls=http://" + client,
				"--listen-peer-urls=http://" + peer,
				"--initial-advertise-peer-urls=http://" + peer,
				"--initial-cluster=sandbox=http://" + peer,
				"--log-level=warn",
			}
			if !s.options.Fsync {
				args = append(args, "--unsafe-no-fsync")
			}
			return args
		},
	}
}

func (s *Sandbox) apiServerConfig() apiserver.Config {
	return apiserver.Config{
		Port: s.port(apiServerPort), EtcdEndpoint: s.state.EtcdEndpoint, EtcdPrefix: "/registry", Dir: s.pkiDir(),
		Audit: s.options.AuditLog, Kubelet: s.options.runKubelet(), Extra: s.options.APIServerArgs,
	}
}

func (s *Sandbox) apiServer() *component {
	return &component{
		name: APIServer, binary: binaries.KubeAPIServer, ports: []string{apiServerPort}, health: s.healthURL("https", apiServerPort, "/readyz"),
		args: func() []string { return s.apiServerConfig().Args() },
	}
}

// healthURL builds the URL at each start, because the port may have changed.
func (s *Sandbox) healthURL(scheme, port, path string) func() string {
	return func() string { return scheme + "://" + s.address(port) + path }
}

// startControllers starts the clients of the API server in parallel.
func (s *Sandbox) startControllers(ctx context.Context) error {
	group, starting := errgroup.WithContext(ctx)
	for _, c := range []struct {
		wanted bool
		make   func() *component
	}{
		{s.options.KubeControllerManager, s.kubeControllerManager},
		{s.options.ClusterAPI, s.clusterAPI},
		{s.options.runProvider(), s.provider},
		{s.options.runKubelet(), s.kubelet},
		{s.options.runManager(), func() *component { return s.manager(s.installCAPT) }},
	} {
		if c.wanted {
			group.Go(func() error { return s.launch(starting, c.make()) })
		}
	}
	if err := group.Wait(); err != nil || !s.options.KubeControllerManager {
		return err
	}
	return s.awaitAggregation(ctx)
}

// awaitAggregation returns when users with the roles view, edit and admin have the rights that CAPT's roles add to them.
func (s *Sandbox) awaitAggregation(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return manifests.WaitAggregated(ctx, s.client)
}

// kubeControllerManager runs only some controllers of the real one (see test/sandbox/binaries/kubernetes/controllers).
func (s *Sandbox) kubeControllerManager() *component {
	const name = KubeControllerManager
	return &component{
		name: name, binary: binaries.KubeControllers, ports: []string{name + healthPort}, health: s.healthURL("http", name+healthPort, "/healthz"),
		args: func() []string {
			return []string{"--kubeconfig=" + s.kubeconfigInUse(name), "--health-addr=" + s.address(name+healthPort)}
		},
	}
}

// controller returns a component with the flags that Cluster API core and all providers have.
func (s *Sandbox) controller(name, binary string, moved func(context.Context) error, extra ...string) *component {
	return &component{
		name: name, binary: binary, moved: moved,
		ports:  []string{name + healthPort, name + webhookPort, name + diagnosticsPort},
		health: s.healthURL("http", name+healthPort, "/readyz"),
		args: func() []string {
			return append([]string{
				"--kubeconfig=" + s.kubeconfigInUse(name),
				"--leader-elect=false",
				"--health-addr=" + s.address(name+healthPort),
				"--diagnostics-address=" + s.address(name+diagnosticsPort),
				"--insecure-diagnostics=true",
				"--webhook-port=" + strconv.Itoa(s.port(name+webhookPort)),
				"--webhook-cert-dir=" + s.servingDir(name),
			}, extra...)
		},
	}
}

func (s *Sandbox) clusterAPI() *component {
	return s.controller(ClusterAPI, binaries.ClusterAPICore, s.installClusterAPI, "--feature-gates=ClusterTopology=true")
}

func (s *Sandbox) manager(moved func(context.Context) error, args ...string) *component {
	// Credentials of the user who runs the sandbox are not for its clusters.
	extra := append([]string{"-v=2", "--shutdown-delay-duration=0s", "--eks-tokens=false"}, s.options.ManagerArgs...)
	c := s.controller(Manager, binaries.Manager, moved, append(extra, args...)...)
	c.env = s.options.ManagerEnv
	return c
}

// reportMissingManager prints how to run the manager when SANDBOX_MANAGER=none disabled it.
func (s *Sandbox) reportMissingManager() {
	if s.options.Manager && !s.options.runManager() {
		fmt.Fprintf(s.options.Log, "sandbox: SANDBOX_MANAGER=none: v1beta1 is not served, and no webhooks are called. Start a manager with: "+
			"go run ./cmd/manager --kubeconfig=%s --webhook-port=%d --webhook-cert-dir=%s\n",
			s.KubeconfigOf(Manager), s.port(Manager+webhookPort), s.servingDir(Manager))
	}
}

func (s *Sandbox) provider() *component {
	return &component{
		name: Provider, binary: binaries.Provider, ports: []string{Provider + healthPort}, health: s.healthURL("http", Provider+healthPort, "/readyz"),
		args: func() []string {
			return append([]string{
				"--kubeconfig=" + s.kubeconfigInUse(Provider),
				"--tofu=" + s.Binary(binaries.Tofu),
				"--work-dir=" + filepath.Join(s.dir, "workspaces"),
				"--health-addr=" + s.address(Provider+healthPort),
			}, s.options.ProviderArgs...)
		},
	}
}

// kubelet serves the log of the provider.
func (s *Sandbox) kubelet() *component {
	return &component{
		name: Kubelet, binary: binaries.Sandbox, ports: []string{kubeletPort}, moved: s.installProviderPod, health: s.healthURL("https", kubeletPort, "/healthz"),
		args: func() []string {
			return []string{
				kubelet.Verb, "--address=" + s.address(kubeletPort), "--cert-dir=" + s.servingDir(Kubelet), "--client-ca=" + filepath.Join(s.pkiDir(), "ca.crt"),
				fmt.Sprintf("--log=%s/%s/%s=%s", ProviderNamespace, ProviderPodName, providerContainer, s.logPath(Provider)),
			}
		},
	}
}

// MetricsURL is where a component (ClusterAPI or Manager) serves its metrics, without authentication.
func (s *Sandbox) MetricsURL(name string) string {
	return "http://" + s.address(name+diagnosticsPort) + "/metrics"
}

// WebhookAddress is where a component (ClusterAPI or Manager) serves its webhooks.
func (s *Sandbox) WebhookAddress(name string) string { return s.address(name + webhookPort) }
