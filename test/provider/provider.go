// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package provider is a controller for Workspaces that behaves like Crossplane's provider-terraform v1.1, for tests
// and for trying CAPT out without a cluster that has Crossplane. It serves both scopes, tf.upbound.io and tf.m.upbound.io.
//
// What a Workspace shows at each moment of its life, and in which order, is the contract: conditions, annotations,
// the finalizer, the connection Secret. The real provider can take its place in every test. Most of it comes from
// crossplane-runtime's managed reconciler itself; this package adds what provider-terraform observes and applies.
package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	xpv1 "github.com/crossplane/crossplane-runtime/v2/apis/common/v1"
	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	"github.com/crossplane/crossplane-runtime/v2/pkg/meta"
	"github.com/crossplane/crossplane-runtime/v2/pkg/ratelimiter"
	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/managed"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/provider/executor"
)

// Options configure the controllers.
type Options struct {
	// Executors carry the Workspaces out.
	Executors executor.Factory
	// PollInterval is how often a Workspace at rest is planned again.
	PollInterval time.Duration
	// Timeout is how long all commands of one reconcile may take together.
	Timeout time.Duration
	// Logger gets the output of Terraform of Workspaces with enableTerraformCLILogging.
	Logger logging.Logger
	// MaxConcurrentReconciles is how many Workspaces of each scope are worked on at a time.
	MaxConcurrentReconciles int
	// Reconciler is another option of the reconciler; it may be nil.
	Reconciler managed.ReconcilerOption
	// CreationGracePeriod is how long after a create the absence of resources and outputs is not believed: nothing
	// happens with such a Workspace meanwhile, its deletion included. Without it, a Workspace deleted soon after its creation is gone at once.
	CreationGracePeriod time.Duration
}

// SetupWithManager adds the Workspaces to the manager's scheme and one controller a scope to the manager. The manager's client must not
// cache Secrets and ConfigMaps: they are few, and a cache may be stale.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if err := AddToScheme(mgr.GetScheme()); err != nil {
		return fmt.Errorf("provider: cannot add Workspaces to the scheme: %w", err)
	}
	if scripts, ok := o.Executors.(interface {
		Version0(workspace types.NamespacedName) bool
	}); ok {
		mgr = version0{mgr, scripts.Version0}
	}
	return errors.Join(
		setupScope(mgr, o, &ClusterWorkspace{}, ClusterWorkspaceKind),
		setupScope(mgr, o, &NamespacedWorkspace{}, NamespacedWorkspaceKind),
	)
}

func setupScope(mgr ctrl.Manager, o Options, kind client.Object, gvk schema.GroupVersionKind) error {
	name := managed.ControllerName(gvk.GroupKind().String())
	return ctrl.NewControllerManagedBy(mgr).
		Named("workspace-"+gvk.Group).
		For(kind, builder.WithPredicates(resource.DesiredStateChanged())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: o.MaxConcurrentReconciles,
			RateLimiter:             ratelimiter.NewController(),
		}).
		Complete(managed.NewReconciler(mgr, resource.ManagedKind(gvk), o.reconciler,
			managed.WithTypedExternalConnector(&connector{client: mgr.GetClient(), options: o}),
			managed.WithManagementPolicies(),
			managed.WithCreationGracePeriod(o.CreationGracePeriod),
			managed.WithLogger(o.Logger.WithValues("controller", name)),
			managed.WithPollInterval(o.PollInterval),
			managed.WithTimeout(o.Timeout),
		))
}

func (o Options) reconciler(r *managed.Reconciler) {
	if o.Reconciler != nil {
		o.Reconciler(r)
	}
}

// version0 is a manager whose client writes the status of some Workspaces as a provider before v1 did: without the generation in
// conditions.
type version0 struct {
	ctrl.Manager
	is func(types.NamespacedName) bool
}

// GetClient returns the client that the reconciler uses.
func (m version0) GetClient() client.Client { return version0Client{m.Manager.GetClient(), m.is} }

type version0Client struct {
	client.Client
	is func(types.NamespacedName) bool
}

func (c version0Client) Status() client.SubResourceWriter {
	return version0Status{c.Client.Status(), c.is}
}

