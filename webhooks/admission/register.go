// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission has the defaulting and validating webhooks. The rules are in api/validation, the names in api/naming.
package admission

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
)

// SetupWebhookWithManager adds the webhooks of all kinds to the manager's webhook server. namespace is the only namespace in the manager's
// cache; empty means all.
func SetupWebhookWithManager(ctx context.Context, mgr ctrl.Manager, namespace string) error {
	if err := indexFields(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("setting up the indexes of the webhooks: %w", err)
	}
	// The cache may be stale, so defaulting of new objects reads from the API server. Only lookups that need an index use the cache
	// (liveReader): the objects that they search have usually existed for a long time.
	cached := cacheReader{Reader: mgr.GetClient(), Namespace: namespace, OtherNamespaces: mgr.GetAPIReader()}
	live := liveReader{Reader: cached, Live: cacheReader{Reader: mgr.GetAPIReader()}}
	mgr.GetWebhookServer().Register(machinePoolPath, &admission.Webhook{Handler: machinePools{admission.NewDecoder(mgr.GetScheme()), cached}})
	mgr.GetWebhookServer().Register(ownersPath, &admission.Webhook{Handler: owners{live}})
	return cmp.Or(
		register[*infrav1.WorkspaceTemplate](mgr, live, cached),
		register[*infrav1.WorkspaceTemplateApply](mgr, live, cached),
		register[*infrav1.CAPTCluster](mgr, live, cached),
		register[*controlplanev1.CAPTControlPlane](mgr, live, cached),
		register[*infrav1.CAPTMachinePool](mgr, live, cached),
		register[*infrav1.CAPTMachinePoolTemplate](mgr, nil, cached),
		register[*infrav1.CAPTClusterTemplate](mgr, nil, cached),
		register[*infrav1.PlanRequest](mgr, nil, cached),
		register[*controlplanev1.CAPTControlPlaneTemplate](mgr, nil, cached))
}

// crdSchemas are the schemas of CAPT's own CRDs.
var crdSchemas = sync.OnceValues(func() (*schema.Schemas, error) { return schema.New(crd.Definitions) })

// register adds the webhooks of one kind. live is the reader of the defaulting one; nil without defaults.
func register[T client.Object](mgr ctrl.Manager, live, cached validation.Reader) error {
	var kind T
	gvk, err := mgr.GetClient().GroupVersionKindFor(newObject(kind))
	if err != nil {
		return err
	}
	schemas, err := crdSchemas()
	if err != nil {
		return err
	}
	schema, err := schemas.Of(gvk)
	if err != nil {
		return err
	}
	mayMigrate := rights{mgr.GetClient()}.mayMigrate
	if live != nil {
		mgr.GetWebhookServer().Register(mutatingPath(gvk), &admission.Webhook{Handler: defaulter[T]{admission.NewDecoder(mgr.GetScheme()), live, mayMigrate}})
	}
	return ctrl.NewWebhookManagedBy(mgr, newObject(kind)).WithValidator(validator[T]{cached, schema, mayMigrate}).Complete()
}

// mutatingPath returns the path that controller-runtime's builder uses for a defaulting webhook.
func mutatingPath(gvk apischema.GroupVersionKind) string {
	return "/mutate-" + strings.ReplaceAll(gvk.Group, ".", "-") + "-" + gvk.Version + "-" + strings.ToLower(gvk.Kind)
}

// config/webhook/manifests.yaml is generated from these markers. The operations are create and update, not delete: an outage of the
// webhooks must not block deletion. The rules have no subresources, so writes of status are not checked. With matchPolicy=Equivalent, the
// API server converts requests in v1beta1 to v1beta2. MachinePools are objects of Cluster API, which must not depend on CAPT: while the webhook does not
// respond, they are not checked.
//
// The generator does not support matchConditions: a patch next to the generated file excludes objects that are being deleted, and MachinePools and ControllerRevisions of others.

