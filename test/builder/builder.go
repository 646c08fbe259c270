// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package builder makes objects for tests: complete by default, so that a test says only what it is about. Options change
// them one by one:
//
//	builder.CAPTCluster("demo", builder.WithRegion("us-gov-west-1"), builder.Paused())
package builder

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/sandbox/pki"
)

// Cluster makes a Cluster whose infrastructure and control plane are CAPT's, under the Cluster's own name.
func Cluster(name string, options ...Option) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metadata("Cluster", name)}
	cluster.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: name,
	}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: name,
	}
	return apply(cluster, options)
}

// DeletedCluster makes a Cluster that is being deleted.
func DeletedCluster(name string, options ...Option) *clusterv1.Cluster {
	return Cluster(name, append(options, WithFinalizers(clusterv1.ClusterFinalizer), Deleting())...)
}

// WithInfrastructureProvisioned says that Cluster API has seen the infrastructure.
func WithInfrastructureProvisioned() Option {
	return With(func(cluster *clusterv1.Cluster) {
		cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	})
}

// CAPTCluster makes a CAPTCluster that makes its VPC from the WorkspaceTemplate "vpc".
func CAPTCluster(name string, options ...Option) *infrav1.CAPTCluster {
	captCluster := &infrav1.CAPTCluster{ObjectMeta: metadata("CAPTCluster", name)}
	captCluster.SetGroupVersionKind(infrav1.GroupVersion.WithKind("CAPTCluster"))
	captCluster.Spec.Region = Region
	captCluster.Spec.VPC.Template = infrav1.VPCTemplate{
		Ref: infrav1.WorkspaceTemplateReference{Name: "vpc"}, DeletionPolicy: infrav1.DeletionPolicyDelete,
	}
	return apply(captCluster, options)
}

// WithExistingVPC makes a CAPTCluster use a VPC that CAPT does not manage.
func WithExistingVPC(id string) Option {
	return With(func(captCluster *infrav1.CAPTCluster) {
		captCluster.Spec.VPC = infrav1.VPC{ExistingID: id}
	})
}

// CAPTControlPlane makes a CAPTControlPlane from the WorkspaceTemplate "eks".
func CAPTControlPlane(name string, options ...Option) *controlplanev1.CAPTControlPlane {
	controlPlane := &controlplanev1.CAPTControlPlane{ObjectMeta: metadata("CAPTControlPlane", name)}
	controlPlane.SetGroupVersionKind(controlplanev1.GroupVersion.WithKind("CAPTControlPlane"))
	controlPlane.Spec.Version = "v1.31.0"
	controlPlane.Spec.WorkspaceTemplateRef = infrav1.WorkspaceTemplateReference{Name: "eks"}
	return apply(controlPlane, options)
}

// CAPTMachinePool makes a CAPTMachinePool from the WorkspaceTemplate "nodegroup".
func CAPTMachinePool(name string, options ...Option) *infrav1.CAPTMachinePool {
	pool := &infrav1.CAPTMachinePool{ObjectMeta: metadata("CAPTMachinePool", name)}
	pool.SetGroupVersionKind(infrav1.GroupVersion.WithKind("CAPTMachinePool"))
	pool.Spec.WorkspaceTemplateRef = infrav1.WorkspaceTemplateReference{Name: "nodegroup"}
	return apply(pool, options)
}

// MachinePool makes a MachinePool of Cluster "demo" whose infrastructure is the CAPTMachinePool of the same name.
func MachinePool(name string, options ...Option) *clusterv1.MachinePool {
	machinePool := &clusterv1.MachinePool{ObjectMeta: metadata("MachinePool", name)}
	machinePool.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachinePool"))
	machinePool.Spec.ClusterName = "demo"
	machinePool.Spec.Template.Spec.ClusterName = "demo"
	machinePool.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTMachinePool", Name: name,
	}
	return apply(machinePool, options)
}

// WithReplicas gives replicas to a MachinePool.
func WithReplicas(replicas int32) Option {
	return With(func(machinePool *clusterv1.MachinePool) { machinePool.Spec.Replicas = &replicas })
}

// WithScaling gives limits to a CAPTMachinePool.
func WithScaling(minSize, maxSize int32) Option {
	return With(func(pool *infrav1.CAPTMachinePool) {
		pool.Spec.Scaling = infrav1.MachinePoolScaling{MinSize: &minSize, MaxSize: &maxSize}
	})
}

