// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/config/rbac"
	"github.com/capt-provider/capt/migrate"
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

// Right is one permission. Its namespace is empty if it is for all of them, and for objects that have none.
type Right struct {
	authorizationv1.ResourceAttributes
	Role string // Role is the ClusterRole of captctl that has the right.
}

// String is "verb resource.group", with the namespace if the right is for one only.
func (r Right) String() string {
	text := r.Verb + " " + schema.GroupResource{Group: r.Group, Resource: path.Join(r.Resource, r.Subresource)}.String()
	if r.Namespace != "" {
		text += " in namespace " + r.Namespace
	}
	return text
}

// Rights returns the rights of some ClusterRoles of captctl. Those of the journal are for the namespace of the journal.
func Rights(journalNamespace string, roles ...string) (rights []Right, err error) {
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(rbac.Captctl), 4096)
	for {
		var role rbacv1.ClusterRole
		switch err := documents.Decode(&role); {
		case errors.Is(err, io.EOF):
			return rights, nil
		case err != nil:
			return nil, fmt.Errorf("reading the roles of captctl: %w", err)
		case !slices.Contains(roles, role.Name):
			continue
		}
		right := Right{Role: role.Name}
		if role.Name == RoleJournalReader || role.Name == RoleJournal {
			right.Namespace = journalNamespace
		}
		for _, rule := range role.Rules {
			for _, right.Group = range rule.APIGroups {
				for _, resource := range rule.Resources {
					right.Resource, right.Subresource, _ = strings.Cut(resource, "/")
					for _, right.Verb = range rule.Verbs {
						rights = append(rights, right)
					}
				}
			}
		}
	}
}

// review finds which rights of some roles the user does not have. The API server does not store reviews.
func (c *checker) review(ctx context.Context, roles ...string) error {
	rights, err := Rights(c.options.JournalNamespace, roles...)
	for _, right := range rights {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right.ResourceAttributes}}
		if err := migrate.Retry(ctx, func(ctx context.Context) error { return c.client.Create(ctx, review) }); err != nil {
			return fmt.Errorf("checking the permission to %s: %w", right, err)
		}
		if !review.Status.Allowed {
			c.missing = append(c.missing, right)
		}
	}
	return err
}

// permissions reports missing rights. Before this version is installed, missing rights to write are only a warning.
func (c *checker) permissions(ctx context.Context) (found Check, err error) {
	review := []string{RoleReader, RoleJournalReader, RoleWriter, RoleJournal, RoleOwners}
	if c.options.FixClusterEndpoints {
		review = append(review, RoleEndpoints)
	}
	if err := c.review(ctx, review...); err != nil {
		return found, err
	}
	found = Check{Status: OK, Message: "all required permissions are granted"}
	required := slices.DeleteFunc(slices.Clone(c.missing), func(right Right) bool { return right.Role == RoleOwners })
	if len(required) == 0 {
		for _, right := range c.missing {
			found.Objects = append(found.Objects, right.String()+": only API servers that protect owner references require it, as OpenShift does; see role "+RoleOwners)
		}
		return found, nil
	}
	roles := []string{}
	found.Status = c.statusIfMissing()
	for _, right := range required {
		found.Objects, roles = append(found.Objects, right.String()), append(roles, right.Role)
		if right.Role == RoleReader || right.Role == RoleJournalReader {
			found.Status = Failed
		}
	}
	found.Message = fmt.Sprintf("%d permissions are missing. Bind these roles of config/rbac/captctl.yaml: %s", len(required), strings.Join(unique(roles), ", "))
	if found.Status == Warning {
		found.Message = "for apply and rollback, " + found.Message
	}
	found.Commands = c.bindCommands(required)
	return found, nil
}

