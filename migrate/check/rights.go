// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/retry"
)

// access is what a right is for. Each has a ClusterRole in config/rbac/captctl.yaml, or several.
type access string

const (
	reads     access = "reads"     // all commands
	writes    access = "writes"    // apply and rollback
	endpoints access = "endpoints" // apply --fix-cluster-endpoints
	owners    access = "owners"    // apply and rollback, if the API server protects owner references
)

// Right is one permission.
type Right struct {
	Verb, Group, Resource, Subresource string
	// Namespace of the objects; empty for all of them, and for those that have none.
	Namespace string
	// Optional says what the right is for if the migration can do without it; else it is empty.
	Optional string
	access   access
}

// String is "verb resource.group", with the namespace if the right is for one only.
func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Namespace != "" {
		text += " in namespace " + r.Namespace
	}
	return text
}

// row is a line of the table of rights.
type row struct {
	access    access
	group     string
	resources []string
	verbs     []string
	// journal means objects in the namespace of the journal only.
	journal  bool
	optional string
}

const (
	// protectedOwners is why the rights of the role capt-migrate-owners are optional.
	protectedOwners = "API servers that protect owner references (admission plugin OwnerReferencesPermissionEnforcement, as in OpenShift) require it"
	noHealth        = "without it, it is not known whether provider-terraform is healthy"
)

// table is everything that captctl migrate requests of an API server. A test compares it with config/rbac/captctl.yaml.
func table() []row {
	infrastructure, controlPlane := infrav1.GroupVersion.Group, controlplanev1.GroupVersion.Group
	const extensions, clusterAPI, coordination = "apiextensions.k8s.io", "cluster.x-k8s.io", "coordination.k8s.io"
	reading, list, patch := []string{"get", "list"}, []string{"list"}, []string{"patch"}
	rows := []row{
		{access: reads, resources: []string{"namespaces"}, verbs: reading},
		{access: reads, resources: []string{"pods"}, verbs: list},
		{access: reads, group: "apps", resources: []string{"deployments"}, verbs: list},
		{access: reads, group: extensions, resources: []string{"customresourcedefinitions"}, verbs: reading},
		{access: reads, group: clusterAPI, resources: []string{"clusters"}, verbs: reading},
		{access: reads, group: "pkg.crossplane.io", resources: []string{"providers"}, verbs: list, optional: noHealth},
		{access: reads, group: coordination, resources: []string{"leases"}, verbs: []string{"get"}, journal: true},
		{access: reads, resources: []string{"configmaps"}, verbs: reading, journal: true},
		{access: writes, group: coordination, resources: []string{"leases"}, verbs: []string{"create", "update"}, journal: true},
		{access: writes, resources: []string{"configmaps"}, verbs: []string{"create", "update"}, journal: true},
		{access: writes, group: infrastructure, resources: []string{"captclusters", "workspacetemplateapplies", "workspacetemplateapplies/status", "workspacetemplates"}, verbs: patch},
		{access: writes, group: controlPlane, resources: []string{"captcontrolplanes"}, verbs: patch},
		// Decision pin: a WorkspaceTemplate that reproduces a Workspace.
		{access: writes, group: infrastructure, resources: []string{"workspacetemplates"}, verbs: []string{"create"}},
		{access: endpoints, group: clusterAPI, resources: []string{"clusters"}, verbs: patch},
		// To change an owner reference, that admission plugin requires the right to delete the object and, where the reference blocks the
		// deletion of the owner, to update the finalizers of the owner. captctl deletes nothing.
		{access: owners, group: infrastructure, resources: []string{"workspacetemplateapplies"}, verbs: []string{"delete"}, optional: protectedOwners},
		{access: owners, group: infrastructure, resources: []string{"captclusters/finalizers"}, verbs: []string{"update"}, optional: protectedOwners},
		{access: owners, group: controlPlane, resources: []string{"captcontrolplanes/finalizers"}, verbs: []string{"update"}, optional: protectedOwners},
	}
	for _, scope := range terraform.Scopes() {
		rows = append(rows, row{access: reads, group: scope.GroupVersionKind().Group, resources: []string{"workspaces"}, verbs: reading})
	}
	for _, kind := range migrate.Kinds() {
		rows = append(rows, row{access: reads, group: kind.Group, resources: []string{kind.Resource}, verbs: reading})
	}
	return rows
}

// Rights lists what commands require: check, plan, show and status before stage Untouched, and also apply or rollback before the others.
func Rights(journalNamespace string, before Stage, fixClusterEndpoints bool) (rights []Right) {
	for _, row := range table() {
		if row.access != reads && before == Untouched || row.access == endpoints && !fixClusterEndpoints {
			continue
		}
		rights = append(rights, row.rights(journalNamespace)...)
	}
	return rights
}

