// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"time"

	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
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
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/controllers/metrics"
)

// options are the flags of the manager, with the same names as in the managers of Cluster API.
type options struct {
	leaderElect    bool
	leaseNamespace string
	leaseDuration  time.Duration
	renewDeadline  time.Duration
	retryPeriod    time.Duration
	namespace      string
	watchFilter    string
	healthAddress  string
	concurrency    int
	syncPeriod     time.Duration
	qps            float32
	burst          int
	profiler       string
	webhookPort    int
	webhookCertDir string
	eksTokens      bool
	eksTokensIMDS  bool
	features       featuregate.MutableFeatureGate
	statePrefix    string
	defaultRollout string
	skipPhases     []string
	shutdownDelay  time.Duration
	managerOptions flags.ManagerOptions
	logOptions     *logs.Options
}

// Features of --feature-gates.
const (
	featureHealthProbes featuregate.Feature = "HealthProbes" // Without it, every control plane is treated as if spec.endpointProbe were Disabled.
	featureRecovery     featuregate.Feature = "Recovery"     // Without it, every control plane is treated as if spec.recovery.maxRetries were 0.
)

func newOptions() *options {
	o := &options{logOptions: logs.NewOptions(), features: featuregate.NewFeatureGate()}
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
	fs.BoolVar(&o.leaderElect, "leader-elect", false, "Use leader election: of several managers with the same --namespace and --watch-filter, one is active at a time.")
	fs.StringVar(&o.leaseNamespace, "leader-elect-namespace", "", "Namespace of the Lease for leader election (default: the namespace of the Pod).")
	fs.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "How long the other managers wait after the last renewal of the Lease before one takes over.")
	fs.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "How long the active manager tries to renew the Lease before it gives up leadership.")
	fs.DurationVar(&o.retryPeriod, "leader-elect-retry-period", 2*time.Second, "Interval between attempts to acquire or renew the Lease.")
	fs.StringVar(&o.namespace, "namespace", "", "Namespace to watch (default: all namespaces).")
	fs.StringVar(&o.watchFilter, "watch-filter", "", fmt.Sprintf("Watch only objects with this value of the label %s.", clusterv1.WatchLabel))
	fs.StringVar(&o.healthAddress, "health-addr", ":9440", "Address of /healthz and /readyz.")
	fs.IntVar(&o.concurrency, "concurrency", 10, "Number of objects per kind that are reconciled concurrently.")
	fs.DurationVar(&o.syncPeriod, "sync-period", 10*time.Hour, "Resync period: how often each object is reconciled without a change.")
	fs.Float32Var(&o.qps, "kube-api-qps", 100, "Requests per second to the API server, per kind of object.")
	fs.IntVar(&o.burst, "kube-api-burst", 200, "Requests to the API server in a burst, per kind of object.")
	fs.DurationVar(&o.shutdownDelay, "shutdown-delay-duration", 5*time.Second, "How long the manager continues after the signal to stop. "+
		"Meanwhile Services remove it, and its webhooks ask the API server to close connections. A second signal stops it at once.")
	fs.StringVar(&o.profiler, "profiler-address", "", "Address of pprof, for example localhost:6060 (default: off).")
	fs.IntVar(&o.webhookPort, "webhook-port", 9443, "Port of the webhooks.")
	fs.StringVar(&o.webhookCertDir, "webhook-cert-dir", "/tmp/k8s-webhook-server/serving-certs/", "Directory with the certificate of the webhooks: tls.crt and tls.key.")
	fs.BoolVar(&o.eksTokens, "eks-tokens", false, "Create tokens for the kubeconfigs of clusters, with the AWS identity of this manager. All clusters share this identity: "+
		"a user who can write a WorkspaceTemplate, or read the kubeconfig Secret of a cluster, can act as this identity in the EKS cluster of the same name.")
	fs.BoolVar(&o.eksTokensIMDS, "eks-tokens-instance-metadata", false, "With --eks-tokens, also use the credentials of the EC2 instance that this manager runs on.")
	fs.StringVar(&o.statePrefix, "state-prefix", "", fmt.Sprintf("Part of the names of the Terraform states of new Workspaces, at most %d characters. Management clusters "+
		"that share a Terraform backend need different prefixes. Existing Workspaces keep their states.", naming.MaxStatePrefixLength))
	fs.StringVar(&o.defaultRollout, "default-rollout", "", "Rollout policy of WorkspaceTemplates without spec.rollout: the fields of spec.rollout as YAML or JSON, "+
		"for example {strategy: Staged, preview: Always, approval: OnChanges} (default: edits reach all users at once). All managers of a management cluster need the same value.")
	fs.StringSliceVar(&o.skipPhases, "skip-crd-migration-phases", nil, "List of CRD migration phases to skip. Valid values are: StorageVersionMigration, CleanupManagedFields. "+
		"No phase runs while objects of CAPT v0.3 await adoption, or while StorageVersionMigration is skipped.")
	o.features.AddFlag(fs)
	logsv1.AddFlags(o.logOptions, fs)
	flags.AddManagerOptions(fs, &o.managerOptions)
	fs.AddGoFlagSet(flag.CommandLine) // --kubeconfig
	return command
}

