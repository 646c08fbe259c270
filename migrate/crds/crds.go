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

// Package crds replaces the one definition that can not be upgraded in place. The older CAPT spelled the kind
// CaptControlPlaneTemplate, Cluster API's contract needs CAPTControlPlaneTemplate, and the kind of a definition can not be
// changed. So its objects are exported, the definition is deleted with them, and when that of this CAPT is installed, they are
// created again. This holds the only DELETE that captctl ever sends.
//
// Run finds out by itself how far this has come, from what is in the cluster and in the folder of the export, and does what is
// left. So it can be interrupted at any point and be run again:
//
//	older definition     export, verify, remove finalizers, verify again, delete, wait
//	being deleted        verify that all that is left is exported, wait
//	none                 the definition of this CAPT has to be installed
//	that of this CAPT    create what is exported and not there
//
// An object with a finalizer would hold the deletion of its definition for ever, because nobody is left to remove it: the older
// manager is off, and a definition that is being deleted can not be kept. So finalizers of CAPT's own groups are removed after
// the export, and one of somebody else stops everything before anything is changed, unless it is named. Finalizers are not
// restored: their controllers set them again.
package crds

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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/preflight"
)

// Kind is how the kind is spelled today; preflight.OlderTemplateKind is how it was.
const Kind = "CAPTControlPlaneTemplate"

var (
	resource = schema.GroupVersionResource{
		Group: controlplanev1.GroupVersion.Group, Version: migrate.LegacyVersion, Resource: "captcontrolplanetemplates",
	}
	definitionName = resource.Resource + "." + resource.Group
)

// State is which definition is installed.
type State string

const (
	// Older: that of the older CAPT.
	Older State = "Older"
	// Leaving: that of the older CAPT, which is being deleted.
	Leaving State = "Leaving"
	// Absent: none.
	Absent State = "Absent"
	// Current: that of this CAPT.
	Current State = "Current"
)

// Step is something that was done or, in a dry run, would be.
type Step struct {
	// Name is one word in CamelCase, for machines.
	Name string `json:"name"`
	// Done is false in a dry run, and for what stands in the way.
	Done    bool     `json:"done"`
	Message string   `json:"message"`
	Objects []string `json:"objects,omitempty"`
}

// Names of steps.
const (
	StepBlocked    = "Blocked"
	StepExport     = "Export"
	StepFinalizers = "RemoveFinalizers"
	StepDelete     = "DeleteDefinition"
	StepRestore    = "Restore"
	StepDifferent  = "Different"
	StepLeftOut    = "LeftOut"
)

// Report is what was found and done.
type Report struct {
	metav1.TypeMeta `json:",inline"`
	DryRun          bool `json:"dryRun"`
	// Found is which definition was installed at the beginning.
	Found State  `json:"found"`
	Steps []Step `json:"steps,omitempty"`
	// Next is what a person has to do next; empty when nothing is left.
	Next string `json:"next,omitempty"`
}

// Options of Run.
type Options struct {
	// Config is how to reach the API server, as whom.
	Config *rest.Config
	// Backup is a folder; the export is in its folder crds.
	Backup string
	// DryRun changes nothing, and writes no file.
	DryRun bool
	// Restore does the second half only: to create what is exported and not there, under whichever kind is installed. With the
	// older definition installed anew, this is the way back.
	Restore bool
	// RemoveFinalizers lists finalizers of others that may be removed, too.
	RemoveFinalizers []string
	// Patience is how long to wait for the API server to delete, or to serve, the definition; two minutes by default.
	Patience time.Duration
	Clock    clock.PassiveClock
	Progress migrate.Progress
}

const (
	defaultPatience = 2 * time.Minute
	// tick is how often is looked while waiting.
	tick = 100 * time.Millisecond
	// attempts bounds how often the export is made anew because objects changed meanwhile.
	attempts = 5
)

func (o *Options) complete() error {
	if o.Backup == "" {
		return fmt.Errorf("a folder for the export is needed")
	}
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Progress == nil {
		o.Progress = migrate.Silent{}
	}
	return nil
}

// Run does what is left to do. The outcome of its error is migrate.NotPermitted when something stands in the way and nothing
// was changed, migrate.Pending when there is something left that a dry run does not do or that has to wait, and
// migrate.Partly when it can go on by being run again.
func Run(ctx context.Context, options Options) (*Report, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	r, err := newRun(options)
	if err != nil {
		return nil, err
	}
	if err := r.permitted(ctx); err != nil {
		return nil, err
	}
	if err := r.look(ctx); err != nil {
		return nil, err
	}
	return r.report, r.proceed(ctx)
}

