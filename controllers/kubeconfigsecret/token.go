// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfigsecret

import (
	"context"
	"errors"
	"fmt"
	"time"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/kubeconfig"
)

const (
	// credentialsInterval is how often to look for AWS credentials when there are none: a file with them may be mounted late.
	credentialsInterval = 5 * time.Minute
	// nameConflictInterval is how often to check whether another control plane still has the name. Watches report that its
	// WorkspaceTemplateApply was deleted, but not that it lost its owner.
	nameConflictInterval = 5 * time.Minute
)

// errPaused is why there is no new token while the object is paused.
var errPaused = errors.New("no token is created while the object is paused")

// paused implements kubeconfig.Tokens for paused objects: it creates no tokens, so that published ones are kept.
type paused struct{}

func (paused) Available(context.Context) error { return nil }

func (paused) Token(context.Context, string, string) (string, time.Time, error) {
	return "", time.Time{}, errPaused
}

// tokenSource is the cluster for which a token is created. A token lets its bearer act as this manager in that cluster, and the author
// of a template controls what Terraform returns. So the name is the one that CAPT passed to Terraform: an output cannot request a token
// for the cluster of another namespace, nor can a cluster of the same name.
func (s *sources) tokenSource() (kubeconfig.Source, string, error) {
	none, name := kubeconfig.Source{}, s.Cluster.EKSName
	switch output := s.Cluster.Output(terraform.OutputClusterName); {
	case s.tokens == nil:
		return none, controlplanev1.KubeconfigMissingReason, errors.New(
			"spec.kubeconfig.source is Token, but this manager creates no tokens: start it with --eks-tokens, or set the source to Output or Exec")
	case output != "" && output != name:
		return none, controlplanev1.KubeconfigInvalidReason, fmt.Errorf(
			"a token is created only for EKS cluster %q, which CAPT asked Terraform to create, but output %q %s; correct the template, or set spec.kubeconfig.source to Exec",
			name, terraform.OutputClusterName, s.describeOutput(terraform.OutputClusterName))
	case s.NameConflict:
		s.requeueWithin(nameConflictInterval)
		return none, controlplanev1.KubeconfigConflictReason, fmt.Errorf(
			"no token is created for EKS cluster %q: another CAPTControlPlane of this management cluster had an EKS cluster of this name first; set spec.kubeconfig.source to Exec, or use another Cluster name", name)
	}
	server, ca, err := s.Cluster.serverAndCA()
	if err != nil {
		return none, controlplanev1.KubeconfigMissingReason, err
	}
	if _, err := kubeconfig.ForToken(name, server, ca, ""); err != nil {
		return none, controlplanev1.KubeconfigInvalidReason, err // Checked before a token is requested.
	}
	return kubeconfig.Source{Cluster: name, Region: s.Cluster.Region, Endpoint: server, CA: ca}, "", nil
}

// describeOutput is the value of an output, unless it is sensitive.
func (s *sources) describeOutput(output string) string {
	if value := s.Cluster.Published[output]; value != "" {
		return fmt.Sprintf("is %.100q", value)
	}
	return "has another value (omitted: it is sensitive)"
}

// tokenKubeconfig is a kubeconfig with a token of EKS: the published one as long as it is valid, else one with a new token.
func (s *sources) tokenKubeconfig(ctx context.Context) ([]byte, string, error) {
	from, reason, err := s.tokenSource()
	if err != nil {
		return nil, reason, err
	}
	tokens := s.tokens
	if s.Paused {
		tokens = paused{}
	}
	data, next, err := from.Kubeconfig(ctx, tokens, s.published, s.Now)
	after := next.Sub(s.Now)
	switch {
	case err == nil:
	case errors.Is(err, errPaused):
		if data == nil {
			return nil, controlplanev1.KubeconfigMissingReason, err
		}
		expiry, _ := kubeconfig.Expiry(data)
		after, err = expiry.Sub(s.Now), nil
	case data != nil:
		err = fmt.Errorf("the token in the kubeconfig is still valid, but cannot be renewed: %w", err)
	default:
		if errors.Is(err, kubeconfig.ErrNoCredentials) {
			after = credentialsInterval
		}
		err = &tokenError{err}
	}
	s.requeueWithin(after)
	return data, controlplanev1.KubeconfigMissingReason, err
}

// tokenError is why a token could not be created.
type tokenError struct{ error }

func (e *tokenError) Error() string { return "no token can be created: " + e.error.Error() }
func (e *tokenError) Unwrap() error { return e.error }

// waitsForToken reports whether Auto waits for a token instead of using another source: the next attempt may succeed, and the published
// kubeconfig would alternate between the two sources.
func (s *sources) waitsForToken(err error) bool {
	if errors.Is(err, errPaused) {
		return holdsToken(s.published)
	}
	failed := (*tokenError)(nil)
	return errors.As(err, &failed) && !errors.Is(err, kubeconfig.ErrNoCredentials)
}
