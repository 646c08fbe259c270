// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/api/terraform/failure"
)

// maxCause limits the cause of one dependency in a message, in bytes.
const maxCause = 512

// IsUpToDate reports whether Terraform has applied a WorkspaceTemplateApply, which may not exist, as it is now.
func IsUpToDate(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply != nil && apply.DeletionTimestamp.IsZero() && appliesSpec(apply)
}

func appliesSpec(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Status.ObservedGeneration == apply.Generation && meta.IsStatusConditionTrue(apply.Status.Conditions, infrav1.ReadyCondition)
}

// MissingWorkspace describes why a Workspace that a WorkspaceTemplateApply waits for is not up to date; empty when it is. Its own WorkspaceTemplateApplies,
// the providers, know the desired spec; unowned reports on a Workspace without one.
func MissingWorkspace(apply *infrav1.WorkspaceTemplateApply, dependency infrav1.WorkspaceDependency, providers []infrav1.WorkspaceTemplateApply,
	unowned func() (exists, upToDate bool, err error),
) (string, error) {
	for i := range providers {
		if appliesSpec(&providers[i]) {
			return "", nil
		}
	}
	exists := true
	if len(providers) == 0 {
		found, upToDate, err := unowned()
		if exists = found; upToDate || err != nil {
			return "", err
		}
	}
	switch namespace := apply.DependencyKey(dependency).Namespace; {
	case namespace != apply.Namespace: // Objects of other namespaces are not disclosed.
		return fmt.Sprintf("Workspace %s of namespace %s does not exist, or is not up to date", dependency.Name, namespace), nil
	case !exists:
		return fmt.Sprintf("Workspace %s does not exist", dependency.Name), nil
	}
	return fmt.Sprintf("Workspace %s is not up to date%s", dependency.Name, FailureCause(providers, apply)), nil
}

// FailureCause is the failure of the WorkspaceTemplateApply that provides a dependency; empty when it does not need a user. Progress is not
// part of it: each step would be a status write of all that wait.
func FailureCause(providers []infrav1.WorkspaceTemplateApply, waiting *infrav1.WorkspaceTemplateApply) string {
	for i := range providers {
		provider := &providers[i]
		ready := meta.FindStatusCondition(provider.Status.Conditions, infrav1.ReadyCondition)
		if provider.Name == waiting.Name || ready == nil || ready.Status == metav1.ConditionTrue || !reasons.IsProblem(ready.Reason) {
			continue
		}
		return fmt.Sprintf(": WorkspaceTemplateApply %s is not ready: %s", provider.Name, failure.Truncate(ready.Message, maxCause))
	}
	return ""
}

// maxOwners limits how many levels of owners are read. CAPT has three: WorkspaceTemplateApply, CAPTCluster, Cluster.
const maxOwners = 4

// ReadOwner reads an owner of an object of a namespace; nil if it does not exist. known is false if that cannot be known.
type ReadOwner func(namespace string, ref metav1.OwnerReference) (owner metav1.Object, known bool, err error)

// MissingOwner describes an owner of an object, or of its owners, that does not exist; empty when there is none.
func MissingOwner(object metav1.Object, read ReadOwner) (string, error) {
	return missingOwner(object, read, maxOwners)
}

func missingOwner(object metav1.Object, read ReadOwner, levels int) (string, error) {
	if levels == 0 {
		return "", nil
	}
	for _, ref := range object.GetOwnerReferences() {
		owner, known, err := read(object.GetNamespace(), ref)
		switch {
		case err != nil:
			return "", err
		case !known:
			continue
		case owner == nil || owner.GetUID() != ref.UID:
			return fmt.Sprintf("owner %s %s (UID %s) does not exist", ref.Kind, ref.Name, ref.UID), nil
		}
		if missing, err := missingOwner(owner, read, levels-1); missing != "" || err != nil {
			return missing, err
		}
	}
	return "", nil
}
