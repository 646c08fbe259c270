// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capt-provider/capt/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
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

// NewAccess returns an Access with the connection flags of kubectl. Warnings of the API server are printed to the writer.
func NewAccess(warnings io.Writer) *Access {
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
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme, controlplanev1.AddToScheme, bootstrapv1.AddToScheme,
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
	config.UserAgent = BuildVersion().UserAgent()
	config.WarningHandlerWithContext = &warnings{to: a.Warnings, printed: map[string]sets.Set[string]{}}
	return config, nil
}

// warnings prints each warning once per object that a request writes, for the first objects.
type warnings struct {
	to      io.Writer
	mutex   sync.Mutex
	printed map[string]sets.Set[string] // Objects by text.
}

func (w *warnings) HandleWarningHeaderWithContext(request context.Context, code int, _, text string) {
	const warningCode = 299 // That of the API server's warnings (RFC 7234).
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

// Client of the API server. It reads without a cache.
func (a *Access) Client() (client.WithWatch, error) {
	config, err := a.Config()
	if err != nil {
		return nil, err
	}
	connected, err := a.Connect(config)
	if err != nil {
		if files := a.ToRawKubeConfigLoader().ConfigAccess().GetLoadingPrecedence(); !slices.ContainsFunc(files, func(file string) bool { _, err := os.Stat(file); return err == nil }) {
			err = fmt.Errorf("%w. No kubeconfig was found: %s", err, strings.Join(files, ", "))
		}
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return connected, nil
}

// Only is the namespace of --namespace; empty for all namespaces. The namespace of the kubeconfig's context is not used: a fleet is migrated as
// a whole unless the user limits it.
func (a *Access) Only() string { return ptr.Deref(a.Namespace, "") }

// Objects are all Clusters and the objects of CAPT that can belong to them.
type Objects struct {
	Clusters      []clusterv1.Cluster
	CAPTClusters  map[types.NamespacedName]*infrav1.CAPTCluster
	ControlPlanes map[types.NamespacedName]*controlplanev1.CAPTControlPlane
	Applies       map[types.NamespacedName]*infrav1.WorkspaceTemplateApply
	Pools
}

// Pools are MachinePools, those of other providers included, and CAPTMachinePools.
type Pools struct {
	MachinePools     map[types.NamespacedName]*clusterv1.MachinePool
	CAPTMachinePools map[types.NamespacedName]*infrav1.CAPTMachinePool
}

// ReadObjects lists each kind once, in a namespace, or in all if it is empty.
func ReadObjects(ctx context.Context, reader client.Reader, namespace string) (*Objects, error) {
	var (
		clusters      clusterv1.ClusterList
		captClusters  infrav1.CAPTClusterList
		controlPlanes controlplanev1.CAPTControlPlaneList
		applies       infrav1.WorkspaceTemplateApplyList
	)
	for _, list := range []client.ObjectList{&clusters, &captClusters, &controlPlanes, &applies} {
		if err := reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
	}
	pools, err := ReadPools(ctx, reader, client.InNamespace(namespace))
	return &Objects{clusters.Items, Indexed(captClusters.Items), Indexed(controlPlanes.Items), Indexed(applies.Items), pools}, err
}

// ReadPools lists machine pools; none of a kind that is not served: Cluster API can be installed without MachinePools, and CAPT can be older.
func ReadPools(ctx context.Context, reader client.Reader, options ...client.ListOption) (Pools, error) {
	var (
		machinePools     clusterv1.MachinePoolList
		captMachinePools infrav1.CAPTMachinePoolList
	)
	for _, list := range []client.ObjectList{&machinePools, &captMachinePools} {
		if err := reader.List(ctx, list, options...); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return Pools{}, err
		}
	}
	return Pools{Indexed(machinePools.Items), Indexed(captMachinePools.Items)}, nil
}

// Indexed returns objects by namespace and name.
func Indexed[T any, P interface {
	*T
	client.Object
}](items []T) map[types.NamespacedName]P {
	found := make(map[types.NamespacedName]P, len(items))
	for i := range items {
		found[client.ObjectKeyFromObject(P(&items[i]))] = &items[i]
	}
	return found
}

// Get reads an object; nil if it has no name, or does not exist.
func Get[O client.Object](ctx context.Context, reader client.Reader, key client.ObjectKey, object O) (none O, err error) {
	if key.Name == "" {
		return none, nil
	}
	if err := reader.Get(ctx, key, object); err != nil {
		return none, client.IgnoreNotFound(err)
	}
	return object, nil
}

// MergePatch changes only the fields that it has, whatever other clients have written since the object was read.
type MergePatch map[string]any

// Type implements client.Patch.
func (MergePatch) Type() types.PatchType { return types.MergePatchType }

// Data implements client.Patch.
func (p MergePatch) Data(client.Object) ([]byte, error) { return json.Marshal(p) }

// ListWorkspaces lists the Workspaces of a scope, in a namespace if they have one and it is not empty; none if the kind is not served.
func ListWorkspaces(ctx context.Context, reader client.Reader, scope terraform.Scope, namespace string) ([]unstructured.Unstructured, error) {
	var list unstructured.UnstructuredList
	kind := scope.GroupVersionKind()
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if scope == terraform.ScopeCluster {
		namespace = ""
	}
	err := reader.List(ctx, &list, client.InNamespace(namespace))
	if meta.IsNoMatchError(err) {
		err = nil
	}
	return list.Items, err
}

// NamespaceLabels returns a function that reads the labels of namespaces, each once. They are nil if the namespace does not exist.
func NamespaceLabels(ctx context.Context, reader client.Reader) func(name string) (labels.Set, error) {
	known := map[string]labels.Set{}
	return func(name string) (labels.Set, error) {
		if found, ok := known[name]; ok {
			return found, nil
		}
		namespace := &metav1.PartialObjectMetadata{}
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		if err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading namespace %s: %w", name, err)
		}
		known[name] = namespace.Labels
		return known[name], nil
	}
}