type version0Status struct {
	client.SubResourceWriter
	is func(types.NamespacedName) bool
}

func (s version0Status) Update(ctx context.Context, o client.Object, options ...client.SubResourceUpdateOption) error {
	if s.is(client.ObjectKeyFromObject(o)) {
		var status *Status
		switch w := o.(type) {
		case *ClusterWorkspace:
			status = &w.Status
		case *NamespacedWorkspace:
			status = &w.Status
		}
		for i := range status.Conditions {
			status.Conditions[i].ObservedGeneration = 0
		}
	}
	return s.SubResourceWriter.Update(ctx, o, options...)
}

// runs is shared by both controllers: a registry takes a name once.
var runs = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "capt_test_provider_runs_total",
	Help: "Terraform commands started for a Workspace, by operation: init, plan, apply, destroy.",
}, []string{"operation", "group", "namespace", "name"})

func init() { metrics.Registry.MustRegister(runs) }

const (
	operationInit    = "init"
	operationPlan    = "plan"
	operationApply   = "apply"
	operationDestroy = "destroy"
)

func count(w workspace, operation string) {
	group := NamespacedWorkspaceKind.Group
	if w.GetNamespace() == "" {
		group = ClusterWorkspaceKind.Group
	}
	runs.WithLabelValues(operation, group, w.GetNamespace(), w.GetName()).Inc()
}

type workspace interface {
	resource.Managed
	Parameters() *terraform.WorkspaceParameters
	Observation() *Observation
}

// connector prepares the working directories of one scope.
type connector struct {
	client  client.Client
	options Options
}

// Connect prepares the working directory and selects the Terraform workspace. A working directory that did not change since the last
// observation is not initialized again.
func (c *connector) Connect(ctx context.Context, w workspace) (managed.TypedExternalClient[workspace], error) {
	config, err := c.useProviderConfig(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("failed to resolve provider config: %w", err)
	}
	e := &external{inputs: inputs{c.client, w}, options: c.options}
	module, err := e.module(ctx, config)
	if err != nil {
		return nil, err
	}
	if e.exec, err = c.options.Executors.Open(ctx, module); err != nil {
		return nil, err
	}
	if err := c.initialize(ctx, e.exec, w, config); err != nil {
		return nil, err
	}
	if err := e.exec.SelectWorkspace(ctx, meta.GetExternalName(w)); err != nil {
		return nil, fmt.Errorf("cannot select Terraform workspace: %w", err)
	}
	return e, nil
}

func (c *connector) initialize(ctx context.Context, exec executor.Executor, w workspace, config *providerConfig) error {
	if known := w.Observation().Checksum; known != "" {
		checksum, err := exec.Checksum(ctx)
		if err != nil {
			return fmt.Errorf("cannot calculate workspace checksum: %w", err)
		}
		if checksum == known {
			return nil
		}
	}
	var args []string
	if config.BackendFile != nil {
		args = append(args, "-backend-config="+fileBackend)
	}
	count(w, operationInit)
	if err := exec.Init(ctx, append(args, w.Parameters().InitArgs...)); err != nil {
		return fmt.Errorf("cannot initialize Terraform configuration: %w", err)
	}
	return nil
}

// external is the Terraform state of one Workspace, during one reconcile.
type external struct {
	inputs

	options Options
	exec    executor.Executor
}

// Observe plans and reads the state. Without anything to change, the Workspace is available.
func (e *external) Observe(ctx context.Context, w workspace) (managed.ExternalObservation, error) {
	none := managed.ExternalObservation{}
	differs, err := e.plan(ctx)
	if err != nil {
		return none, err
	}
	resources, err := e.exec.Resources(ctx)
	if err != nil {
		return none, fmt.Errorf("cannot list Terraform resources: %w", err)
	}
	if meta.WasDeleted(w) && len(resources) == 0 {
		if err := e.exec.DeleteWorkspace(ctx); err != nil {
			return none, fmt.Errorf("cannot delete Terraform workspace: %w", err)
		}
	}
	details, err := e.outputs(ctx)
	if err != nil {
		return none, err
	}
	exists := len(resources)+len(details) > 0
	if w.Observation().Checksum, err = e.exec.Checksum(ctx); err != nil {
		return none, fmt.Errorf("cannot calculate workspace checksum: %w", err)
	}
	if !differs {
		w.SetConditions(xpv1.Available())
	}
	if meta.WasDeleted(w) && !exists {
		if err := e.options.Executors.Forget(w.GetUID()); err != nil {
			return none, err
		}
	}
	return managed.ExternalObservation{ResourceExists: exists, ResourceUpToDate: !differs, ConnectionDetails: details}, nil
}

