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

// Package execute carries plans out, and takes them back. It decides nothing: it proves each precondition, writes what the plan
// says, and records it. Whether a step was done is read from the object itself, so that a run that was killed anywhere, or
// whose answers were lost, is gone on with by doing the same again, from any host.
package execute
