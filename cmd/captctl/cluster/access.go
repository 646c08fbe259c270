// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster connects captctl to the management cluster: the connection flags of kubectl, a client, and completions from the cluster.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/cmd/captctl/version"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/lock"
)

// Defaults of --qps and --burst.
const (
	defaultQPS   = 20
	defaultBurst = 200
)

// reachableTimeout limits the request by which reachable finds out whether the server accepts connections. A timeout is a warning: the server may
// only be slow.
const reachableTimeout = 5 * time.Second

// Access is how commands reach the cluster.
type Access struct {
	*genericclioptions.ConfigFlags
	// QPS and Burst limit requests to the API server, of all workers together.
	QPS   float32
	Burst int
	// Warnings gets each warning of the API server once per object, for the first objects.
	Warnings io.Writer
	// Connect returns a client; tests replace it.
	Connect func(*rest.Config) (client.WithWatch, error)

	limiter flowcontrol.RateLimiter
}

// New returns an Access with the connection flags of kubectl. Warnings of the API server are printed to the writer.
func New(warnings io.Writer) *Access {
	return &Access{
		ConfigFlags: genericclioptions.NewConfigFlags(true),
		QPS:         defaultQPS, Burst: defaultBurst, Warnings: warnings,
		Connect: func(config *rest.Config) (client.WithWatch, error) {
			if err := reachable(config, warnings); err != nil {
				return nil, err
			}
			return client.NewWithWatch(config, client.Options{Scheme: Scheme()})
		},
	}
}

// reachable fails if there is no API server at the address, for example because no kubeconfig was found, or if it cannot be trusted. Later, reads are
// retried: a server may restart.
func reachable(config *rest.Config, warnings io.Writer) error {
	limited := rest.CopyConfig(config)
	limited.Timeout = cmp.Or(min(config.Timeout, reachableTimeout), reachableTimeout)
	versions, err := discovery.NewDiscoveryClientForConfig(limited)
	if err != nil {
		return err
	}
	var answered apierrors.APIStatus
	_, err = versions.ServerVersion()
	switch {
	case err == nil, errors.As(err, &answered):
		return nil
	case utilnet.IsTimeout(err) && config.Timeout != limited.Timeout:
		fmt.Fprintf(warnings, "Warning: the API server has not answered within %s. Waiting; check --context and the network if this takes long\n", reachableTimeout)
		return nil
	}
	return migrate.Failed.Errorf("%w; check --kubeconfig, --context and --server", err)
}

// Describe names the management cluster for a question: the context of the kubeconfig, and the address.
func (a *Access) Describe() string {
	config, err := a.ToRESTConfig()
	if err != nil {
		return "this management cluster"
	}
	raw, err := a.ToRawKubeConfigLoader().RawConfig()
	if context := cmp.Or(ptr.Deref(a.Context, ""), raw.CurrentContext); err == nil && context != "" {
		return fmt.Sprintf("context %s (%s)", context, config.Host)
	}
	return config.Host
}

// Scheme returns a scheme with all kinds that captctl reads and writes.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme, controlplanev1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

// AddRateFlags adds --qps and --burst.
func (a *Access) AddRateFlags(flags *pflag.FlagSet) {
	flags.Float32Var(&a.QPS, "qps", a.QPS, "Requests per second to the API server.")
	flags.IntVar(&a.Burst, "burst", a.Burst, "Requests to the API server in a burst.")
}

// ValidateRate rejects limits with which nothing is ever sent.
func (a *Access) ValidateRate() error {
	if a.QPS <= 0 {
		return errors.New("--qps must be more than 0")
	}
	if a.Burst < 1 {
		return errors.New("--burst must be at least 1")
	}
	return nil
}

// Config of the API server. All clients that use it share one rate limit.
func (a *Access) Config() (*rest.Config, error) {
	config, err := a.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w; set --kubeconfig or --context", err)
	}
	config = rest.CopyConfig(config)
	// A client of controller-runtime has one REST client per kind, and each would have a limit of its own.
	if a.limiter == nil {
		a.limiter = flowcontrol.NewTokenBucketRateLimiter(a.QPS, a.Burst)
	}
	config.QPS, config.Burst, config.RateLimiter = a.QPS, a.Burst, a.limiter
	config.UserAgent = version.Get().UserAgent()
	config.WarningHandlerWithContext = &warnings{to: a.Warnings, printed: map[string]sets.Set[string]{}}
	return config, nil
}

// warnings prints each warning once per object that a request writes, for the first objects.
type warnings struct {
	to      io.Writer
	mutex   sync.Mutex
	printed map[string]sets.Set[string] // Objects by text.
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warnings) HandleWarningHeaderWithContext(request context.Context, code int, _, text string) {
	if code != warningCode || text == "" {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	object := lock.WrittenObject(request)
	objects := w.printed[text]
	if objects == nil {
		objects = sets.New[string]()
		w.printed[text] = objects
	}
	if objects.Has(object) || objects.Len() == mostObjects {
		return
	}
	if objects.Insert(object); objects.Len() == mostObjects {
		text += " (not repeated for other objects)"
	}
	if object != "" {
		text = object + ": " + text
	}
	if printers.IsTerminal(w.to) {
		fmt.Fprint(w.to, "\r\x1b[K") // There may be a progress bar.
	}
	fmt.Fprintf(w.to, "Warning: %s\n", text)
}

// mostObjects limits for how many objects the same warning is printed: often all objects of a fleet cause it.
const mostObjects = 3

// warningCode is that of the API server's warnings (RFC 7234).
const warningCode = 299

// Client of the API server. It reads without a cache.
func (a *Access) Client() (client.WithWatch, error) {
	config, err := a.Config()
	if err != nil {
		return nil, err
	}
	connected, err := a.Connect(config)
	if err != nil {
		if files := a.ToRawKubeConfigLoader().ConfigAccess().GetLoadingPrecedence(); !slices.ContainsFunc(files, exists) {
			err = fmt.Errorf("%w. No kubeconfig was found: %s", err, strings.Join(files, ", "))
		}
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return connected, nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// Only is the namespace of --namespace; empty for all namespaces. The namespace of the kubeconfig's context is not used: a fleet is migrated as
// a whole unless the user limits it.
func (a *Access) Only() string {
	if a.Namespace == nil {
		return ""
	}
	return *a.Namespace
}