// plan reports whether there is anything to change. A module that is being deleted need not have a plan any more: its
// state decides.
func (e *external) plan(ctx context.Context) (bool, error) {
	options, err := e.logged(ctx, operationPlan, e.Parameters().PlanArgs)
	if err != nil {
		return false, err
	}
	count(e.workspace, operationPlan)
	differs, err := e.exec.Plan(ctx, options)
	switch {
	case err != nil && meta.WasDeleted(e.workspace):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cannot diff (i.e. plan) Terraform configuration: %w", err)
	}
	return differs, nil
}

// logged are the options of an operation. The log names the Workspace without its namespace.
func (e *external) logged(ctx context.Context, operation string, args []string) (executor.RunOptions, error) {
	options, err := e.runOptions(ctx, args)
	if ptr.Deref(e.Parameters().EnableTerraformCLILogging, false) {
		logger := e.options.Logger.WithValues("request", map[string]string{"name": e.GetName()})
		options.Log = func(text string) { logger.Info(text, "operation", operation) }
	}
	return options, err
}

// Create applies for the first time. Outputs are shown after the next observation: the reconciler writes annotations next, and
// takes the status from the answer.
func (e *external) Create(ctx context.Context, _ workspace) (managed.ExternalCreation, error) {
	details, err := e.apply(ctx)
	return managed.ExternalCreation{ConnectionDetails: details}, err
}

// Update applies again. Until it has ended, the Workspace shows what it showed before.
func (e *external) Update(ctx context.Context, w workspace) (managed.ExternalUpdate, error) {
	details, err := e.apply(ctx)
	if err == nil {
		w.SetConditions(xpv1.Available())
	}
	return managed.ExternalUpdate{ConnectionDetails: details}, err
}

func (e *external) apply(ctx context.Context) (managed.ConnectionDetails, error) {
	options, err := e.logged(ctx, operationApply, e.Parameters().ApplyArgs)
	if err != nil {
		return nil, err
	}
	count(e.workspace, operationApply)
	if err := e.exec.Apply(ctx, options); err != nil {
		return nil, fmt.Errorf("cannot apply Terraform configuration: %w", err)
	}
	return e.outputs(ctx)
}

// Delete removes the resources of a deleted Workspace. The next reconcile verifies that they are gone.
func (e *external) Delete(ctx context.Context, _ workspace) (managed.ExternalDelete, error) {
	options, err := e.logged(ctx, operationDestroy, e.Parameters().DestroyArgs)
	if err != nil {
		return managed.ExternalDelete{}, err
	}
	count(e.workspace, operationDestroy)
	if err := e.exec.Destroy(ctx, options); err != nil {
		return managed.ExternalDelete{}, fmt.Errorf("cannot destroy Terraform configuration: %w", err)
	}
	return managed.ExternalDelete{}, nil
}

// Disconnect has nothing to do: an executor runs only while it is called.
func (e *external) Disconnect(context.Context) error { return nil }

// outputs reads the outputs and puts the ones that are not sensitive into the status. The checksum goes with the old
// ones: what changes outputs changed the working directory. All outputs are connection details: strings as they are and
// everything else as JSON.
func (e *external) outputs(ctx context.Context) (managed.ConnectionDetails, error) {
	outputs, err := e.exec.Outputs(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot list Terraform outputs: %w", err)
	}
	shown, details := map[string]extensionsv1.JSON{}, managed.ConnectionDetails{}
	for _, o := range outputs {
		raw, err := json.Marshal(o.Value)
		if err != nil {
			return nil, fmt.Errorf("cannot encode Terraform output %s: %w", o.Name, err)
		}
		if !o.Sensitive {
			shown[o.Name] = extensionsv1.JSON{Raw: raw}
		}
		details[o.Name] = raw
		if text, ok := o.Value.(string); ok && o.String {
			details[o.Name] = []byte(text)
		}
	}
	*e.Observation() = Observation{Outputs: shown}
	return details, nil
}

