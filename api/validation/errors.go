// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Invalid returns an error about a value without the value, which may be a secret or the text of a whole module.
func Invalid(path *field.Path, format string, args ...any) *field.Error {
	return field.Invalid(path, field.OmitValueType{}, fmt.Sprintf(format, args...))
}

// Forbidden returns an error about a field that must not be set, or must not have this value.
func Forbidden(path *field.Path, format string, args ...any) *field.Error {
	return field.Forbidden(path, fmt.Sprintf(format, args...))
}
