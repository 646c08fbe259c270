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

// Package managed holds the parts of provider-terraform's API that its cluster-scoped and its namespaced group
// share: conditions, policies, references and the scope-free halves of Workspace and ProviderConfig.
// The shapes are those of the CRDs that provider-terraform v1.1 installs.
//
// +kubebuilder:object:generate=true
package managed