// Names of the files the provider puts next to a module.
const (
	fileMain          = "main.tf"
	fileMainJSON      = "main.tf.json"
	fileConfiguration = "crossplane-provider-config.tf"
	fileBackend       = "crossplane.remote.tfbackend"
)

// inputs reads everything a Workspace refers to.
type inputs struct {
	client client.Client
	workspace
}

// module gathers the files and the environment of the Workspace.
func (i inputs) module(ctx context.Context, config *providerConfig) (executor.Module, error) {
	spec := i.Parameters()
	gvk, err := apiutil.GVKForObject(i.workspace, i.client.Scheme())
	if err != nil {
		return executor.Module{}, err
	}
	m := executor.Module{
		UID: i.GetUID(), GroupKind: gvk.GroupKind(), Key: client.ObjectKeyFromObject(i.workspace),
		Annotations: i.GetAnnotations(),
		Entrypoint:  spec.Entrypoint,
	}
	switch spec.Source {
	case terraform.SourceRemote:
		m.Remote = spec.Module
	case terraform.SourceInline:
		name := fileMain
		if spec.InlineFormat == terraform.FormatJSON {
			name = fileMainJSON
		}
		m.Files = map[string][]byte{name: []byte(spec.Module)}
	case terraform.SourceFlux:
		return m, errors.New("cannot get Flux Artefact Terraform module: this provider has no Flux sources") //nolint:misspell // As provider-terraform spells it.
	}
	if m.EntrypointFiles, err = i.files(ctx, config); err != nil {
		return m, err
	}
	m.Env, err = i.environment(ctx)
	return m, err
}

func (i inputs) files(ctx context.Context, config *providerConfig) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, c := range config.Credentials {
		data, err := resource.CommonCredentialExtractor(ctx, c.Source, i.client, c.CommonCredentialSelectors)
		if err != nil {
			return nil, fmt.Errorf("cannot get credentials: %w", err)
		}
		files[c.Filename] = data
	}
	if config.Configuration != nil {
		files[fileConfiguration] = []byte(*config.Configuration)
	}
	if config.BackendFile != nil {
		files[fileBackend] = []byte(*config.BackendFile)
	}
	return files, nil
}

// environment resolves variables: a value, else a ConfigMap's key, else a Secret's.
func (i inputs) environment(ctx context.Context) ([]string, error) {
	vars := i.Parameters().Env
	env := make([]string, 0, len(vars))
	for _, v := range vars {
		value := v.Value
		if value == "" && (v.ConfigMapKeyRef != nil || v.SecretKeyRef != nil) {
			data, found, err := i.key(ctx, v.ConfigMapKeyRef, v.SecretKeyRef)
			if err == nil && !found {
				err = fmt.Errorf("couldn't find key of variable %s", v.Name)
			}
			if err != nil {
				return nil, fmt.Errorf("cannot resolve variables: %w", err)
			}
			value = string(data)
		}
		env = append(env, v.Name+"="+value)
	}
	return env, nil
}

// key reads the key of a ConfigMap, else of a Secret.
func (i inputs) key(ctx context.Context, configMap, secret *terraform.KeyReference) (data []byte, found bool, err error) {
	if configMap != nil {
		m := &corev1.ConfigMap{}
		err = i.client.Get(ctx, i.named(configMap), m)
		text, found := m.Data[configMap.Key]
		return []byte(text), found, err
	}
	s := &corev1.Secret{}
	err = i.client.Get(ctx, i.named(secret), s)
	data, found = s.Data[secret.Key]
	return data, found, err
}

// named is what a reference means: a Workspace with a namespace refers to objects of that namespace.
func (i inputs) named(r *terraform.KeyReference) client.ObjectKey {
	if namespace := i.GetNamespace(); namespace != "" {
		return client.ObjectKey{Namespace: namespace, Name: r.Name}
	}
	return client.ObjectKey{Namespace: r.Namespace, Name: r.Name}
}

