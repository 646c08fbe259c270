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

package execute

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/journal"
)

// Result is what a run did.
type Result struct {
	metav1.TypeMeta `json:",inline"`
	PlanID          string          `json:"planID"`
	Command         journal.Command `json:"command"`
	DryRun          bool            `json:"dryRun,omitempty"`
	Outcome         journal.Outcome `json:"outcome"`
	Message         string          `json:"message,omitempty"`
	Steps           journal.Counts  `json:"steps"`
	Storage         journal.Counts  `json:"storage"`
	Failures        []Failure       `json:"failures,omitempty"`
	// Left are the objects that the plan created and a rollback leaves in place, unused: captctl deletes nothing.
	Left   []migrate.ObjectRef `json:"left,omitempty"`
	Backup *journal.Backup     `json:"backup,omitempty"`
}

// Failure is an object that was not written.
type Failure struct {
	Object migrate.ObjectRef `json:"object"`
	// Why says what was to be written.
	Why   string `json:"why,omitempty"`
	Error string `json:"error"`
}
