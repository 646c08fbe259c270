// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package check reports whether a migration from CAPT v0.3 can begin, and what to do if not: rights, Cluster API, definitions, webhooks,
// provider-terraform, and both versions of CAPT.
//
// It writes nothing. Two kinds of requests only look like writes: reviews of one's own identity and rights, which the API server does not
// store, and patches without content, which are dry runs and sent only with the right to patch.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
)

// Stage of a migration.
type Stage string

// Stages of a migration.
const (
	Untouched Stage = "Untouched" // CAPT v0.3 is installed, and nothing of this version.
	Apply     Stage = "Apply"     // This version is installed, and clusters are to be adopted.
	Rollback  Stage = "Rollback"  // Adopted clusters are to be rolled back.
)

// Status of a check.
type Status string

// Statuses of checks.
const (
	OK      Status = "OK"      // Nothing to do.
	Warning Status = "Warning" // The user should know, and the migration can go on.
	Failed  Status = "Failed"  // The next step of the migration must not begin.
)

// Names of the checks. A stage has those that matter to it.
const (
	CheckPermissions = "permissions"
	CheckJournal     = "journal namespace"
	CheckClock       = "clock"
	CheckClusterAPI  = "Cluster API"
	CheckCertManager = "cert-manager"
	CheckProvider    = "provider-terraform"
	CheckWorkspaces  = "Workspaces"
	CheckDefinitions = "definitions"
	CheckStored      = "stored versions"
	CheckConversion  = "conversion"
	CheckAdmission   = "admission"
	CheckInstallers  = "installers"
	CheckLegacy      = "CAPT v0.3"
	CheckManager     = "manager"
)

// Check is the result of one check.
type Check struct {
	Name     string   `json:"name"`
	Status   Status   `json:"status"`
	Message  string   `json:"message"`            // Message says what was found and, unless the check is OK, why that matters and what to do.
	Objects  []string `json:"objects,omitempty"`  // Objects that it is about; for permissions, those that are missing.
	Commands []string `json:"commands,omitempty"` // Commands are the shell commands that solve it, to be run as they are and in this order.
}

// orOK returns the check if it found objects, and otherwise one that is OK.
func (c Check) orOK(format string, args ...any) Check {
	if len(c.Objects) > 0 {
		return c
	}
	return Check{Name: c.Name, Status: OK, Message: fmt.Sprintf(format, args...)}
}

// Report contains the results of the checks of a stage.
type Report struct {
	metav1.TypeMeta `json:",inline"`
	Stage           Stage   `json:"stage"` // Stage that the checks are for.
	Checks          []Check `json:"checks"`
}

// Failed are the checks that failed.
func (r *Report) Failed() []Check {
	return slices.DeleteFunc(slices.Clone(r.Checks), func(check Check) bool { return check.Status != Failed })
}

// Options of Run.
type Options struct {
	Config              *rest.Config
	JournalNamespace    string        // Where captctl keeps its Lease and its journals.
	FixClusterEndpoints bool          // Requires the right to write Clusters.
	Quiet               time.Duration // For how long CAPT v0.3 must not have written; a minute by default.
	Clock               clock.PassiveClock
	Progress            migrate.Progress
	Only                []string // The names of the only checks to run; empty for all of a stage.
	Before              Stage    // The stage that is to begin next. The default is Apply if v1beta2 is served, otherwise Untouched.
}

// Run runs the checks of a stage. There is a report whenever the API server could be reached. A failed check is not an error: see Report.Failed.
func Run(ctx context.Context, options Options) (*Report, error) {
	options.Quiet = cmp.Or(options.Quiet, time.Minute)
	options.Clock = cmp.Or[clock.PassiveClock](options.Clock, clock.RealClock{})
	options.Progress = cmp.Or[migrate.Progress](options.Progress, migrate.Silent{})
	target, err := newChecker(ctx, options)
	if err != nil {
		return nil, err
	}
	report := &Report{TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "CheckReport"}, Stage: target.options.Before}
	checks := slices.DeleteFunc(target.checks(), func(c stagedCheck) bool {
		return !slices.Contains(c.stages, report.Stage) || len(options.Only) > 0 && !slices.Contains(options.Only, c.name)
	})
	options.Progress.Phase("Checking", len(checks))
	for _, c := range checks {
		check, err := c.run(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("check of %s: %w", c.name, context.Cause(ctx))
		}
		if err != nil { // What cannot be read must not count as OK.
			check = Check{Status: Failed, Message: "could not be checked: " + err.Error()}
		}
		check.Name = c.name
		report.Checks = append(report.Checks, check)
		options.Progress.Add(1)
	}
	return report, nil
}

// checker runs checks against one API server.
type checker struct {
	options Options
	client  client.Client
	version string // Of CAPT's API that is read.
	user    string
	now     time.Time     // Of the API server, in seconds.
	skew    time.Duration // How far the clock of this host is behind the clock of the API server.
	missing []Right       // As CheckPermissions found them.
	// installed returns the definitions of CAPT and of CAPT v0.3 that exist, by name. They are large, and read once.
	installed func() (map[string]*apiextensionsv1.CustomResourceDefinition, error)
}

func newChecker(ctx context.Context, options Options) (*checker, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	config := rest.CopyConfig(options.Config)
	config.WarningHandlerWithContext = rest.NoWarnings{} // Reading v1beta1 is intended.
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	c := &checker{options: options, client: api, version: migrate.Version, installed: sync.OnceValues(func() (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
		return migrate.Definitions(ctx, api, slices.Clone(legacyDefinitionNames)...)
	})}
	review := &authenticationv1.SelfSubjectReview{} // The API server does not store it, and adds the time.
	if err := migrate.Retry(ctx, func(ctx context.Context) error { return api.Create(ctx, review) }); err != nil {
		return nil, fmt.Errorf("reading user and time from the API server: %w", err)
	}
	c.user, c.now = review.Status.UserInfo.Username, review.CreationTimestamp.Time
	c.skew = c.now.Sub(options.Clock.Now().Truncate(time.Second))
	stage := Apply
	served, err := c.serves(infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"))
	if !served {
		c.version, stage = migrate.LegacyVersion, Untouched
	}
	c.options.Before = cmp.Or(options.Before, stage)
	return c, err
}

func (c *checker) serves(kind schema.GroupVersionKind) (bool, error) {
	return migrate.Serves(c.client, kind)
}

type stagedCheck struct {
	name   string
	stages []Stage
	run    func(context.Context) (Check, error)
}

func (c *checker) checks() []stagedCheck {
	all, untouched, apply := []Stage{Untouched, Apply, Rollback}, []Stage{Untouched}, []Stage{Apply}
	beforeApply, installed := []Stage{Untouched, Apply}, []Stage{Apply, Rollback}
	return []stagedCheck{
		{CheckPermissions, all, c.permissions},
		{CheckJournal, all, c.journal},
		{CheckClock, all, c.clock},
		{CheckClusterAPI, beforeApply, c.clusterAPI},
		{CheckProvider, beforeApply, c.provider},
		{CheckCertManager, untouched, c.certManager},
		{CheckDefinitions, untouched, c.legacyDefinitions},
		{CheckDefinitions, installed, c.definitions},
		{CheckConversion, installed, c.conversion},
		{CheckAdmission, installed, c.admission},
		{CheckStored, beforeApply, c.storedVersions},
		{CheckInstallers, beforeApply, c.installers},
		{CheckLegacy, all, c.legacy},
		{CheckManager, apply, c.manager},
	}
}