// runOptions gathers the variables of the Workspace: vars, then varFiles, then varmap.
func (i inputs) runOptions(ctx context.Context, args []string) (executor.RunOptions, error) {
	o := executor.RunOptions{Args: args}
	for _, v := range i.Parameters().Vars {
		o.Vars = append(o.Vars, executor.Var{Key: v.Key, Value: v.Value})
	}
	for _, f := range i.Parameters().VarFiles {
		data, err := i.varFile(ctx, f)
		if err != nil {
			return o, fmt.Errorf("cannot determine Terraform options: cannot get tfvars: %w", err)
		}
		o.VarFiles = append(o.VarFiles, executor.VarFile{Data: data, JSON: f.Format == terraform.FormatJSON})
	}
	if varMap := i.Parameters().VarMap; varMap != nil && len(varMap.Raw) > 0 {
		o.VarFiles = append(o.VarFiles, executor.VarFile{Data: varMap.Raw, JSON: true})
	}
	return o, nil
}

// varFile reads one file of variables. A key that is not there is an empty file, as with the real provider.
func (i inputs) varFile(ctx context.Context, f terraform.VarFile) ([]byte, error) {
	var configMap, secret *terraform.KeyReference
	switch f.Source {
	case "ConfigMapKey":
		configMap = f.ConfigMapKeyRef
	case "SecretKey":
		secret = f.SecretKeyRef
	}
	if configMap == nil && secret == nil {
		return nil, fmt.Errorf("source %s without its reference", f.Source)
	}
	data, _, err := i.key(ctx, configMap, secret)
	return data, err
}

const (
	kindProviderConfig        = "ProviderConfig"
	kindClusterProviderConfig = "ClusterProviderConfig"
)

// providerConfig is what all Workspaces that use a ProviderConfig share. The plugin cache is the executor's business.
type providerConfig struct {
	Credentials   []credentials `json:"credentials"`
	Configuration *string       `json:"configuration"`
	BackendFile   *string       `json:"backendFile"`
}

// credentials are one file that is put next to each configuration.
type credentials struct {
	Filename string                 `json:"filename"`
	Source   xpv1.CredentialsSource `json:"source"`

	xpv1.CommonCredentialSelectors `json:",inline"`
}

// reference of the Workspace to its ProviderConfig. The namespace is empty for one of the cluster.
func reference(w workspace) (xpv1.ProviderConfigReference, string, error) {
	switch w := w.(type) {
	case *ClusterWorkspace:
		if ref := w.GetProviderConfigReference(); ref != nil {
			return xpv1.ProviderConfigReference{Kind: kindProviderConfig, Name: ref.Name}, "", nil
		}
	case *NamespacedWorkspace:
		switch ref := w.GetProviderConfigReference(); {
		case ref == nil:
		case ref.Kind == kindProviderConfig:
			return *ref, w.GetNamespace(), nil
		case ref.Kind == kindClusterProviderConfig:
			return *ref, "", nil
		default:
			return *ref, "", fmt.Errorf("referenced provider config kind %q is invalid for %s", ref.Kind, client.ObjectKeyFromObject(w))
		}
	}
	return xpv1.ProviderConfigReference{}, "", errors.New("provider config is not set")
}

func (c *connector) useProviderConfig(ctx context.Context, w workspace) (*providerConfig, error) {
	ref, namespace, err := reference(w)
	if err != nil {
		return nil, err
	}
	gvk, err := apiutil.GVKForObject(w, c.client.Scheme())
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk.GroupVersion().WithKind(ref.Kind))
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, object); err != nil {
		return nil, fmt.Errorf("cannot get provider config: %w", err)
	}
	content, _, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil {
		return nil, err
	}
	config := &providerConfig{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, config); err != nil {
		return nil, fmt.Errorf("cannot read provider config: %w", err)
	}
	for _, credentials := range config.Credentials {
		if credentials.SecretRef != nil && namespace != "" {
			// A user who can write to one namespace must not read the Secrets of another.
			credentials.SecretRef.Namespace = namespace
		}
	}
	if err := c.trackUsage(ctx, w, gvk.GroupVersion().String(), ref); err != nil {
		return nil, fmt.Errorf("cannot track provider config usage: %w", err)
	}
	return config, nil
}

