// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package retriable recognizes errors with which the API server rejects a write only temporarily.
package retriable

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// IsUnknownOwnerVersion reports whether the admission of owner references (OwnerReferencesPermissionEnforcement) does not know the
// version of an owner yet. The admission plugin discovers new versions of a kind every 30 seconds.
func IsUnknownOwnerVersion(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot find RESTMapping")
}
