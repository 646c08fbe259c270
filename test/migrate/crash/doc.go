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

// Package crash kills captctl migrate (SIGKILL) before and after each of its API calls, reads included, or loses the answer to
// it, and demands that whoever goes on comes to the same end as a run that nothing happened to.
//
// A fleet of three clusters is made once, under the definitions of the older CAPT. A proxy between captctl and the API server
// knows every call by its method, its path, and how often it was made before. After each story, etcd is put back, byte for byte,
// to what it was before it: so each story begins with objects that are stored in v1beta1.
//
// The environment variable CAPT_CRASH=all kills at every call. Without it, each kind of write is met before and after, and
// some reads are.
package crash