// trackUsage makes sure that a ProviderConfigUsage ties the Workspace to its ProviderConfig.
func (c *connector) trackUsage(ctx context.Context, w workspace, apiVersion string, ref xpv1.ProviderConfigReference) error {
	usage := &unstructured.Unstructured{}
	usage.SetAPIVersion(apiVersion)
	usage.SetKind("ProviderConfigUsage")
	usage.SetNamespace(w.GetNamespace())
	usage.SetName(string(w.GetUID()))
	_, err := controllerutil.CreateOrUpdate(ctx, c.client, usage, func() error {
		labels := map[string]string{xpv1.LabelKeyProviderName: ref.Name}
		config := map[string]any{"name": ref.Name}
		if w.GetNamespace() != "" {
			labels[xpv1.LabelKeyProviderKind] = ref.Kind
			config["kind"] = ref.Kind
		}
		usage.SetLabels(labels)
		usage.Object["providerConfigRef"] = config
		usage.Object["resourceRef"] = map[string]any{"apiVersion": apiVersion, "kind": "Workspace", "name": w.GetName()}
		return controllerutil.SetControllerReference(w, usage, c.client.Scheme())
	})
	return err
}

// Status is the observed state of a Workspace.
type Status struct {
	xpv1.ResourceStatus `json:",inline"`

	AtProvider Observation `json:"atProvider,omitempty"`
}

// Observation is what the last look at the Terraform state found: a checksum of the working directory, and the outputs that are not
// sensitive.
type Observation struct {
	Checksum string                       `json:"checksum,omitempty"`
	Outputs  map[string]extensionsv1.JSON `json:"outputs,omitempty"`
}

// The kinds of Workspace.
var (
	ClusterWorkspaceKind    = schema.GroupVersionKind{Group: "tf.upbound.io", Version: "v1beta1", Kind: "Workspace"}
	NamespacedWorkspaceKind = schema.GroupVersionKind{Group: "tf.m.upbound.io", Version: "v1beta1", Kind: "Workspace"}
)

// AddToScheme adds both kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypeWithName(ClusterWorkspaceKind, &ClusterWorkspace{})
	scheme.AddKnownTypeWithName(ClusterWorkspaceKind.GroupVersion().WithKind("WorkspaceList"), &List[ClusterWorkspace]{})
	metav1.AddToGroupVersion(scheme, ClusterWorkspaceKind.GroupVersion())
	scheme.AddKnownTypeWithName(NamespacedWorkspaceKind, &NamespacedWorkspace{})
	scheme.AddKnownTypeWithName(NamespacedWorkspaceKind.GroupVersion().WithKind("WorkspaceList"), &List[NamespacedWorkspace]{})
	metav1.AddToGroupVersion(scheme, NamespacedWorkspaceKind.GroupVersion())
	return nil
}

// Workspace is a Workspace of either scope. Scopes differ in the references to a ProviderConfig and to a Secret.
type Workspace[ProviderConfig, Secret any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec[ProviderConfig, Secret] `json:"spec"`
	Status Status                       `json:"status,omitempty"`
}

// Spec is the desired state of a Workspace. Those of a namespace have no DeletionPolicy.
type Spec[ProviderConfig, Secret any] struct {
	WriteConnectionSecretToReference *Secret                       `json:"writeConnectionSecretToRef,omitempty"`
	ProviderConfigReference          *ProviderConfig               `json:"providerConfigRef,omitempty"`
	ManagementPolicies               xpv1.ManagementPolicies       `json:"managementPolicies,omitempty"`
	DeletionPolicy                   xpv1.DeletionPolicy           `json:"deletionPolicy,omitempty"`
	ForProvider                      terraform.WorkspaceParameters `json:"forProvider"`
}

// List is a list of Workspaces.
type List[W any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []W `json:"items"`
}

