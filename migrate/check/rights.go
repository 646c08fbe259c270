// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/capt-provider/capt/config/rbac"
	"github.com/capt-provider/capt/migrate/retry"
)

// The ClusterRoles of config/rbac/captctl.yaml.
const (
	RoleReader        = "capt-migrate-reader"
	RoleJournalReader = "capt-migrate-journal-reader"
	RoleWriter        = "capt-migrate"
	RoleJournal       = "capt-migrate-journal"
	RoleEndpoints     = "capt-migrate-endpoints"
	RoleOwners        = "capt-migrate-owners"
)

// Right is one permission.
type Right struct {
	Verb, Group, Resource, Subresource string
	// Namespace of the objects; empty for all of them, and for those that have none.
	Namespace string
	// Role that has the right.
	Role string
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

// Rights lists those of some roles.
func Rights(journalNamespace string, roles ...string) (rights []Right, err error) {
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(rbac.Captctl), 4096)
	known := map[string]rbacv1.ClusterRole{}
	for {
		var role rbacv1.ClusterRole
		if err := documents.Decode(&role); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading the roles of captctl: %w", err)
		}
		known[role.Name] = role
	}
	for _, name := range roles {
		namespace := ""
		if name == RoleJournalReader || name == RoleJournal {
			namespace = journalNamespace
		}
		for _, rule := range known[name].Rules {
			rights = append(rights, rightsOf(rule, Right{Role: name, Namespace: namespace})...)
		}
	}
	return rights, nil
}

func rightsOf(rule rbacv1.PolicyRule, right Right) (rights []Right) {
	for _, right.Group = range rule.APIGroups {
		for _, resource := range rule.Resources {
			right.Resource, right.Subresource, _ = strings.Cut(resource, "/")
			for _, right.Verb = range rule.Verbs {
				rights = append(rights, right)
			}
		}
	}
	return rights
}

// review finds which rights the user does not have. The API server does not store reviews.
func (l *look) review(ctx context.Context, rights []Right) error {
	for _, right := range rights {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: right.Verb, Group: right.Group, Resource: right.Resource, Subresource: right.Subresource, Namespace: right.Namespace,
			},
		}}
		if err := retry.Do(ctx, func(ctx context.Context) error { return l.client.Create(ctx, review) }); err != nil {
			return fmt.Errorf("reviewing the right to %s: %w", right, err)
		}
		if !review.Status.Allowed {
			l.missing[right] = true
		}
	}
	return nil
}

// permissions reports missing rights. Before this version is installed, those to write are missing without harm.
func (l *look) permissions(ctx context.Context) (Check, error) {
	roles := []string{RoleReader, RoleJournalReader, RoleWriter, RoleJournal, RoleOwners}
	if l.options.FixClusterEndpoints {
		roles = append(roles, RoleEndpoints)
	}
	rights, err := Rights(l.options.JournalNamespace, roles...)
	if err != nil {
		return Check{}, err
	}
	if err := l.review(ctx, rights); err != nil {
		return Check{}, err
	}
	found := Check{Status: OK, Message: "all required rights are granted"}
	var missing []Right
	for _, right := range rights {
		switch {
		case !l.missing[right]:
			continue
		case right.Role == RoleOwners:
			found.Objects = append(found.Objects, right.String()+": only API servers that protect owner references require it, as OpenShift does; see role "+RoleOwners)
			continue
		case right.Role == RoleReader, right.Role == RoleJournalReader, l.options.Before != Untouched:
			found.Status = Failed
		case found.Status == OK:
			found.Status = Warning
		}
		missing = append(missing, right)
	}
	if len(missing) == 0 {
		return found, nil
	}
	found.Objects, found.Message = nil, "rights are missing. Bind the roles of config/rbac/captctl.yaml that have them"
	if found.Status == Warning {
		found.Message = "for apply and rollback, " + found.Message
	}
	for _, right := range missing {
		found.Objects = append(found.Objects, right.String())
	}
	found.Commands, err = l.bind(ctx, missing)
	return found, err
}

// bind are the commands that bind the roles with some rights.
func (l *look) bind(ctx context.Context, rights []Right) (commands []string, err error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := retry.Do(ctx, func(ctx context.Context) error { return l.client.Create(ctx, review) }); err != nil {
		return nil, fmt.Errorf("reading the name of the user: %w", err)
	}
	user := review.Status.UserInfo.Username
	subject := "--user=" + quote(user)
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		subject = "--serviceaccount=" + quote(account)
	}
	if l.options.Before == Untouched { // Later the roles are part of the installation.
		commands = append(commands, "kubectl apply -f config/rbac/captctl.yaml")
	}
	for _, right := range rights {
		name := quote(right.Role + ":" + strings.NewReplacer("/", "-", "%", "-").Replace(user)) // One binding per user.
		command := fmt.Sprintf("kubectl create clusterrolebinding %s --clusterrole=%s %s", name, right.Role, subject)
		if right.Namespace != "" {
			command = fmt.Sprintf("kubectl -n %s create rolebinding %s --clusterrole=%s %s", right.Namespace, name, right.Role, subject)
		}
		commands = append(commands, command)
	}
	return unique(commands), nil
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
