// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/migrate"
)

func TestAnErrorIsOneLineAndHasAnExitCode(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx     context.Context
		err     error
		outcome migrate.Outcome
		printed string
	}{
		"none":        {t.Context(), nil, migrate.Done, ""},
		"an error":    {t.Context(), errors.New("no"), migrate.Failed, "Error: no\n"},
		"several":     {t.Context(), errors.Join(errors.New("a:\n\t* b"), errors.New("c")), migrate.Failed, "Error: a: * b; c\n"},
		"pending":     {t.Context(), migrate.Pending.Errorf("there are changes"), migrate.Pending, "there are changes\n"},
		"ambiguous":   {t.Context(), migrate.NeedsDecision.Errorf("decide"), migrate.NeedsDecision, "decide\n"},
		"interrupted": {interrupted, migrate.Partly.Errorf("resume it: %w", context.Canceled), migrate.Partly, "Error: interrupted: resume it: context canceled\n"},
	} {
		streams, _, out, errOut := genericiooptions.NewTestIOStreams()
		assert.Equal(t, c.outcome, report(c.ctx, streams, c.err), name)
		assert.Equal(t, c.printed, errOut.String(), name)
		assert.Empty(t, out.String(), name)
	}
}
