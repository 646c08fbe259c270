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

// Package ownership says what becomes of the metadata of an object of CAPT when it no longer speaks of v1beta1: the API
// versions of its owner references, and its managedFields, in which the API server keeps who owns which field.
//
// GitOps tools live from managedFields. Flux and Argo CD, applying on the server, remove a field that is no longer in Git
// because they own it, and are refused a field that somebody else owns. So the fields that a manager owned in v1beta1 become
// the same fields in v1beta2, whose shape is another one. Which v1beta2 field a v1beta1 field is, nobody writes down twice:
// the converters of the webhook are asked. A value is changed in the v1beta1 object, and what changes with it in v1beta2 is
// the field.
//
// All functions are pure: they have no client, and change nothing that they are given.
package ownership
