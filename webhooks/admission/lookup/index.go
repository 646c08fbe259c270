// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
)

// Names of the indexes that Reader uses. They differ from those of the controllers, because an index can be registered only once per cache,
// and webhooks must not depend on the indexes of controllers.
const (
	claimIndex     = "admission.workspaceName"
	referenceIndex = "admission.workspaceTemplateApplyRef"
	ownerIndex     = "admission.owner"
	unownedIndex   = "admission.unowned"
	templateIndex  = "admission.template"
)

// unownedKey is the only key of unownedIndex.
const unownedKey = "true"

// IndexFields adds the indexes that Reader uses.
func IndexFields(ctx context.Context, indexer client.FieldIndexer) error {
	if err := index(ctx, indexer, claimIndex, func(apply *infrav1.WorkspaceTemplateApply) []string {
		return nonEmpty(apply.Spec.WorkspaceName)
	}); err != nil {
		return err
	}
	if err := index(ctx, indexer, unownedIndex, func(apply *infrav1.WorkspaceTemplateApply) []string {
		if legacy.IsUnownedLegacy(apply) {
			return []string{unownedKey}
		}
		return nil
	}); err != nil {
		return err
	}
	if err := index(ctx, indexer, templateIndex, func(apply *infrav1.WorkspaceTemplateApply) []string {
		return []string{apply.TemplateKey().String()}
	}); err != nil {
		return err
	}
	if err := index(ctx, indexer, referenceIndex, func(c *infrav1.CAPTCluster) []string {
		return referenced(c.Spec.WorkspaceTemplateApplyRef)
	}); err != nil {
		return err
	}
	if err := index(ctx, indexer, referenceIndex, func(c *controlplanev1.CAPTControlPlane) []string {
		names := referenced(c.Spec.WorkspaceTemplateApplyRef)
		for i := range c.Spec.FargateProfiles {
			names = append(names, referenced(c.Spec.FargateProfiles[i].WorkspaceTemplateApplyRef)...)
		}
		return names
	}); err != nil {
		return err
	}
	if err := index(ctx, indexer, templateIndex, func(c *controlplanev1.CAPTControlPlane) []string {
		return []string{c.Spec.WorkspaceTemplateRef.Key(c.Namespace).String()}
	}); err != nil {
		return err
	}
	return index(ctx, indexer, ownerIndex, func(cluster *clusterv1.Cluster) []string {
		var keys []string
		for _, ref := range []clusterv1.ContractVersionedObjectReference{cluster.Spec.InfrastructureRef, cluster.Spec.ControlPlaneRef} {
			if ref.IsDefined() {
				keys = append(keys, ownerKey(ref.Kind, ref.Name))
			}
		}
		return keys
	})
}

// index adds an index of the objects of one kind.
func index[T client.Object](ctx context.Context, indexer client.FieldIndexer, name string, keys func(T) []string) error {
	var kind T
	return indexer.IndexField(ctx, NewObject(kind), name, func(object client.Object) []string { return keys(object.(T)) })
}

// ownerKey is the key of an owner within its namespace.
func ownerKey(kind, name string) string { return kind + "/" + name }

// referenced returns the name in a reference as the key of an index; nil when there is none.
func referenced(ref infrav1.WorkspaceTemplateApplyReference) []string {
	return nonEmpty(ref.Name)
}

// nonEmpty returns a list with a text; nil when it is empty.
func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}
