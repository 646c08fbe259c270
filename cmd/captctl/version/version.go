// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package version describes the running build of captctl.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/migrate"
)

// release is set by the linker for releases; otherwise Go knows which commit was built.
var release string

// Version of captctl.
type Version struct {
	metav1.TypeMeta `json:",inline"`
	Version         string `json:"version"`
	// Commit and CommitTime are those of the source; empty if it was not built from a repository.
	Commit     string `json:"commit,omitempty"`
	CommitTime string `json:"commitTime,omitempty"`
	// Modified reports whether the source was changed after the commit.
	Modified bool `json:"modified,omitempty"`
	// PlanVersion is the apiVersion of the plans that it makes and reads.
	PlanVersion string `json:"planVersion"`
	GoVersion   string `json:"goVersion"`
	Platform    string `json:"platform"`
}

// Get returns the version of this program.
func Get() Version {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return from(info)
}

func from(info *debug.BuildInfo) Version {
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	return Version{
		TypeMeta:    metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "Version"},
		Version:     cmp.Or(release, info.Main.Version, "(devel)"),
		Commit:      settings["vcs.revision"],
		CommitTime:  settings["vcs.time"],
		Modified:    settings["vcs.modified"] == "true",
		PlanVersion: migrate.APIVersion,
		GoVersion:   runtime.Version(),
		Platform:    runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// UserAgent identifies captctl in the audit log of the API server.
func (v Version) UserAgent() string {
	return fmt.Sprintf("captctl/%s (%s)", v.Version, v.Platform)
}
