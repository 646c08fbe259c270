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

// Package journal records what a migration is about to do before it does it, and what it did. One record is in the cluster, so
// that another host can go on: the sealed plan, and how far it came. The other is a file on this host, for people: every step,
// with its intent. Neither decides whether a step was done: the object itself does.
package journal