// WithEndpoint says where the API server of a Cluster or CAPTControlPlane is.
func WithEndpoint(host string, port int32) Option {
	endpoint := clusterv1.APIEndpoint{Host: host, Port: port}
	return either(
		func(cluster *clusterv1.Cluster) { cluster.Spec.ControlPlaneEndpoint = endpoint },
		func(controlPlane *controlplanev1.CAPTControlPlane) { controlPlane.Spec.ControlPlaneEndpoint = endpoint },
	)
}

// WithRegion puts a CAPTCluster or CAPTControlPlane into a region.
func WithRegion(region string) Option {
	return either(
		func(captCluster *infrav1.CAPTCluster) { captCluster.Spec.Region = region },
		func(controlPlane *controlplanev1.CAPTControlPlane) { controlPlane.Spec.Region = region },
	)
}

// WithApplyRef says which WorkspaceTemplateApply a CAPTCluster, CAPTControlPlane or CAPTMachinePool uses.
func WithApplyRef(name string) Option {
	ref := infrav1.WorkspaceTemplateApplyReference{Name: name}
	others := either(
		func(captCluster *infrav1.CAPTCluster) { captCluster.Spec.WorkspaceTemplateApplyRef = ref },
		func(controlPlane *controlplanev1.CAPTControlPlane) { controlPlane.Spec.WorkspaceTemplateApplyRef = ref },
	)
	return func(object client.Object) {
		if pool, ok := object.(*infrav1.CAPTMachinePool); ok {
			pool.Spec.WorkspaceTemplateApplyRef = ref
			return
		}
		others(object)
	}
}

// WithDeletionProtection protects a CAPTCluster or CAPTControlPlane from deletion, or not.
func WithDeletionProtection(protection infrav1.DeletionProtection) Option {
	return either(
		func(captCluster *infrav1.CAPTCluster) { captCluster.Spec.DeletionProtection = protection },
		func(controlPlane *controlplanev1.CAPTControlPlane) { controlPlane.Spec.DeletionProtection = protection },
	)
}

// WithVariables gives variables to a CAPTCluster, CAPTControlPlane, CAPTMachinePool or WorkspaceTemplateApply.
func WithVariables(variables map[string]string) Option {
	return func(object client.Object) {
		switch object := object.(type) {
		case *infrav1.CAPTCluster:
			object.Spec.VPC.Template.Variables = infrav1.TextVariables(variables)
		case *controlplanev1.CAPTControlPlane:
			object.Spec.Variables = infrav1.TextVariables(variables)
		case *infrav1.CAPTMachinePool:
			object.Spec.Variables = infrav1.TextVariables(variables)
		case *infrav1.WorkspaceTemplateApply:
			object.Spec.Variables = infrav1.TextVariables(variables)
		default:
			panic("builder: this kind has no variables")
		}
	}
}

// either is an option of objects of two kinds.
func either[A, B client.Object](first func(A), second func(B)) Option {
	return func(object client.Object) {
		switch object := object.(type) {
		case A:
			first(object)
		case B:
			second(object)
		default:
			panic(fmt.Sprintf("builder: the option is not for %T", object))
		}
	}
}

// WorkspaceTemplate makes a template with an inline module that is valid and has one variable and one output.
func WorkspaceTemplate(name string, options ...Option) *infrav1.WorkspaceTemplate {
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metadata("WorkspaceTemplate", name)}
	template.SetGroupVersionKind(infrav1.GroupVersion.WithKind("WorkspaceTemplate"))
	template.Spec.WorkspaceScope, template.Spec.PassVariables = terraform.ScopeNamespaced, infrav1.PassNone
	template.Spec.Template.Spec = terraform.WorkspaceSpec{
		ProviderConfigRef: &terraform.ProviderConfigReference{Name: "aws"},
		ForProvider: terraform.WorkspaceParameters{
			Source: terraform.SourceInline,
			Module: "variable \"cluster_name\" {}\noutput \"name\" { value = var.cluster_name }\n",
			Vars:   []terraform.Var{{Key: "cluster_name", Value: "${cluster_name}"}},
		},
	}
	return apply(template, options)
}

// Consuming makes the module of a template use variables that CAPT gives to it.
func Consuming(names ...string) Option {
	return WithParameters(func(params *terraform.WorkspaceParameters) {
		for _, name := range names {
			params.Module += fmt.Sprintf("variable %q {}\nlocals { use_%[1]s = var.%[1]s }\n", name)
			params.Vars = append(params.Vars, terraform.Var{Key: name, Value: "${" + name + "}"})
		}
	})
}

