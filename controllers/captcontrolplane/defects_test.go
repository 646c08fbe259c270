// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func TestDefect17EndpointAndCAAreDecodedOnce(t *testing.T) {
	authority, err := base64.StdEncoding.DecodeString(builder.CA())
	require.NoError(t, err)
	w, _ := withToken(t, "Token")
	assert.Equal(t, clusterv1.APIEndpoint{Host: host, Port: 443}, w.get().Spec.ControlPlaneEndpoint, "Terraform says https://"+host)
	for _, name := range []string{"demo-kubeconfig", "demo-user-kubeconfig"} {
		made, err := clientcmd.RESTConfigFromKubeConfig(read(w, name, &corev1.Secret{}).Data["value"])
		require.NoError(t, err)
		assert.Equal(t, "https://"+host+":443", made.Host)
		assert.Equal(t, string(authority), string(made.CAData), "PEM: neither decoded twice nor not at all")
		assert.False(t, made.Insecure)
	}
}

// All of a tenant's objects have the names that those of the other one have.
func TestDefect18EachTenantReceivesItsOwnKubeconfig(t *testing.T) {
	w := newWorld(t)
	for _, tenant := range []string{"tenant-a", "tenant-b"} {
		in := []builder.Option{builder.WithNamespace(tenant)}
		owner := builder.Cluster("demo", append(in, builder.WithInfrastructureProvisioned())...)
		captCluster := vpc(in...)
		for _, object := range []client.Object{owner, captCluster, builder.CAPTControlPlane("demo", append(in, builder.OwnedBy(owner))...)} {
			object.SetUID(object.GetUID() + "/" + owner.UID)
			require.NoError(t, w.Client.Create(context.Background(), object))
		}
		request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: tenant, Name: "demo"}}
		_, err := w.Reconcile(context.Background(), request)
		require.NoError(t, err)

		apply := &infrav1.WorkspaceTemplateApply{}
		require.NoError(t, w.Client.Get(context.Background(), client.ObjectKey{Namespace: tenant, Name: applyName}, apply))
		builder.UpToDate(map[string]string{"cluster_endpoint": "https://" + tenant + ".example.com"})(apply)
		require.NoError(t, w.Client.Update(context.Background(), apply))
		secret := connection(map[string]string{"cluster_certificate_authority_data": builder.CA()})
		secret.Namespace = tenant
		require.NoError(t, w.Client.Create(context.Background(), secret))
		_, err = w.Reconcile(context.Background(), request)
		require.NoError(t, err)
	}
	var list corev1.SecretList
	require.NoError(t, w.Client.List(context.Background(), &list))
	servers := map[string]string{}
	for i := range list.Items {
		if data := list.Items[i].Data["value"]; data != nil {
			made, err := clientcmd.RESTConfigFromKubeConfig(data)
			require.NoError(t, err)
			servers[list.Items[i].Namespace+"/"+list.Items[i].Name] = made.Host
		}
	}
	assert.Equal(t, map[string]string{
		"tenant-a/demo-kubeconfig": "https://tenant-a.example.com:443", "tenant-a/demo-user-kubeconfig": "https://tenant-a.example.com:443",
		"tenant-b/demo-kubeconfig": "https://tenant-b.example.com:443", "tenant-b/demo-user-kubeconfig": "https://tenant-b.example.com:443",
	}, servers)
}
