/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package cli

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/capt-provider/capt/migrate"
)

// explained gives errors of the API server that a library did not expect their outcome, and says what to do about them.
func explained(err error) error {
	var known *migrate.OutcomeError
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		return migrate.Failed.Errorf("%w; captctl migrate check lists the permissions that are needed", err)
	case meta.IsNoMatchError(err):
		return migrate.Failed.Errorf("%w; captctl migrate check says what has to be installed first", err)
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
