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

package journal

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/migrate"
)

// Command is what was asked for.
type Command string

const (
	// Apply carries a plan out.
	Apply Command = "apply"
	// Rollback takes it back.
	Rollback Command = "rollback"
)

// Phase is where a run is.
type Phase string

const (
	// Adopting writes grants and units.
	Adopting Phase = "Adopting"
	// Storing rewrites objects in today's version.
	Storing Phase = "Storing"
	// RollingBack takes steps back.
	RollingBack Phase = "RollingBack"
	// Restoring puts owner references back that were of an older version.
	Restoring Phase = "Restoring"
	// Ended is after all of them; Outcome says how.
	Ended Phase = "Ended"
)

// Outcome is how a run ended; empty while it runs, and after it was killed.
type Outcome string

const (
	// Done: everything that was asked for.
	Done Outcome = "Done"
	// Partly: it can be resumed.
	Partly Outcome = "Partly"
)

// State is how far a plan has come. It is in a ConfigMap, as JSON.
type State struct {
	metav1.TypeMeta `json:",inline"`
	PlanID          string        `json:"planID"`
	Checksum        string        `json:"checksum"`
	ClusterUID      types.UID     `json:"clusterUID"`
	Scope           migrate.Scope `json:"scope"`
	// Parts is the number of ConfigMaps that hold the plan.
	Parts   int     `json:"parts"`
	Command Command `json:"command"`
	// Object is the only one that a rollback was for, as KIND/NAMESPACE/NAME.
	Object  string  `json:"object,omitempty"`
	Phase   Phase   `json:"phase"`
	Outcome Outcome `json:"outcome,omitempty"`
	// Message says why the outcome is not Done.
	Message string `json:"message,omitempty"`
	// Run is who wrote this: host, process, and something that no other run has.
	Run string `json:"run"`
	// Runs counts the runs that wrote something.
	Runs     int          `json:"runs"`
	Started  metav1.Time  `json:"started"`
	Updated  metav1.Time  `json:"updated"`
	Finished *metav1.Time `json:"finished,omitempty"`
	// Steps and Storage count what the last run found and did.
	Steps   Counts  `json:"steps"`
	Storage Counts  `json:"storage"`
	Backup  *Backup `json:"backup,omitempty"`
}

// Counts of steps, or of objects in the storage phase.
type Counts struct {
	Total int `json:"total"`
	// Written by this run.
	Written int `json:"written"`
	// Already as they should be.
	Already int `json:"already"`
	Failed  int `json:"failed"`
}

// Left is what was not tried.
func (c Counts) Left() int { return c.Total - c.Written - c.Already - c.Failed }

// Complete tells whether all is as it should be.
func (c Counts) Complete() bool { return c.Written+c.Already == c.Total }

// Backup says where the backup is that was made before the first write.
type Backup struct {
	Host string `json:"host"`
	Dir  string `json:"dir"`
	// Sum is the SHA-256 of its SHA256SUMS.
	Sum string `json:"sum"`
}
