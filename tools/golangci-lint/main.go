// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Command golangci-lint is golangci-lint with kube-api-linter as a module plugin.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/golangci/golangci-lint/v2/pkg/commands"
	"github.com/golangci/golangci-lint/v2/pkg/exitcodes"
	// The import registers the linter kubeapilinter.
	_ "sigs.k8s.io/kube-api-linter"
)

func main() {
	info := commands.BuildInfo{Version: versions(), GoVersion: runtime.Version(), Commit: "unknown", Date: "unknown"}
	if err := commands.Execute(info); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(exitcodes.Failure)
	}
}

// versions names both modules, because golangci-lint keys its cache by the version.
func versions() string {
	golangci, kal := "unknown", "unknown"
	build, _ := debug.ReadBuildInfo()
	if build == nil {
		return golangci
	}
	for _, module := range build.Deps {
		switch module.Path {
		case "github.com/golangci/golangci-lint/v2":
			golangci = module.Version
		case "sigs.k8s.io/kube-api-linter":
			kal = module.Version
		}
	}
	return golangci + "-kube-api-linter-" + kal
}
