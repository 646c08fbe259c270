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

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
)

// Phase of a migration that needs permissions.
type Phase string

const (
	// Inspect: inspect, preflight, plan and verify read.
	Inspect Phase = "inspect"
	// Adopt: apply, resume and rollback write references and keep a journal.
	Adopt Phase = "adopt"
	// Storage: apply rewrites every object in today's version.
	Storage Phase = "storage"
	// Finalize: finalize says in the definitions that nothing of an older version is stored.
	Finalize Phase = "finalize"
	// Backup: the backup records the resource versions of Terraform's state.
	Backup Phase = "backup"
	// Definitions: crds replaces the definition whose kind the older CAPT spelled differently.
	Definitions Phase = "crds"
)

// Right is one permission.
type Right struct {
	Verb, Group, Resource, Subresource string
	// Name of the only object that is meant; empty for all.
	Name string
	// Namespace of the objects; empty for all of them, and for those that have none.
	Namespace string
	// Optional says what goes without the permission all the same; empty for one that has to be there.
	Optional string
}

// String is "verb resource.group", with the object and the namespace if the permission is for one only.
func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Namespace != "" {
		text += " in namespace " + r.Namespace
	}
	return text
}

// row is a line of the table of permissions.
type row struct {
	phases    []Phase
	group     string
	resources []string
	verbs     []string
	// names are the only objects that are meant.
	names []string
	// journal tells that only objects in the journal's namespace are meant.
	journal  bool
	optional string
}

var (
	reading = []string{"get", "list"}
	writing = []Phase{Adopt, Storage}
)

const (
	// OwnerReferences is why some permissions are optional.
	OwnerReferences = "only API servers that protect owner references (admission plugin OwnerReferencesPermissionEnforcement, as in OpenShift) ask for it"

	noState  = "the backup does not record the resource versions of Terraform's state then"
	noEvents = "what is adopted gets no event that says so then"
	noHealth = "whether provider-terraform is healthy is not known then"
)

// table is everything that captctl asks of an API server. config/rbac/captctl.yaml grants the same, and a test holds them
// against each other.
func table() []row {
	infrastructure, controlPlane := infrav1.GroupVersion.Group, controlplanev1.GroupVersion.Group
	names := make([]string, 0, len(migrate.Kinds()))
	for _, kind := range migrate.Kinds() {
		names = append(names, kind.Definition())
	}
	const extensions, clusterAPI = "apiextensions.k8s.io", "cluster.x-k8s.io"
	rows := []row{
		{phases: []Phase{Inspect}, resources: []string{"namespaces"}, verbs: reading},
		{phases: []Phase{Inspect}, resources: []string{"pods"}, verbs: []string{"list"}},
		{phases: []Phase{Inspect}, group: "apps", resources: []string{"deployments"}, verbs: reading},
		{phases: []Phase{Inspect}, group: extensions, resources: []string{"customresourcedefinitions"}, verbs: reading},
		{phases: []Phase{Inspect}, group: clusterAPI, resources: []string{"clusters"}, verbs: reading},
		// verify --watch watches them.
		{phases: []Phase{Inspect}, group: "tf.upbound.io", resources: []string{"workspaces"}, verbs: []string{"get", "list", "watch"}},
		{phases: []Phase{Inspect}, group: "tf.m.upbound.io", resources: []string{"workspaces"}, verbs: []string{"get", "list", "watch"}},
		{phases: []Phase{Inspect}, group: "pkg.crossplane.io", resources: []string{"providers"}, verbs: []string{"list"}, optional: noHealth},
		{phases: []Phase{Inspect}, group: "coordination.k8s.io", resources: []string{"leases"}, verbs: []string{"get"}, journal: true},
		{phases: []Phase{Inspect}, resources: []string{"configmaps"}, verbs: reading, journal: true},
		{phases: writing, group: "coordination.k8s.io", resources: []string{"leases"}, verbs: []string{"create", "update"}, journal: true},
		{phases: writing, resources: []string{"configmaps"}, verbs: []string{"create", "update"}, journal: true},
		{phases: []Phase{Adopt}, resources: []string{"events"}, verbs: []string{"create"}, optional: noEvents},
		{phases: []Phase{Adopt}, group: infrastructure, resources: []string{"captclusters", "workspacetemplateapplies", "workspacetemplateapplies/status", "workspacetemplates"}, verbs: []string{"patch"}},
		{phases: []Phase{Adopt}, group: controlPlane, resources: []string{"captcontrolplanes"}, verbs: []string{"patch"}},
		// A template that reproduces a Workspace, where that was decided (pin).
		{phases: []Phase{Adopt}, group: infrastructure, resources: []string{"workspacetemplates"}, verbs: []string{"create"}},
		{phases: []Phase{Storage}, group: infrastructure, resources: []string{"captclusters", "captclustertemplates", "workspacetemplateapplies", "workspacetemplates"}, verbs: []string{"patch", "update"}},
		{phases: []Phase{Storage}, group: controlPlane, resources: []string{"captcontrolplanes", "captcontrolplanetemplates"}, verbs: []string{"patch", "update"}},
		// To change an owner reference, one has to be allowed to delete the object and, where that blocks the deletion of the owner,
		// to say so. Nothing is deleted.
		{phases: writing, group: infrastructure, resources: []string{"workspacetemplateapplies"}, verbs: []string{"delete"}, optional: OwnerReferences},
		{phases: writing, group: infrastructure, resources: []string{"captclusters/finalizers"}, verbs: []string{"update"}, optional: OwnerReferences},
		{phases: writing, group: controlPlane, resources: []string{"captcontrolplanes/finalizers"}, verbs: []string{"update"}, optional: OwnerReferences},
		{phases: []Phase{Finalize}, group: extensions, resources: []string{"customresourcedefinitions/status"}, verbs: []string{"patch"}, names: names},
		// It can not be said in RBAC that only metadata is read; captctl never asks for more.
		{phases: []Phase{Backup}, resources: []string{"secrets"}, verbs: []string{"list"}, optional: noState},
		{phases: []Phase{Definitions}, resources: []string{"namespaces"}, verbs: []string{"get"}},
		{phases: []Phase{Definitions}, group: extensions, resources: []string{"customresourcedefinitions"}, verbs: []string{"get", "delete"}, names: []string{"captcontrolplanetemplates." + controlPlane}},
		{phases: []Phase{Definitions}, group: controlPlane, resources: []string{"captcontrolplanetemplates"}, verbs: []string{"create", "get", "list", "patch", "watch"}},
		{phases: []Phase{Definitions}, group: clusterAPI, resources: []string{"clusterclasses", "clusters"}, verbs: reading},
	}
	for _, kind := range migrate.Kinds() {
		rows = append(rows, row{phases: []Phase{Inspect}, group: kind.Group, resources: []string{kind.Resource}, verbs: reading})
	}
	return rows
}

