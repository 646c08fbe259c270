// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// The manager runs CAPT's controllers and webhooks.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/flags"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/controllers/workspace/planlogs"
	"github.com/capt-provider/capt/webhooks/admission"
	"github.com/capt-provider/capt/webhooks/conversion"
)

func main() {
	if err := newOptions().command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// delayed returns a context that is canceled when the time has passed after the cancellation of the given one. Until then, Services learn that
// this replica ends, and the API server closes its connections (see drainingServer).
func delayed(ctx context.Context, delay time.Duration) context.Context {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(delay, stop) })
	return running
}

// drainingServer is a webhook server that rarely loses a request on shutdown. The API server reuses connections, and does not retry a request
// on a connection that is closed at the same moment. So responses close their connections from the signal on, and only connections that were idle
// for the whole delay are closed at its end. HTTP/1.1, which the API server uses, cannot exclude a request on one of them at that moment.
type drainingServer struct {
	webhook.Server
	// signal is canceled by the signal to stop, before the server is.
	signal context.Context
}

func (s *drainingServer) Register(path string, handler http.Handler) {
	const maxRequestDuration = 30 * time.Second // The maximum time that the API server waits for a response: 30 seconds for a conversion, less for all other requests.
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.signal.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		// The context of the server cancels the context of the request. Requests that were accepted must still be completed.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), maxRequestDuration)
		defer cancel()
		handler.ServeHTTP(w, r.WithContext(ctx))
	}))
}

// synced returns a readiness check that succeeds when the caches are synced. There is one exception, to prevent a deadlock: to fill the caches,
// the API server must convert objects that are stored in v1beta1, and it sends conversion requests only to ready replicas. So the check also
// succeeds if needed reports that no other replica converts.
func synced(mgr ctrl.Manager, needed func(context.Context) bool) healthz.Checker {
	return func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if mgr.GetCache().WaitForCacheSync(ctx) || needed(request.Context()) {
			return nil
		}
		return errors.New("the caches are not synced yet")
	}
}

// converted are the cached kinds that have two versions.
var converted = []schema.GroupVersionResource{
	infrav1.GroupVersion.WithResource("captclusters"),
	infrav1.GroupVersion.WithResource("workspacetemplates"),
	infrav1.GroupVersion.WithResource("workspacetemplateapplies"),
	controlplanev1.GroupVersion.WithResource("captcontrolplanes"),
}

// converterNeeded returns a function that reports whether the API server cannot list a kind because no replica serves conversion.
func converterNeeded(clients kubernetes.Interface, namespace string) func(context.Context) bool {
	client := clients.Discovery().RESTClient()
	return func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		for _, resource := range converted {
			path := []string{"apis", resource.Group, resource.Version}
			if namespace != "" {
				path = append(path, "namespaces", namespace)
			}
			// Without retries: client-go would follow Retry-After of the response, and not return the error for minutes. The message is the
			// one of the API server for a failed conversion.
			err := client.Get().AbsPath(append(path, resource.Resource)...).
				SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").
				MaxRetries(0).Do(ctx).Error()
			if err != nil && strings.Contains(err.Error(), "conversion webhook for ") {
				return true
			}
		}
		return false
	}
}

// options are the flags of the manager, with the same names as in the managers of Cluster API.
type options struct {
	manager     ctrl.Options
	controllers controllers.Options
	webhooks    webhook.Options

	leaseDuration, renewDeadline, retryPeriod time.Duration
	syncPeriod, shutdownDelay                 time.Duration
	qps                                       float32
	burst                                     int
	eksTokens                                 tokenMode
	eksTokensIMDS                             bool
	defaultRollout                            string
	providerNamespace                         string
	skipPhases                                []string
	features                                  featuregate.MutableFeatureGate
	diagnostics                               flags.ManagerOptions
	logs                                      *logs.Options
}

// tokenMode is the value of --eks-tokens.
type tokenMode string

const (
	tokensAuto   tokenMode = "Auto"
	tokensAlways tokenMode = "true"
	tokensNever  tokenMode = "false"
)

func (m *tokenMode) String() string { return string(*m) }

func (m *tokenMode) Type() string { return "mode" }

func (m *tokenMode) Set(text string) error {
	if strings.EqualFold(text, string(tokensAuto)) {
		*m = tokensAuto
		return nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return errors.New("must be Auto, true or false")
	}
	*m = tokenMode(strconv.FormatBool(on))
	return nil
}

// tokens returns what creates tokens for kubeconfigs; nil if nothing does. With Auto, that is decided once: a manager without credentials does not look
// for them again for each cluster.
func (o *options) tokens(ctx context.Context) kubeconfig.Tokens {
	if o.eksTokens == tokensNever {
		return nil
	}
	tokens := kubeconfig.NewAWS(clock.RealClock{}, o.eksTokensIMDS)
	if err := tokens.Available(ctx); err != nil && o.eksTokens == tokensAuto {
		ctrl.Log.Info("Creating no tokens for kubeconfigs", "reason", err.Error())
		return nil
	}
	return tokens
}

