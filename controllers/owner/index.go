// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// ReferenceIndex finds owners by the WorkspaceTemplateApplies that they refer to, whether they control them or not.
const ReferenceIndex = "spec.workspaceTemplateApplyRef.name"

// ConnectionIndex finds WorkspaceTemplateApplies by the Secret that their outputs are written to.
const ConnectionIndex = "spec.writeConnectionSecretToRef.name"

// References are the keys of ReferenceIndex for an owner.
func References(owner client.Object, refs ...infrav1.WorkspaceTemplateApplyReference) (keys []string) {
	for _, ref := range refs {
		if ref.IsDefined() {
			keys = append(keys, owner.GetNamespace()+"/"+ref.Name)
		}
	}
	return keys
}

// IndexConnection is the function of ConnectionIndex. The Secret is always in the namespace of the object.
func IndexConnection(object client.Object) []string {
	ref := object.(*infrav1.WorkspaceTemplateApply).Spec.WriteConnectionSecretToRef
	if ref == nil {
		return nil
	}
	return []string{object.GetNamespace() + "/" + ref.Name}
}

// ReferringTo selects the owners that refer to a WorkspaceTemplateApply.
func ReferringTo(apply client.Object) client.MatchingFields {
	return client.MatchingFields{ReferenceIndex: client.ObjectKeyFromObject(apply).String()}
}
