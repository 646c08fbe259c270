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

// Package preflight looks whether a migration can be done before anything is written: permissions, definitions, webhooks, the
// provider, the older manager and GitOps tools.
//
// It writes nothing. Two kinds of requests only look like writes: reviews of one's own permissions, which are "created" and
// stored nowhere, and patches without content that are asked for as a dry run. A person who may only read gets
// migrate.Failed with the missing permissions, and not even a dry run is sent.
package check

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// Status of a check.
type Status string

const (
	// OK: nothing to do.
	OK Status = "OK"
	// Warning: a person should know, and nothing stands in the way.
	Warning Status = "Warning"
	// Failed: the migration must not begin.
	Failed Status = "Failed"
)

// Names of the checks, in their order.
const (
	CheckPermissions  = "permissions"
	CheckJournal      = "journal namespace"
	CheckDefinitions  = "definitions"
	CheckConversion   = "conversion"
	CheckAdmission    = "admission"
	CheckClusterAPI   = "Cluster API"
	CheckProvider     = "provider"
	CheckWorkspaces   = "Workspaces"
	CheckOlderManager = "older manager"
	CheckActivity     = "activity"
	CheckGitOps       = "GitOps"
	CheckInstallers   = "installers"
	CheckLock         = "lock"
	CheckClock        = "clock"
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Message says what is the case and, unless it is fine, what to do.
	Message string `json:"message"`
	// Objects it is about, sorted; for permissions, those that are missing.
	Objects []string `json:"objects,omitempty"`
}

// Report is what was found.
type Report struct {
	metav1.TypeMeta `json:",inline"`
	// Phases that it is about.
	Phases []Phase `json:"phases"`
	Checks []Check `json:"checks"`
}

// Err is nil when the migration may begin. Otherwise its outcome is migrate.Failed, or migrate.Failed when nothing but
// another run stands in the way.
func (r *Report) Err() error {
	var failed []string
	outcome := migrate.Failed
	for _, check := range r.Checks {
		if check.Status != Failed {
			continue
		}
		if check.Name != CheckLock {
			outcome = migrate.Failed
		}
		failed = append(failed, check.text())
	}
	if len(failed) == 0 {
		return nil
	}
	return outcome.Errorf("preflight: %s", strings.Join(failed, "; "))
}

// text is what an error says of a check: enough to act, where nobody sees the report.
func (c Check) text() string {
	text := c.Name + ": " + c.Message
	if c.Name == CheckPermissions && len(c.Objects) > 0 {
		text += " (" + strings.Join(c.Objects, ", ") + ")"
	}
	return text
}

// Options of Run.
type Options struct {
	// Config is how to reach the API server, as whom.
	Config *rest.Config
	// Phases that are to be carried out; Adopt and Storage when there are none. To look is part of each.
	Phases []Phase
	// JournalNamespace is where captctl keeps its lock and its journal; capt-system by default.
	JournalNamespace string
	// Holder is this run's own name in the lock: it does not stand in its own way.
	Holder string
	// OlderManagers are Deployments that run the older CAPT and can not be recognised by themselves.
	OlderManagers []types.NamespacedName
	// Quiet is for how long the older CAPT must not have written; a minute by default.
	Quiet time.Duration
	// Clock is this machine's.
	Clock clock.PassiveClock
	// Progress is told of each check.
	Progress migrate.Progress
}

const defaultJournalNamespace = "capt-system"

func (o *Options) complete() {
	if len(o.Phases) == 0 {
		o.Phases = []Phase{Adopt, Storage}
	}
	if o.JournalNamespace == "" {
		o.JournalNamespace = defaultJournalNamespace
	}
	if o.Quiet == 0 {
		o.Quiet = defaultQuiet
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Progress == nil {
		o.Progress = migrate.Silent{}
	}
}

// Run looks at everything. The report is there whenever the API server could be asked, also with an error; the error is the
// report's then.
func Run(ctx context.Context, options Options) (*Report, error) {
	options.complete()
	l, err := newLook(ctx, options)
	if err != nil {
		return nil, err
	}
	checks := l.checks()
	options.Progress.Phase("preflight", len(checks))
	report := &Report{TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "PreflightReport"}, Phases: options.Phases}
	for _, c := range checks {
		check, err := c.run(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("preflight, %s: %w", c.name, context.Cause(ctx))
		}
		if err != nil {
			check = couldNotLook(err)
		}
		check.Name = c.name
		report.Checks = append(report.Checks, check)
		options.Progress.Add(1)
	}
	return report, report.Err()
}

// couldNotLook is the check that an error stands for. What can not be seen is not taken to be fine.
func couldNotLook(err error) Check {
	if apierrors.IsForbidden(err) {
		return Check{Status: Failed, Message: "could not look: " + err.Error() + "; get the permissions that are missing"}
	}
	return Check{Status: Failed, Message: "could not look: " + err.Error()}
}

// look is one look at a cluster.
type look struct {
	options Options
	client  client.Client
	// now is the API server's time, and skew how far this machine's clock is behind it.
	now  time.Time
	skew time.Duration
	// missing are the permissions that are not there, as CheckPermissions found.
	missing map[Right]bool
}

func newLook(ctx context.Context, options Options) (*look, error) {
	c, err := newClient(options.Config)
	if err != nil {
		return nil, err
	}
	now, skew, err := serverTime(ctx, options.Config, options.Clock)
	if err != nil {
		return nil, err
	}
	return &look{options: options, client: c, now: now, skew: skew, missing: map[Right]bool{}}, nil
}

// newClient is for the kinds that are looked at here. To read v1beta1 is part of the work: nobody is warned of it.
func newClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	quiet := rest.CopyConfig(config)
	quiet.WarningHandlerWithContext = rest.NoWarnings{}
	c, err := client.New(quiet, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return c, nil
}

type check struct {
	name string
	run  func(context.Context) (Check, error)
}

func (l *look) checks() []check {
	return []check{
		{CheckPermissions, l.permissions},
		{CheckJournal, l.journal},
		{CheckDefinitions, l.definitions},
		{CheckConversion, l.conversion},
		{CheckAdmission, l.admission},
		{CheckClusterAPI, l.clusterAPI},
		{CheckProvider, l.provider},
		{CheckWorkspaces, l.workspaces},
		{CheckOlderManager, l.olderManager},
		{CheckActivity, l.activity},
		{CheckGitOps, l.gitOps},
		{CheckInstallers, l.installers},
		{CheckLock, l.lock},
		{CheckClock, l.clock},
	}
}

func (l *look) journal(ctx context.Context) (Check, error) {
	name := l.options.JournalNamespace
	var namespace corev1.Namespace
	err := l.client.Get(ctx, client.ObjectKey{Name: name}, &namespace)
	switch {
	case apierrors.IsNotFound(err):
		return Check{Status: Failed, Message: fmt.Sprintf("there is no namespace %s for the lock and the journal; create it, or name another with --journal-namespace", name)}, nil
	case err != nil:
		return Check{}, err
	case namespace.DeletionTimestamp != nil:
		return Check{Status: Failed, Message: fmt.Sprintf("namespace %s, where the lock and the journal would be, is being deleted", name)}, nil
	}
	return Check{Status: OK, Message: fmt.Sprintf("the lock and the journal can be kept in namespace %s", name)}, nil
}
