// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capt-provider/capt/api/naming"
)

// reviewer reports whether the user of a request has a right.
type reviewer func(ctx context.Context, request admission.Request) (bool, error)

// rights asks the API server for the rights of users.
type rights struct{ client.Client }

// mayMigrate reports whether the user of a request has the verb migrate on guards.capt.cluster.x-k8s.io at cluster scope, as the policies check it.
func (r rights) mayMigrate(ctx context.Context, request admission.Request) (bool, error) {
	user := request.UserInfo
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: naming.GuardGroup, Resource: naming.GuardResource, Verb: naming.GuardMigrateVerb},
	}}
	for key, value := range user.Extra {
		review.Spec.Extra[key] = authorizationv1.ExtraValue(value)
	}
	if err := r.Create(ctx, review); err != nil {
		return false, fmt.Errorf("checking the rights of %s: %w", user.Username, err)
	}
	return review.Status.Allowed, nil
}

// isFromMigration reports whether a request is from captctl migrate. Every client can use the name of its field manager, so the user must also have
// the right.
func isFromMigration(ctx context.Context, request admission.Request, mayMigrate reviewer) (bool, error) {
	if !namesMigration(request) {
		return false, nil
	}
	return mayMigrate(ctx, request)
}

// namesMigration reports whether a request has the field manager of captctl migrate, which writes only in the hub version. Patch requests have
// UpdateOptions as well.
func namesMigration(request admission.Request) bool {
	var options metav1.UpdateOptions
	return json.Unmarshal(request.Options.Raw, &options) == nil && options.FieldManager == naming.MigrationFieldManager && !isInOlderVersion(request)
}