// WithScope says which kind of Workspace a template makes.
func WithScope(scope terraform.Scope) Option {
	return With(func(template *infrav1.WorkspaceTemplate) { template.Spec.WorkspaceScope = scope })
}

// WithModule gives a template another inline module, and takes its variables away.
func WithModule(module string) Option {
	return WithParameters(func(params *terraform.WorkspaceParameters) { params.Module, params.Vars = module, nil })
}

// Harmless and Harmful are modules with which the hashes of WorkspaceTemplate have the same first twelve digits, b07e1d719394: a search of half a minute
// found them.
const (
	Harmless = "# harmless 12339554"
	Harmful  = "# harmful 24222766"
)

// WithParameters changes what a template gives to Terraform.
func WithParameters(change func(*terraform.WorkspaceParameters)) Option {
	return With(func(template *infrav1.WorkspaceTemplate) { change(&template.Spec.Template.Spec.ForProvider) })
}

// WithWorkspaceSpec changes the spec of the Workspaces a template makes.
func WithWorkspaceSpec(change func(*terraform.WorkspaceSpec)) Option {
	return With(func(template *infrav1.WorkspaceTemplate) { change(&template.Spec.Template.Spec) })
}

// WorkspaceTemplateApply makes a WorkspaceTemplateApply of the WorkspaceTemplate "vpc".
func WorkspaceTemplateApply(name string, options ...Option) *infrav1.WorkspaceTemplateApply {
	wta := &infrav1.WorkspaceTemplateApply{ObjectMeta: metadata("WorkspaceTemplateApply", name)}
	wta.SetGroupVersionKind(infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"))
	wta.Spec.TemplateRef = infrav1.WorkspaceTemplateReference{Name: "vpc"}
	wta.Spec.Variables = infrav1.TextVariables(map[string]string{"cluster_name": "demo"})
	return apply(wta, options)
}

// PlanRequest requests the plans of the current content of WorkspaceTemplateApplies.
func PlanRequest(name string, applies []string, options ...Option) *infrav1.PlanRequest {
	return apply(&infrav1.PlanRequest{ObjectMeta: metadata("PlanRequest", name), Spec: infrav1.PlanRequestSpec{WorkspaceTemplateApplies: applies}}, options)
}

// PlanRequestFor requests the plans of a content of a template for its users.
func PlanRequestFor(name string, template *infrav1.WorkspaceTemplate, options ...Option) *infrav1.PlanRequest {
	request := PlanRequest(name, nil, append([]Option{WithNamespace(template.Namespace)}, options...)...)
	request.Spec.Template = infrav1.PlannedTemplate{Name: template.Name, Spec: template.Spec}
	return request
}

// WithWorkspaceName says which Workspace a WorkspaceTemplateApply owns.
func WithWorkspaceName(name string) Option {
	return With(func(wta *infrav1.WorkspaceTemplateApply) { wta.Spec.WorkspaceName = name })
}

// WithDeletionPolicy says what becomes of the Workspace of a WorkspaceTemplateApply.
func WithDeletionPolicy(policy infrav1.DeletionPolicy) Option {
	return With(func(wta *infrav1.WorkspaceTemplateApply) { wta.Spec.DeletionPolicy = policy })
}

// WithRecordedWorkspace records a Workspace in the status of a WorkspaceTemplateApply.
func WithRecordedWorkspace(workspace client.Object) Option {
	return With(func(wta *infrav1.WorkspaceTemplateApply) {
		gvk := workspace.GetObjectKind().GroupVersionKind()
		wta.Status.WorkspaceRef = &infrav1.WorkspaceReference{
			APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind,
			Name: workspace.GetName(), Namespace: workspace.GetNamespace(), UID: workspace.GetUID(),
		}
	})
}

// UpToDate says that Terraform has applied a WorkspaceTemplateApply as it is now, and what it returned.
func UpToDate(outputs map[string]string) Option {
	return With(func(wta *infrav1.WorkspaceTemplateApply) {
		wta.Status.ObservedGeneration = wta.Generation
		wta.Status.WorkspaceName = wta.Name
		wta.Status.LastAppliedRevision = "0123456789ab"
		wta.Status.Outputs = outputs
		condition(wta, metav1.ConditionTrue, infrav1.UpToDateReason, "")
	})
}

// NotUpToDate says why a WorkspaceTemplateApply is not ready.
func NotUpToDate(reason, message string) Option {
	return With(func(wta *infrav1.WorkspaceTemplateApply) {
		wta.Status.ObservedGeneration = wta.Generation
		wta.Status.WorkspaceName = wta.Name
		condition(wta, metav1.ConditionFalse, reason, message)
	})
}

func condition(wta *infrav1.WorkspaceTemplateApply, status metav1.ConditionStatus, reason, message string) {
	wta.Status.Conditions = []metav1.Condition{{
		Type: infrav1.ReadyCondition, Status: status, Reason: reason, Message: message,
		ObservedGeneration: wta.Generation, LastTransitionTime: metav1.NewTime(Created),
	}}
}

// SecretWith makes a Secret with values.
func SecretWith(name string, data map[string]string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name}, Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

// WithConnectionSecret says where the outputs of a WorkspaceTemplateApply go.
func WithConnectionSecret(name, namespace string) Option {
	return With(func(wta *infrav1.WorkspaceTemplateApply) {
		wta.Spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: name, Namespace: namespace}
	})
}

