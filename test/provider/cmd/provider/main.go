// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Command provider runs the Workspace controllers of package provider, with OpenTofu or by a script.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capt-provider/capt/test/provider"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/provider/executor/tofu"
)

func main() {
	if err := run(ctrl.SetupSignalHandler(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "provider:", err)
		os.Exit(1)
	}
}

// Values of --executor.
const (
	executorOpenTofu = "opentofu"
	executorScripted = "scripted"
)

// Values of --log-encoding.
const (
	encodingConsole = "console"
	encodingJSON    = "json"
)

// options are the flags. The names and defaults of --poll, --timeout, --max-reconcile-rate, --debug and --log-encoding are the real
// provider's.
type options struct {
	provider.Options
	tofu                    tofu.Options
	kubeconfig              string
	executor, scriptDir     string
	healthAddr, metricsAddr string
	debug                   bool
	encoding                string
}

func (o *options) parse(args []string) error {
	flags := flag.NewFlagSet("provider", flag.ContinueOnError)
	klog.InitFlags(flags)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "Path of a kubeconfig. Default: the Pod's service account.")
	flags.StringVar(&o.executor, "executor", executorOpenTofu, "What carries Workspaces out: opentofu, or scripted, which only pretends to.")
	flags.StringVar(&o.scriptDir, "script-dir", "", "Folder of the scripted executor: scripts, states and the pretended resources.")
	flags.StringVar(&o.tofu.Binary, "tofu", "tofu", "Path of the OpenTofu binary.")
	flags.StringVar(&o.tofu.WorkDir, "work-dir", "", "Folder for one working directory per Workspace; keep it when modules have no remote backend. Default: a folder for temporary files.")
	flags.StringVar(&o.healthAddr, "health-addr", "0", "Where /healthz and /readyz are served, host:port; 0 for nowhere.")
	flags.StringVar(&o.metricsAddr, "metrics-addr", "0", "Where /metrics is served, host:port; 0 for nowhere.")
	flags.DurationVar(&o.PollInterval, "poll", 10*time.Minute, "How often a Workspace at rest is planned again.")
	flags.DurationVar(&o.Timeout, "timeout", 20*time.Minute, "How long the commands of one reconcile may take together.")
	flags.DurationVar(&o.CreationGracePeriod, "creation-grace", 0, "How long after a create the absence of resources is not believed; the real provider has 30s.")
	flags.IntVar(&o.MaxConcurrentReconciles, "max-reconcile-rate", 1, "How many Workspaces of each scope are worked on at a time.")
	flags.BoolVar(&o.debug, "debug", false, "Log more, and each entry as a text with several lines.")
	flags.StringVar(&o.encoding, "log-encoding", encodingConsole, "console or json; without --debug, both are JSON.")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.executor != executorOpenTofu && o.executor != executorScripted:
		return fmt.Errorf("--executor=%s: want %s or %s", o.executor, executorOpenTofu, executorScripted)
	case o.encoding != encodingConsole && o.encoding != encodingJSON:
		return fmt.Errorf("--log-encoding=%s: want %s or %s", o.encoding, encodingConsole, encodingJSON)
	case (o.executor == executorScripted) != (o.scriptDir != ""):
		return errors.New("--executor=scripted and --script-dir go together")
	}
	return nil
}

// logger logs in the format of the real provider.
func (o *options) logger() logr.Logger {
	options := []zap.Opts{zap.UseDevMode(o.debug), func(o *zap.Options) { o.TimeEncoder = zapcore.ISO8601TimeEncoder }}
	if o.encoding == encodingJSON {
		options = append(options, zap.JSONEncoder(func(c *zapcore.EncoderConfig) { c.EncodeTime = zapcore.ISO8601TimeEncoder }))
	}
	return zap.New(options...)
}

func run(ctx context.Context, args []string) error {
	o := options{}
	switch err := o.parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	logger := o.logger()
	ctrl.SetLogger(logger)
	o.Logger = logging.NewLogrLogger(logger.WithName("provider-terraform"))

	config, err := restConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, manager.Options{
		HealthProbeBindAddress: o.healthAddr,
		Metrics:                metricsserver.Options{BindAddress: o.metricsAddr},
		Client:                 client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
	})
	if err != nil {
		return fmt.Errorf("cannot make the manager: %w", err)
	}
	if err := addChecks(mgr); err != nil {
		return err
	}
	o.Executors = tofu.New(o.tofu)
	if o.executor == executorScripted {
		if o.Executors, err = scripted.New(o.scriptDir); err != nil {
			return err
		}
	}
	if err := provider.SetupWithManager(mgr, o.Options); err != nil {
		return err
	}
	// Leaving waits for the reconciles that run, and those stop their commands first.
	return mgr.Start(ctx)
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot load the kubeconfig: %w", err)
	}
	// A local API server needs no protection from one controller.
	config.QPS = -1
	// The API server warns about the finalizer's name at each write; the name is not ours to choose.
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// addChecks makes the provider ready once its caches are filled: the manager starts what needs no cache before.
func addChecks(mgr manager.Manager) error {
	var synced atomic.Bool
	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for _, kind := range []client.Object{&provider.ClusterWorkspace{}, &provider.NamespacedWorkspace{}} {
			if _, err := mgr.GetCache().GetInformer(ctx, kind); err != nil {
				return err
			}
		}
		synced.Store(true)
		return nil
	}))
	if err != nil {
		return err
	}
	ready := func(*http.Request) error {
		if !synced.Load() {
			return errors.New("caches are not filled yet")
		}
		return nil
	}
	return errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("caches", ready))
}