func (r row) rights(journalNamespace string) (rights []Right) {
	for _, resource := range r.resources {
		for _, verb := range r.verbs {
			right := Right{Verb: verb, Group: r.group, Optional: r.optional, access: r.access}
			right.Resource, right.Subresource, _ = strings.Cut(resource, "/")
			if r.journal {
				right.Namespace = journalNamespace
			}
			rights = append(rights, right)
		}
	}
	return rights
}

// reviewers bounds how many reviews are requested at the same time.
const reviewers = 8

// review finds which rights the user does not have. The API server does not store reviews.
func (l *look) review(ctx context.Context, rights []Right) error {
	var lock sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(reviewers)
	for _, right := range rights {
		group.Go(func() error {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: right.Verb, Group: right.Group, Resource: right.Resource, Subresource: right.Subresource, Namespace: right.Namespace,
				},
			}}
			if err := retry.Do(ctx, func(ctx context.Context) error { return l.client.Create(ctx, review) }); err != nil {
				return fmt.Errorf("reviewing the right to %s: %w", right, err)
			}
			if !review.Status.Allowed {
				lock.Lock()
				defer lock.Unlock()
				l.missing[right] = true
			}
			return nil
		})
	}
	return group.Wait()
}

// permissions reports missing rights. Before this version is installed, those of apply are missing without harm.
func (l *look) permissions(ctx context.Context) (Check, error) {
	later := l.options.Before
	if later == Untouched {
		later = Apply
	}
	rights := Rights(l.options.JournalNamespace, later, l.options.FixClusterEndpoints)
	if err := l.review(ctx, rights); err != nil {
		return Check{}, err
	}
	var now, then, optional []Right
	for _, right := range rights {
		switch {
		case !l.missing[right]:
		case right.Optional != "":
			optional = append(optional, right)
		case right.access == reads || l.options.Before != Untouched:
			now = append(now, right)
		default:
			then = append(then, right)
		}
	}
	switch {
	case len(now) > 0:
		return l.grant(ctx, Failed, fmt.Sprintf("%d of %d rights are missing. Bind the roles of config/rbac/captctl.yaml", len(now)+len(then), len(rights)), append(now, then...))
	case len(then) > 0:
		return l.grant(ctx, Warning, fmt.Sprintf("%d rights are missing that apply and rollback require. Bind the roles of config/rbac/captctl.yaml", len(then)), then)
	}
	check := Check{Status: OK, Message: fmt.Sprintf("all %d required rights are granted", len(rights)-len(optional))}
	for _, right := range optional {
		check.Objects = append(check.Objects, fmt.Sprintf("%s is not granted: %s", right, right.Optional))
	}
	return check, nil
}

// grant is a check of missing rights, with the commands that bind the roles.
func (l *look) grant(ctx context.Context, status Status, message string, missing []Right) (Check, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := retry.Do(ctx, func(ctx context.Context) error { return l.client.Create(ctx, review) }); err != nil {
		return Check{}, fmt.Errorf("reading the name of the user: %w", err)
	}
	check := Check{Status: status, Message: message}
	if l.options.Before == Untouched { // Later the roles are part of the installation.
		check.Commands = []string{"kubectl apply -f config/rbac/captctl.yaml"}
	}
	writer := slices.ContainsFunc(missing, func(right Right) bool { return right.access == writes })
	for _, right := range missing {
		check.Objects = append(check.Objects, right.String())
		check.Commands = append(check.Commands, bind(review.Status.UserInfo.Username, right, writer))
	}
	check.Commands = unique(check.Commands)
	return check, nil
}

// bind is the command that grants a right with the role that has it. The roles of writers have the rights of readers.
func bind(user string, right Right, writer bool) string {
	role := "capt-migrate"
	if right.Namespace != "" {
		role = "capt-migrate-journal"
	}
	switch {
	case right.access == endpoints:
		role = "capt-migrate-endpoints"
	case right.access == reads && !writer:
		role += "-reader"
	}
	subject := "--user=" + quote(user)
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		subject = "--serviceaccount=" + quote(account)
	}
	name := quote(role + ":" + strings.NewReplacer("/", "-", "%", "-").Replace(user)) // One binding per user.
	if right.Namespace != "" {
		return fmt.Sprintf("kubectl -n %s create rolebinding %s --clusterrole=%s %s", right.Namespace, name, role, subject)
	}
	return fmt.Sprintf("kubectl create clusterrolebinding %s --clusterrole=%s %s", name, role, subject)
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// mayPatch reports whether the user may patch the objects of a kind, as far as that was reviewed.
func (l *look) mayPatch(kind migrate.Kind) bool {
	for right := range l.missing {
		if right.Verb == "patch" && right.Group == kind.Group && right.Resource == kind.Resource && right.Subresource == "" {
			return false
		}
	}
	return true
}
