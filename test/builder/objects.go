// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// Cluster makes a Cluster whose infrastructure and control plane are CAPT's, under the Cluster's own name.
func Cluster(name string, options ...Option) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metadata("Cluster", name)}
	cluster.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: name,
	}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: name,
	}
	return apply(cluster, options)
}

// DeletedCluster makes a Cluster that is being deleted.
func DeletedCluster(name string, options ...Option) *clusterv1.Cluster {
	return Cluster(name, append(options, WithFinalizers(clusterv1.ClusterFinalizer), Deleting())...)
}

// WithInfrastructureProvisioned says that Cluster API has seen the infrastructure.
func WithInfrastructureProvisioned() Option {
	return With(func(cluster *clusterv1.Cluster) {
		cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	})
}

// CAPTCluster makes a CAPTCluster that makes its VPC from the WorkspaceTemplate "vpc".
func CAPTCluster(name string, options ...Option) *infrav1.CAPTCluster {
	captCluster := &infrav1.CAPTCluster{ObjectMeta: metadata("CAPTCluster", name)}
	captCluster.SetGroupVersionKind(infrav1.GroupVersion.WithKind("CAPTCluster"))
	captCluster.Spec.Region = Region
	captCluster.Spec.VPC.Template = infrav1.VPCTemplate{
		Ref: infrav1.WorkspaceTemplateReference{Name: "vpc"}, DeletionPolicy: infrav1.DeletionPolicyDelete,
	}
	return apply(captCluster, options)
}

// WithExistingVPC makes a CAPTCluster use a VPC that CAPT does not manage.
func WithExistingVPC(id string) Option {
	return With(func(captCluster *infrav1.CAPTCluster) {
		captCluster.Spec.VPC = infrav1.VPC{ExistingID: id}
	})
}

// CAPTControlPlane makes a CAPTControlPlane from the WorkspaceTemplate "eks".
func CAPTControlPlane(name string, options ...Option) *controlplanev1.CAPTControlPlane {
	controlPlane := &controlplanev1.CAPTControlPlane{ObjectMeta: metadata("CAPTControlPlane", name)}
	controlPlane.SetGroupVersionKind(controlplanev1.GroupVersion.WithKind("CAPTControlPlane"))
	controlPlane.Spec.Version = "v1.31.0"
	controlPlane.Spec.WorkspaceTemplateRef = infrav1.WorkspaceTemplateReference{Name: "eks"}
	return apply(controlPlane, options)
}

// WithEndpoint says where the API server of a Cluster or CAPTControlPlane is.
func WithEndpoint(host string, port int32) Option {
	endpoint := clusterv1.APIEndpoint{Host: host, Port: port}
	return either(
		func(cluster *clusterv1.Cluster) { cluster.Spec.ControlPlaneEndpoint = endpoint },
		func(controlPlane *controlplanev1.CAPTControlPlane) { controlPlane.Spec.ControlPlaneEndpoint = endpoint },
	)
}

// WithRegion puts a CAPTCluster or CAPTControlPlane into a region.
func WithRegion(region string) Option {
	return either(
		func(captCluster *infrav1.CAPTCluster) { captCluster.Spec.Region = region },
		func(controlPlane *controlplanev1.CAPTControlPlane) { controlPlane.Spec.Region = region },
	)
}

// WithApplyRef says which WorkspaceTemplateApply a CAPTCluster or CAPTControlPlane uses.
func WithApplyRef(name string) Option {
	ref := infrav1.WorkspaceTemplateApplyReference{Name: name}
	return either(
		func(captCluster *infrav1.CAPTCluster) { captCluster.Spec.WorkspaceTemplateApplyRef = ref },
		func(controlPlane *controlplanev1.CAPTControlPlane) { controlPlane.Spec.WorkspaceTemplateApplyRef = ref },
	)
}

// WithDeletionProtection protects a CAPTCluster or CAPTControlPlane from deletion, or not.
func WithDeletionProtection(protection infrav1.DeletionProtection) Option {
	return either(
		func(captCluster *infrav1.CAPTCluster) { captCluster.Spec.DeletionProtection = protection },
		func(controlPlane *controlplanev1.CAPTControlPlane) { controlPlane.Spec.DeletionProtection = protection },
	)
}

