// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/pager"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // Cluster API before v1.11 serves nothing else.
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/terraform"
	captconversion "github.com/capt-provider/capt/webhooks/conversion"
	"github.com/capt-provider/capt/webhooks/conversion/preserve"
)

// Snapshot is a fleet at one moment, in v1beta2. It holds no Secrets.
type Snapshot struct {
	ClusterUID types.UID // The UID of the namespace kube-system.
	// Namespace limits the plan to one namespace. Objects of all namespaces are read, because any of them may refer to a cluster-wide Workspace.
	Namespace string
	Taken     time.Time

	Clusters      []clusterv1.Cluster
	CAPTClusters  []infrav1.CAPTCluster
	ControlPlanes []controlplanev1.CAPTControlPlane
	Templates     []infrav1.WorkspaceTemplate
	Applies       []infrav1.WorkspaceTemplateApply
	Workspaces    []unstructured.Unstructured // Those of all scopes.
	Namespaces    []corev1.Namespace
	Revisions     []appsv1.ControllerRevision // Those of WorkspaceTemplates and of other kinds.
}

// Read takes a snapshot. It writes nothing. CAPT's and Cluster API's objects are read in v1beta2 or v1beta1, whichever is served.
func Read(ctx context.Context, reader client.Reader, namespace string, now time.Time) (*Snapshot, error) {
	s := &Snapshot{Namespace: namespace, Taken: now}
	each := eachHub(reader)
	reads := []func() error{
		func() (err error) { s.ClusterUID, err = ClusterUID(ctx, reader); return err },
		func() error { return Each(ctx, reader, corev1.SchemeGroupVersion.WithKind("Namespace"), "", s.add) },
		func() error { return Each(ctx, reader, appsv1.SchemeGroupVersion.WithKind(revisionKind), "", s.add) },
		func() error { return each(ctx, clusterv1.GroupVersion.WithKind("Cluster"), namespace, s.add) },
	}
	for _, kind := range Kinds() {
		if kind.InLegacy() {
			reads = append(reads, func() error { return each(ctx, kind.GroupVersionKind, "", s.add) })
		}
	}
	reads = append(reads, func() error { // Both scopes have the same list.
		for _, scope := range terraform.Scopes() {
			if err := Each(ctx, reader, scope.GroupVersionKind(), "", s.add); err != nil && !meta.IsNoMatchError(err) {
				return err
			}
		}
		return nil
	})
	if err := concurrently(reads); err != nil {
		return nil, err
	}
	return s, nil
}

// concurrently calls functions that read different kinds. It returns the first error, but errors about missing rights only together.
func concurrently(reads []func() error) error {
	const maxConcurrentReads = 3 // How many kinds are read at a time: one page of each is in memory.
	var group errgroup.Group
	group.SetLimit(maxConcurrentReads)
	errs := make([]error, len(reads))
	for i, read := range reads {
		group.Go(func() error { errs[i] = read(); return nil })
	}
	_ = group.Wait() // The errors are in errs, in the order of the kinds.
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil && !apierrors.IsForbidden(err) }); i >= 0 {
		return errs[i]
	}
	return errors.Join(errs...)
}

// ReadObjects takes a snapshot of some objects and what they refer to, with their namespaces. What does not exist is left out.
func ReadObjects(ctx context.Context, reader client.Reader, refs []ObjectRef, now time.Time) (*Snapshot, error) {
	s, seen := &Snapshot{Taken: now}, map[ObjectRef]bool{}
	reader = RetryingReader(reader)
	for len(refs) > 0 {
		for _, ref := range refs {
			ref.UID = ""
			if seen[ref] {
				continue
			}
			seen[ref] = true
			object, err := Get(ctx, reader, ref)
			if err == nil && object != nil {
				err = s.add(object)
			}
			if err != nil {
				return nil, err
			}
		}
		refs = slices.DeleteFunc(s.related(), func(ref ObjectRef) bool { return seen[ref] })
	}
	return s, nil
}

