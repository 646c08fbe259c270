// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	applyindex "github.com/capt-provider/capt/controllers/workspacetemplateapply/index"
	"github.com/capt-provider/capt/test/builder"
)

func watching(objects ...client.Object) *Reconciler {
	clients := fake.NewClientBuilder().WithScheme(builder.Scheme()).WithObjects(objects...).
		WithIndex(&controlplanev1.CAPTControlPlane{}, secretIndex, secretKeys).
		WithIndex(&controlplanev1.CAPTControlPlane{}, owner.ReferenceIndex, references).
		WithIndex(&infrav1.CAPTCluster{}, vpcSecretIndex, vpcSecretKey)
	utilruntime.Must(applyindex.Register(context.Background(), indexer{clients}))
	c := clients.Build()
	return &Reconciler{Engine: engine.Engine{Client: c}, Uncached: c}
}

// indexer adds indexes to a fake client.
type indexer struct{ clients *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.clients.WithIndex(object, field, extract)
	return nil
}

func demo() []ctrl.Request {
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: "demo"}}}
}

// What is refused because of its contents is corrected by an edit, which no owner reference leads from.
func TestSafety20AnEditOfAReferencedObjectEnqueuesTheOwner(t *testing.T) {
	profile := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.FargateProfiles = []controlplanev1.FargateProfile{{Name: "default", WorkspaceTemplateApplyRef: infrav1.WorkspaceTemplateApplyReference{Name: "profile"}}, {Name: "other"}}
	})
	r := watching(builder.CAPTControlPlane("demo", builder.WithApplyRef("by-hand"), profile), builder.CAPTControlPlane("fresh"),
		builder.CAPTControlPlane("elsewhere", builder.WithNamespace("elsewhere"), builder.WithApplyRef("by-hand")))
	for _, name := range []string{"by-hand", "profile"} {
		assert.Equal(t, demo(), r.requests().ReferringTo(context.Background(), builder.WorkspaceTemplateApply(name)))
	}
	assert.Empty(t, r.requests().ReferringTo(context.Background(), builder.WorkspaceTemplateApply("unknown")))
}

// An adopted control plane keeps the connection Secret that CAPT v0.3 gave it.
func TestSafety22TheConnectionSecretIsWatchedUnderItsOwnName(t *testing.T) {
	r := watching(builder.CAPTControlPlane("demo", builder.WithApplyRef("by-hand")),
		builder.WorkspaceTemplateApply("by-hand", builder.WithConnectionSecret("legacy-outputs", builder.Namespace)))
	secret := func(name string) client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: name}}
	}
	assert.Equal(t, demo(), r.ofSecret(context.Background(), secret("legacy-outputs")))
	assert.Equal(t, demo(), r.ofSecret(context.Background(), secret("demo-eks-connection")), "that of the naming scheme")
	assert.Empty(t, r.ofSecret(context.Background(), secret("unknown")))
}
