// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/capt-provider/capt/migrate"
)

// explained adds to errors of the API server what to do about them.
func explained(err error) error {
	var known *migrate.OutcomeError
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		return migrate.Failed.Errorf("%w; captctl migrate check lists the missing rights", err)
	case meta.IsNoMatchError(err):
		return migrate.Failed.Errorf("%w; captctl migrate check shows what has to be installed first", err)
	}
	return err
}

// Line is an error as one line.
func Line(err error) string {
	var b strings.Builder
	for line := range strings.FieldsFuncSeq(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }) {
		switch so := b.String(); {
		case so == "":
		case strings.HasSuffix(so, ":"):
			b.WriteString(" ")
		default:
			b.WriteString("; ")
		}
		b.WriteString(strings.TrimSpace(line))
	}
	return b.String()
}
