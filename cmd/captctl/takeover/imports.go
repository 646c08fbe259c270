// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/states"
	"github.com/capt-provider/capt/cmd/captctl/cli"
)

func newImport(environment *cli.Environment) *cobra.Command {
	o := &stateOptions{target: target{Options: cli.Options{Environment: environment}}, isImport: true}
	command := &cobra.Command{
		Use:   "import (--cluster CLUSTER | --apply NAME) --import ADDRESS=ID",
		Short: "Adopt cloud resources that are in no Terraform state",
		Long: `Adopts an EKS cluster, or other resources, that no Terraform state has.

The template is copied as NAME-imported, with import blocks in its module, which must be inline and
in HCL. The plan must show imports, and nothing else. Terraform then imports the resources to a new
state. A second revision of the template removes the blocks; it is assigned when its plan is empty.
The VPC is one that CAPT does not manage, or in a state.

` + stateHelp,
		Example: `  # A node group; a Cluster needs the flags of captctl adopt state
  captctl adopt import --apply team-a/nodes --template nodes --import aws_eks_node_group.a=old:a
  captctl adopt import --apply team-a/nodes --template nodes -f imports.yaml --yes`,
	}
	o.addFlags(command)
	command.Flags().StringArrayVar(&o.importTexts, "import", nil, "Resource to import, as ADDRESS=ID. Can be repeated.")
	command.Flags().StringArrayVarP(&o.Paths, "filename", "f", nil, "File with a list of imports, each with to and id. Can be repeated.")
	cli.CompleteFlag(command, "filename", cli.Files("yaml", "yml", "json"))
	return cli.NewConnected(command, o)
}

// importedName is the name of the template with the import blocks.
func (a *adoption) importedName() types.NamespacedName {
	return types.NamespacedName{Namespace: a.key.Namespace, Name: a.key.Name + "-imported"}
}

// prepareImport makes the copy of the template that an import uses. A copy that exists without import blocks has been imported.
func (a *adoption) prepareImport(ctx context.Context, main *states.Part) error {
	if err := a.readImports(); err != nil {
		return err
	}
	source, err := get(ctx, a.client, main.Template.Key(a.key.Namespace), &infrav1.WorkspaceTemplate{})
	if err != nil || source == nil {
		return cmp.Or(err, errors.New("the WorkspaceTemplate was deleted"))
	}
	key := a.importedName()
	copied := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: *source.Spec.DeepCopy()}
	copied.SetGroupVersionKind(infrav1.GroupVersion.WithKind("WorkspaceTemplate"))
	copied.Spec.Rollout, copied.Spec.AllowedNamespaces = infrav1.WorkspaceTemplateRollout{}, infrav1.AllowedNamespaces{}
	if a.imported, err = states.WithImports(copied, a.imports); err != nil {
		return err
	}
	existing, err := get(ctx, a.client, key, &infrav1.WorkspaceTemplate{})
	if err != nil {
		return err
	}
	if existing != nil && existing.Spec.Rollout.Strategy != "" { // The import is done, and its blocks are being removed, or are.
		apply, err := get(ctx, a.client, types.NamespacedName{Namespace: key.Namespace, Name: a.applyName()}, &infrav1.WorkspaceTemplateApply{})
		if err != nil {
			return err
		}
		if apply == nil || states.IsPending(apply) {
			return decision("WorkspaceTemplate %s is left from an earlier import: delete it, and run the command again. What that import has imported is in a state, which captctl adopt state adopts", key)
		}
		a.imported, a.isImported = existing, true
	}
	main.Template = infrav1.WorkspaceTemplateReference{Name: key.Name}
	main.State.Name = cmp.Or(main.State.Name, naming.ExternalName("", types.NamespacedName{Namespace: a.key.Namespace, Name: a.applyName()}))
	return nil
}

// applyName is the name of the WorkspaceTemplateApply that imports.
func (a *adoption) applyName() string {
	if a.stateOptions.apply != "" {
		return a.key.Name
	}
	return naming.ControlPlaneWorkspaceTemplateApply(a.key.Name)
}

// removeImports removes the import blocks by a second revision of the template. It is staged, so that it is assigned only after an empty plan; the policy is
// written first, in a request of its own, so that the first revision is stored.
func (a *adoption) removeImports(ctx context.Context) error {
	module := states.WithoutImports(a.imported.Spec.Template.Spec.ForProvider.Module)
	policy := map[string]any{"strategy": infrav1.RolloutStaged, "preview": infrav1.RolloutPreviewAlways, "approval": infrav1.RolloutApprovalOnChanges}
	template := &infrav1.WorkspaceTemplate{ObjectMeta: *a.imported.ObjectMeta.DeepCopy()}
	if err := patch(ctx, a.client, template, map[string]any{"spec": map[string]any{"rollout": policy}}); err != nil {
		return err
	}
	if err := a.until(ctx, a.hasRevision); err != nil {
		return err
	}
	content := map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"forProvider": map[string]any{"module": module}}}}}
	if err := patch(ctx, a.client, template, content); err != nil {
		return err
	}
	return a.until(ctx, a.hasRevision)
}

// hasRevision reports whether the object has the current revision of its template, applied, and the rollout is complete.
func (a *adoption) hasRevision(ctx context.Context) (bool, error) {
	template, err := get(ctx, a.client, a.importedName(), &infrav1.WorkspaceTemplate{})
	if err != nil || template == nil {
		return false, err
	}
	apply, err := get(ctx, a.client, types.NamespacedName{Namespace: a.key.Namespace, Name: a.applyName()}, &infrav1.WorkspaceTemplateApply{})
	if err != nil || apply == nil {
		return false, err
	}
	if observed, err := a.followRollout(template); !observed || err != nil {
		return false, err
	}
	hash := rollout.HashOf(template)
	complete := template.Status.Rollout.Stage == infrav1.RolloutComplete && template.Status.Rollout.Revision == hash
	return complete && apply.Status.TemplateRevision == hash && conditions.IsTrue(apply, infrav1.ReadyCondition), nil
}

// followRollout shows what a rollout does. It reports whether the manager has observed the template, and fails if a user must decide.
func (a *adoption) followRollout(template *infrav1.WorkspaceTemplate) (observed bool, err error) {
	valid, rolling := conditions.Get(template, infrav1.ValidCondition), conditions.Get(template, infrav1.RollingOutCondition)
	switch {
	case valid == nil || valid.ObservedGeneration != template.Generation:
		return false, nil
	case rolling != nil && (rolling.Reason == infrav1.RolloutWaitingReason || rolling.Reason == infrav1.RolloutStoppedReason):
		return false, decision("the import blocks cannot be removed yet: %s. captctl template status %s shows the plan", rolling.Message, client.ObjectKeyFromObject(template))
	case rolling != nil && rolling.Status == metav1.ConditionTrue:
		a.show("WorkspaceTemplate "+template.Name, rolling.Message)
	}
	return true, nil
}
