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

// Package storage makes the API server store every object of CAPT in today's version, and proves that it does.
//
// The API server converts an object when it is written, not before. So each object is written once as it is; with it, what
// still speaks of the older version is moved: owner references and managedFields. Nothing that anybody could want of the
// object changes, and so its generation does not.
package storage