// WaitingForSecret makes a WorkspaceTemplateApply wait for keys of a Secret.
func WaitingForSecret(name string, keys ...string) Option {
	return With(func(wta *infrav1.WorkspaceTemplateApply) {
		wta.Spec.WaitForSecrets = append(wta.Spec.WaitForSecrets, infrav1.SecretDependency{Name: name, Keys: keys})
	})
}

// WaitingForWorkspace makes a WorkspaceTemplateApply wait for a Workspace.
func WaitingForWorkspace(name, namespace string) Option {
	return With(func(wta *infrav1.WorkspaceTemplateApply) {
		wta.Spec.WaitForWorkspaces = append(wta.Spec.WaitForWorkspaces, infrav1.WorkspaceDependency{Name: name, Namespace: namespace})
	})
}

// Earlier versions recorded the first twelve digits of hashes.

// Short returns a revision as earlier versions recorded it.
func Short(revision string) string { return revision[:min(len(revision), 12)] }

// StoredEarlier returns a ControllerRevision as earlier versions stored it.
func StoredEarlier(revision *appsv1.ControllerRevision) *appsv1.ControllerRevision {
	stored := revision.DeepCopy()
	stem := strings.LastIndex(stored.Name, "-")
	stored.Name, stored.ResourceVersion, stored.UID = stored.Name[:stem+1]+Short(stored.Name[stem+1:]), "", ""
	stored.Labels = map[string]string{naming.TemplateRevisionLabel: stored.Name[stem+1:]}
	return stored
}

// RecordedEarlier changes all revisions of a WorkspaceTemplateApply to what earlier versions recorded.
func RecordedEarlier(apply *infrav1.WorkspaceTemplateApply) {
	s := &apply.Status
	for _, revision := range []*string{
		&apply.Spec.TemplateRevision, &s.TemplateRevision, &s.WrittenTemplateRevision, &s.FailedTemplateRevision, &s.LastAppliedRevision, &s.LastFailedRevision,
		&s.WrittenSpec, &s.Change.Revision, &s.Change.Preview.TemplateRevision, &s.Change.Preview.RenderedRevision, &s.Preview.TemplateRevision, &s.Preview.RenderedRevision,
	} {
		*revision = Short(*revision)
	}
	if approved, found := apply.Annotations[naming.ApproveAnnotation]; found {
		apply.Annotations[naming.ApproveAnnotation] = Short(approved)
	}
}

const (
	// Namespace of objects for which a test names no other.
	Namespace = "default"
	// Region of objects for which a test names no other.
	Region = "ap-northeast-1"
)

// Created is when every object was created, unless a test says otherwise.
var Created = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

// Option changes an object that a builder made.
type Option func(client.Object)

// With changes what no other option does. It panics when it meets an object of another type: that is a mistake in the
// test.
func With[O client.Object](change func(O)) Option {
	return func(object client.Object) {
		typed, ok := object.(O)
		if !ok {
			panic(fmt.Sprintf("builder: an option for %T was given to %T", *new(O), object))
		}
		change(typed)
	}
}

// UID that the builders give to an object of a kind and name.
func UID(kind, name string) types.UID { return types.UID(kind + "/" + name) }

func metadata(kind, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: Namespace, Name: name, UID: UID(kind, name), Generation: 1, CreationTimestamp: metav1.NewTime(Created),
	}
}

func apply[O client.Object](object O, options []Option) O {
	for _, option := range options {
		option(object)
	}
	return object
}

// WithNamespace puts an object into a namespace.
func WithNamespace(namespace string) Option {
	return func(object client.Object) { object.SetNamespace(namespace) }
}

