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

package version

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
	built := from(info)
	assert.Equal(t, "v1.2.3-0.20260101000000-abcdef", built.Version)
	assert.Equal(t, "abcdef", built.Commit)
	assert.Equal(t, "2026-01-01T00:00:00Z", built.CommitTime)
	assert.True(t, built.Modified)
	assert.Contains(t, built.UserAgent(), "captctl/v1.2.3-0.20260101000000-abcdef (")

	release = "v1.3.0"
	t.Cleanup(func() { release = "" })
	assert.Equal(t, "v1.3.0", from(info).Version)
	release = ""
	assert.Equal(t, "(devel)", from(&debug.BuildInfo{}).Version)
}
