// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package builder makes objects for tests: complete by default, so that a test says only what it is about. Options change
// them one by one:
//
//	builder.CAPTCluster("demo", builder.WithRegion("us-gov-west-1"), builder.Paused())
package builder

import (
	"encoding/base64"
	"fmt"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/sandbox/pki"
)

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
	return func(object client.Object) {
		object.SetLabels(with(object.GetLabels(), key, value))
	}
}

// WithAnnotation puts an annotation on an object.
func WithAnnotation(key, value string) Option {
	return func(object client.Object) {
		object.SetAnnotations(with(object.GetAnnotations(), key, value))
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

func with(in map[string]string, key, value string) map[string]string {
	out := map[string]string{key: value}
	for k, v := range in {
		if k != key {
			out[k] = v
		}
	}
	return out
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
