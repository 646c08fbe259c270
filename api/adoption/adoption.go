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
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
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

// OtherController returns the controller of a WorkspaceTemplateApply when that is not the owner; else nil.
func OtherController(owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) *metav1.OwnerReference {
	controller := metav1.GetControllerOf(apply)
	if controller == nil || controller.UID == owner.GetUID() {
		return nil
	}
	return controller
}

// Expectation is what an owner expects of the WorkspaceTemplateApply that its spec refers to.
type Expectation struct {
	// SchemeName is the name that the naming scheme gives.
	SchemeName string
	// Recorded is the name in the owner's status: of the one that it has taken or made before.
	Recorded string
	// Template is what the owner would refer to.
	Template infrav1.WorkspaceTemplateReference
	// Variables are those that the owner would set, as far as it knows.
	Variables map[string]string
}

// Conflict says in words why an owner must not take the WorkspaceTemplateApply that its spec refers to; empty when it may.
//
// Nobody may take what another controller has. What no controller has may be taken when a person chose it, whatever it
// holds. But a reference to the name of the naming scheme may have been set by defaulting, before anything of that name
// existed; so what appears there is taken only when it holds what the owner would have made, or when the owner had it
// before and merely lost its owner reference.
func Conflict(owner metav1.Object, want Expectation, apply *infrav1.WorkspaceTemplateApply) string {
	if other := OtherController(owner, apply); other != nil {
		return fmt.Sprintf("spec.workspaceTemplateApplyRef names %s, which belongs to %s %s; nothing is written to it. Make this object anew without the reference",
			apply.Name, other.Kind, other.Name)
	}
	if metav1.IsControlledBy(apply, owner) || apply.Name != want.SchemeName || apply.Name == want.Recorded {
		return ""
	}
	difference := difference(want, apply)
	if difference == "" {
		return ""
	}
	return fmt.Sprintf("WorkspaceTemplateApply %s has the name that belongs to this object, but nobody owns it, and its %s; nothing is written to it. Delete it, or, if this object shall have it, make this object its controller in metadata.ownerReferences",
		apply.Name, difference)
}

// difference between a WorkspaceTemplateApply and what an owner would make: in the template, or in a variable that names the
// cloud resources. The variable that names the cluster must be there. That of the VPC may be missing, since a template
// need not have it, and a control plane does not set it.
func difference(want Expectation, apply *infrav1.WorkspaceTemplateApply) string {
	expected := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: apply.Namespace}}
	expected.Spec.TemplateRef = want.Template
	given := apply.Spec.Variables
	vpc, named := given[naming.VPCVariable]
	wanted, wants := want.Variables[naming.VPCVariable]
	switch {
	case expected.TemplateKey() != apply.TemplateKey():
		return "template is another one"
	case want.Variables[naming.ClusterVariable] == "", given[naming.ClusterVariable] != want.Variables[naming.ClusterVariable]:
		return "variable " + naming.ClusterVariable + " is another one"
	case named && wants && vpc != wanted:
		return "variable " + naming.VPCVariable + " is another one"
	}
	return ""
}