// WithUID gives an object another UID.
func WithUID(uid types.UID) Option {
	return func(object client.Object) { object.SetUID(uid) }
}

// WithGeneration says how often the spec was changed.
func WithGeneration(generation int64) Option {
	return func(object client.Object) { object.SetGeneration(generation) }
}

// WithResourceVersion says which version of an object is meant.
func WithResourceVersion(version string) Option {
	return func(object client.Object) { object.SetResourceVersion(version) }
}

// WithCreation says when an object was created.
func WithCreation(when time.Time) Option {
	return func(object client.Object) { object.SetCreationTimestamp(metav1.NewTime(when)) }
}

// WithFinalizers puts finalizers on an object.
func WithFinalizers(finalizers ...string) Option {
	return func(object client.Object) { object.SetFinalizers(append(object.GetFinalizers(), finalizers...)) }
}

// AppliedBy says that a field manager applied an object; which fields, is left open.
func AppliedBy(manager string) Option {
	return func(object client.Object) {
		object.SetManagedFields(append(object.GetManagedFields(), metav1.ManagedFieldsEntry{
			Manager: manager, APIVersion: object.GetObjectKind().GroupVersionKind().GroupVersion().String(), Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}"),
		}))
	}
}

// WithLabel puts a label on an object.
func WithLabel(key, value string) Option {
	return func(object client.Object) { object.SetLabels(labels.Merge(object.GetLabels(), labels.Set{key: value})) }
}

// WithAnnotation puts an annotation on an object.
func WithAnnotation(key, value string) Option {
	return func(object client.Object) {
		object.SetAnnotations(labels.Merge(object.GetAnnotations(), labels.Set{key: value}))
	}
}

// Paused puts Cluster API's annotation on an object.
func Paused() Option { return WithAnnotation(clusterv1.PausedAnnotation, "") }

// Deleting says that an object was deleted and waits for its finalizers.
func Deleting() Option {
	return func(object client.Object) {
		deleted := metav1.NewTime(Created.Add(time.Hour))
		object.SetDeletionTimestamp(&deleted)
	}
}

// OwnedBy makes an object the controller owner of another one.
func OwnedBy(owner client.Object) Option {
	return func(object client.Object) {
		gvk := owner.GetObjectKind().GroupVersionKind()
		object.SetOwnerReferences(append(object.GetOwnerReferences(), *metav1.NewControllerRef(owner, gvk)))
	}
}

// Scheme knows every kind that the builders make, but for Workspaces, which are untyped.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(clusterv1.AddToScheme(scheme))
	utilruntime.Must(infrav1.AddToScheme(scheme))
	utilruntime.Must(controlplanev1.AddToScheme(scheme))
	return scheme
}

// ConditionSummary formats conditions in short: the type, and "status reason".
func ConditionSummary(conditions []metav1.Condition) map[string]string {
	summary := make(map[string]string, len(conditions))
	for _, condition := range conditions {
		summary[condition.Type] = fmt.Sprintf("%s %s", condition.Status, condition.Reason)
	}
	return summary
}

// CA is a certificate authority as EKS gives it: base64 of PEM. It is the same within one run of a test.
var CA = sync.OnceValue(func() string {
	authority, err := pki.NewAuthority("kubernetes")
	must(err)
	return base64.StdEncoding.EncodeToString(authority.Bundle())
})

// Clock is a clock for tests. Like that of a machine it has a time of day, which can be set, and a monotonic clock,
// which only goes on.
type Clock struct {
	mu        sync.Mutex
	monotonic time.Duration
	offset    time.Duration
	// readings are the readings of the monotonic clock at which the times of day were returned.
	readings map[time.Time]time.Duration
}

var _ clock.PassiveClock = &Clock{}

// NewClock begins a minute after Created.
func NewClock() *Clock { return &Clock{offset: time.Minute, readings: map[time.Time]time.Duration{}} }

// Now is the time of day.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := Created.Add(c.offset + c.monotonic)
	c.readings[now] = c.monotonic
	return now
}

// Since is how much the monotonic clock advanced since a time that this clock returned.
func (c *Clock) Since(readings time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.monotonic - c.readings[readings]
}

// Pass lets time pass.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.monotonic += d
}

// Jump sets the time of day to another one.
func (c *Clock) Jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}

// Row is a row of the table of what a Workspace of provider-terraform shows; see docs/provider-terraform.md.
type Row string

