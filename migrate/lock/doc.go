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

// Package lock lets one run of captctl write at a time, whatever host it is on: a Lease, taken by creating or updating it under
// its resourceVersion, kept by renewing it, and given back by an update. It is never deleted.
//
// client-go's leader election waits for its turn for ever, tells nobody why, and lets its user write after the lease has run
// out; here, another run is the answer, and writes are fenced.
package lock
