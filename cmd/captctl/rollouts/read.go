// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/cmd/captctl/cli"
)

// staged is a template, and what its rollout depends on.
type staged struct {
	template *infrav1.WorkspaceTemplate
	policy   infrav1.WorkspaceTemplateRollout
	// history has the stored revisions, and first the current one, which may not be stored yet.
	history rollout.History
	// unreadable is why the revisions cannot be read; nil if they were.
	unreadable error
	users      []rollout.User
	// deleting are the users that are being deleted. They do not take part in the rollout.
	deleting []string
	// byDefault is true if the policy is the default of the manager.
	byDefault bool
	applies   map[types.NamespacedName]*infrav1.WorkspaceTemplateApply
}

// String is how texts name the template.
func (s *staged) String() string {
	return fmt.Sprintf("WorkspaceTemplate %s/%s", s.template.Namespace, s.template.Name)
}

// argument is how commands name the template.
func (s *staged) argument() string { return s.template.Namespace + "/" + s.template.Name }

// target is the current revision.
func (s *staged) target() *rollout.Revision { return &s.history[0] }

// reported is the rollout status that the manager wrote for the current revision; zero if it has not observed that yet. The manager sees all users, and
// the user of the command may not.
func (s *staged) reported() infrav1.WorkspaceTemplateRolloutStatus {
	if s.template.Status.Rollout.Revision != s.target().Hash {
		return infrav1.WorkspaceTemplateRolloutStatus{}
	}
	return s.template.Status.Rollout
}

// isStopped reports whether a failure stops the rollout, or it waits for users, so that a resume continues it.
func (s *staged) isStopped(decision rollout.Decision) bool {
	condition := meta.FindStatusCondition(s.template.Status.Conditions, infrav1.RollingOutCondition)
	if s.reported().Revision == "" || condition == nil || s.template.Annotations[naming.ResumeAnnotation] == s.target().Hash {
		return decision.Resumable
	}
	waits := &Status{Reason: condition.Reason, State: s.policy.State, Stage: s.reported().Stage}
	return decision.Resumable || condition.Reason == infrav1.RolloutStoppedReason || waits.waitsForResume()
}

// usable returns an error if the template has no rollout that can be changed.
func (s *staged) usable() error {
	switch {
	case s.unreadable != nil:
		return s.unreadable
	case !s.template.DeletionTimestamp.IsZero():
		return fmt.Errorf("%s is being deleted", s)
	case !s.policy.IsStaged():
		return fmt.Errorf("%s: spec.rollout.strategy is not Staged: edits reach all users at once, and there is no rollout to change", s)
	}
	return nil
}

// reader reads templates for one run of a command.
type reader struct {
	client.Reader
	warnings io.Writer
	warned   map[string]bool
}

// warn prints a warning once, also if --watch reads often.
func (r *reader) warn(text string) {
	if r.warned == nil {
		r.warned = map[string]bool{}
	}
	if !r.warned[text] {
		r.warned[text] = true
		fmt.Fprintln(r.warnings, "Warning: "+text)
	}
}

// read reads a template with its users and revisions.
func (r *reader) read(ctx context.Context, key client.ObjectKey) (*staged, error) {
	s := &staged{}
	if s.unreadable = s.readRevisions(ctx, r, key); s.template == nil || s.unreadable != nil && !apierrors.IsForbidden(s.unreadable) {
		return nil, s.unreadable
	}
	s.history = s.history.With(s.history.Record(s.template))
	namespace := ""
	var list infrav1.WorkspaceTemplateApplyList
	err := r.List(ctx, &list)
	if apierrors.IsForbidden(err) {
		r.warn(fmt.Sprintf("users in other namespaces than %s are not shown: %v", key.Namespace, err))
		namespace = key.Namespace
		err = r.List(ctx, &list, client.InNamespace(namespace))
	}
	if err != nil {
		return nil, err
	}
	s.applies = cli.Indexed(list.Items)
	return s, r.readUsers(ctx, s, namespace)
}

