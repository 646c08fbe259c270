// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// AwaitsProof reports whether captctl migrate apply --prove has written the adoption of a WorkspaceTemplateApply, and not completed it. Until then the
// object counts as not adopted, for its owner as well.
func AwaitsProof(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Spec.WorkspaceName != "" && apply.Annotations[naming.ProveAnnotation] != ""
}

// ProofResult returns the result of the proof that an annotation of an object requests; empty while there is none. Without a request it is Empty.
func ProofResult(object metav1.Object, found infrav1.RevisionPreview) infrav1.PreviewResult {
	switch request := object.GetAnnotations()[naming.ProveAnnotation]; {
	case request == "":
		return infrav1.PreviewEmpty
	case found.Proof != request:
		return ""
	}
	return found.Result
}

// WhyNotProven describes the result of a proof that is not Empty.
func WhyNotProven(found infrav1.RevisionPreview) string {
	text := map[infrav1.PreviewResult]string{
		infrav1.PreviewChanges: "Terraform would change something", infrav1.PreviewFailed: "its plan fails", infrav1.PreviewUnavailable: "no plan is possible",
	}[found.Result]
	if found.Message != "" {
		text += ": " + strings.TrimSuffix(found.Message, ".")
	}
	return text
}
