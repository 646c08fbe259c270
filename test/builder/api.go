// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/api/claim"
	"github.com/capt-provider/capt/api/terraform"
)

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
			return a.write(sub, func() error { return c.SubResource(sub).Patch(ctx, object, patch, options...) })
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

func nameOf(object any) string {
	if kind, ok := object.(interface{ GetKind() string }); ok && kind.GetKind() == terraform.WorkspaceKind {
		return terraform.WorkspaceKind
	}
	return object.(interface{ GetName() string }).GetName()
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