// related are the objects that those of a snapshot refer to, and the namespaces of all.
func (s *Snapshot) related() (refs []ObjectRef) {
	add := func(kind, namespace, name string) {
		if name != "" {
			refs = append(refs, ObjectRef{Group: infrav1.GroupVersion.Group, Kind: kind, Namespace: namespace, Name: name})
		}
	}
	addTemplate := func(key types.NamespacedName) { add("WorkspaceTemplate", key.Namespace, key.Name) }
	for _, objects := range [][]client.Object{Objects(s.Clusters), Objects(s.CAPTClusters), Objects(s.ControlPlanes), Objects(s.Applies), Objects(s.Templates)} {
		for _, object := range objects {
			refs = append(refs, ObjectRef{Kind: "Namespace", Name: object.GetNamespace()})
			switch object := object.(type) {
			case *clusterv1.Cluster:
				if ref := object.Spec.InfrastructureRef; ref.Kind == "CAPTCluster" {
					add(ref.Kind, object.Namespace, ref.Name)
				}
			case *infrav1.CAPTCluster:
				add("WorkspaceTemplateApply", object.Namespace, object.Spec.WorkspaceTemplateApplyRef.Name)
				addTemplate(object.Spec.VPC.Template.Ref.Key(object.Namespace))
			case *controlplanev1.CAPTControlPlane:
				add("WorkspaceTemplateApply", object.Namespace, object.Spec.WorkspaceTemplateApplyRef.Name)
				addTemplate(object.Spec.WorkspaceTemplateRef.Key(object.Namespace))
			case *infrav1.WorkspaceTemplateApply:
				key := object.TemplateKey()
				addTemplate(key)
				for _, stored := range rollout.StoredAs(key, rollout.AssignedTo(object)) {
					refs = append(refs, ObjectRef{Group: appsv1.GroupName, Kind: revisionKind, Namespace: stored.Namespace, Name: stored.Name})
				}
				if ref := object.Status.WorkspaceRef; ref != nil {
					refs = append(refs, ObjectRef{Group: schema.FromAPIVersionAndKind(ref.APIVersion, "").Group, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name})
				}
			}
		}
	}
	return refs
}

// ClusterUID identifies a management cluster: it is the UID of the namespace kube-system.
func ClusterUID(ctx context.Context, reader client.Reader) (types.UID, error) {
	var system corev1.Namespace
	if err := reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		return "", fmt.Errorf("reading namespace %s, which identifies the management cluster: %w", metav1.NamespaceSystem, err)
	}
	return system.UID, nil
}

func (s *Snapshot) add(object *unstructured.Unstructured) error {
	object.SetManagedFields(nil)
	switch object.GetKind() {
	case "Namespace":
		return appendTyped(&s.Namespaces, object)
	case revisionKind:
		return appendTyped(&s.Revisions, object)
	case "Cluster":
		return appendTyped(&s.Clusters, object)
	case "WorkspaceTemplate":
		return appendTyped(&s.Templates, object)
	case "WorkspaceTemplateApply":
		return appendTyped(&s.Applies, object)
	case "CAPTCluster":
		return appendTyped(&s.CAPTClusters, object)
	case "CAPTControlPlane":
		return appendTyped(&s.ControlPlanes, object)
	case terraform.WorkspaceKind:
		if naming.IsPreview(object) {
			return nil // It has the state of another Workspace, and no owner.
		}
		s.Workspaces = append(s.Workspaces, *object)
	default:
		return fmt.Errorf("%s is none of the kinds that CAPT v0.3 had", object.GetKind())
	}
	return nil
}

// Get reads an object; nil if it does not exist.
func Get(ctx context.Context, reader client.Reader, ref ObjectRef) (*unstructured.Unstructured, error) {
	kind, err := ref.GroupVersionKind()
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	err = reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	return object, nil
}

// Objects returns the elements of a list of a snapshot.
func Objects[T any, P interface {
	*T
	client.Object
}](list []T) []client.Object {
	found := make([]client.Object, len(list))
	for i := range list {
		found[i] = P(&list[i])
	}
	return found
}