// Of returns the objects of CAPT that a Cluster refers to; nil for one that does not exist or is not CAPT's.
func (o *Objects) Of(c *clusterv1.Cluster) (captCluster *infrav1.CAPTCluster, controlPlane *controlplanev1.CAPTControlPlane) {
	if ref := c.Spec.InfrastructureRef; ref.APIGroup == infrav1.GroupVersion.Group {
		captCluster = o.CAPTClusters[types.NamespacedName{Namespace: c.Namespace, Name: ref.Name}]
	}
	if ref := c.Spec.ControlPlaneRef; ref.APIGroup == controlplanev1.GroupVersion.Group {
		controlPlane = o.ControlPlanes[types.NamespacedName{Namespace: c.Namespace, Name: ref.Name}]
	}
	return captCluster, controlPlane
}

// Patience limits a completion in time.
func (a *Access) Patience(ctx context.Context) (context.Context, context.CancelFunc) {
	const patience = 3 * time.Second // How long a completion waits for a response of the cluster before it completes nothing.
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithTimeout(ctx, patience)
}

type completed struct {
	prefix string
	list   client.ObjectList
}

// complete completes with NAMESPACE/NAME of objects. If the cluster does not respond, it completes nothing, because a shell cannot show errors.
func (a *Access) complete(all ...completed) cobra.CompletionFunc {
	return func(command *cobra.Command, _ []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		ctx, cancel := a.Patience(command.Context())
		defer cancel()
		connected, err := a.Client()
		for _, one := range all {
			if err != nil || connected.List(ctx, one.list) != nil {
				break
			}
			_ = meta.EachListItem(one.list, func(object runtime.Object) error { // The function returns no error.
				names = append(names, one.prefix+strings.TrimPrefix(client.ObjectKeyFromObject(object.(client.Object)).String(), "/"))
				return nil
			})
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteNamespaces with the namespaces of the cluster.
func (a *Access) CompleteNamespaces() cobra.CompletionFunc {
	return a.complete(completed{"", &corev1.NamespaceList{}})
}

// CompleteClusters with NAMESPACE/NAME of the Clusters.
func (a *Access) CompleteClusters() cobra.CompletionFunc {
	return a.complete(completed{"", &clusterv1.ClusterList{}})
}

// CompleteTemplates with NAMESPACE/NAME of the WorkspaceTemplates.
func (a *Access) CompleteTemplates() cobra.CompletionFunc {
	return a.complete(completed{"", &infrav1.WorkspaceTemplateList{}})
}

// CompleteChanges with NAMESPACE/NAME of the Clusters and of the WorkspaceTemplateApplies.
func (a *Access) CompleteChanges() cobra.CompletionFunc {
	return a.complete(completed{"", &clusterv1.ClusterList{}}, completed{"", &infrav1.WorkspaceTemplateApplyList{}})
}

// CompleteFailing with NAMESPACE/NAME of the Clusters, and with KIND/NAMESPACE/NAME of the WorkspaceTemplateApplies.
func (a *Access) CompleteFailing() cobra.CompletionFunc {
	return a.complete(completed{"", &clusterv1.ClusterList{}}, completed{"workspacetemplateapply/", &infrav1.WorkspaceTemplateApplyList{}})
}

// CompleteImpact with KIND/NAMESPACE/NAME of the objects of CAPT.
func (a *Access) CompleteImpact() cobra.CompletionFunc {
	return a.complete(
		completed{"WorkspaceTemplate/", &infrav1.WorkspaceTemplateList{}}, completed{"WorkspaceTemplateApply/", &infrav1.WorkspaceTemplateApplyList{}},
		completed{"Cluster/", &clusterv1.ClusterList{}},
	)
}

// CompleteContexts with those of the kubeconfig.
func (a *Access) CompleteContexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := a.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// Watched are kinds of objects, in a namespace or in all if it is empty.
type Watched struct {
	Namespace string
	Kinds     []schema.GroupVersionKind
	// Until reports, after the output was printed, whether watching ends; nil for never.
	Until func() bool
}

// Changes signals that a watched object may have changed. Where the user may not watch, it signals at the interval refresh.
func Changes(ctx context.Context, c client.WithWatch, refresh time.Duration, watched Watched) <-chan struct{} {
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default: // It is signaled already.
		}
	}
	for _, kind := range watched.Kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		go wait.UntilWithContext(ctx, func(ctx context.Context) {
			events, err := c.Watch(ctx, list, client.InNamespace(watched.Namespace))
			if meta.IsNoMatchError(err) { // It may be served in the older version only.
				list.SetGroupVersionKind(list.GroupVersionKind().GroupKind().WithVersion(migrate.LegacyVersion))
				return
			}
			signal() // For what changed while it was not watched.
			if err != nil {
				return
			}
			defer context.AfterFunc(ctx, events.Stop)()
			for range events.ResultChan() {
				signal()
			}
		}, refresh)
	}
	return changed
}