// The rows of the table, in its order.
const (
	Queued                Row = "queued, or provider down"
	Planning              Row = "init and plan running"
	FirstApplyRunning     Row = "first apply running"
	FirstApplyDone        Row = "first apply done"
	AtRest                Row = "next observation, no diff"
	FirstApplyFailed      Row = "first apply failed"
	Updating              Row = "update or drift being applied"
	UpdateFailed          Row = "update failed"
	PlanFailed            Row = "plan failed"
	ProviderConfigMissing Row = "ProviderConfig missing"
	WorkspacePaused       Row = "paused"
	Destroying            Row = "destroying"
	DestroyFailed         Row = "destroy failed"
	Interrupted           Row = "provider killed during first apply"
	ResourcesExist        Row = "first look at resources that exist"
)

// Secret is what no status, event or log may ever show: it stands in the blob at the end of the errors below.
const Secret = "H4sIAAAAAAAA/c0nfident1al"

// blob is how an error of Terraform ends.
const blob = ` To see the full error run: echo "` + Secret + `" | base64 -d | gunzip`

const (
	crossplaneFinalizer = "finalizer.managedresource.crossplane.io"
	externalName        = "crossplane.io/external-name"
	createPending       = "crossplane.io/external-create-pending"
	createSucceeded     = "crossplane.io/external-create-succeeded"
)

type show struct {
	named, found, begun, made, deleting bool
	ready, synced                       *metav1.Condition
}

func is(conditionType string, status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	return &metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message}
}

// rows says what a Workspace shows in each row, as provider-terraform v0.18 to v1.1 leaves it.
func rows() map[Row]show {
	ready := is("Ready", metav1.ConditionTrue, "Available", "")
	creating := is("Ready", metav1.ConditionFalse, "Creating", "")
	success := is("Synced", metav1.ConditionTrue, "ReconcileSuccess", "")
	failed := func(message string) *metav1.Condition {
		return is("Synced", metav1.ConditionFalse, "ReconcileError", message)
	}
	return map[Row]show{
		Queued:            {},
		Planning:          {named: true},
		FirstApplyRunning: {named: true, begun: true},
		FirstApplyDone:    {named: true, begun: true, made: true, ready: creating, synced: success},
		AtRest:            {named: true, begun: true, made: true, ready: ready, synced: success},
		FirstApplyFailed: {named: true, begun: true, ready: creating, synced: failed(
			"create failed: cannot apply Terraform configuration: Terraform encountered an error. Summary: creating EC2 VPC: VpcLimitExceeded." + blob)},
		Updating: {named: true, begun: true, made: true, ready: ready, synced: success},
		UpdateFailed: {named: true, begun: true, made: true, ready: ready, synced: failed(
			"update failed: cannot apply Terraform configuration: Terraform encountered an error. Summary: ThrottlingException." + blob)},
		PlanFailed: {named: true, begun: true, made: true, ready: ready, synced: failed(
			"observe failed: cannot diff (i.e. plan) Terraform configuration: Terraform encountered an error. Summary: Unsupported argument." + blob)},
		ProviderConfigMissing: {ready: nil, synced: failed(
			`connect failed: cannot get ProviderConfig: ProviderConfig.tf.upbound.io "aws" not found`)},
		WorkspacePaused: {named: true, begun: true, made: true, ready: ready,
			synced: is("Synced", metav1.ConditionFalse, "ReconcilePaused", "")},
		Destroying: {named: true, begun: true, made: true, deleting: true, ready: ready, synced: success},
		DestroyFailed: {named: true, begun: true, made: true, deleting: true,
			ready: is("Ready", metav1.ConditionFalse, "Deleting", ""), synced: failed(
				"delete failed: cannot destroy Terraform configuration: Terraform encountered an error. Summary: DependencyViolation." + blob)},
		ResourcesExist: {named: true, found: true, synced: success},
		Interrupted: {named: true, begun: true, synced: failed(
			"cannot determine creation result - remove the crossplane.io/external-create-pending annotation if it is safe to proceed")},
	}
}

// Rows lists the rows of the table, in its order.
func Rows() []Row {
	return []Row{
		Queued, Planning, FirstApplyRunning, FirstApplyDone, AtRest, FirstApplyFailed, Updating, UpdateFailed, PlanFailed,
		ProviderConfigMissing, WorkspacePaused, Destroying, DestroyFailed, Interrupted, ResourcesExist,
	}
}