type (
	// ClusterWorkspace is a Workspace of tf.upbound.io.
	ClusterWorkspace = Workspace[xpv1.Reference, xpv1.SecretReference]
	// NamespacedWorkspace is a Workspace of tf.m.upbound.io.
	NamespacedWorkspace = Workspace[xpv1.ProviderConfigReference, xpv1.LocalSecretReference]
)

var (
	_ interface {
		resource.Managed
		resource.ConnectionSecretWriterTo
		resource.ProviderConfigReferencer
		resource.Orphanable
	} = &ClusterWorkspace{}
	_ resource.ModernManaged = &NamespacedWorkspace{}
)

// DeepCopyObject returns a deep copy.
func (w *Workspace[P, S]) DeepCopyObject() runtime.Object {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	w.Spec.ForProvider.DeepCopyInto(&out.Spec.ForProvider)
	w.Status.ResourceStatus.DeepCopyInto(&out.Status.ResourceStatus)
	out.Spec.ManagementPolicies = slices.Clone(w.Spec.ManagementPolicies)
	out.Spec.WriteConnectionSecretToReference, out.Spec.ProviderConfigReference = copied(w.Spec.WriteConnectionSecretToReference), copied(w.Spec.ProviderConfigReference)
	out.Status.AtProvider.Outputs = maps.Clone(w.Status.AtProvider.Outputs) // Their bytes are not changed.
	return &out
}

func copied[T any](in *T) *T {
	if in == nil {
		return nil
	}
	out := *in
	return &out
}

// DeepCopyObject returns a deep copy.
func (l *List[W]) DeepCopyObject() runtime.Object {
	out := &List[W]{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		item, _ := any(any(&l.Items[i]).(runtime.Object).DeepCopyObject()).(*W)
		out.Items = append(out.Items, *item)
	}
	return out
}

// Parameters of the module.
func (w *Workspace[P, S]) Parameters() *terraform.WorkspaceParameters { return &w.Spec.ForProvider }

// Observation is what the last look found.
func (w *Workspace[P, S]) Observation() *Observation { return &w.Status.AtProvider }

// GetCondition returns the condition of that type, with status Unknown if there is none.
func (w *Workspace[P, S]) GetCondition(t xpv1.ConditionType) xpv1.Condition {
	return w.Status.GetCondition(t)
}

// SetConditions adds conditions, or replaces those of their types.
func (w *Workspace[P, S]) SetConditions(c ...xpv1.Condition) { w.Status.SetConditions(c...) }

// GetManagementPolicies returns what the provider may do.
func (w *Workspace[P, S]) GetManagementPolicies() xpv1.ManagementPolicies {
	return w.Spec.ManagementPolicies
}

// SetManagementPolicies sets what the provider may do.
func (w *Workspace[P, S]) SetManagementPolicies(p xpv1.ManagementPolicies) {
	w.Spec.ManagementPolicies = p
}

// GetProviderConfigReference returns the ProviderConfig.
func (w *Workspace[P, S]) GetProviderConfigReference() *P { return w.Spec.ProviderConfigReference }

// SetProviderConfigReference sets the ProviderConfig.
func (w *Workspace[P, S]) SetProviderConfigReference(r *P) { w.Spec.ProviderConfigReference = r }

// GetWriteConnectionSecretToReference returns the Secret that gets all outputs.
func (w *Workspace[P, S]) GetWriteConnectionSecretToReference() *S {
	return w.Spec.WriteConnectionSecretToReference
}

// SetWriteConnectionSecretToReference sets the Secret that gets all outputs.
func (w *Workspace[P, S]) SetWriteConnectionSecretToReference(r *S) {
	w.Spec.WriteConnectionSecretToReference = r
}

// GetDeletionPolicy returns what becomes of the resources when the Workspace is deleted.
func (w *Workspace[P, S]) GetDeletionPolicy() xpv1.DeletionPolicy { return w.Spec.DeletionPolicy }

// SetDeletionPolicy sets what becomes of the resources when the Workspace is deleted.
func (w *Workspace[P, S]) SetDeletionPolicy(p xpv1.DeletionPolicy) { w.Spec.DeletionPolicy = p }