// readRevisions reads the template, if that has not been done, and its revisions.
func (s *staged) readRevisions(ctx context.Context, reader client.Reader, key client.ObjectKey) error {
	template := &infrav1.WorkspaceTemplate{}
	if err := reader.Get(ctx, key, template); apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no WorkspaceTemplate %s in namespace %s; kubectl get workspacetemplates -A lists all", key.Name, key.Namespace)
	} else if err != nil {
		return err
	}
	s.byDefault = template.Spec.Rollout.Strategy == "" && template.Status.Rollout.DefaultPolicy.Strategy != ""
	s.template, s.policy = template, template.RolloutPolicy()
	var revisions appsv1.ControllerRevisionList
	if err := reader.List(ctx, &revisions, client.InNamespace(key.Namespace), client.HasLabels{naming.TemplateRevisionLabel}); err != nil {
		return fmt.Errorf("listing the revisions of WorkspaceTemplate %s: %w", key, err)
	}
	s.history = rollout.HistoryOf(template, revisions.Items)
	return nil
}

// readUsers reads what the rollout needs of the WorkspaceTemplateApplies that use the template and may do so.
func (r *reader) readUsers(ctx context.Context, s *staged, namespace string) error {
	namespaces := map[string]labels.Set{}
	var permitted []*infrav1.WorkspaceTemplateApply
	for key, apply := range s.applies {
		if apply.TemplateKey() != client.ObjectKeyFromObject(s.template) {
			continue
		}
		ok, err := validation.PermitsNamespace(s.template, key.Namespace, func() (labels.Set, error) {
			return r.namespaceLabels(ctx, namespaces, key.Namespace)
		})
		if err != nil {
			return err
		}
		if ok {
			permitted = append(permitted, apply)
		}
		if ok && !apply.DeletionTimestamp.IsZero() {
			s.deleting = append(s.deleting, key.String())
		}
	}
	slices.Sort(s.deleting)
	clusters := map[types.NamespacedName]*clusterv1.Cluster{}
	if s.policy.Canary.Selector != nil {
		var list clusterv1.ClusterList
		if err := r.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("listing Clusters, whose labels select the canaries: %w", err)
		}
		clusters = cli.Indexed(list.Items)
	}
	var err error
	s.users, err = rollout.UsersOf(permitted, s.history, func(apply *infrav1.WorkspaceTemplateApply) (labels.Set, error) {
		if found := clusters[types.NamespacedName{Namespace: apply.Namespace, Name: apply.Labels[clusterv1.ClusterNameLabel]}]; found != nil {
			return found.Labels, nil
		}
		return nil, nil
	})
	return err
}

// namespaceLabels returns the labels of a namespace; nil if it does not exist.
func (r *reader) namespaceLabels(ctx context.Context, known map[string]labels.Set, name string) (labels.Set, error) {
	if found, ok := known[name]; ok {
		return found, nil
	}
	namespace := &corev1.Namespace{}
	if err := r.Get(ctx, client.ObjectKey{Name: name}, namespace); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	known[name] = namespace.Labels // Also if it does not exist.
	return known[name], nil
}

// named returns a revision by its number or hash.
func (s *staged) named(revision string) (*rollout.Revision, error) {
	found := s.history.Named(revision)
	if found == nil {
		return nil, fmt.Errorf("%s has no revision %s, or more than one; captctl template status %s lists its revisions", s, revision, s.argument())
	}
	return found, nil
}

// gitOpsManagers are the field managers of GitOps tools.
var gitOpsManagers = map[string]string{
	"kustomize-controller": "Flux", "helm-controller": "Flux", "argocd-controller": "Argo CD", "argocd-application-controller": "Argo CD",
}

// gitOpsTool names the GitOps tool that applies an object, for a warning; empty if none is known.
func gitOpsTool(object metav1.Object) string {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	for _, kind := range [][2]string{{"kustomize", "Kustomization"}, {"helm", "HelmRelease"}} {
		prefix := kind[0] + ".toolkit.fluxcd.io/"
		if name := labels[prefix+"name"]; name != "" {
			return "Flux (" + kind[1] + " " + labels[prefix+"namespace"] + "/" + name + ")"
		}
	}
	application, _, _ := strings.Cut(annotations["argocd.argoproj.io/tracking-id"], ":")
	if application = cmp.Or(application, labels["argocd.argoproj.io/instance"]); application != "" {
		return "Argo CD (Application " + application + ")"
	}
	for _, entry := range object.GetManagedFields() {
		if tool := gitOpsManagers[entry.Manager]; tool != "" {
			return tool
		}
	}
	return ""
}

// isInGit reports whether a GitOps tool applies a field of an object, so that it reverts other values.
func isInGit(object metav1.Object, path ...string) bool {
	for _, entry := range object.GetManagedFields() {
		if gitOpsManagers[entry.Manager] == "" || entry.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		for _, name := range path {
			fields, _ = fields["f:"+name].(map[string]any)
		}
		if fields != nil {
			return true
		}
	}
	return false
}
