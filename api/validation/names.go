// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

var namePath = field.NewPath("metadata", "name")

// ValidateStatePrefix checks the value of --state-prefix, which becomes part of the names of Terraform workspaces.
func ValidateStatePrefix(prefix string) error {
	switch {
	case prefix == "":
		return nil
	case len(prefix) > naming.MaxStatePrefixLength:
		return fmt.Errorf("%q has %d characters; use at most %d", prefix, len(prefix), naming.MaxStatePrefixLength)
	case len(utilvalidation.IsDNS1123Label(prefix)) > 0:
		return fmt.Errorf(`%q: use lower-case letters, digits and "-", and begin and end with a letter or digit`, prefix)
	}
	return nil
}

// validateNameLength rejects a name for which derived names would be truncated. Truncated names are unique, but users cannot recognize
// their owner.
func validateNameLength(name string, longest int) field.ErrorList {
	if len(name) <= longest {
		return nil
	}
	return field.ErrorList{Invalid(namePath, "has %d characters, so names that CAPT derives from it would be truncated. Use at most %d characters", len(name), longest)}
}

// validateKubeconfigNames rejects a control plane whose kubeconfig Secrets have the same names as the kubeconfig Secrets of another
// Cluster: Secret a-user-kubeconfig is the kubeconfig of Cluster a-user in Cluster API's contract, and the kubeconfig for users of Cluster
// a.
func validateKubeconfigNames(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane) (field.ErrorList, error) {
	cluster, err := reader.ClusterOf(ctx, controlPlane)
	if err != nil || cluster == nil {
		return nil, err
	}
	const userSuffix = "-user"
	// Every Cluster has the Secret of the contract, with any control plane provider.
	other, err := reader.Cluster(ctx, types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + userSuffix})
	if err != nil {
		return nil, err
	}
	if other != nil {
		return field.ErrorList{sharedKubeconfigError(cluster.Name, other.Name, naming.UserKubeconfigSecret(cluster.Name))}, nil
	}
	name, ok := strings.CutSuffix(cluster.Name, userSuffix)
	if !ok || name == "" {
		return nil, nil
	}
	other, err = reader.Cluster(ctx, types.NamespacedName{Namespace: cluster.Namespace, Name: name})
	if err != nil || other == nil || other.Spec.ControlPlaneRef.Kind != "CAPTControlPlane" { // Other providers do not create the Secret for users.
		return nil, err
	}
	return field.ErrorList{sharedKubeconfigError(cluster.Name, other.Name, naming.KubeconfigSecret(cluster.Name))}, nil
}

func sharedKubeconfigError(cluster, other, secret string) *field.Error {
	return Forbidden(namePath, "the kubeconfigs of Clusters %s and %s would have the same Secret %s. Choose another name for one of the Clusters",
		cluster, other, secret)
}
