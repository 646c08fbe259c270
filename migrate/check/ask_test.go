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

package check

import (
	"io"
	"net/url"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestAnAnswerThatWasLostIsAskedForAgain(t *testing.T) {
	lost := []error{&url.Error{Op: "Post", URL: "/", Err: io.EOF}, syscall.ECONNRESET}
	asked := 0
	require.NoError(t, ask(func() error {
		asked++
		if asked <= len(lost) {
			return lost[asked-1]
		}
		return nil
	}))
	require.Equal(t, 3, asked)

	asked = 0
	require.Error(t, ask(func() error {
		asked++
		return apierrors.NewInternalError(io.EOF)
	}), "a webhook that is not there")
	require.Equal(t, 1, asked)
}
