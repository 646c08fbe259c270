// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capt-provider/capt/api/bootstrap/v1beta2"
)

var (
	bootstrapKind         = bootstrapv1.GroupVersion.WithKind("CAPTBootstrapConfig")
	bootstrapTemplateKind = bootstrapv1.GroupVersion.WithKind("CAPTBootstrapConfigTemplate")
)

// bootstrapContract is the contract of CAPTBootstrapConfig.
func bootstrapContract() book {
	const nodes, constant = "EKS bootstraps the nodes.", "The object is constant: no controller reconciles it."
	return book{file: "bootstrap-config.md", rules: []rule{
		{title: "All resources: scope", mandatory: true, test: each(isNamespaced, bootstrapKind, bootstrapTemplateKind)},
		{title: "All resources: `TypeMeta` and `ObjectMeta`field", mandatory: true, test: each(hasTypeMetaAndObjectMeta, bootstrapKind, bootstrapTemplateKind)},
		{title: "All resources: `APIVersion` field value", mandatory: true, test: each(followsTheContract, bootstrapKind, bootstrapTemplateKind)},
		{title: "BootstrapConfig, BootstrapConfigList resource definition", mandatory: true, test: func(t *testing.T) {
			isDefined(t, bootstrapKind)
			hasStatus(t, bootstrapKind)
		}},
		{title: "BootstrapConfig: data secret", mandatory: true, test: func(t *testing.T) {
			requireFields(t, bootstrapKind, map[string]string{"status.dataSecretName": "string"})
		}},
		{title: "BootstrapConfig: initialization completed", mandatory: true, test: needsNoBootstrapData},
		{title: "BootstrapConfig: conditions", reason: constant},
		{title: "BootstrapConfig: terminal failures", reason: constant, test: func(t *testing.T) {
			requireNoFields(t, bootstrapKind, "status.failureReason", "status.failureMessage")
		}},
		{title: "BootstrapConfig: support for in-place changes", reason: constant},
		{title: "BootstrapConfigTemplate, BootstrapConfigTemplateList resource definition", mandatory: true, test: func(t *testing.T) {
			isTemplateOf(t, bootstrapTemplateKind, bootstrapKind)
		}},
		{title: "BootstrapConfigTemplate: support for SSA dry run", reason: "It has no fields that could not be changed."},
		{title: "Sentinel file", reason: nodes},
		{title: "Taint Nodes at creation", reason: nodes},
		{title: "Support for running multiple instances", reason: constant},
		{title: "Clusterctl support", test: each(isLabeledForClusterctl("infrastructure-capt"), bootstrapKind, bootstrapTemplateKind)},
		{title: "BootstrapConfig: pausing", reason: constant},
	}}
}

func TestBootstrapContract(t *testing.T) { t.Parallel(); bootstrapContract().run(t) }

// needsNoBootstrapData requires that Cluster API accepts that there is no data Secret, whose name is then empty.
func needsNoBootstrapData(t *testing.T) {
	requireFields(t, bootstrapKind, map[string]string{"status.initialization": "object", "status.initialization.dataSecretCreated": "boolean"})
	env := newEnvironment(t)
	env.apply(`{apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: CAPTBootstrapConfig, metadata: {name: new}}`)
	for _, text := range withPool("new", env.Namespace, 0) {
		env.apply(strings.Replace(text, `{dataSecretName: ""}`, `{configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: CAPTBootstrapConfig, name: new}}`, 1))
	}
	machinePool := env.awaitMachinePool("new", "Cluster API waits for bootstrap data", func(m *clusterv1.MachinePool) bool {
		return ptr.Deref(m.Status.Initialization.BootstrapDataSecretCreated, false)
	})
	require.Equal(t, ptr.To(""), machinePool.Spec.Template.Spec.Bootstrap.DataSecretName)
	config := &metav1.PartialObjectMetadata{}
	config.SetGroupVersionKind(bootstrapKind)
	env.read(config, "new")
	require.True(t, metav1.IsControlledBy(config, machinePool), "it is moved and deleted with the MachinePool")

	env.Remove(machinePool, "new")
	env.AwaitGone(config, "new")
}
