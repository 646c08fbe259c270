// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/kubeconfig"
)

// credentialsAfter is when credentials are looked for again that nobody gave: a file with them may be mounted late.
const credentialsAfter = 5 * time.Minute

// takenAfter is when to check again whether another control plane still has the name. Watches report when its
// WorkspaceTemplateApply is deleted, but not when it merely loses its owner.
const takenAfter = 5 * time.Minute

// tokenFacts are what a kubeconfig with a token rests on.
type tokenFacts struct {
	// kubeconfig gives one with a token, or the published one as long as that can stay (see kubeconfig.Source); nil when this
	// manager makes no tokens.
	kubeconfig func(from kubeconfig.Source, published []byte) (data []byte, next time.Time, err error)
	// taken is true when a CAPTControlPlane of another namespace had an EKS cluster of this name first.
	taken bool
}

// errPaused is why there is no new token while the object is paused.
var errPaused = errors.New("no token is made while the object is paused")

// paused makes no tokens, and lets those that are there run on.
type paused struct{}

func (paused) Available(context.Context) error { return nil }

func (paused) Token(context.Context, string, string) (string, time.Time, error) {
	return "", time.Time{}, errPaused
}

// observeTokens finds out whether the manager may make a token for the control plane.
func (r *Reconciler) observeTokens(ctx context.Context, f *Facts) (err error) {
	if r.Tokens == nil {
		return nil
	}
	tokens := r.Tokens
	if f.Paused != "" {
		tokens = paused{}
	}
	f.tokens.kubeconfig = func(from kubeconfig.Source, published []byte) ([]byte, time.Time, error) {
		return from.Kubeconfig(ctx, tokens, published, f.Now)
	}
	f.tokens.taken, err = r.nameTaken(ctx, f.Apply.Apply)
	return err
}

// tokenSource says which cluster a token would be for. A token lets its bearer act as this manager in the cluster that it
// is for, and what Terraform returns is up to the author of the template. So the name is the one that CAPT gave to
// Terraform, and nobody gets a token for the cluster of another namespace by naming it in an output or by naming his alike.
func (f *Facts) tokenSource(controlPlane *controlplanev1.CAPTControlPlane) (kubeconfig.Source, string, error) {
	none := kubeconfig.Source{}
	name := f.Apply.Apply.Spec.Variables[naming.ClusterVariable]
	switch output := f.output(terraform.OutputClusterName); {
	case f.tokens.kubeconfig == nil:
		return none, controlplanev1.KubeconfigMissingReason, errors.New(
			"spec.kubeconfig.source is Token, but this manager makes no tokens: start it with --eks-tokens, or set the source to Output or Exec")
	case output != "" && output != name:
		return none, controlplanev1.KubeconfigInvalidReason, fmt.Errorf(
			"a token is made only for the cluster that Terraform was told to make, %q, and output %q %s; correct the template, or set spec.kubeconfig.source to Exec",
			name, terraform.OutputClusterName, f.told(terraform.OutputClusterName))
	case f.tokens.taken:
		f.lookAgain(takenAfter)
		return none, controlplanev1.KubeconfigConflictReason, fmt.Errorf(
			"no token is made for EKS cluster %q: another CAPTControlPlane of this management cluster has had one of this name for longer; rename the Cluster, or set spec.kubeconfig.source to Exec", name)
	}
	server, ca, err := f.server()
	if err != nil {
		return none, controlplanev1.KubeconfigMissingReason, err
	}
	if _, err := kubeconfig.ForToken(name, server, ca, ""); err != nil {
		return none, controlplanev1.KubeconfigInvalidReason, err // Before a token is made for nothing.
	}
	return kubeconfig.Source{Cluster: name, Region: f.runningRegion(controlPlane), Endpoint: server, CA: ca}, "", nil
}

// told quotes an output that everybody may see.
func (f *Facts) told(output string) string {
	if value := f.Apply.Apply.Status.Outputs[output]; value != "" {
		return fmt.Sprintf("is %.100q", value)
	}
	return "is another one, which is not told because it is sensitive"
}

// tokenKubeconfig is one with a token of EKS: the published one as long as that can stay, else one with a new token. It
// says when to look again.
func (f *Facts) tokenKubeconfig(controlPlane *controlplanev1.CAPTControlPlane) ([]byte, string, error) {
	from, reason, err := f.tokenSource(controlPlane)
	if err != nil {
		return nil, reason, err
	}
	data, next, err := f.tokens.kubeconfig(from, f.Kubeconfig.value())
	after := next.Sub(f.Now)
	switch {
	case err == nil:
	case errors.Is(err, errPaused):
		if data == nil {
			return nil, controlplanev1.KubeconfigMissingReason, err
		}
		ends, _ := kubeconfig.Expiry(data)
		after, err = ends.Sub(f.Now), nil
	case data != nil:
		err = fmt.Errorf("the token in the kubeconfig still works, but can not be renewed: %w", err)
	default:
		if errors.Is(err, kubeconfig.ErrNoCredentials) {
			after = credentialsAfter
		}
		err = &mintError{err}
	}
	f.lookAgain(after)
	return data, controlplanev1.KubeconfigMissingReason, err
}

// mintError is why a token that may be made could not be made.
type mintError struct{ error }

func (e *mintError) Error() string { return "no token can be made: " + e.error.Error() }
func (e *mintError) Unwrap() error { return e.error }

// waitsForToken tells whether Auto waits for a token rather than to do without one: the next attempt may give one, and
// what is published would change to and fro.
func (f *Facts) waitsForToken(err error) bool {
	if errors.Is(err, errPaused) {
		return holdsToken(f.Kubeconfig.value())
	}
	failed := (*mintError)(nil)
	return errors.As(err, &failed) && !errors.Is(err, kubeconfig.ErrNoCredentials)
}
