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

// Package cluster is how captctl reaches the management cluster: the flags that kubectl has, too, a client, and what a shell can complete
// from the cluster.
package cluster

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/cmd/captctl/version"
)

// Reads are paged, and there are few of them; that many requests a second are no burden.
const (
	defaultQPS   = 20
	defaultBurst = 40
)

// Access is how commands reach the cluster.
type Access struct {
	*genericclioptions.ConfigFlags
	// QPS and Burst limit requests to the API server, of all workers together.
	QPS   float32
	Burst int
	// Warnings is where warnings of the API server go, each once.
	Warnings io.Writer
	// Connect makes a client; tests have their own.
	Connect func(*rest.Config) (client.WithWatch, error)

	limiter flowcontrol.RateLimiter
}

// New is access with the flags of kubectl.
func New(warnings io.Writer) *Access {
	return &Access{
		ConfigFlags: genericclioptions.NewConfigFlags(true),
		QPS:         defaultQPS, Burst: defaultBurst, Warnings: warnings,
		Connect: func(config *rest.Config) (client.WithWatch, error) {
			return client.NewWithWatch(config, client.Options{Scheme: Scheme()})
		},
	}
}

// Scheme has what captctl reads and writes.
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
	flags.Float32Var(&a.QPS, "qps", a.QPS, "Requests a second to the API server, of all workers together.")
	flags.IntVar(&a.Burst, "burst", a.Burst, "Requests to the API server in one burst.")
}

// ValidateRate refuses limits with which nothing would ever be sent.
func (a *Access) ValidateRate() error {
	if a.QPS <= 0 {
		return errors.New("--qps must be more than 0")
	}
	if a.Burst < 1 {
		return errors.New("--burst must be at least 1")
	}
	return nil
}

// Config of the API server. All clients that are made of it, and of what it returns later, keep the limits together.
func (a *Access) Config() (*rest.Config, error) {
	config, err := a.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w; say where it is with --kubeconfig or --context", err)
	}
	config = rest.CopyConfig(config)
	// A client is many: controller-runtime's has one for each kind. Left to themselves, each would send as much as all may together.
	if a.limiter == nil {
		a.limiter = flowcontrol.NewTokenBucketRateLimiter(a.QPS, a.Burst)
	}
	config.QPS, config.Burst, config.RateLimiter = a.QPS, a.Burst, a.limiter
	config.UserAgent = version.Get().UserAgent()
	config.WarningHandler = rest.NewWarningWriter(a.Warnings, rest.WarningWriterOptions{Deduplicate: true})
	return config, nil
}

// Client of the API server. It reads without a cache.
func (a *Access) Client() (client.WithWatch, error) {
	config, err := a.Config()
	if err != nil {
		return nil, err
	}
	connected, err := a.Connect(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return connected, nil
}

// Only is the namespace of --namespace; empty if none was given, which means all of them. The namespace of a kubeconfig's context is of no
// account: a fleet is migrated as a whole, unless somebody says otherwise.
func (a *Access) Only() string {
	if a.Namespace == nil {
		return ""
	}
	return *a.Namespace
}
