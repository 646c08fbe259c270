// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate/apply"
)

func TestAUnitThatThePlanDoesNotHaveIsAnErrorBeforeTheQuestion(t *testing.T) {
	w := &world{terminal: true, answer: "yes\n", objects: undecided().objects}
	p := twoUnits(t, false)
	recorded(t, w, p, time.Date(2026, 10, 22, 9, 0, 0, 0, time.UTC), map[string]apply.Phase{"team-a/demo": apply.PhaseApplied})
	for _, command := range []string{"apply", "rollback"} {
		out, errOut, err := w.run(t, "migrate", command, p.ID, "--cluster", "team-a/none")
		require.ErrorContains(t, err, "plan "+p.ID+" does not contain team-a/none; captctl migrate show "+p.ID)
		assert.Empty(t, out)
		assert.NotContains(t, errOut, "Do you want")
	}
}