// Workspace makes a live, namespaced Workspace in a row of the table. Its conditions moved a minute after it was created.
func Workspace(name string, row Row, options ...Option) *unstructured.Unstructured {
	shown, ok := rows()[row]
	if !ok {
		panic("builder: there is no row " + row)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	object.SetGroupVersionKind(terraform.ScopeNamespaced.GroupVersionKind())
	object.SetNamespace(Namespace)
	object.SetName(name)
	object.SetUID(UID(terraform.WorkspaceKind, name))
	object.SetGeneration(1)
	object.SetCreationTimestamp(metav1.NewTime(Created))
	if shown.named {
		WithAnnotation(externalName, name)(object)
	}
	if shown.found || shown.begun {
		WithFinalizers(crossplaneFinalizer)(object)
	}
	if shown.begun {
		WithAnnotation(createPending, Created.Format(time.RFC3339))(object)
	}
	if shown.made {
		WithAnnotation(createSucceeded, Created.Format(time.RFC3339))(object)
	}
	if shown.deleting {
		Deleting()(object)
	}
	var conditions []any
	for _, condition := range []*metav1.Condition{shown.ready, shown.synced} {
		if condition != nil {
			conditions = append(conditions, shownCondition(condition, object.GetGeneration()))
		}
	}
	if conditions != nil {
		object.Object["status"] = map[string]any{"conditions": conditions}
	}
	if row == Updating {
		object.SetGeneration(2)
	}
	return apply(object, options)
}

// shownCondition is a condition as provider-terraform v1 writes it: the generation is on Synced only.
func shownCondition(condition *metav1.Condition, generation int64) map[string]any {
	out := map[string]any{
		"type": condition.Type, "status": string(condition.Status), "reason": condition.Reason,
		"lastTransitionTime": Created.Add(time.Minute).Format(time.RFC3339),
	}
	if condition.Message != "" {
		out["message"] = condition.Message
	}
	if condition.Type == "Synced" {
		out["observedGeneration"] = generation
	}
	return out
}

// OfV0 takes away what only provider-terraform v1 writes.
func OfV0() Option {
	return With(func(workspace *unstructured.Unstructured) {
		conditions, _, _ := unstructured.NestedSlice(workspace.Object, "status", "conditions")
		for _, condition := range conditions {
			delete(condition.(map[string]any), "observedGeneration")
		}
		if len(conditions) > 0 {
			must(unstructured.SetNestedSlice(workspace.Object, conditions, "status", "conditions"))
		}
	})
}

// InClusterScope makes a Workspace cluster-wide.
func InClusterScope() Option {
	return With(func(workspace *unstructured.Unstructured) {
		workspace.SetGroupVersionKind(terraform.ScopeCluster.GroupVersionKind())
		workspace.SetNamespace("")
	})
}

// WithOutputs gives a Workspace outputs that are not sensitive, as JSON values.
func WithOutputs(outputs map[string]any) Option {
	return With(func(workspace *unstructured.Unstructured) {
		must(unstructured.SetNestedMap(workspace.Object, outputs, "status", "atProvider", "outputs"))
	})
}

// WithError gives the condition Synced another message.
func WithError(message string) Option {
	return With(func(workspace *unstructured.Unstructured) {
		must(unstructured.SetNestedSlice(workspace.Object, []any{shownCondition(
			is("Synced", metav1.ConditionFalse, "ReconcileError", message), workspace.GetGeneration(),
		)}, "status", "conditions"))
	})
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// WorkspaceDefinition is the CRD of a scope's Workspaces, as far as CAPT looks at it.
func WorkspaceDefinition(scope terraform.Scope) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "workspaces." + scope.GroupVersionKind().Group}}
}

// Only is a client that can only read one WorkspaceTemplateApply, nil for none. It is fast enough for tables with thousands of rows.
type Only struct {
	client.Client
	Object *infrav1.WorkspaceTemplateApply
}

// Get implements client.Reader.
func (o Only) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	found, ok := object.(*infrav1.WorkspaceTemplateApply)
	if !ok || o.Object == nil || client.ObjectKeyFromObject(o.Object) != key {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	o.Object.DeepCopyInto(found)
	return nil
}

// Indexes makes the indexes of a manager's cache in a fake client.
type Indexes struct{ *fake.ClientBuilder }

// IndexField implements client.FieldIndexer.
func (i Indexes) IndexField(_ context.Context, object client.Object, field string, keys client.IndexerFunc) error {
	i.WithIndex(object, field, keys)
	return nil
}

