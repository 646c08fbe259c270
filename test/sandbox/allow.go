// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
)

// AllowDelete gives an object the annotation without which CAPT's policies refuse its deletion.
func AllowDelete(ctx context.Context, c client.Client, object client.Object) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, naming.AllowDeleteAnnotation)
	return c.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("user"))
}
