// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// Earlier versions recorded the first twelve digits of hashes.

// Short returns a revision as earlier versions recorded it.
func Short(revision string) string { return revision[:min(len(revision), 12)] }

// StoredEarlier returns a ControllerRevision as earlier versions stored it.
func StoredEarlier(revision *appsv1.ControllerRevision) *appsv1.ControllerRevision {
	stored := revision.DeepCopy()
	stem := strings.LastIndex(stored.Name, "-")
	stored.Name, stored.ResourceVersion, stored.UID = stored.Name[:stem+1]+Short(stored.Name[stem+1:]), "", ""
	stored.Labels = map[string]string{naming.TemplateRevisionLabel: stored.Name[stem+1:]}
	return stored
}

// RecordedEarlier changes all revisions of a WorkspaceTemplateApply to what earlier versions recorded.
func RecordedEarlier(apply *infrav1.WorkspaceTemplateApply) {
	s := &apply.Status
	for _, revision := range []*string{
		&apply.Spec.TemplateRevision, &s.TemplateRevision, &s.WrittenTemplateRevision, &s.FailedTemplateRevision, &s.LastAppliedRevision, &s.LastFailedRevision,
		&s.WrittenSpec, &s.Change.Revision, &s.Change.Preview.TemplateRevision, &s.Change.Preview.RenderedRevision, &s.Preview.TemplateRevision, &s.Preview.RenderedRevision,
	} {
		*revision = Short(*revision)
	}
	if approved, found := apply.Annotations[naming.ApproveAnnotation]; found {
		apply.Annotations[naming.ApproveAnnotation] = Short(approved)
	}
}