// run is one run of the command.
type run struct {
	options   Options
	client    client.Client
	templates dynamic.NamespaceableResourceInterface
	report    *Report

	cluster    types.UID
	definition *apiextensionsv1.CustomResourceDefinition
	// saved is the export in the folder; nil if there is none.
	saved *export
}

func newRun(options Options) (*run, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	quiet := rest.CopyConfig(options.Config)
	quiet.WarningHandlerWithContext = rest.NoWarnings{} // To read and to write v1beta1 is part of the work.
	c, err := client.New(quiet, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	objects, err := dynamic.NewForConfig(quiet)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return &run{
		options: options, client: c, templates: objects.Resource(resource),
		report: &Report{TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "DefinitionsReport"}, DryRun: options.DryRun},
	}, nil
}

// permitted asks for all permissions before anything else is done.
func (r *run) permitted(ctx context.Context) error {
	missing, err := preflight.Missing(ctx, r.client, preflight.Rights("", preflight.Definitions))
	if err != nil {
		return err
	}
	if len(missing) == 0 {
		return nil
	}
	names := make([]string, len(missing))
	for i, right := range missing {
		names[i] = right.String()
	}
	return migrate.NotPermitted.Errorf("permissions are missing: %s; bind ClusterRole capt-migrate-crds of config/rbac/captctl.yaml", strings.Join(names, ", "))
}

// look reads in which state the cluster and the folder are.
func (r *run) look(ctx context.Context) error {
	var system corev1.Namespace
	if err := r.client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		return fmt.Errorf("reading namespace %s, by which the cluster is known: %w", metav1.NamespaceSystem, err)
	}
	r.cluster = system.UID
	definition, state, err := r.read(ctx)
	if err != nil {
		return err
	}
	r.definition, r.report.Found = definition, state
	if r.saved, err = readExport(r.options.Backup); err != nil {
		return err
	}
	if r.saved != nil && r.saved.ClusterUID != r.cluster {
		return fmt.Errorf("the export in %s is of another cluster: there the UID of namespace %s is %s, here it is %s",
			r.options.Backup, metav1.NamespaceSystem, r.saved.ClusterUID, r.cluster)
	}
	return nil
}

// read returns the definition; nil if there is none.
func (r *run) read(ctx context.Context) (*apiextensionsv1.CustomResourceDefinition, State, error) {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	err := r.client.Get(ctx, client.ObjectKey{Name: definitionName}, definition)
	switch {
	case apierrors.IsNotFound(err):
		return nil, Absent, nil
	case err != nil:
		return nil, "", fmt.Errorf("reading the definition: %w", err)
	}
	kind, leaving := definition.Spec.Names.Kind, definition.DeletionTimestamp != nil
	switch {
	case kind == preflight.OlderTemplateKind && leaving:
		return definition, Leaving, nil
	case kind == preflight.OlderTemplateKind:
		return definition, Older, nil
	case kind == Kind && !leaving:
		return definition, Current, nil
	}
	return nil, "", fmt.Errorf("%s is neither the older CAPT's nor this one's, or is being deleted: its kind is %s", definitionName, kind)
}

func (r *run) proceed(ctx context.Context) error {
	switch r.report.Found {
	case Older:
		if r.options.Restore {
			return r.restore(ctx, preflight.OlderTemplateKind)
		}
		return r.remove(ctx)
	case Leaving:
		return r.finishRemoval(ctx)
	case Current:
		return r.restore(ctx, Kind)
	case Absent:
	}
	return r.waitForInstallation()
}

// waitForInstallation is all that can be done without a definition.
func (r *run) waitForInstallation() error {
	r.report.Next = nextInstall
	if r.saved == nil || len(r.saved.Objects) == 0 {
		return nil
	}
	r.report.Next = r.nextRestore()
	return migrate.Pending.Errorf("%d objects are to be created again, and the definition is not installed yet", len(r.saved.Objects))
}

const nextInstall = "Install the definitions of this CAPT, and its manager with --webhooks-only."

func (r *run) nextRestore() string {
	return fmt.Sprintf("%s Then run captctl migrate crds --backup %s once more: it creates the %d exported objects again.",
		nextInstall, r.options.Backup, len(r.saved.Objects))
}

// tell adds a step to the report.
func (r *run) tell(name string, done bool, objects []string, format string, args ...any) {
	r.report.Steps = append(r.report.Steps, Step{Name: name, Done: done, Message: fmt.Sprintf(format, args...), Objects: objects})
}
