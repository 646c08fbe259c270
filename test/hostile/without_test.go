// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"os"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
)

// without reports whether something is left out: an attack that is known to succeed, or a part of CAPT's admission.
func without(part string) bool {
	return slices.Contains(strings.Split(os.Getenv("CAPT_HOSTILE_WITHOUT"), ","), part)
}

// removeAdmission removes the webhooks or the policies, as CAPT_HOSTILE_WITHOUT says: each invariant holds without one of them.
func (f *fleet) removeAdmission() {
	f.Helper()
	if without("webhooks") {
		f.removeConfigurations("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
		f.awaitAllowed(func(c client.Client) error {
			object := fixture.Decode(f, f.b, fixture.WorkspaceTemplateApply("vpc", "probe", "waitForSecrets: [{name: any, namespace: elsewhere}]"))
			return c.Create(f.Context(), object, client.DryRunAll)
		})
	}
	if without("policies") {
		f.removeConfigurations("ValidatingAdmissionPolicyBinding")
		f.awaitAllowed(func(c client.Client) error {
			apply := &infrav1.WorkspaceTemplateApply{}
			require.True(f, f.in(f.b).Exists(apply, fixture.VPC))
			return c.Delete(f.Context(), apply, client.DryRunAll)
		})
	}
}

func (f *fleet) removeConfigurations(kinds ...string) {
	f.Helper()
	for _, kind := range kinds {
		for _, found := range fixture.List(f, f, admissionv1.SchemeGroupVersion.WithKind(kind)) {
			if strings.Contains(found.GetName(), "capt-") {
				require.NoError(f, f.Delete(f.Context(), &found))
			}
		}
	}
}

// awaitAllowed waits until the API server accepts a request that is rejected otherwise.
func (f *fleet) awaitAllowed(request func(c client.Client) error) {
	f.Helper()
	f.Eventually(func() string {
		err := request(f.Client)
		return fixture.Unless(err == nil, "still rejected: %v", err)
	})
}
