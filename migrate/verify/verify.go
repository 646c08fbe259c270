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

package verify

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// Report is what was found.
type Report struct {
	metav1.TypeMeta `json:",inline"`
	// Plan is the ID of the plan.
	Plan string `json:"plan"`
	// OK tells whether every check passed.
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
}

// Check is about one promise.
type Check struct {
	// Name is one word in CamelCase, for machines.
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Message says what was found.
	Message string `json:"message"`
	// Objects are those that are not as they should be, each with what is wrong with it.
	Objects []Deviation `json:"objects,omitempty"`
	// Notes are about objects that are as they should be, but somebody should know.
	Notes []Deviation `json:"notes,omitempty"`
}

// Deviation is an object and what is to be said about it.
type Deviation struct {
	Object  migrate.ObjectRef `json:"object"`
	Message string            `json:"message"`
}

// String is the object and the message.
func (d Deviation) String() string { return d.Object.String() + ": " + d.Message }

// Options say what to verify.
type Options struct {
	// Adoption restricts it to what finalize asks for: that everything which the plan adopts is adopted.
	Adoption bool
	// Progress is told of every check.
	Progress migrate.Progress
}

// check looks at one promise. What it finds wrong it adds to the Check.
type check struct {
	name string
	// adoption tells that finalize asks for it.
	adoption bool
	// scopes of plans that make the promise; none is all of them.
	scopes []migrate.Scope
	look   func(context.Context, *world, *Check) error
}

func checks() []check {
	adopt, rewrite := []migrate.Scope{migrate.ScopeAdopt, migrate.ScopeAll}, []migrate.Scope{migrate.ScopeStorage, migrate.ScopeAll}
	return []check{
		{"ManagementCluster", true, nil, managementCluster},
		{"WorkspacesUntouched", false, nil, workspacesUntouched},
		{"WorkspaceTemplateApplies", false, nil, workspaceTemplateApplies},
		{"Adopted", true, adopt, adopted},
		{"References", true, adopt, references},
		{"OneToOne", true, adopt, oneToOne},
		{"TemplatesPermit", false, adopt, templatesPermit},
		{"NothingPending", false, adopt, nothingPending},
		{"Storage", false, rewrite, storageMoved},
		{"StoredVersions", false, rewrite, storedVersions},
	}
}

// Run verifies a migration. The error is migrate.NotVerified when a check fails; another error means that it could not be
// verified. The report has all checks in either case, as far as they were made.
func Run(ctx context.Context, reader client.Reader, plan *migrate.Plan, o Options) (Report, error) {
	report := Report{TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "VerifyReport"}, Plan: plan.ID}
	progress := o.Progress
	if progress == nil {
		progress = migrate.Silent{}
	}
	var made []check
	for _, c := range checks() {
		if c.wanted(plan.Scope, o) {
			made = append(made, c)
		}
	}
	progress.Phase("verify", len(made))
	w := &world{reader: reader, plan: plan}
	for _, c := range made {
		found := Check{Name: c.name}
		if err := c.look(ctx, w, &found); err != nil {
			return report, fmt.Errorf("verifying %s: %w", c.name, err)
		}
		found.OK = len(found.Objects) == 0
		report.Checks = append(report.Checks, found)
		progress.Add(1)
	}
	return report.conclude()
}

// Adopted returns a function for storage.Options that proves, each time it is called, that everything which a plan adopts is
// adopted.
func Adopted(reader client.Reader, plan *migrate.Plan) func(context.Context) error {
	return func(ctx context.Context) error { return Prove(ctx, reader, plan, Options{Adoption: true}) }
}

// Prove is Run for those who do not show the report: the error of migrate.NotVerified tells the first object of each check that
// failed.
func Prove(ctx context.Context, reader client.Reader, plan *migrate.Plan, o Options) error {
	report, err := Run(ctx, reader, plan, o)
	if migrate.OutcomeOf(err) == migrate.NotVerified {
		return migrate.NotVerified.Errorf("%s", report.failures())
	}
	return err
}

func (c check) wanted(scope migrate.Scope, o Options) bool {
	if o.Adoption && !c.adoption {
		return false
	}
	for _, s := range c.scopes {
		if s == scope {
			return true
		}
	}
	return len(c.scopes) == 0
}

func (r Report) conclude() (Report, error) {
	var failed []string
	for _, c := range r.Checks {
		if !c.OK {
			failed = append(failed, c.Name)
		}
	}
	r.OK = len(failed) == 0
	if r.OK {
		return r, nil
	}
	return r, migrate.NotVerified.Errorf("%d of %d checks failed: %s", len(failed), len(r.Checks), strings.Join(failed, ", "))
}

// failures is the report in one line.
func (r Report) failures() string {
	var failed []string
	for _, c := range r.Checks {
		if !c.OK {
			failed = append(failed, fmt.Sprintf("%s (first: %s)", c.Message, c.Objects[0]))
		}
	}
	return strings.Join(failed, "; ")
}

// wrong adds an object that is not as it should be.
func (c *Check) wrong(object migrate.ObjectRef, format string, args ...any) {
	c.Objects = append(c.Objects, Deviation{object, fmt.Sprintf(format, args...)})
}

// note adds an object of which somebody should know.
func (c *Check) note(object migrate.ObjectRef, format string, args ...any) {
	c.Notes = append(c.Notes, Deviation{object, fmt.Sprintf(format, args...)})
}

// conclude says in one sentence what was found, of a number of objects that were looked at.
func (c *Check) conclude(number int, what, good, bad string) {
	if len(c.Objects) == 0 {
		c.Message = fmt.Sprintf("%d %s looked at; %s", number, what, good)
		return
	}
	objects := sets.New[migrate.ObjectRef]()
	for _, deviation := range c.Objects {
		objects.Insert(deviation.Object)
	}
	c.Message = fmt.Sprintf("%d of %d %s %s", objects.Len(), number, what, bad)
}
