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
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capt-provider/capt/migrate"
)

// proof is what the live objects say about the changes of a run.
type proof struct {
	// due changes, in order.
	due []*change
	// stale objects, each with what changed.
	stale []string

	verdicts map[*change]verdict
}

// prove reads every object that the changes are about, a page at a time, and judges each change.
func prove(ctx context.Context, o *Options, changes []*change) (*proof, error) {
	p := &proof{verdicts: make(map[*change]verdict, len(changes))}
	byKind, err := group(changes)
	if err != nil {
		return nil, err
	}
	for kind, wanted := range byKind {
		err := migrate.Each(ctx, o.Reader, kind, wanted.namespace(), func(live *unstructured.Unstructured) error {
			return p.judge(live, wanted.take(live)...)
		})
		if err != nil {
			return nil, err
		}
	}
	for _, c := range changes {
		if _, seen := p.verdicts[c]; !seen {
			if err := p.judge(nil, c); err != nil {
				return nil, err
			}
		}
		if p.verdicts[c] == due || p.verdicts[c] == early {
			p.due = append(p.due, c)
		}
	}
	return p, nil
}

func (p *proof) judge(live *unstructured.Unstructured, changes ...*change) error {
	for _, c := range changes {
		verdict, why, err := c.judge(live)
		if err != nil {
			return err
		}
		p.verdicts[c] = verdict
		if verdict == stale {
			p.stale = append(p.stale, fmt.Sprintf("%s: %s", c.object, why))
		}
	}
	return nil
}

// err says what changed since the plan was made.
func (p *proof) err() error {
	if len(p.stale) == 0 {
		return nil
	}
	slices.Sort(p.stale)
	p.stale = slices.Compact(p.stale)
	return migrate.Stale.Errorf("the plan is stale, and this run wrote nothing; make a new one. Changed since it was made:\n  %s", strings.Join(p.stale, "\n  "))
}

// wanted are changes of one kind, by namespace and name of their objects.
type wanted map[[2]string][]*change

func group(changes []*change) (map[schema.GroupVersionKind]wanted, error) {
	byKind := map[schema.GroupVersionKind]wanted{}
	for _, c := range changes {
		kind, err := kindOf(c.object)
		if err != nil {
			return nil, err
		}
		if byKind[kind] == nil {
			byKind[kind] = wanted{}
		}
		key := [2]string{c.object.Namespace, c.object.Name}
		byKind[kind][key] = append(byKind[kind][key], c)
	}
	return byKind, nil
}

// namespace of all objects, or empty: then all namespaces are looked at.
func (w wanted) namespace() string {
	namespace, first := "", true
	for key := range w {
		if !first && key[0] != namespace {
			return ""
		}
		namespace, first = key[0], false
	}
	return namespace
}

func (w wanted) take(live *unstructured.Unstructured) []*change {
	return w[[2]string{live.GetNamespace(), live.GetName()}]
}
