// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAVersionIsTheReleaseOrWhatGoKnows(t *testing.T) {
	info := &debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3-0.20260101000000-abcdef"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abcdef"}, {Key: "vcs.time", Value: "2026-01-01T00:00:00Z"}, {Key: "vcs.modified", Value: "true"}},
	}
	built := versionFrom(info)
	assert.Equal(t, "v1.2.3-0.20260101000000-abcdef", built.Version)
	assert.Equal(t, "abcdef", built.Commit)
	assert.Equal(t, "2026-01-01T00:00:00Z", built.CommitTime)
	assert.True(t, built.Modified)
	assert.Contains(t, built.UserAgent(), "captctl/v1.2.3-0.20260101000000-abcdef (")

	release = "v1.3.0"
	t.Cleanup(func() { release = "" })
	assert.Equal(t, "v1.3.0", versionFrom(info).Version)
	release = ""
	assert.Equal(t, "(devel)", versionFrom(&debug.BuildInfo{}).Version)
}
