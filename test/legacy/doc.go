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

// Package legacy makes clusters as the older CAPT left them: objects in v1beta1 under its definitions, on a real API server, with
// status, owner references and managed fields, and the cluster-wide Workspaces that it rendered. What can be wrong with such
// a fleet has a name each (see Named). A World is an API server that has them, and that can be upgraded to today's CAPT.
//
// Nobody works on the objects: there is no older CAPT, and unless a test runs one, no provider. What these would have written is
// written for them.
package legacy
