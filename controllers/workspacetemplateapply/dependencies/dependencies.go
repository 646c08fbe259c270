// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package dependencies reports what a WorkspaceTemplateApply waits for, and why that is not ready.
package dependencies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/index"
)

const (
	secretKind = "Secret"
	// maxNamed limits how many dependencies a message names.
	maxNamed = 20
)

// Reader reads dependencies. Secrets are read from the API server: their values are not cached.
type Reader struct {
	Client     client.Reader
	Uncached   client.Reader
	Workspaces *workspace.Client
}

// Missing lists what a WorkspaceTemplateApply waits for, and since when.
func (r Reader) Missing(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, now time.Time) ([]infrav1.MissingDependency, error) {
	var missing []infrav1.MissingDependency
	for _, dependency := range apply.Spec.WaitForSecrets {
		found, err := r.missingSecret(ctx, apply, dependency)
		if err != nil {
			return nil, err
		}
		missing = append(missing, found...)
	}
	for _, dependency := range apply.Spec.WaitForWorkspaces {
		message, err := r.missingWorkspace(ctx, apply, dependency)
		if err != nil {
			return nil, err
		}
		if message != "" {
			missing = append(missing, infrav1.MissingDependency{Kind: terraform.WorkspaceKind, Name: dependency.Name, Message: message})
		}
	}
	for i := range missing {
		missing[i].Since = missingSince(&missing[i], apply.Status.MissingDependencies, now)
	}
	return missing, nil
}

// missingSince is when a dependency was first seen missing. A key of a Secret is missing since the whole Secret was.
func missingSince(missing *infrav1.MissingDependency, before []infrav1.MissingDependency, now time.Time) *metav1.Time {
	i := slices.IndexFunc(before, func(b infrav1.MissingDependency) bool {
		return b.Kind == missing.Kind && b.Name == missing.Name && (b.Key == missing.Key || b.Key == "")
	})
	if i < 0 {
		first := metav1.NewTime(now).Rfc3339Copy()
		return &first
	}
	return before[i].Since
}

// Message lists missing dependencies in a sentence.
func Message(missing []infrav1.MissingDependency) string {
	var phrases []string
	for i, m := range missing {
		if i == maxNamed {
			phrases = append(phrases, fmt.Sprintf("and %d more, see status.missingDependencies", len(missing)-i))
			break
		}
		phrases = append(phrases, fmt.Sprintf("%s (since %s)", m.Message, m.Since.UTC().Format(time.RFC3339)))
	}
	return strings.Join(phrases, "; ")
}

// missingSecret lists what a Secret lacks. A Secret of another namespace counts as missing.
func (r Reader) missingSecret(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, dependency infrav1.SecretDependency) ([]infrav1.MissingDependency, error) {
	var missing []infrav1.MissingDependency
	add := func(key, format string, args ...any) {
		missing = append(missing, infrav1.MissingDependency{Kind: secretKind, Name: dependency.Name, Key: key, Message: fmt.Sprintf(format, args...)})
	}
	if dependency.Namespace != "" && dependency.Namespace != apply.Namespace {
		add("", "Secret %s must be in namespace %s, the namespace of this object. Correct its namespace in spec.waitForSecrets", dependency.Name, apply.Namespace)
		return missing, nil
	}
	secret, err := engine.Get(ctx, r.Uncached, client.ObjectKey{Namespace: apply.Namespace, Name: dependency.Name}, &corev1.Secret{})
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", dependency.Name, err)
	}
	if secret == nil {
		add("", "Secret %s does not exist", dependency.Name)
	} else {
		for _, key := range dependency.Keys {
			if len(secret.Data[key]) == 0 {
				add(key, "Secret %s has no value for key %s", dependency.Name, key)
			}
		}
		if len(dependency.Keys) == 0 && isEmpty(secret) {
			add("", "Secret %s is empty", dependency.Name)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	cause, err := r.causeOf(ctx, apply, client.MatchingFields{index.ConnectionSecret: apply.Namespace + "/" + dependency.Name})
	missing[len(missing)-1].Message += cause
	return missing, err
}

// isEmpty reports whether a Secret has no values: provider-terraform creates connection Secrets before it fills them.
func isEmpty(secret *corev1.Secret) bool {
	for _, value := range secret.Data {
		if len(value) > 0 {
			return false
		}
	}
	return true
}

// missingWorkspace describes why a Workspace is not up to date; empty when it is. Its WorkspaceTemplateApply knows the desired spec. A
// Workspace without one is checked by its own conditions.
func (r Reader) missingWorkspace(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, dependency infrav1.WorkspaceDependency) (string, error) {
	namespace := apply.DependencyKey(dependency).Namespace
	providers, err := r.listApplies(ctx, namespace, client.MatchingFields{index.WorkspaceName: dependency.Name})
	if err != nil {
		return "", err
	}
	return desired.MissingWorkspace(apply, dependency, providers, func() (bool, bool, error) { return r.unowned(ctx, namespace, dependency.Name) })
}

// unowned reports on a Workspace without a WorkspaceTemplateApply by its own conditions. That one of another namespace exists is not disclosed.
func (r Reader) unowned(ctx context.Context, namespace, name string) (exists, upToDate bool, err error) {
	for _, scope := range terraform.Scopes() {
		live, err := r.Workspaces.Get(ctx, scope, namespace, name)
		switch {
		case errors.Is(err, workspace.ErrKindMissing):
			continue
		case err != nil:
			return false, false, err
		case live == nil:
			continue
		}
		if ours, err := r.belongsTo(ctx, namespace, live, name); ours || err != nil {
			return ours, ours && workspace.Observe(live, workspace.ObserveInput{}).UpToDate, err
		}
	}
	return false, false, nil
}

// belongsTo reports whether a Workspace belongs to a namespace. A cluster-wide one without a claim belongs to the
// namespace of the WorkspaceTemplateApply whose status, which users cannot write, records it, or else to that of its connection Secret.
func (r Reader) belongsTo(ctx context.Context, namespace string, live *workspace.Live, name string) (bool, error) {
	if live.Scope() != terraform.ScopeCluster || live.Claimed() {
		return !live.ClaimedElsewhere(namespace), nil
	}
	named, err := r.listApplies(ctx, "", client.MatchingFields{index.WorkspaceName: name})
	if err != nil {
		return false, err
	}
	for i := range named {
		if live.RecordedFor(&named[i]) {
			return named[i].Namespace == namespace, nil
		}
	}
	derived, err := r.listApplies(ctx, namespace, client.MatchingFields{index.DerivedName: name})
	if err != nil || slices.ContainsFunc(derived, func(apply infrav1.WorkspaceTemplateApply) bool { return apply.Status.WorkspaceName == name }) {
		return err == nil, err
	}
	ref := live.Spec().WriteConnectionSecretToRef
	return ref != nil && ref.Namespace == namespace, nil
}

func (r Reader) causeOf(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, match client.MatchingFields) (string, error) {
	owners, err := r.listApplies(ctx, apply.Namespace, match)
	return desired.FailureCause(owners, apply), err
}

func (r Reader) listApplies(ctx context.Context, namespace string, match client.MatchingFields) ([]infrav1.WorkspaceTemplateApply, error) {
	var list infrav1.WorkspaceTemplateApplyList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace), match); err != nil {
		return nil, fmt.Errorf("listing WorkspaceTemplateApplies: %w", err)
	}
	return list.Items, nil
}
