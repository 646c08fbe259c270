// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

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
