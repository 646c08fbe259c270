// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// JournalPrefix begins the names of the ConfigMaps of journals.
const JournalPrefix = "capt-migrate-"

// Writer sends the writes of a run. It protects against defects of the rest of captctl: it sends nothing once the lock is lost, and writes
// nothing but CAPT's objects, journals and, if the user requested it, endpoints of Clusters. It cannot delete.
type Writer struct {
	client    client.Client
	check     func() error
	endpoints bool // Permits to write spec.controlPlaneEndpoint of Clusters.
}

// NewWriter returns a writer that calls check before each write.
func NewWriter(c client.Client, check func() error, endpoints bool) *Writer {
	return &Writer{client: client.WithFieldOwner(c, migrate.FieldManager), check: check, endpoints: endpoints}
}

// Create creates an object.
func (w *Writer) Create(ctx context.Context, object client.Object) error {
	return w.send(ctx, object, nil, func(ctx context.Context) error { return w.client.Create(ctx, object) })
}

// Update replaces an object.
func (w *Writer) Update(ctx context.Context, object client.Object) error {
	return w.send(ctx, object, nil, func(ctx context.Context) error { return w.client.Update(ctx, object) })
}

// Patch patches an object, or its subresource if that is not empty.
func (w *Writer) Patch(ctx context.Context, object client.Object, subresource string, patch client.Patch) error {
	return w.send(ctx, object, patch, func(ctx context.Context) error {
		if subresource == "" {
			return w.client.Patch(ctx, object, patch)
		}
		return w.client.SubResource(subresource).Patch(ctx, object, patch)
	})
}

func (w *Writer) send(ctx context.Context, object client.Object, patch client.Patch, request func(context.Context) error) error {
	ref := migrate.ObjectRef{Kind: object.GetObjectKind().GroupVersionKind().Kind, Namespace: object.GetNamespace(), Name: object.GetName()}
	if !w.permits(object, patch) {
		return fmt.Errorf("captctl blocked its own write to %s, because it must never write this; nothing was sent. This is a bug in captctl: please report it", ref)
	}
	if err := w.check(); err != nil {
		return err
	}
	return request(context.WithValue(ctx, writtenKey{}, ref.String()))
}

// permits reports whether captctl may write an object: with a patch or, if patch is nil, as a whole.
func (w *Writer) permits(object client.Object, patch client.Patch) bool {
	switch kind := object.GetObjectKind().GroupVersionKind().GroupKind(); kind {
	case corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind():
		return patch == nil && strings.HasPrefix(object.GetName(), JournalPrefix)
	case clusterv1.GroupVersion.WithKind("Cluster").GroupKind():
		return patch != nil && w.endpoints && onlyEndpoint(object, patch)
	default:
		isMigrated := slices.ContainsFunc(migrate.Kinds(), func(known migrate.Kind) bool { return known.GroupKind() == kind && known.InLegacy() })
		return isMigrated && (patch != nil || kind.Kind == "WorkspaceTemplate")
	}
}

// onlyEndpoint reports whether a JSON patch changes nothing but the endpoint of a Cluster.
func onlyEndpoint(cluster client.Object, patch client.Patch) bool {
	var operations []struct{ Op, Path string }
	data, err := patch.Data(cluster)
	if err != nil || json.Unmarshal(data, &operations) != nil {
		return false
	}
	for _, operation := range operations {
		if operation.Op != "test" && !strings.HasPrefix(operation.Path, "/spec/controlPlaneEndpoint") {
			return false
		}
	}
	return true
}

type writtenKey struct{}

// WrittenObject returns the object that the request of a Writer writes, to report warnings of the API server with it; empty for other requests.
func WrittenObject(request context.Context) string {
	written, _ := request.Value(writtenKey{}).(string)
	return written
}