// +kubebuilder:webhookconfiguration:mutating=true,name=capt-mutating-webhook-configuration
// +kubebuilder:webhookconfiguration:mutating=false,name=capt-validating-webhook-configuration

// +kubebuilder:webhook:path=/mutate-infrastructure-cluster-x-k8s-io-v1beta2-captcluster,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=captclusters,verbs=create;update,versions=v1beta2,name=default.captcluster.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system,reinvocationPolicy=IfNeeded
// +kubebuilder:webhook:path=/mutate-infrastructure-cluster-x-k8s-io-v1beta2-captmachinepool,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=captmachinepools,verbs=create;update,versions=v1beta2,name=default.captmachinepool.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system,reinvocationPolicy=IfNeeded
// +kubebuilder:webhook:path=/mutate-infrastructure-cluster-x-k8s-io-v1beta2-workspacetemplate,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates,verbs=create;update,versions=v1beta2,name=default.workspacetemplate.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system,reinvocationPolicy=IfNeeded
// +kubebuilder:webhook:path=/mutate-infrastructure-cluster-x-k8s-io-v1beta2-workspacetemplateapply,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=create;update,versions=v1beta2,name=default.workspacetemplateapply.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system,reinvocationPolicy=IfNeeded
// +kubebuilder:webhook:path=/mutate-controlplane-cluster-x-k8s-io-v1beta2-captcontrolplane,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=create;update,versions=v1beta2,name=default.captcontrolplane.controlplane.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system,reinvocationPolicy=IfNeeded
// +kubebuilder:webhook:path=/mutate-owners,mutating=true,failurePolicy=ignore,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=apps;bootstrap.cluster.x-k8s.io;cluster.x-k8s.io;controlplane.cluster.x-k8s.io;infrastructure.cluster.x-k8s.io,resources=captbootstrapconfigs;captbootstrapconfigtemplates;captclustertemplates;captcontrolplanetemplates;captmachinepooltemplates;controllerrevisions;machinepools,verbs=create,versions=v1;v1beta2,name=default.owners.capt.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system,reinvocationPolicy=IfNeeded

// +kubebuilder:webhook:path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-captcluster,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=captclusters,verbs=create;update,versions=v1beta2,name=validation.captcluster.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system
// +kubebuilder:webhook:path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-captclustertemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=captclustertemplates,verbs=create;update,versions=v1beta2,name=validation.captclustertemplate.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system
// +kubebuilder:webhook:path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-captmachinepool,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=captmachinepools,verbs=create;update,versions=v1beta2,name=validation.captmachinepool.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system
// +kubebuilder:webhook:path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-captmachinepooltemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=captmachinepooltemplates,verbs=create;update,versions=v1beta2,name=validation.captmachinepooltemplate.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system
// +kubebuilder:webhook:path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-planrequest,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=planrequests,verbs=create;update,versions=v1beta2,name=validation.planrequest.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system
// +kubebuilder:webhook:path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-workspacetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates,verbs=create;update,versions=v1beta2,name=validation.workspacetemplate.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system
// +kubebuilder:webhook:path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-workspacetemplateapply,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=create;update,versions=v1beta2,name=validation.workspacetemplateapply.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system
// +kubebuilder:webhook:path=/validate-controlplane-cluster-x-k8s-io-v1beta2-captcontrolplane,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=create;update,versions=v1beta2,name=validation.captcontrolplane.controlplane.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system
// +kubebuilder:webhook:path=/validate-controlplane-cluster-x-k8s-io-v1beta2-captcontrolplanetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanetemplates,verbs=create;update,versions=v1beta2,name=validation.captcontrolplanetemplate.controlplane.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system
// +kubebuilder:webhook:path=/validate-cluster-x-k8s-io-v1beta2-machinepool,mutating=false,failurePolicy=ignore,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=cluster.x-k8s.io,resources=machinepools;machinepools/scale,verbs=create;update,versions=v1beta2,name=validation.machinepool.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system
