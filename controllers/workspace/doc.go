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

// Package workspace is the port to Terraform: apply, observe, release. What to apply comes from package render, and what
// the provider's errors mean from package failure. Nothing outside of the three and api/terraform knows Crossplane.
// Observing is pure, as are both other packages.
//
// What a Workspace of provider-terraform v0.18 to v1.1 shows, and what it means, is in docs/provider-terraform.md.
package workspace