// WithVariables gives variables to a CAPTCluster, CAPTControlPlane or WorkspaceTemplateApply.
func WithVariables(variables map[string]string) Option {
	return func(object client.Object) {
		switch object := object.(type) {
		case *infrav1.CAPTCluster:
			object.Spec.VPC.Template.Variables = variables
		case *controlplanev1.CAPTControlPlane:
			object.Spec.Variables = variables
		case *infrav1.WorkspaceTemplateApply:
			object.Spec.Variables = variables
		default:
			panic("builder: this kind has no variables")
		}
	}
}

// either is an option of objects of two kinds.
func either[A, B client.Object](first func(A), second func(B)) Option {
	return func(object client.Object) {
		switch object := object.(type) {
		case A:
			first(object)
		case B:
			second(object)
		default:
			panic(fmt.Sprintf("builder: the option is not for %T", object))
		}
	}
}

// WorkspaceTemplate makes a template with an inline module that is valid and has one variable.
func WorkspaceTemplate(name string, options ...Option) *infrav1.WorkspaceTemplate {
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metadata("WorkspaceTemplate", name)}
	template.SetGroupVersionKind(infrav1.GroupVersion.WithKind("WorkspaceTemplate"))
	template.Spec.WorkspaceScope = terraform.ScopeNamespaced
	template.Spec.Template.Spec = terraform.WorkspaceSpec{
		ProviderConfigRef: &terraform.ProviderConfigReference{Name: "aws"},
		ForProvider: terraform.WorkspaceParameters{
			Source: terraform.SourceInline,
			Module: "variable \"cluster_name\" {}\n",
			Vars:   []terraform.Var{{Key: "cluster_name", Value: "${cluster_name}"}},
		},
	}
	return apply(template, options)
}

// Consuming makes the module of a template use variables that CAPT gives to it.
func Consuming(names ...string) Option {
	return WithParameters(func(params *terraform.WorkspaceParameters) {
		for _, name := range names {
			params.Module += fmt.Sprintf("variable %q {}\nlocals { use_%[1]s = var.%[1]s }\n", name)
			params.Vars = append(params.Vars, terraform.Var{Key: name, Value: "${" + name + "}"})
		}
	})
}

// WithScope says which kind of Workspace a template makes.
func WithScope(scope terraform.Scope) Option {
	return With(func(template *infrav1.WorkspaceTemplate) { template.Spec.WorkspaceScope = scope })
}

// WithModule gives a template another inline module, and takes its variables away.
func WithModule(module string) Option {
	return WithParameters(func(params *terraform.WorkspaceParameters) { params.Module, params.Vars = module, nil })
}

// Harmless and Harmful are modules with which the hashes of WorkspaceTemplate have the same first twelve digits, b07e1d719394: a search of half a minute
// found them.
const (
	Harmless = "# harmless 12339554"
	Harmful  = "# harmful 24222766"
)

// WithParameters changes what a template gives to Terraform.
func WithParameters(change func(*terraform.WorkspaceParameters)) Option {
	return With(func(template *infrav1.WorkspaceTemplate) { change(&template.Spec.Template.Spec.ForProvider) })
}

// WithWorkspaceSpec changes the spec of the Workspaces a template makes.
func WithWorkspaceSpec(change func(*terraform.WorkspaceSpec)) Option {
	return With(func(template *infrav1.WorkspaceTemplate) { change(&template.Spec.Template.Spec) })
}

