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

package migrate

// Progress is told how far long work has come. Implementations are safe for concurrent use.
type Progress interface {
	// Phase begins a phase of a number of objects; 0 when nobody knows how many.
	Phase(name string, total int)
	// Add tells that so many more of the phase's objects are done.
	Add(count int)
}

// Silent tells nobody.
type Silent struct{}

// Phase implements Progress.
func (Silent) Phase(string, int) {}

// Add implements Progress.
func (Silent) Add(int) {}