// release is set by the linker for releases; otherwise Go knows which commit was built.
var release string

// Version of captctl.
type Version struct {
	metav1.TypeMeta `json:",inline"`
	Version         string `json:"version"`
	// Commit and CommitTime are those of the source; empty if it was not built from a repository.
	Commit     string `json:"commit,omitempty"`
	CommitTime string `json:"commitTime,omitempty"`
	// Modified reports whether the source was changed after the commit.
	Modified bool `json:"modified,omitempty"`
	// PlanVersion is the apiVersion of the plans that it makes and reads.
	PlanVersion string `json:"planVersion"`
	GoVersion   string `json:"goVersion"`
	Platform    string `json:"platform"`
}

// BuildVersion returns the version of this program.
func BuildVersion() Version {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionFrom(info)
}

func versionFrom(info *debug.BuildInfo) Version {
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	return Version{
		TypeMeta:    metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "Version"},
		Version:     cmp.Or(release, info.Main.Version, "(devel)"),
		Commit:      settings["vcs.revision"],
		CommitTime:  settings["vcs.time"],
		Modified:    settings["vcs.modified"] == "true",
		PlanVersion: migrate.APIVersion,
		GoVersion:   goruntime.Version(),
		Platform:    goruntime.GOOS + "/" + goruntime.GOARCH,
	}
}

// UserAgent identifies captctl in the audit log of the API server.
func (v Version) UserAgent() string {
	return fmt.Sprintf("captctl/%s (%s)", v.Version, v.Platform)
}
