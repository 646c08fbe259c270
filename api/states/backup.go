// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package states

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	bootstrapv1 "github.com/capt-provider/capt/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
)

// BackupKind is the kind of the document that captctl backup writes.
const BackupKind = "ClusterBackup"

// Backup is what a management cluster needs to be rebuilt: objects without status, and the state of each WorkspaceTemplateApply.
type Backup struct {
	metav1.TypeMeta `json:",inline"`
	// Taken is when, and Captctl and Manager are the versions.
	Taken   metav1.Time `json:"taken"`
	Captctl string      `json:"captctl"`
	// ClusterUID is the UID of the namespace kube-system, and Server the address of the API server as captctl reached it.
	ClusterUID types.UID `json:"clusterUID"`
	Server     string    `json:"server"`
	// States by WorkspaceTemplateApply, as namespace/name.
	States  map[string]BackedUpState     `json:"states"`
	Objects []*unstructured.Unstructured `json:"objects"`
	// Checksum is the SHA-256 of the document with an empty checksum.
	Checksum string `json:"checksum"`
}

// BackedUpState is where a Terraform state is.
type BackedUpState struct {
	infrav1.TerraformState `json:",inline"`
	// Backend has type and location of the backend; empty if the ProviderConfig does not show them.
	Backend map[string]string `json:"backend,omitempty"`
}

// Seal sets the checksum.
func (b *Backup) Seal() (err error) {
	b.Checksum, err = b.sum()
	return err
}

func (b *Backup) sum() (string, error) {
	unsealed := *b
	unsealed.Checksum = ""
	data, err := json.Marshal(unsealed)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), err
}

// Verify checks that the document is a backup, and is complete.
func (b *Backup) Verify() error {
	if b.Kind != BackupKind || b.APIVersion != naming.GuardGroup+"/v1" {
		return fmt.Errorf("it has apiVersion %q and kind %q, which this version of captctl does not know", b.APIVersion, b.Kind)
	}
	if sum, err := b.sum(); err != nil || sum != b.Checksum {
		return fmt.Errorf("its SHA-256 is %s instead of %s: it is damaged or was changed", sum, b.Checksum)
	}
	return nil
}

// BackupKinds are the kinds of a backup in the order in which they are restored: what others refer to comes first. With secrets, Secrets follow the namespaces.
func BackupKinds(secrets bool) []schema.GroupVersionKind {
	core, cluster, infra := schema.GroupVersion{Version: "v1"}, clusterv1.GroupVersion, infrav1.GroupVersion
	kinds := []schema.GroupVersionKind{core.WithKind("Namespace")}
	if secrets {
		kinds = append(kinds, core.WithKind("Secret"))
	}
	for _, scope := range terraform.Scopes() {
		kinds = append(kinds, scope.GroupVersionKind().GroupVersion().WithKind("ProviderConfig"))
	}
	return append(kinds, terraform.ScopeNamespaced.GroupVersionKind().GroupVersion().WithKind("ClusterProviderConfig"),
		infra.WithKind("WorkspaceTemplate"), schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ControllerRevision"},
		infra.WithKind("CAPTClusterTemplate"), infra.WithKind("CAPTMachinePoolTemplate"), controlplanev1.GroupVersion.WithKind("CAPTControlPlaneTemplate"),
		bootstrapv1.GroupVersion.WithKind("CAPTBootstrapConfigTemplate"), cluster.WithKind("ClusterClass"), cluster.WithKind("Cluster"), infra.WithKind("WorkspaceTemplateApply"),
		controlplanev1.GroupVersion.WithKind("CAPTControlPlane"), infra.WithKind("CAPTCluster"),
		bootstrapv1.GroupVersion.WithKind("CAPTBootstrapConfig"), infra.WithKind("CAPTMachinePool"), cluster.WithKind("MachinePool"))
}

// Portable removes from an object what only the management cluster has that it is read from: UIDs, owners, status, and what clients and controllers record.
func Portable(object *unstructured.Unstructured) {
	kept := map[string]any{"name": object.GetName()}
	if namespace := object.GetNamespace(); namespace != "" {
		kept["namespace"] = namespace
	}
	annotations := object.GetAnnotations()
	maps.DeleteFunc(annotations, func(name, _ string) bool {
		return slices.Contains([]string{
			clusterctlv1.BlockMoveAnnotation, clusterctlv1.DeleteForMoveAnnotation, naming.ExternalNameAnnotation, naming.ExternalNameUIDAnnotation, naming.TerraformStateAnnotation, naming.RecoveryAnnotation,
			naming.ProveAnnotation, naming.RestoredAnnotation, "kubectl.kubernetes.io/last-applied-configuration",
		}, name)
	})
	labels, finalizers := object.GetLabels(), object.GetFinalizers()
	object.Object["metadata"] = kept
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
	if object.GetKind() == "WorkspaceTemplate" { // It shows that the template exists already, so that it gets no new defaults.
		object.SetFinalizers(finalizers)
	}
	delete(object.Object, "status")
	if object.GetKind() == "Namespace" {
		delete(object.Object, "spec")
	}
}

// StateOf is the Terraform state of a WorkspaceTemplateApply. live is its Workspace; nil if there is none. Without any, CAPT has created nothing for it.
func StateOf(apply *infrav1.WorkspaceTemplateApply, live *unstructured.Unstructured) infrav1.TerraformState {
	switch {
	case live != nil:
		return infrav1.TerraformState{Name: cmp.Or(live.GetAnnotations()[render.ExternalNameAnnotation], live.GetName()), ProviderConfig: render.ProviderConfigOf(live)}
	case apply.Status.WorkspaceRef != nil:
		return infrav1.TerraformState{Name: desired.RecordedExternalName(apply)}
	}
	return apply.Spec.TerraformState
}

// Location is where a ProviderConfig has its states: the type of the backend, and the arguments that identify the place. It is nil if that is not known.
func Location(config *unstructured.Unstructured) map[string]string {
	location, _ := (&Claim{Read: func(*unstructured.Unstructured) (*unstructured.Unstructured, error) { return config, nil }}).locationOf(config)
	if location == nil {
		return nil
	}
	maps.DeleteFunc(location, func(_, value string) bool { return value == "" })
	if kind, ok := location[""]; ok {
		delete(location, "")
		location["type"] = kind
	}
	return location
}

// HoldFor returns an object of a backup as it is restored: it does nothing before its state is proven. A Cluster is paused until all of its objects exist.
func (b *Backup) HoldFor(object *unstructured.Unstructured, request string) (*unstructured.Unstructured, error) {
	held := object.DeepCopy()
	annotations := held.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[naming.RestoredAnnotation] = b.Checksum
	switch held.GetKind() {
	case clusterv1.ClusterKind:
		if err := unstructured.SetNestedField(held.Object, true, "spec", "paused"); err != nil {
			return nil, err
		}
	case "WorkspaceTemplateApply":
		if state := b.States[held.GetNamespace()+"/"+held.GetName()]; state.Name != "" {
			annotations[naming.ProveAnnotation] = request
			content := map[string]any{"name": state.Name, "providerConfig": state.ProviderConfig}
			if err := unstructured.SetNestedMap(held.Object, content, "spec", "terraformState"); err != nil {
				return nil, err
			}
		}
	}
	held.SetAnnotations(annotations)
	return held, nil
}

// IsPausedIn reports whether an object of a backup is a Cluster that was paused when the backup was taken.
func IsPausedIn(object *unstructured.Unstructured) bool {
	paused, _, _ := unstructured.NestedBool(object.Object, "spec", "paused")
	return paused
}

// Describe names an object in a line.
func Describe(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
}
