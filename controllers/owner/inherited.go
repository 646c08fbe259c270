// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/api/adoption"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// KeepsStatus reports whether an owner keeps its status, but for conditions about adoption and pause (engine.KeepStatus). Both are
// observations of the owner itself: observed is its status.observedGeneration, known are its conditions.
//
// Before adoption, nothing about the cloud resources has changed: the owner is as ready as CAPT v0.3 left it. An owner without
// a status has nothing to keep. One that was adopted, and rolled back since, stays Ready.
//
// After adoption, the owner is reconciled before the controller of WorkspaceTemplateApplies has observed what belongs to it. An
// adoption causes no Terraform run, so "Provisioning" would be wrong, and every adopted cluster would be Degraded for a
// moment. Once the WorkspaceTemplateApply was observed in its present generation, its state is reported. What the API server or
// another owner refuses is reported at once. An adoption after a rollback is no different.
func (f *Facts) KeepsStatus(observed int64, known []metav1.Condition, paused, manager string) bool {
	if f.AwaitsAdoption {
		return adoption.LegacyStatus(observed, known) || meta.IsStatusConditionTrue(known, infrav1.ReadyCondition)
	}
	awaited := adoption.LegacyStatus(observed, known) || meta.IsStatusConditionTrue(known, infrav1.AdoptionRequiredCondition)
	if !awaited || f.Apply == nil || !f.Apply.DeletionTimestamp.IsZero() || f.Refused != nil {
		return false
	}
	unseen := f.Apply.Status.ObservedGeneration != f.Apply.Generation
	return unseen || paused != "" && f.Differs(manager) // A paused owner does not write what it wants.
}
