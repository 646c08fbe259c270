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

// Package conformance holds the provider against what provider-terraform shows: every situation of a Workspace is a
// test of that name, told of both scopes, of v1 and of v0, with OpenTofu and by script.
//
// With OpenTofu it knows nothing but the API, so the real provider can be put in the place of ours:
// SANDBOX_PROVIDER=none leaves ours out of the sandbox, and out of the tests what has to kill it or to script it.
package conformance