// Rights lists the permissions that phases need, without doubles. To read what a migration is about is part of Inspect and of
// no other phase.
func Rights(journalNamespace string, phases ...Phase) []Right {
	var rights []Right
	for _, row := range table() {
		if !slices.ContainsFunc(row.phases, func(phase Phase) bool { return slices.Contains(phases, phase) }) {
			continue
		}
		for _, right := range row.rights(journalNamespace) {
			if !slices.Contains(rights, right) {
				rights = append(rights, right)
			}
		}
	}
	return rights
}

func (r row) rights(journalNamespace string) []Right {
	var rights []Right
	names := r.names
	if len(names) == 0 {
		names = []string{""}
	}
	for _, resource := range r.resources {
		for _, verb := range r.verbs {
			for _, name := range names {
				right := Right{Verb: verb, Group: r.group, Name: name, Optional: r.optional}
				right.Resource, right.Subresource, _ = strings.Cut(resource, "/")
				if r.journal {
					right.Namespace = journalNamespace
				}
				rights = append(rights, right)
			}
		}
	}
	return rights
}

// reviewers bounds how many permissions are asked for at a time.
const reviewers = 8

// Missing asks the API server which of the permissions the caller does not have. A review is created for each, and stored
// nowhere: nothing is written.
func Missing(ctx context.Context, c client.Client, rights []Right) ([]Right, error) {
	var lock sync.Mutex
	denied := map[Right]bool{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(reviewers)
	for _, right := range rights {
		group.Go(func() error {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: right.Verb, Group: right.Group, Resource: right.Resource, Subresource: right.Subresource,
					Name: right.Name, Namespace: right.Namespace,
				},
			}}
			if err := ask(func() error { return c.Create(ctx, review) }); err != nil {
				return fmt.Errorf("asking for the permission to %s: %w", right, err)
			}
			if !review.Status.Allowed {
				lock.Lock()
				defer lock.Unlock()
				denied[right] = true
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(rights), func(right Right) bool { return !denied[right] }), nil
}

func (l *look) permissions(ctx context.Context) (Check, error) {
	phases := append([]Phase{Inspect}, l.options.Phases...)
	rights := Rights(l.options.JournalNamespace, phases...)
	missing, err := Missing(ctx, l.client, rights)
	if err != nil {
		return Check{}, err
	}
	var needed, wanted []string
	reasons := map[string]bool{}
	for _, right := range missing {
		l.missing[right] = true
		if right.Optional == "" {
			needed = append(needed, right.String())
			continue
		}
		wanted = append(wanted, right.String())
		reasons[right.Optional] = true
	}
	switch {
	case len(needed) > 0:
		return Check{Status: Failed, Objects: needed, Message: fmt.Sprintf(
			"%d of %d permissions are missing; bind the roles of config/rbac/captctl.yaml", len(needed), len(rights))}, nil
	case len(wanted) > 0:
		return Check{Status: Warning, Objects: wanted, Message: fmt.Sprintf(
			"all %d permissions are there but some that one can do without: %s", len(rights)-len(wanted), strings.Join(sorted(reasons), "; "))}, nil
	}
	return Check{Status: OK, Message: fmt.Sprintf("all %d permissions are there", len(rights))}, nil
}

// may tells whether a permission is there, as far as it was asked for.
func (l *look) may(verb, group, resource string) bool {
	for right := range l.missing {
		if right.Verb == verb && right.Group == group && right.Resource == resource && right.Subresource == "" {
			return false
		}
	}
	return true
}

// sorted are the members of a set.
func sorted(set map[string]bool) []string {
	members := make([]string, 0, len(set))
	for member := range set {
		members = append(members, member)
	}
	slices.Sort(members)
	return members
}
