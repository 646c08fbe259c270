// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
)

// explained adds to errors of the API server what to do about them. Only a migration has a list of the permissions that it needs.
func explained(command *cobra.Command, err error) error {
	var known *migrate.OutcomeError
	var undiscovered *apiutil.ErrResourceDiscoveryFailed
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case apierrors.IsUnauthorized(err):
		return migrate.Failed.Errorf("the API server rejects the credentials of the kubeconfig: %w; log in again, or choose others with --context or --user", err)
	case apierrors.IsForbidden(err):
		return migrate.Failed.Errorf("%w; %s", err, adviceIfForbidden(command, err))
	case meta.IsNoMatchError(err), errors.As(err, &undiscovered):
		return migrate.Failed.Errorf("Cluster API or CAPT is not installed in the management cluster, or is older than captctl: %w. Check --context; captctl migrate check shows what is missing", err)
	case utilnet.IsTimeout(err), utilnet.IsConnectionRefused(err), utilnet.IsConnectionReset(err):
		return migrate.Failed.Errorf("%w; check that the API server runs, and --context", err)
	}
	return err
}

// adviceIfForbidden returns what to do if the user lacks a permission.
func adviceIfForbidden(command *cobra.Command, err error) string {
	switch {
	case strings.Contains(command.CommandPath(), " migrate "):
		return "captctl migrate check lists the missing permissions"
	case isNamespaced(err) && strings.Contains(err.Error(), "at the cluster scope"):
		return "to read one namespace, set --namespace"
	case isNamespaced(err):
		return "ask for a role in the namespace that grants this: CAPT's installation has the ClusterRoles capt-tenant, capt-view and capt-template-author"
	}
	return "ask for a role that grants this"
}

// isNamespaced reports whether an error of the API server is about Clusters or a kind of CAPT, which all have namespaces.
func isNamespaced(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	group := status.Status().Details.Group
	return group == clusterv1.GroupVersion.Group || group == infrav1.GroupVersion.Group || group == controlplanev1.GroupVersion.Group
}

// ListError is an error with several lines, which Line keeps.
type ListError struct {
	Title string
	Items []string
	// Next says what to do.
	Next string
}

func (e *ListError) Error() string {
	text := e.Title + ":\n  " + strings.Join(e.Items, "\n  ")
	if e.Next != "" {
		text += "\n" + e.Next
	}
	return text
}

// Line is an error as one line; a ListError keeps its lines.
func Line(err error) string {
	var list *ListError
	if errors.As(err, &list) {
		return err.Error()
	}
	var b strings.Builder
	for line := range strings.FieldsFuncSeq(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }) {
		switch written := b.String(); {
		case written == "":
		case strings.HasSuffix(written, ":"):
			b.WriteString(" ")
		default:
			b.WriteString("; ")
		}
		b.WriteString(strings.TrimSpace(line))
	}
	return b.String()
}