func appendTyped[T any](list *[]T, object *unstructured.Unstructured) error {
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &typed); err != nil {
		return fmt.Errorf("decoding %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	*list = append(*list, typed)
	return nil
}

// LegacyWrites lists the writes of the status of an object by CAPT v0.3 since a time, according to managedFields.
func LegacyWrites(object metav1.Object, since time.Time) (writes []string) {
	for _, entry := range object.GetManagedFields() {
		if IsOlder(entry.APIVersion) && entry.Subresource == "status" && entry.Time != nil && entry.Time.After(since) {
			writes = append(writes, fmt.Sprintf("%s wrote its status in %s at %s", entry.Manager, entry.APIVersion, entry.Time.UTC().Format(time.RFC3339)))
		}
	}
	return writes
}

// IsOlder reports whether an API version is an older one of CAPT's groups.
func IsOlder(apiVersion string) bool {
	version, err := schema.ParseGroupVersion(apiVersion)
	return err == nil && version.Version != Version && (version.Group == infrav1.GroupVersion.Group || version.Group == controlplanev1.GroupVersion.Group)
}

// eachHub returns a variant of Each that passes objects of CAPT and Cluster API in v1beta2. It converts them if the API server serves v1beta1 only.
func eachHub(reader client.Reader) func(context.Context, schema.GroupVersionKind, string, func(*unstructured.Unstructured) error) error {
	converters := sync.OnceValues(captconversion.NewRegistry) // Building them takes a moment, so that this is done when the first one is needed.
	return func(ctx context.Context, kind schema.GroupVersionKind, namespace string, do func(*unstructured.Unstructured) error) error {
		return EachServed(ctx, reader, kind, namespace, func(object *unstructured.Unstructured) (err error) {
			if object.GroupVersionKind().Version == kind.Version {
				return do(object)
			}
			object.SetManagedFields(nil) // A snapshot does not have them, and they are more than half of many objects.
			var hub *unstructured.Unstructured
			if kind.Group == clusterv1.GroupVersion.Group {
				hub, err = ClusterToHub(object)
			} else {
				scheme, registry := converters()
				hub, err = toHub(ctx, scheme, registry, object)
			}
			if err != nil {
				return fmt.Errorf("converting %s %s/%s to %s: %w", kind.Kind, object.GetNamespace(), object.GetName(), kind.Version, err)
			}
			return do(hub)
		})
	}
}

// toHub converts an object as the API server does with the webhook: labels and annotations can change, and no other metadata.
func toHub(ctx context.Context, scheme *runtime.Scheme, registry conversion.Registry, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	converted, err := captconversion.Convert(ctx, scheme, registry, object, Version)
	if err != nil {
		return nil, err
	}
	labels, annotations := converted.GetLabels(), converted.GetAnnotations()
	converted.Object["metadata"] = object.Object["metadata"]
	converted.SetLabels(labels)
	converted.SetAnnotations(annotations)
	return converted, nil
}

// ClusterToHub converts a Cluster of v1beta1 with Cluster API's functions. The rest of its webhook's conversion can only be imported together
// with a test framework: the references, and status fields that nothing reads here.
func ClusterToHub(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	older, hub := &clusterv1beta1.Cluster{}, &clusterv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, older); err != nil {
		return nil, err
	}
	if err := clusterv1beta1.Convert_v1beta1_Cluster_To_v1beta2_Cluster(older, hub, nil); err != nil {
		return nil, err
	}
	for ref, into := range map[*corev1.ObjectReference]*clusterv1.ContractVersionedObjectReference{
		older.Spec.InfrastructureRef: &hub.Spec.InfrastructureRef, older.Spec.ControlPlaneRef: &hub.Spec.ControlPlaneRef,
	} {
		if ref != nil {
			*into = clusterv1.ContractVersionedObjectReference{APIGroup: ref.GroupVersionKind().Group, Kind: ref.Kind, Name: ref.Name}
		}
	}
	clusterv1.Convert_bool_To_Pointer_bool(older.Spec.Paused, false, nil, &hub.Spec.Paused)
	hub.SetGroupVersionKind(clusterv1.GroupVersion.WithKind(object.GetKind()))
	delete(hub.Annotations, preserve.Annotation)
	converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(hub)
	return &unstructured.Unstructured{Object: converted}, err
}

// pageSize limits how many objects are in memory at a time.
const pageSize = 250

// Each calls a function for each object of a kind, and reads one page after the other. An empty namespace means all namespaces.
func Each(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, namespace string, do func(*unstructured.Unstructured) error) error {
	return eachPage(ctx, reader, kind, namespace, &unstructured.UnstructuredList{}, do)
}

// EachMetadata is Each for the metadata of objects in all namespaces.
func EachMetadata(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, do func(*metav1.PartialObjectMetadata) error) error {
	return eachPage(ctx, reader, kind, "", &metav1.PartialObjectMetadataList{}, do)
}

func eachPage[T runtime.Object](ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, namespace string, empty client.ObjectList, do func(T) error) error {
	empty.GetObjectKind().SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	pages := pager.New(func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		found := empty.DeepCopyObject().(client.ObjectList)
		err := reader.List(ctx, found, client.InNamespace(namespace), client.Limit(page.Limit), client.Continue(page.Continue))
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		return found, nil
	})
	pages.PageSize, pages.PageBufferSize = pageSize, 0
	return pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error { return do(object.(T)) })
}

// EachServed is Each in the newest version that the API server serves. The error for a kind that is not served at all is meta.NoKindMatchError.
func EachServed(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, namespace string, do func(*unstructured.Unstructured) error) error {
	err := Each(ctx, reader, kind, namespace, do)
	if meta.IsNoMatchError(err) {
		if olderErr := Each(ctx, reader, kind.GroupKind().WithVersion(LegacyVersion), namespace, do); !meta.IsNoMatchError(olderErr) {
			return olderErr
		}
	}
	return err
}

