// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
)

func TestFinalizersOfOthersAreNamedOnceCAPTAndTheProviderAreDone(t *testing.T) {
	deleted := metav1.NewTime(time.Unix(1, 0))
	for name, row := range map[string]struct {
		deletion   *metav1.Time
		finalizers []string
		want       []string
	}{
		"none":                    {&deleted, nil, nil},
		"of CAPT":                 {&deleted, []string{infrav1.CAPTClusterFinalizer, "example.com/protect"}, nil},
		"of the provider":         {&deleted, []string{"finalizer.managedresource.crossplane.io"}, nil},
		"beside the provider's":   {&deleted, []string{"finalizer.managedresource.crossplane.io", "example.com/protect"}, []string{"controllers: example.com/protect (probably"}},
		"not in deletion":         {nil, []string{"example.com/protect"}, nil},
		"of others":               {&deleted, []string{"resources-finalizer.argocd.argoproj.io", "foregroundDeletion", "example.com/protect"}, []string{"example.com/protect (probably a controller of example.com), foregroundDeletion (Kubernetes' garbage collector", "argoproj.io (Argo CD)"}},
		"of Cluster API":          {&deleted, []string{"cluster.cluster.x-k8s.io"}, []string{"(Cluster API)"}},
		"with the command at end": {&deleted, []string{"a"}, []string{"remove its finalizer: kubectl edit captcluster -n team demo"}},
	} {
		object := &metav1.ObjectMeta{Namespace: "team", Name: "demo", DeletionTimestamp: row.deletion, Finalizers: row.finalizers}
		got := terraform.WaitingForFinalizers(object, "captcluster")
		assert.Equal(t, row.want == nil, got == "", name)
		for _, part := range row.want {
			assert.Contains(t, got, part, name)
		}
	}
}
