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

package execute

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// announce puts an event on an owner that was adopted, for those who look at it later. Its name is the same for every run, so
// that there is one. Adoption does not depend on it.
func (r *run) announce(ctx context.Context, u *migrate.Unit) {
	kind, err := kindOf(u.Owner)
	if err != nil {
		return
	}
	now := metav1.NewTime(r.Clock.Now())
	message := "Adopted by captctl migrate, plan " + r.plan.ID
	if u.WorkspaceTemplateApply != nil {
		message += ": its WorkspaceTemplateApply is " + u.WorkspaceTemplateApply.Name
	}
	if u.Workspace != nil {
		message += ", its Workspace " + u.Workspace.Name
	}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: u.Owner.Namespace, Name: u.Owner.Name[:min(len(u.Owner.Name), 200)] + "." + strings.ToLower(u.Owner.Kind) + "." + r.plan.ID},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: u.Owner.Namespace, Name: u.Owner.Name, UID: u.Owner.UID,
		},
		Type: corev1.EventTypeNormal, Reason: "Adopted", Message: message, Source: corev1.EventSource{Component: migrate.FieldManager},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	_ = r.writes.Create(ctx, event, client.FieldOwner(migrate.FieldManager))
}