// WorkspaceTemplateApply makes a WorkspaceTemplateApply of the WorkspaceTemplate "vpc".
func WorkspaceTemplateApply(name string, options ...Option) *infrav1.WorkspaceTemplateApply {
	wta := &infrav1.WorkspaceTemplateApply{ObjectMeta: metadata("WorkspaceTemplateApply", name)}
	wta.SetGroupVersionKind(infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"))
	wta.Spec.TemplateRef = infrav1.WorkspaceTemplateReference{Name: "vpc"}
	wta.Spec.Variables = map[string]string{"cluster_name": "demo"}
	return apply(wta, options)
}

// WithWorkspaceName says which Workspace a WorkspaceTemplateApply owns.
func WithWorkspaceName(name string) Option {
	return With(func(wta *infrav1.WorkspaceTemplateApply) { wta.Spec.WorkspaceName = name })
}

// WithDeletionPolicy says what becomes of the Workspace of a WorkspaceTemplateApply.
func WithDeletionPolicy(policy infrav1.DeletionPolicy) Option {
	return With(func(wta *infrav1.WorkspaceTemplateApply) { wta.Spec.DeletionPolicy = policy })
}

// WithRecordedWorkspace records a Workspace in the status of a WorkspaceTemplateApply.
func WithRecordedWorkspace(workspace client.Object) Option {
	return With(func(wta *infrav1.WorkspaceTemplateApply) {
		gvk := workspace.GetObjectKind().GroupVersionKind()
		wta.Status.WorkspaceRef = &infrav1.WorkspaceReference{
			APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind,
			Name: workspace.GetName(), Namespace: workspace.GetNamespace(), UID: workspace.GetUID(),
		}
	})
}

// UpToDate says that Terraform has applied a WorkspaceTemplateApply as it is now, and what it returned.
func UpToDate(outputs map[string]string) Option {
	return With(func(wta *infrav1.WorkspaceTemplateApply) {
		wta.Status.ObservedGeneration = wta.Generation
		wta.Status.WorkspaceName = wta.Name
		wta.Status.LastAppliedRevision = "0123456789ab"
		wta.Status.Outputs = outputs
		condition(wta, metav1.ConditionTrue, infrav1.UpToDateReason, "")
	})
}

// NotUpToDate says why a WorkspaceTemplateApply is not ready.
func NotUpToDate(reason, message string) Option {
	return With(func(wta *infrav1.WorkspaceTemplateApply) {
		wta.Status.ObservedGeneration = wta.Generation
		wta.Status.WorkspaceName = wta.Name
		condition(wta, metav1.ConditionFalse, reason, message)
	})
}

func condition(wta *infrav1.WorkspaceTemplateApply, status metav1.ConditionStatus, reason, message string) {
	wta.Status.Conditions = []metav1.Condition{{
		Type: infrav1.ReadyCondition, Status: status, Reason: reason, Message: message,
		ObservedGeneration: wta.Generation, LastTransitionTime: metav1.NewTime(Created),
	}}
}

// SecretWith makes a Secret with values.
func SecretWith(name string, data map[string]string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name}, Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

// WithConnectionSecret says where the outputs of a WorkspaceTemplateApply go.
func WithConnectionSecret(name, namespace string) Option {
	return With(func(wta *infrav1.WorkspaceTemplateApply) {
		wta.Spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: name, Namespace: namespace}
	})
}

// WaitingForSecret makes a WorkspaceTemplateApply wait for keys of a Secret.
func WaitingForSecret(name string, keys ...string) Option {
	return With(func(wta *infrav1.WorkspaceTemplateApply) {
		wta.Spec.WaitForSecrets = append(wta.Spec.WaitForSecrets, infrav1.SecretDependency{Name: name, Keys: keys})
	})
}

// WaitingForWorkspace makes a WorkspaceTemplateApply wait for a Workspace.
func WaitingForWorkspace(name, namespace string) Option {
	return With(func(wta *infrav1.WorkspaceTemplateApply) {
		wta.Spec.WaitForWorkspaces = append(wta.Spec.WaitForWorkspaces, infrav1.WorkspaceDependency{Name: name, Namespace: namespace})
	})
}

// Earlier versions recorded the first twelve digits of hashes.

// Short returns a revision as earlier versions recorded it.
func Short(revision string) string { return revision[:min(len(revision), 12)] }

// StoredEarlier returns a ControllerRevision as earlier versions stored it.
func StoredEarlier(revision *appsv1.ControllerRevision) *appsv1.ControllerRevision {
	stored := revision.DeepCopy()
	stem := strings.LastIndex(stored.Name, "-")
	stored.Name, stored.ResourceVersion, stored.UID = stored.Name[:stem+1]+Short(stored.Name[stem+1:]), "", ""
	stored.Labels = map[string]string{naming.TemplateRevisionLabel: stored.Name[stem+1:]}
	return stored
}

// RecordedEarlier changes all revisions of a WorkspaceTemplateApply to what earlier versions recorded.
func RecordedEarlier(apply *infrav1.WorkspaceTemplateApply) {
	s := &apply.Status
	for _, revision := range []*string{
		&apply.Spec.TemplateRevision, &s.TemplateRevision, &s.WrittenTemplateRevision, &s.FailedTemplateRevision, &s.LastAppliedRevision, &s.LastFailedRevision,
		&s.WrittenSpec, &s.Change.Revision, &s.Change.Preview.TemplateRevision, &s.Change.Preview.RenderedRevision, &s.Preview.TemplateRevision, &s.Preview.RenderedRevision,
	} {
		*revision = Short(*revision)
	}
	if approved, found := apply.Annotations[naming.ApproveAnnotation]; found {
		apply.Annotations[naming.ApproveAnnotation] = Short(approved)
	}
}