// Features of --feature-gates.
const (
	featureHealthProbes featuregate.Feature = "HealthProbes" // Without it, every control plane is treated as if spec.endpointProbe were Disabled.
	featureRecovery     featuregate.Feature = "Recovery"     // Without it, every control plane is treated as if spec.recovery.maxRetries were 0.
)

func newOptions() *options {
	o := &options{eksTokens: tokensAuto, logs: logs.NewOptions(), features: featuregate.NewFeatureGate()}
	o.manager = ctrl.Options{
		Scheme: controllers.Scheme(), Cache: controllers.CacheOptions(), Client: controllers.ClientOptions(), LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &o.leaseDuration, RenewDeadline: &o.renewDeadline, RetryPeriod: &o.retryPeriod,
	}
	o.manager.Cache.SyncPeriod = &o.syncPeriod
	utilruntime.Must(conversion.AddToScheme(o.manager.Scheme)) // Only the webhooks use the older API version.
	utilruntime.Must(o.features.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		featureHealthProbes: {Default: true, PreRelease: featuregate.Beta},
		featureRecovery:     {Default: true, PreRelease: featuregate.Beta},
	}))
	return o
}

func (o *options) command() *cobra.Command {
	command := &cobra.Command{
		Use:           "manager",
		Short:         "Runs CAPT's controllers and webhooks",
		Version:       version.Info(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(command.Context())
		},
	}
	fs := command.Flags()
	fs.BoolVar(&o.manager.LeaderElection, "leader-elect", false, "Use leader election: of several managers with the same --namespace and --watch-filter, one is active at a time.")
	fs.StringVar(&o.manager.LeaderElectionNamespace, "leader-elect-namespace", "", "Namespace of the Lease for leader election (default: the namespace of the Pod).")
	fs.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "How long the other managers wait after the last renewal of the Lease before one takes over.")
	fs.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "How long the active manager tries to renew the Lease before it gives up leadership.")
	fs.DurationVar(&o.retryPeriod, "leader-elect-retry-period", 2*time.Second, "Interval between attempts to acquire or renew the Lease.")
	fs.StringVar(&o.controllers.Namespace, "namespace", "", "Namespace to watch (default: all namespaces).")
	fs.StringVar(&o.controllers.WatchFilterValue, "watch-filter", "", fmt.Sprintf("Watch only objects with this value of the label %s.", clusterv1.WatchLabel))
	fs.StringVar(&o.manager.HealthProbeBindAddress, "health-addr", ":9440", "Address of /healthz and /readyz.")
	fs.IntVar(&o.controllers.Concurrency, "concurrency", 10, "Number of objects per kind that are reconciled concurrently.")
	fs.DurationVar(&o.syncPeriod, "sync-period", 10*time.Hour, "Resync period: how often each object is reconciled without a change.")
	fs.Float32Var(&o.qps, "kube-api-qps", 500, "Requests per second to the API server, per kind of object.")
	fs.IntVar(&o.burst, "kube-api-burst", 1000, "Requests to the API server in a burst, per kind of object.")
	fs.DurationVar(&o.shutdownDelay, "shutdown-delay-duration", 5*time.Second, "How long the manager continues after the signal to stop. "+
		"Meanwhile Services remove it, and its webhooks ask the API server to close connections. A second signal stops it at once.")
	fs.StringVar(&o.manager.PprofBindAddress, "profiler-address", "", "Address of pprof, for example localhost:6060 (default: off).")
	fs.IntVar(&o.webhooks.Port, "webhook-port", 9443, "Port of the webhooks.")
	fs.StringVar(&o.webhooks.CertDir, "webhook-cert-dir", "/tmp/k8s-webhook-server/serving-certs/", "Directory with the certificate of the webhooks: tls.crt and tls.key.")
	fs.Var(&o.eksTokens, "eks-tokens", "Auto, true or false: create tokens for the kubeconfigs of clusters, with the AWS identity of this manager. Auto creates them if the manager has AWS credentials when it starts. All clusters share this identity: "+
		"a user who can write a WorkspaceTemplate, or read the kubeconfig Secret of a cluster, can act as this identity in the EKS cluster of the same name.")
	fs.Lookup("eks-tokens").NoOptDefVal = string(tokensAlways)
	fs.BoolVar(&o.eksTokensIMDS, "eks-tokens-instance-metadata", false, "For --eks-tokens, also use the credentials of the EC2 instance that this manager runs on.")
	fs.StringVar(&o.controllers.StatePrefix, "state-prefix", "", fmt.Sprintf("Part of the names of the Terraform states of new Workspaces, at most %d characters. Management clusters "+
		"that share a Terraform backend need different prefixes. Existing Workspaces keep their states.", naming.MaxStatePrefixLength))
	fs.StringVar(&o.defaultRollout, "default-rollout", "", "Rollout policy of WorkspaceTemplates without spec.rollout: the fields of spec.rollout as YAML or JSON, "+
		"for example {strategy: Staged, preview: Always, approval: OnChanges} (default: edits reach all users at once). All managers of a management cluster need the same value.")
	fs.StringVar(&o.providerNamespace, "provider-namespace", "crossplane-system", "Namespace of the Pods of provider-terraform, whose logs have what Terraform would change. "+
		"Empty: they are not read.")
	fs.DurationVar(&o.controllers.PlanCheckDelay, "plan-check-delay", 30*time.Minute, "How long provider-terraform must have reported nothing but applies of a Workspace until its content is planned once more, "+
		"to find modules whose plan is never empty. More than --poll of provider-terraform (10m by default); 0: never.")
	fs.BoolVar(&o.controllers.ProveNewWorkspaces, "prove-new-workspaces", false, "Create no Workspace before a plan has shown that Terraform would change no resource: nothing new is created. "+
		"For the time in which a lost management cluster is restored.")
	fs.StringSliceVar(&o.skipPhases, "skip-crd-migration-phases", nil, "List of CRD migration phases to skip. Valid values are: StorageVersionMigration, CleanupManagedFields. "+
		"No phase runs while objects of CAPT v0.3 await adoption, or while StorageVersionMigration is skipped.")
	o.features.AddFlag(fs)
	logsv1.AddFlags(o.logs, fs)
	flags.AddManagerOptions(fs, &o.diagnostics)
	fs.AddGoFlagSet(flag.CommandLine) // --kubeconfig
	return command
}