// WorkspaceRecord records what a Workspace was when the plan was created.
type WorkspaceRecord struct {
	ObjectRef  `json:",inline"`
	Generation int64  `json:"generation"`
	Hash       string `json:"hash"` // Hash of spec, labels, annotations and finalizers: SHA-256, as 64 hexadecimal digits.
}

// earlierHash is how many digits of a hash the plans of earlier versions have.
const earlierHash = 16

// IsUnchanged reports whether a Workspace is still as it was recorded. A plan of an earlier version has fewer digits, but a change of spec also increases
// the generation (decision 38).
func (r WorkspaceRecord) IsUnchanged(now WorkspaceRecord) bool {
	if len(r.Hash) == earlierHash {
		now.Hash = now.Hash[:earlierHash]
	}
	return r == now
}

// RecordWorkspace records a Workspace, with a hash of what a migration must not change: spec, labels, annotations and finalizers.
func RecordWorkspace(workspace *unstructured.Unstructured) (WorkspaceRecord, error) {
	data, err := json.Marshal(struct {
		Spec                any
		Labels, Annotations map[string]string
		Finalizers          []string
	}{workspace.Object["spec"], workspace.GetLabels(), workspace.GetAnnotations(), workspace.GetFinalizers()})
	if err != nil {
		return WorkspaceRecord{}, fmt.Errorf("encoding Workspace %s: %w", workspace.GetName(), err)
	}
	sum := sha256.Sum256(data)
	return WorkspaceRecord{ObjectRef: RefOf(workspace), Generation: workspace.GetGeneration(), Hash: hex.EncodeToString(sum[:])}, nil
}

// WhyNotUpToDate is why a Workspace is not up to date; empty if it is. It has reasons only: messages of Terraform may hold secrets.
func WhyNotUpToDate(workspace *unstructured.Unstructured) string {
	if workspace.GetDeletionTimestamp() != nil {
		return "it is being deleted"
	}
	var typed terraform.WorkspaceStatus
	status, _ := workspace.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &typed); err != nil {
		return "its status cannot be read"
	}
	for _, kind := range []string{"Synced", "Ready"} {
		switch c := meta.FindStatusCondition(typed.Conditions, kind); {
		case c == nil:
			return kind + " is unknown"
		case c.Status != metav1.ConditionTrue:
			return fmt.Sprintf("%s is %s (%s)", kind, c.Status, c.Reason)
		case c.ObservedGeneration != 0 && c.ObservedGeneration != workspace.GetGeneration(): // Before v1 the provider reports no generation.
			return "its last change is not applied yet"
		}
	}
	return ""
}

// Retry calls attempt until it succeeds, fails for a reason that is not transient, such as an API server that restarts or a response that was lost, or a
// minute has passed. It returns the last error, or the cause of the context. A write that is retried must recognize that the first attempt may have
// succeeded.
func Retry(ctx context.Context, attempt func(context.Context) error) error {
	var last error
	// About a minute, in which an API server or a webhook usually restarts.
	backoff := wait.Backoff{Duration: 250 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 12}
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		if last = attempt(ctx); last != nil && !Transient(last) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return last
}

// RetryingReader returns a reader that retries each request.
func RetryingReader(from client.Reader) client.Reader {
	if _, retries := from.(retryingReader); retries {
		return from
	}
	return retryingReader{from}
}

type retryingReader struct{ client.Reader }

func (r retryingReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return Retry(ctx, func(ctx context.Context) error { return r.Reader.Get(ctx, key, object, options...) })
}

func (r retryingReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return Retry(ctx, func(ctx context.Context) error { return r.Reader.List(ctx, list, options...) })
}

// again marks an error as transient.
type again struct{ error }

func (a again) Unwrap() error { return a.error }

// Again marks an error as transient that Transient would not recognize.
func Again(err error) error { return again{err} }

// Transient reports whether a retry is likely to succeed. For a webhook that does not respond, the API server returns an internal error.
func Transient(err error) bool {
	for _, passes := range []func(error) bool{
		apierrors.IsTooManyRequests, apierrors.IsServerTimeout, apierrors.IsTimeout, apierrors.IsServiceUnavailable, apierrors.IsInternalError,
		utilnet.IsConnectionRefused, utilnet.IsConnectionReset, utilnet.IsProbableEOF, utilnet.IsHTTP2ConnectionLost, isTimeout, isGateway, ssa.IsUnknownOwnerVersion,
	} {
		if passes(err) {
			return true
		}
	}
	var marked again
	return errors.As(err, &marked)
}

func isTimeout(err error) bool {
	return utilnet.IsTimeout(err) && !errors.Is(err, context.DeadlineExceeded)
}

func isGateway(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && (status.Status().Code == http.StatusBadGateway || status.Status().Code == http.StatusGatewayTimeout)
}
