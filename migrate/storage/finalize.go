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

package storage

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/retry"
)

// passes is how often everything is written again before giving up. One changes what is left, the next one proves it.
const passes = 5

// Options say how to finalize.
type Options struct {
	// Client without a cache.
	Client client.Client
	// Plan of the migration.
	Plan *migrate.Plan
	// Adopted returns an error, best one with an Outcome, unless everything that the plan adopts is adopted: migrate/verify
	// knows.
	Adopted func(context.Context) error
	// Workers is how many objects are written at a time; at least 1.
	Workers int
	// Progress is told of every object of every pass.
	Progress migrate.Progress
}

// Report is what Finalize has found and done.
type Report struct {
	metav1.TypeMeta `json:",inline"`
	Kinds           []KindReport `json:"kinds"`
}

// KindReport is about one kind.
type KindReport struct {
	Kind string `json:"kind"`
	// Definition is the name of the CustomResourceDefinition.
	Definition string `json:"definition"`
	// Objects is how many there were in the last pass, and Passes how many passes there were.
	Objects int `json:"objects"`
	Passes  int `json:"passes"`
	// Written is how many objects were not stored in today's version, in all passes together; they are now.
	Written int `json:"written"`
	// Before and After are the versions in which objects may be stored, as the definition says.
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
	// Note says why there was nothing to do.
	Note string `json:"note,omitempty"`
}

// Finalize proves that nothing is stored in an older version, and then says so in status.storedVersions of the definitions.
// From then on a later CAPT may stop to know the older version: there is no way back. It can be repeated at any time, and
// writes nothing then.
//
// The proof is a write of every object, as it was just read, conditional on its resourceVersion. The API server makes of it the
// bytes that it would store, in the version that the definition says, and compares them with the bytes that etcd has. It reads
// those from etcd for the comparison, even if it had the object in its cache (GuaranteedUpdate in k8s.io/apiserver's etcd3
// store). If they are the same, nothing is stored and the resourceVersion stays: so the bytes in etcd are of today's version. If
// they are not, they are stored, and the resourceVersion that is returned is another one. The version is a part of the bytes, so
// an object of an older version never passes for one of today. Somebody else's write in between makes ours fail, and the
// object is read again. Passes are repeated until one changes nothing. What is made in the meantime is stored in today's
// version, since that is what the definition says, before and after.
//
// The error is migrate.NeedsDecision when the plan has undecided findings, migrate.NotVerified when the definitions are not
// ours or the proof fails, and else that of Adopted.
func Finalize(ctx context.Context, o Options) (Report, error) {
	report := Report{TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "FinalizeReport"}}
	if undecided := o.Plan.Undecided(); len(undecided) > 0 {
		return report, migrate.NeedsDecision.Errorf("%d findings of the plan need a decision first, among them: %s: %s",
			len(undecided), undecided[0].Object, undecided[0].Message)
	}
	if err := o.Adopted(ctx); err != nil {
		return report, fmt.Errorf("not everything is adopted: %w", err)
	}
	for _, kind := range migrate.Kinds() {
		found, err := definition(ctx, o.Client, kind)
		if err != nil {
			return report, err
		}
		k := KindReport{Kind: kind.Kind, Definition: kind.Definition()}
		if found == nil {
			k.Note = "not installed"
		} else {
			k.Before, k.After = found.Status.StoredVersions, found.Status.StoredVersions
		}
		report.Kinds = append(report.Kinds, k)
	}
	// All is proved before the first definition says so.
	for i, kind := range migrate.Kinds() {
		if err := o.prove(ctx, kind, &report.Kinds[i]); err != nil {
			return report, err
		}
	}
	for i, kind := range migrate.Kinds() {
		if report.Kinds[i].Note != "" {
			continue
		}
		if err := trim(ctx, o.Client, kind); err != nil {
			return report, fmt.Errorf("trimming status.storedVersions of %s: %w", kind.Definition(), err)
		}
		report.Kinds[i].After = []string{kind.Version}
	}
	return report, nil
}

// prove writes all objects of a kind until that changes nothing.
func (o Options) prove(ctx context.Context, kind migrate.Kind, report *KindReport) error {
	if report.Note != "" {
		return nil
	}
	rewriter := NewRewriter(o.Client)
	for report.Passes < passes {
		items, err := Items(ctx, o.Client, kind, "")
		if err != nil {
			return err
		}
		o.Progress.Phase(fmt.Sprintf("%s, pass %d", kind.Kind, report.Passes+1), len(items))
		counts, err := run(ctx, items, o.Workers, o.Progress, func(ctx context.Context, item migrate.StorageItem) (result, error) {
			item.UID = "" // One that was made again under the name is as good.
			var outcome result
			err := retry.Do(ctx, func(ctx context.Context) (err error) {
				outcome, err = rewriter.rewrite(ctx, item.ObjectRef, asItIs)
				return err
			})
			return outcome, err
		})
		report.Passes++
		report.Objects = len(items) - counts.Gone
		report.Written += counts.Written
		if err != nil {
			return err
		}
		if counts.Written == 0 {
			return nil
		}
	}
	return migrate.NotVerified.Errorf("objects of %s still change when they are written as they are, after %d passes: something writes into what passes through the API server, for example a webhook",
		kind.Kind, passes)
}
