// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspace"
)

// Kinds of dependencies.
const (
	secretKind    = "Secret"
	workspaceKind = "Workspace"
)

// namedDependencies is how many dependencies a message names; the number of the others is told.
const namedDependencies = 20

// missing lists what the WorkspaceTemplateApply waits for, and since when.
func (r *Reconciler) missing(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, now time.Time) ([]infrav1.MissingDependency, error) {
	var missing []infrav1.MissingDependency
	for _, dependency := range apply.Spec.WaitForSecrets {
		lack, err := r.missingSecret(ctx, apply.Namespace, dependency)
		if err != nil {
			return nil, err
		}
		missing = append(missing, lack...)
	}
	for _, dependency := range apply.Spec.WaitForWorkspaces {
		lack, err := r.missingWorkspace(ctx, apply, dependency)
		if err != nil {
			return nil, err
		}
		if lack != "" {
			missing = append(missing, infrav1.MissingDependency{Kind: workspaceKind, Name: dependency.Name, Message: lack})
		}
	}
	for i := range missing {
		missing[i].Since = since(&missing[i], apply.Status.MissingDependencies, now)
	}
	return missing, nil
}

// since is when a dependency was first seen missing. A Secret that has come without one of its keys has been waited for since
// it was missing altogether.
func since(missing *infrav1.MissingDependency, before []infrav1.MissingDependency, now time.Time) *metav1.Time {
	i := slices.IndexFunc(before, func(b infrav1.MissingDependency) bool {
		return b.Kind == missing.Kind && b.Name == missing.Name && (b.Key == missing.Key || b.Key == "")
	})
	if i < 0 {
		first := metav1.NewTime(now).Rfc3339Copy()
		return &first
	}
	return before[i].Since
}

// waitingFor tells what is missing in a sentence.
func waitingFor(missing []infrav1.MissingDependency) string {
	var phrases []string
	for i, m := range missing {
		if i == namedDependencies {
			phrases = append(phrases, fmt.Sprintf("and %d more, see status.missingDependencies", len(missing)-i))
			break
		}
		phrases = append(phrases, fmt.Sprintf("%s (since %s)", m.Message, m.Since.UTC().Format(time.RFC3339)))
	}
	return strings.Join(phrases, "; ")
}

// missingSecret says what a Secret lacks. Secrets of other namespaces are as good as missing.
func (r *Reconciler) missingSecret(ctx context.Context, namespace string, dependency infrav1.SecretDependency) ([]infrav1.MissingDependency, error) {
	lacks := func(key, format string, args ...any) infrav1.MissingDependency {
		return infrav1.MissingDependency{Kind: secretKind, Name: dependency.Name, Key: key, Message: fmt.Sprintf(format, args...)}
	}
	if dependency.Namespace != "" && dependency.Namespace != namespace {
		return []infrav1.MissingDependency{lacks("", "Secret %s must be in namespace %s", dependency.Name, namespace)}, nil
	}
	secret, err := engine.Get(ctx, r.Uncached, client.ObjectKey{Namespace: namespace, Name: dependency.Name}, &corev1.Secret{})
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", dependency.Name, err)
	}
	if secret == nil {
		return []infrav1.MissingDependency{lacks("", "Secret %s does not exist", dependency.Name)}, nil
	}
	var missing []infrav1.MissingDependency
	for _, key := range dependency.Keys {
		if len(secret.Data[key]) == 0 {
			missing = append(missing, lacks(key, "Secret %s has no value for key %s", dependency.Name, key))
		}
	}
	if len(dependency.Keys) == 0 && empty(secret) {
		missing = append(missing, lacks("", "Secret %s is empty", dependency.Name))
	}
	return missing, nil
}

// empty tells whether a Secret has no value at all: provider-terraform creates connection Secrets before it fills them.
func empty(secret *corev1.Secret) bool {
	for _, value := range secret.Data {
		if len(value) > 0 {
			return false
		}
	}
	return true
}

// missingWorkspace says what is wrong with a Workspace; nothing when it is up to date. Its WorkspaceTemplateApply is asked,
// which knows what it should look like. A Workspace that has none is judged by its own conditions.
func (r *Reconciler) missingWorkspace(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, dependency infrav1.WorkspaceDependency) (string, error) {
	namespace := apply.DependencyKey(dependency).Namespace
	var claimants infrav1.WorkspaceTemplateApplyList
	if err := r.Client.List(ctx, &claimants, client.InNamespace(namespace), client.MatchingFields{workspaceNameIndex: dependency.Name}); err != nil {
		return "", fmt.Errorf("listing WorkspaceTemplateApplies of Workspace %s: %w", dependency.Name, err)
	}
	for i := range claimants.Items {
		claimant := &claimants.Items[i]
		if meta.IsStatusConditionTrue(claimant.Status.Conditions, infrav1.ReadyCondition) && claimant.Status.ObservedGeneration == claimant.Generation {
			return "", nil
		}
	}
	lack := fmt.Sprintf("Workspace %s is not up to date", dependency.Name)
	if len(claimants.Items) == 0 {
		var err error
		if lack, err = r.missingUnclaimed(ctx, namespace, dependency.Name); err != nil {
			return "", err
		}
	}
	if lack != "" && namespace != apply.Namespace { // What other namespaces hold is not for everybody to know.
		lack = fmt.Sprintf("Workspace %s of namespace %s does not exist, or is not up to date", dependency.Name, namespace)
	}
	return lack, nil
}

// missingUnclaimed judges a Workspace that no WorkspaceTemplateApply claims by its own conditions.
func (r *Reconciler) missingUnclaimed(ctx context.Context, namespace, name string) (string, error) {
	for _, scope := range terraform.Scopes() {
		live, err := r.Workspaces.Get(ctx, scope, namespace, name)
		if live != nil && live.ClaimedElsewhere(namespace) {
			live = nil // What other namespaces have is not there for this one.
		}
		switch {
		case errors.Is(err, workspace.ErrKindMissing):
		case err != nil:
			return "", err
		case live != nil && workspace.Observe(live, workspace.Circumstances{}).UpToDate:
			return "", nil
		case live != nil:
			return fmt.Sprintf("Workspace %s is not up to date", name), nil
		}
	}
	return fmt.Sprintf("Workspace %s does not exist", name), nil
}