func (o *options) validate() error {
	if o.concurrency < 1 {
		return errors.New("--concurrency must be at least 1")
	}
	if o.shutdownDelay < 0 {
		return errors.New("--shutdown-delay-duration must not be negative")
	}
	if err := o.validateTokens(); err != nil {
		return err
	}
	if err := validation.ValidateStatePrefix(o.statePrefix); err != nil {
		return fmt.Errorf("--state-prefix: %w", err)
	}
	if _, err := validation.ParseDefaultRollout(o.defaultRollout); err != nil {
		return fmt.Errorf("--default-rollout: %w", err)
	}
	if _, err := controllers.ParsePhases(o.skipPhases); err != nil {
		return fmt.Errorf("--skip-crd-migration-phases: %w", err)
	}
	return logsv1.ValidateAndApply(o.logOptions, nil)
}

func (o *options) validateTokens() error {
	if o.eksTokensIMDS && !o.eksTokens {
		return errors.New("--eks-tokens-instance-metadata requires --eks-tokens")
	}
	return nil
}

// tokens returns the source of tokens for kubeconfigs; nil unless the manager creates tokens.
func (o *options) tokens() kubeconfig.Tokens {
	if !o.eksTokens {
		return nil
	}
	return kubeconfig.NewAWS(clock.RealClock{}, o.eksTokensIMDS)
}

func (o *options) webhookServer(signal context.Context, tlsOptions []func(*tls.Config)) webhook.Server {
	server := webhook.NewServer(webhook.Options{Port: o.webhookPort, CertDir: o.webhookCertDir, TLSOpts: tlsOptions})
	return &drainingServer{Server: server, signal: signal}
}

// controllerRuntime converts the options to those of controller-runtime.
func (o *options) controllerRuntime(signal context.Context, metrics metricsserver.Options, tlsOptions []func(*tls.Config)) ctrl.Options {
	cacheOptions := controllers.CacheOptions()
	cacheOptions.SyncPeriod = &o.syncPeriod
	if o.namespace != "" {
		cacheOptions.DefaultNamespaces = map[string]cache.Config{o.namespace: {}}
	}
	return ctrl.Options{
		Scheme:                 scheme(),
		Cache:                  cacheOptions,
		Client:                 controllers.ClientOptions(),
		Metrics:                metrics,
		WebhookServer:          o.webhookServer(signal, tlsOptions),
		HealthProbeBindAddress: o.healthAddress,
		PprofBindAddress:       o.profiler,
		// Every replica serves webhooks, not only the leader.
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              naming.LeaderElectionLease(o.namespace, o.watchFilter),
		LeaderElectionNamespace:       o.leaseNamespace,
		LeaseDuration:                 &o.leaseDuration,
		RenewDeadline:                 &o.renewDeadline,
		RetryPeriod:                   &o.retryPeriod,
		LeaderElectionReleaseOnCancel: true,
	}
}

func (o *options) run(ctx context.Context) error {
	ctrl.SetLogger(klog.Background())
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	config.QPS, config.Burst = o.qps, o.burst
	config.UserAgent = "capt-manager"

	tlsOptions, diagnostics, err := flags.GetManagerOptions(o.managerOptions)
	if err != nil {
		return err
	}
	metrics.NewManager(ctrlmetrics.Registry, filepath.Join(o.webhookCertDir, "tls.crt"))
	mgr, err := ctrl.NewManager(config, o.controllerRuntime(ctx, *diagnostics, tlsOptions))
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	needed, err := converterNeeded(config, o.namespace)
	if err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("caches", synced(mgr, needed)); err != nil {
		return err
	}
	if err := o.setupControllers(ctx, mgr); err != nil {
		return err
	}
	if err := setupWebhooks(ctx, mgr, o.namespace); err != nil {
		return err
	}
	ctrl.Log.Info("Starting the manager", "version", version.Info(), "lease", naming.LeaderElectionLease(o.namespace, o.watchFilter))
	return mgr.Start(delayed(ctx, o.shutdownDelay))
}

func (o *options) setupControllers(ctx context.Context, mgr ctrl.Manager) error {
	skip, err := controllers.ParsePhases(o.skipPhases)
	if err != nil {
		return err
	}
	rollout, err := validation.ParseDefaultRollout(o.defaultRollout)
	if err != nil {
		return err
	}
	return controllers.SetupWithManager(ctx, mgr, controllers.Options{
		WatchFilterValue: o.watchFilter, Namespace: o.namespace, Concurrency: o.concurrency, Tokens: o.tokens(), StatePrefix: o.statePrefix, DefaultRollout: rollout,
		HealthProbes: o.features.Enabled(featureHealthProbes), Recovery: o.features.Enabled(featureRecovery), SkipCRDMigrationPhases: skip,
	})
}
