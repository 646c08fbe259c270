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

// Package migrate has what a migration is told in: a Snapshot of a fleet that the older CAPT built, decisions of people, the Plan, and
// how a command ends. A fleet becomes one that this CAPT runs without a Terraform run, a new Workspace or a changed cloud resource.
// planner makes plans, and has no client. What carries a plan out is in execute; it proves each precondition again and decides nothing.
package migrate
