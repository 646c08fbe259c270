// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package tenancy_test proves that CAPT's controllers keep to the security rules between namespaces, on a real API server. CAPT's
// webhooks and admission policies are removed: what they would have refused, the controllers must refuse by themselves.
// Terraform is a scripted executor, which reads Secrets as provider-terraform does and reports whatever a test wants it to.
package tenancy_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

var (
	// shared is the control plane of all tests of the package.
	shared *fixture.Server
	// reports is everything that CAPT has reported since the first test.
	reports *record
	// prepare is what must be done before the first test.
	prepare sync.Once
)

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, &shared, func(options *sandbox.Options) {
		options.Installation = ""              // The names of config/default.
		options.ManagerArgs = []string{"-v=5"} // A verbose log can leak more.
	}))
}

// bypassAdmission removes all that guards admission to CAPT's kinds, except for the schemas and their conversion.
func bypassAdmission(t *testing.T) {
	t.Helper()
	removed := 0
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind(kind + "List"))
		require.NoError(t, shared.API.List(t.Context(), list))
		for i := range list.Items {
			if strings.HasPrefix(list.Items[i].GetName(), "capt-") {
				require.NoError(t, shared.API.Delete(t.Context(), &list.Items[i]))
				removed++
			}
		}
	}
	require.GreaterOrEqual(t, removed, 4, "two configurations, and a policy with its binding")

	// The API server learns of the removal a little later.
	w := shared.NewWorld(t, terraform.ScopeNamespaced)
	refused := object(uses("refused", w.Namespace, "any", "waitForSecrets: [{name: any, namespace: elsewhere}]"))
	refused.SetNamespace(w.Namespace)
	w.Insist(func() string {
		if err := w.Create(t.Context(), refused.DeepCopy(), client.DryRunAll); err != nil {
			return fmt.Sprintf("it is still refused: %v", err)
		}
		return ""
	})
}