func (c *checker) bindCommands(rights []Right) (commands []string) {
	subject := "--user=" + quote(c.user)
	if account, ok := strings.CutPrefix(c.user, "system:serviceaccount:"); ok {
		subject = "--serviceaccount=" + quote(account)
	}
	if c.options.Before == Untouched { // Later the roles are part of the installation.
		commands = append(commands, "kubectl apply -f config/rbac/captctl.yaml")
	}
	for _, right := range rights {
		name := quote(right.Role + ":" + strings.NewReplacer("/", "-", "%", "-").Replace(c.user)) // One binding per user.
		command := fmt.Sprintf("kubectl create clusterrolebinding %s --clusterrole=%s %s", name, right.Role, subject)
		if right.Namespace != "" {
			command = fmt.Sprintf("kubectl -n %s create rolebinding %s --clusterrole=%s %s", right.Namespace, name, right.Role, subject)
		}
		commands = append(commands, command)
	}
	return unique(commands)
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func (c *checker) journal(ctx context.Context) (Check, error) {
	const purpose = "captctl keeps its Lease and its journals there."
	name := c.options.JournalNamespace
	namespace := &corev1.Namespace{}
	err := c.client.Get(ctx, client.ObjectKey{Name: name}, namespace)
	switch {
	case apierrors.IsNotFound(err):
		return Check{Status: c.statusIfMissing(), Commands: []string{"kubectl create namespace " + name}, Message: fmt.Sprintf(
			"namespace %s does not exist. %s Create it, or name another one with --journal-namespace", name, purpose)}, nil
	case namespace.DeletionTimestamp != nil:
		return Check{Status: Failed, Message: fmt.Sprintf("namespace %s is being deleted. %s Name another one with --journal-namespace", name, purpose)}, nil
	}
	return Check{Status: OK, Message: fmt.Sprintf("namespace %s exists", name)}, err
}

// statusIfMissing is the status of a check of something that only later stages need: a warning before this version is installed.
func (c *checker) statusIfMissing() Status {
	if c.options.Before == Untouched {
		return Warning
	}
	return Failed
}

// clock reports a difference of the clocks that matters where captctl compares times of several hosts.
func (c *checker) clock(context.Context) (Check, error) {
	if c.skew.Abs() > 30*time.Second {
		return Check{Status: Warning, Message: fmt.Sprintf(
			"the clock of this host differs from that of the API server by %s. Times in reports and journals are wrong. Synchronize it", c.skew.Abs())}, nil
	}
	return Check{Status: OK, Message: "the clocks of this host and of the API server agree"}, nil
}

func (c *checker) clusterAPI(context.Context) (Check, error) {
	version := clusterv1.GroupVersion.String()
	if served, err := c.serves(clusterv1.GroupVersion.WithKind("Cluster")); served || err != nil {
		return Check{Status: OK, Message: "Cluster API serves " + version}, err
	}
	return Check{Status: Failed, Commands: []string{"clusterctl upgrade plan"}, Message: fmt.Sprintf("Cluster API does not serve %s. Upgrade it to v1.11 or later", version)}, nil
}

// certManager reports whether cert-manager is installed: without a certificate, objects cannot be read once the definitions are installed.
func (c *checker) certManager(context.Context) (Check, error) {
	served, err := c.serves(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"})
	if served || err != nil {
		return Check{Status: OK, Message: "cert-manager is installed"}, err
	}
	return Check{Status: Warning, Message: "cert-manager is not installed. Without a certificate for the webhooks of this version, no object of CAPT can be read. " +
		"Install cert-manager, or provide a certificate as described in docs/install.md"}, nil
}

const providerName = "provider-terraform"

func (c *checker) provider(ctx context.Context) (Check, error) {
	kind := terraform.ScopeCluster.GroupVersionKind()
	if served, err := c.serves(kind); err != nil || !served {
		return Check{Status: Failed, Message: fmt.Sprintf("%s does not exist: Workspaces of CAPT v0.3 cannot be read. Install %s", kind.GroupVersion(), providerName)}, err
	}
	up, down, err := c.replicas(ctx, func(deployment *appsv1.Deployment) bool {
		return strings.Contains(client.ObjectKeyFromObject(deployment).String(), providerName)
	})
	switch {
	case len(up.Objects) > 0:
		return Check{Status: OK, Objects: up.Objects[:1], Message: providerName + " runs"}, nil
	case len(down.Objects) > 0:
		return Check{Status: Warning, Objects: down.Objects, Message: providerName + " does not run, so the conditions of Workspaces may be outdated. Start it first"}, nil
	}
	return Check{Status: Warning, Message: providerName + " was not found. The conditions of Workspaces may be outdated"}, err
}

// Workspaces reports the Workspaces of the WorkspaceTemplateApplies of a fleet that are not up to date.
func Workspaces(fleet *migrate.Snapshot) Check {
	type key struct{ group, namespace, name string }
	keys, legacy := sets.New[key](), terraform.ScopeCluster.GroupVersionKind().Group
	for i := range fleet.Applies {
		apply := &fleet.Applies[i]
		keys.Insert(key{legacy, "", naming.LegacyWorkspace(apply.Name)}, key{legacy, "", apply.Spec.WorkspaceName})
		if ref := apply.Status.WorkspaceRef; ref != nil {
			keys.Insert(key{schema.FromAPIVersionAndKind(ref.APIVersion, "").Group, ref.Namespace, ref.Name})
		}
	}
	found, total := Check{Name: CheckWorkspaces, Status: Warning}, 0
	for i := range fleet.Workspaces {
		workspace := &fleet.Workspaces[i]
		if !keys.Has(key{workspace.GroupVersionKind().Group, workspace.GetNamespace(), workspace.GetName()}) {
			continue
		}
		total++
		if why := migrate.WhyNotUpToDate(workspace); why != "" {
			found.Objects = append(found.Objects, fmt.Sprintf("Workspace %s: %s", workspace.GetName(), why))
		}
	}
	slices.Sort(found.Objects)
	found.Message = fmt.Sprintf("%d of %d Workspaces are not up to date: Terraform may run for them during "+
		"the migration, independently of it. Wait until Terraform has finished, or fix them first", len(found.Objects), total)
	return found.orOK("all %d Workspaces of WorkspaceTemplateApplies are up to date", total)
}