// API is a fake API server that records the writes of a controller, and can refuse them.
type API struct {
	client.WithWatch
	// Writes in their order: "patch", "status", "apply NAME" or "delete NAME". A Workspace is called "Workspace", whatever its name.
	Writes []string
	// Refuse is asked before each write; nil accepts all.
	Refuse func(write string) error
	// CreationTime is the creation time of new objects; zero means none.
	CreationTime time.Time
	// failRead counts reads down to the one that fails, which failed describes.
	failRead int
	failed   string
}

// Clients prepares a fake API server with objects.
func Clients(objects ...client.Object) *fake.ClientBuilder {
	return fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(objects...).WithReturnManagedFields().
		WithIndex(&clusterv1.Cluster{}, claim.ClusterIndex, func(cluster client.Object) []string {
			return claim.ClusterKeys(cluster.(*clusterv1.Cluster))
		})
}

// NewAPI builds an API server from what a test has prepared.
func NewAPI(clients *fake.ClientBuilder) *API {
	a := &API{}
	a.WithWatch = clients.WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			return a.read(fmt.Sprintf("%T %s", object, key), func() error { return c.Get(ctx, key, object, options...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			return a.read(fmt.Sprintf("%T", list), func() error { return c.List(ctx, list, options...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if created := object.GetCreationTimestamp(); created.IsZero() && !a.CreationTime.IsZero() {
				object.SetCreationTimestamp(metav1.NewTime(a.CreationTime))
			}
			return c.Create(ctx, object, options...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			return a.write("apply "+nameOf(object), func() error { return c.Apply(ctx, object, options...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			return a.write("patch", func() error { return c.Patch(ctx, object, patch, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			return a.write("delete "+nameOf(object), func() error { return c.Delete(ctx, object, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return a.write(sub, func() error {
				if object.GetObjectKind().GroupVersionKind().Kind == terraform.WorkspaceKind { // Tests write these with their status.
					return c.Patch(ctx, object, patch)
				}
				return c.SubResource(sub).Patch(ctx, object, patch, options...)
			})
		},
	}).Build()
	return a
}

// FailOn refuses a kind of write.
func (a *API) FailOn(refused string, err error) {
	a.Refuse = func(write string) error {
		if write == refused {
			return err
		}
		return nil
	}
}

func (a *API) write(write string, do func() error) error {
	if a.Refuse != nil {
		if err := a.Refuse(write); err != nil {
			return err
		}
	}
	a.Writes = append(a.Writes, write)
	return do()
}

var errRead = errors.New("the API server does not answer")

func (a *API) read(read string, do func() error) error {
	// Controllers report a template that cannot be read, and that an update failed because its owner could not be confirmed.
	if a.failRead > 0 && !strings.HasPrefix(read, "*v1beta2.WorkspaceTemplate ") && read != "*v1.PartialObjectMetadata default/demo" {
		if a.failRead--; a.failRead == 0 {
			a.failed, a.Writes = read, nil
			return errRead
		}
	}
	return do()
}

// FailEachRead reconciles once for each read of a reconcile, which fails, and then once more: what could not be read is not absent, so the reconcile returns
// the error, and writes nothing after it.
func FailEachRead(t *testing.T, api *API, reconcile func() error) {
	t.Helper()
	for read := 1; ; read++ {
		api.failRead, api.failed = read, ""
		err := reconcile()
		if api.failed == "" {
			require.NoError(t, err)
			require.Greater(t, read, 3, "reads")
			return
		}
		require.ErrorIs(t, err, errRead, "reading %s", api.failed)
		require.Empty(t, api.Writes, "after the failed read of %s", api.failed)
	}
}

// Unasked is an API server that must receive no request.
func Unasked(t *testing.T, c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
			t.Errorf("%T %s is read from the API server", object, key)
			return errRead
		},
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			t.Errorf("%T is read from the API server", list)
			return errRead
		},
	})
}

func nameOf(object any) string {
	if kind, ok := object.(interface{ GetKind() string }); ok && kind.GetKind() == terraform.WorkspaceKind {
		return terraform.WorkspaceKind
	}
	return object.(interface{ GetName() string }).GetName()
}

// FailingList is a client whose lists of one type of objects fail.
func FailingList[L client.ObjectList](c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(L); ok {
				return errRead
			}
			return c.List(ctx, list, options...)
		},
	})
}

// FailingGet is a client whose reads of one type of objects fail.
func FailingGet[O client.Object](c client.WithWatch, err error) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, ok := object.(O); ok {
				return err
			}
			return c.Get(ctx, key, object, options...)
		},
	})
}