// validate checks the flags, and completes the options of the controllers.
func (o *options) validate() (err error) {
	switch {
	case o.controllers.Concurrency < 1:
		return errors.New("--concurrency must be at least 1")
	case o.shutdownDelay < 0:
		return errors.New("--shutdown-delay-duration must not be negative")
	case o.eksTokensIMDS && o.eksTokens == tokensNever:
		return errors.New("--eks-tokens-instance-metadata has no effect with --eks-tokens=false")
	}
	if err := validation.ValidateStatePrefix(o.controllers.StatePrefix); err != nil {
		return fmt.Errorf("--state-prefix: %w", err)
	}
	if o.controllers.DefaultRollout, err = validation.ParseDefaultRollout(o.defaultRollout); err != nil {
		return fmt.Errorf("--default-rollout: %w", err)
	}
	if o.controllers.SkipCRDMigrationPhases, err = controllers.ParsePhases(o.skipPhases); err != nil {
		return fmt.Errorf("--skip-crd-migration-phases: %w", err)
	}
	o.controllers.HealthProbes, o.controllers.Recovery = o.features.Enabled(featureHealthProbes), o.features.Enabled(featureRecovery)
	if namespace := o.controllers.Namespace; namespace != "" {
		o.manager.Cache.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	o.manager.LeaderElectionID = naming.LeaderElectionLease(o.controllers.Namespace, o.controllers.WatchFilterValue)
	return logsv1.ValidateAndApply(o.logs, nil)
}

func (o *options) run(ctx context.Context) error {
	ctrl.SetLogger(klog.Background())
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	config.QPS, config.Burst = o.qps, o.burst
	config.UserAgent = "capt-manager"

	tlsOptions, diagnostics, err := flags.GetManagerOptions(o.diagnostics)
	if err != nil {
		return err
	}
	o.webhooks.TLSOpts, o.manager.Metrics = tlsOptions, *diagnostics
	o.manager.WebhookServer = &drainingServer{Server: webhook.NewServer(o.webhooks), signal: ctx}
	metrics.NewManager(ctrlmetrics.Registry, filepath.Join(o.webhooks.CertDir, "tls.crt"))
	mgr, err := ctrl.NewManager(config, o.manager)
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if o.providerNamespace != "" {
		o.controllers.PlanLogs = planlogs.New(clients, o.providerNamespace, clock.RealClock{})
	}
	needed := converterNeeded(clients, o.controllers.Namespace)
	if err := errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("caches", synced(mgr, needed)),
		// Every replica serves webhooks, not only the leader; it is ready when its server responds.
		mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker()),
	); err != nil {
		return err
	}
	o.controllers.Tokens = o.tokens(ctx)
	if err := controllers.SetupWithManager(ctx, mgr, o.controllers); err != nil {
		return err
	}
	if err := conversion.SetupWebhookWithManager(mgr, ctrlmetrics.Registry); err != nil {
		return fmt.Errorf("setting up conversion: %w", err)
	}
	if err := admission.SetupWebhookWithManager(ctx, mgr, o.controllers.Namespace); err != nil {
		return fmt.Errorf("setting up admission: %w", err)
	}
	ctrl.Log.Info("Starting the manager", "version", version.Info(), "lease", o.manager.LeaderElectionID)
	return mgr.Start(delayed(ctx, o.shutdownDelay))
}
