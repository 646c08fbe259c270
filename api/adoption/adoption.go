/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Package adoption decides which WorkspaceTemplateApply belongs to which owner, from evidence alone.
package adoption

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// Candidates returns the names of those WorkspaceTemplateApplies, out of a namespace, that may belong to an owner which
// refers to none: those it owns, and the one that bears the name the naming scheme would give. They are sorted.
//
// An owner with any candidate must not get a new WorkspaceTemplateApply: if the candidate is its own after all, the new
// one would be a second EKS cluster or VPC.
//
// Those it owns are returned once more: they go when the owner goes, so it must not go before a person has decided.
func Candidates(owner metav1.Object, schemeName string, applies []infrav1.WorkspaceTemplateApply) (names, ownedNames []string) {
	for i := range applies {
		apply := &applies[i]
		owned := slices.ContainsFunc(apply.OwnerReferences, func(ref metav1.OwnerReference) bool {
			return ref.UID == owner.GetUID()
		})
		if owned {
			ownedNames = append(ownedNames, apply.Name)
		}
		if owned || apply.Name == schemeName {
			names = append(names, apply.Name)
		}
	}
	slices.SortFunc(names, strings.Compare)
	slices.SortFunc(ownedNames, strings.Compare)
	return names, ownedNames
}
