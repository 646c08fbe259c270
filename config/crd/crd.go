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

// Package crd holds the definitions of CAPT's kinds as they are generated from the Go types: for those who need the
// schemas without a cluster.
package crd

import "embed"

// Definitions holds a file bases/<group>_<plural>.yaml for each kind, with a CustomResourceDefinition of all versions.
// They are not complete: labels, conversion and the authority of its webhook are added by the kustomization beside them.
//
//go:embed bases/*.yaml
var Definitions embed.FS
