// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/states"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

type evacuateOptions struct {
	cli.Options
	cli.Writes
	keys, applyKeys []types.NamespacedName
	applyNames      []string
	rollback        bool
	timeout         time.Duration
}

// NewEvacuate returns captctl evacuate.
func NewEvacuate(environment *cli.Environment) *cobra.Command {
	o := &evacuateOptions{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "evacuate (CLUSTER | --apply NAME)...",
		Short: "Move Clusters from cluster-wide Workspaces to namespaced ones",
		Long: `Moves the Terraform states of Clusters from cluster-wide Workspaces to namespaced ones, in place and
without an apply. Crossplane v2 drops the cluster-wide ones.

One WorkspaceTemplateApply after the other: its template is copied as NAME-namespaced, and its
ProviderConfig as a ClusterProviderConfig of the same name. A preview must show that Terraform would
change no resource. Then the cluster-wide Workspace is deleted without Terraform (Orphan), and CAPT
creates the namespaced one with the same state, after it has proven the plan again. A state never
has two Workspaces that may apply. Clusters come first, then what --apply names, such as add-ons
that have no Cluster.

Run the command again to continue, also after kill -9. --rollback moves back in the same way.
Suspend a GitOps tool that applies the objects, and change the references to templates in Git
afterwards. The user needs the verb migrate, and the rights to write templates, Workspaces and
ProviderConfigs.

Exit codes: 0 done; 1 error; 3 a plan is not empty, and nothing was applied; 124 not Ready within
--timeout.`,
		Example: `  captctl evacuate team-a/shop
  captctl evacuate team-a/shop team-a/old --yes
  captctl evacuate --apply team-a/shop-karpenter --yes
  captctl evacuate team-a/shop --rollback --yes`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: environment.Access.CompleteClusters(),
	}
	command.Flags().StringSliceVar(&o.applyNames, "apply", nil, "A WorkspaceTemplateApply without a Cluster, as [NAMESPACE/]NAME. Can be repeated.")
	cli.CompleteFlag(command, "apply", cobra.NoFileCompletions)
	command.Flags().BoolVar(&o.rollback, "rollback", false, "Move back to cluster-wide Workspaces.")
	command.Flags().DurationVar(&o.timeout, "timeout", defaultTimeout, "How long to wait for each Cluster.")
	o.AddYes(command)
	return cli.NewConnected(command, o)
}

func (o *evacuateOptions) Complete(args []string) (err error) {
	if len(args)+len(o.applyNames) == 0 {
		return errors.New("name a Cluster, or set --apply")
	}
	if o.keys, err = o.Keys(args); err == nil {
		o.applyKeys, err = o.Keys(o.applyNames)
	}
	return err
}

func (o *evacuateOptions) Run(ctx context.Context, connected client.WithWatch) error {
	for i, key := range slices.Concat(o.keys, o.applyKeys) {
		of := target{Options: o.Options, Writes: o.Writes, key: key}
		if i >= len(o.keys) {
			of.apply = key.Name
		}
		e := &evacuation{evacuateOptions: o, adoption: adoption{
			stateOptions: &stateOptions{target: of, timeout: o.timeout},
			client:       connected, request: o.Clock.Now().UTC().Format(time.RFC3339Nano),
		}}
		waiting, stop := context.WithTimeout(ctx, o.timeout)
		err := e.run(waiting)
		stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// evacuation is what a run does for one Cluster.
type evacuation struct {
	*evacuateOptions
	adoption adoption
}

func (e *evacuation) to() terraform.Scope {
	if e.rollback {
		return terraform.ScopeCluster
	}
	return terraform.ScopeNamespaced
}

func (e *evacuation) run(ctx context.Context) error {
	applies, stay, err := e.movable(ctx)
	if err != nil {
		return err
	}
	if e.Asks() {
		question := fmt.Sprintf("Move %s of %s to Workspaces of scope %s?", output.Count(len(applies), "Terraform state"), e.adoption.title(), e.to())
		if err := e.Confirm(question); err != nil {
			return err
		}
	}
	for _, apply := range applies {
		if err := e.move(ctx, client.ObjectKeyFromObject(apply)); err != nil {
			return err
		}
	}
	if len(stay) > 0 {
		return decision("%s: not moved: %s. A namespaced Workspace writes its connection Secret to its own namespace only. "+
			"If nothing reads the Secret, delete the WorkspaceTemplateApply with deletionPolicy Retain; else let the template and spec.writeConnectionSecretToRef name no namespace, and run the command again",
			e.adoption.title(), strings.Join(stay, ", "))
	}
	e.Printer().Text("", output.Good, fmt.Sprintf("%s has Workspaces of scope %s, and Terraform changed nothing", e.adoption.title(), e.to()))
	return nil
}

// movable are the applies that can have a Workspace of the scope. stay describes the others: those whose connection Secret is in another namespace.
func (e *evacuation) movable(ctx context.Context) (movable []*infrav1.WorkspaceTemplateApply, stay []string, err error) {
	all, err := e.applies(ctx)
	if err != nil || e.rollback {
		return all, nil, err
	}
	for _, apply := range all {
		template, err := cli.Get(ctx, e.adoption.client, apply.TemplateKey(), &infrav1.WorkspaceTemplate{})
		if err != nil {
			return nil, nil, err
		}
		refs := []*terraform.SecretReference{apply.Spec.WriteConnectionSecretToRef}
		if template != nil {
			refs = append(refs, template.Spec.Template.Spec.WriteConnectionSecretToRef)
		}
		elsewhere := slices.IndexFunc(refs, func(ref *terraform.SecretReference) bool {
			return ref != nil && ref.Namespace != "" && ref.Namespace != apply.Namespace
		})
		if elsewhere < 0 {
			movable = append(movable, apply)
			continue
		}
		stay = append(stay, fmt.Sprintf("WorkspaceTemplateApply %s, whose connection Secret is in namespace %s", apply.Name, refs[elsewhere].Namespace))
	}
	return movable, stay, nil
}

// applies are those of the Cluster whose Workspaces or templates have the other scope: the VPC first.
func (e *evacuation) applies(ctx context.Context) (applies []*infrav1.WorkspaceTemplateApply, err error) {
	objects, err := e.objects(ctx)
	if err != nil {
		return nil, err
	}
	for _, apply := range objects.Applies {
		template, err := cli.Get(ctx, e.adoption.client, apply.TemplateKey(), &infrav1.WorkspaceTemplate{})
		if err != nil {
			return nil, err
		}
		scope, recorded := apply.Status.WorkspaceRef.Scope()
		refers := template == nil || template.Spec.WorkspaceScope.OrDefault() == e.to() // Otherwise, a move was interrupted, and is reversed.
		if recorded && (scope != e.to() || !refers) {
			applies = append(applies, apply)
		}
	}
	rank := func(apply *infrav1.WorkspaceTemplateApply) int {
		switch {
		case objects.CAPTCluster != nil && apply.Name == objects.CAPTCluster.Spec.WorkspaceTemplateApplyRef.Name:
			return 0
		case objects.ControlPlane != nil && apply.Name == objects.ControlPlane.Spec.WorkspaceTemplateApplyRef.Name:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(applies, func(a, b *infrav1.WorkspaceTemplateApply) int { return cmp.Compare(rank(a), rank(b)) })
	return applies, nil
}

// objects are those of the Cluster, or the one object that --apply names.
func (e *evacuation) objects(ctx context.Context) (*overview.Objects, error) {
	key := e.adoption.key
	if e.adoption.apply == "" {
		options := e.Options
		options.Namespace, options.Name = key.Namespace, key.Name
		return fleet.ObjectsOf(ctx, &options, e.adoption.client)
	}
	apply, err := cli.Get(ctx, e.adoption.client, key, &infrav1.WorkspaceTemplateApply{})
	if err == nil && apply == nil {
		err = fmt.Errorf("WorkspaceTemplateApply %s does not exist", key)
	}
	return &overview.Objects{Applies: []*infrav1.WorkspaceTemplateApply{apply}}, err
}

// move moves the state of one object.
func (e *evacuation) move(ctx context.Context, key types.NamespacedName) error {
	apply, err := cli.Get(ctx, e.adoption.client, key, &infrav1.WorkspaceTemplateApply{})
	if err != nil || apply == nil {
		return err
	}
	template, err := e.templateFor(ctx, apply)
	if err != nil {
		return err
	}
	if scope, _ := apply.Status.WorkspaceRef.Scope(); scope == e.to() { // It is not moved yet, or another run has moved it meanwhile: its Workspace must stay.
		return e.refer(ctx, apply, template)
	}
	if err := errors.Join(e.refer(ctx, apply, template), e.request(ctx, apply)); err != nil {
		return err
	}
	if err := e.adoption.until(ctx, func(ctx context.Context) (bool, error) { return e.isProven(ctx, key, template) }); err != nil {
		return err
	}
	if err := e.orphan(ctx, apply); err != nil {
		return err
	}
	return e.adoption.until(ctx, func(ctx context.Context) (bool, error) { return e.isMoved(ctx, key) })
}

// request asks for a plan, whose result the object records with this text.
func (e *evacuation) request(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) error {
	return patch(ctx, e.adoption.client, apply.DeepCopy(), map[string]any{"metadata": map[string]any{"annotations": map[string]any{naming.EvacuateAnnotation: e.adoption.request}}})
}

// templateFor returns the template of the other scope. It creates the copy, and the ProviderConfig that it needs.
func (e *evacuation) templateFor(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (key types.NamespacedName, err error) {
	template, err := cli.Get(ctx, e.adoption.client, apply.TemplateKey(), &infrav1.WorkspaceTemplate{})
	switch {
	case err != nil:
		return key, err
	case template == nil:
		return key, fmt.Errorf("WorkspaceTemplate %s does not exist", apply.TemplateKey())
	case template.Spec.WorkspaceScope.OrDefault() == e.to(): // An earlier run has switched it.
		return apply.TemplateKey(), nil
	case e.rollback:
		original := template.Annotations[naming.EvacuatedFromAnnotation]
		if original == "" {
			return key, decision("WorkspaceTemplate %s was not created by captctl evacuate, so there is no cluster-wide one to return to", apply.TemplateKey())
		}
		return types.NamespacedName{Namespace: template.Namespace, Name: original}, nil
	}
	return e.copyTemplate(ctx, template)
}

func (e *evacuation) copyTemplate(ctx context.Context, template *infrav1.WorkspaceTemplate) (key types.NamespacedName, err error) {
	if err := e.copyConfig(ctx, template); err != nil {
		return key, err
	}
	copied := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{
		Namespace: template.Namespace, Name: template.Name + "-namespaced", Labels: template.Labels,
		Annotations: map[string]string{naming.EvacuatedFromAnnotation: template.Name}, Finalizers: []string{infrav1.WorkspaceTemplateFinalizer}, // It gets no new defaults.
	}, Spec: *template.Spec.DeepCopy()}
	if pinned := template.Annotations[naming.PinnedForAnnotation]; pinned != "" {
		copied.Annotations[naming.PinnedForAnnotation] = pinned
	}
	copied.Spec.WorkspaceScope = terraform.ScopeNamespaced
	ref := ptr.Deref(copied.Spec.Template.Spec.ProviderConfigRef, terraform.ProviderConfigReference{})
	copied.Spec.Template.Spec.ProviderConfigRef = &terraform.ProviderConfigReference{Kind: "ClusterProviderConfig", Name: cmp.Or(ref.Name, "default")}
	key = client.ObjectKeyFromObject(copied)
	existing, err := cli.Get(ctx, e.adoption.client, key, &infrav1.WorkspaceTemplate{})
	switch {
	case err != nil:
		return key, err
	case existing != nil && existing.Annotations[naming.EvacuatedFromAnnotation] != template.Name:
		return key, decision("WorkspaceTemplate %s exists, and captctl evacuate has not created it: rename or delete it", key)
	case existing != nil:
		return key, nil
	}
	return key, e.adoption.client.Create(ctx, copied, client.FieldOwner(fieldManager))
}

// copyConfig creates the ClusterProviderConfig with the content of the cluster-wide ProviderConfig of a template: the same account and backend.
func (e *evacuation) copyConfig(ctx context.Context, template *infrav1.WorkspaceTemplate) error {
	from := states.ConfigOf(template, "")
	if err := e.adoption.client.Get(ctx, client.ObjectKeyFromObject(from), from); err != nil {
		return err
	}
	to := &unstructured.Unstructured{Object: map[string]any{"spec": from.Object["spec"]}}
	to.SetGroupVersionKind(terraform.ScopeNamespaced.GroupVersionKind().GroupVersion().WithKind("ClusterProviderConfig"))
	to.SetName(from.GetName())
	existing, err := cli.Get(ctx, e.adoption.client, client.ObjectKeyFromObject(to), to.DeepCopy())
	if err != nil || existing != nil { // The preview shows whether it has the state.
		return err
	}
	return e.adoption.client.Create(ctx, to, client.FieldOwner(fieldManager))
}

// refer lets the object, or the owner that writes its reference, refer to a template.
func (e *evacuation) refer(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, template types.NamespacedName) error {
	if apply.TemplateKey() == template {
		return nil
	}
	ref := reference(template, apply.Namespace)
	value := map[string]any{"name": ref.Name, "namespace": nil}
	if ref.Namespace != "" {
		value["namespace"] = ref.Namespace
	}
	controller := ptr.Deref(metav1.GetControllerOf(apply), metav1.OwnerReference{Kind: "", Name: apply.Name})
	key := types.NamespacedName{Namespace: apply.Namespace, Name: controller.Name}
	named := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	switch controller.Kind {
	case "CAPTCluster":
		content := map[string]any{"spec": map[string]any{"vpc": map[string]any{"template": map[string]any{"ref": value}}}}
		return e.patch(ctx, &infrav1.CAPTCluster{ObjectMeta: named}, content)
	case "CAPTMachinePool":
		return e.patch(ctx, &infrav1.CAPTMachinePool{ObjectMeta: named}, map[string]any{"spec": map[string]any{"workspaceTemplateRef": value}})
	case "CAPTControlPlane":
		return e.referOf(ctx, key, apply, ref, value)
	}
	return e.patch(ctx, apply.DeepCopy(), map[string]any{"spec": map[string]any{"templateRef": value}})
}

// referOf changes the reference of a control plane, or of one of its Fargate profiles.
func (e *evacuation) referOf(ctx context.Context, key types.NamespacedName, apply *infrav1.WorkspaceTemplateApply, ref infrav1.WorkspaceTemplateReference, value map[string]any) error {
	controlPlane := &controlplanev1.CAPTControlPlane{}
	if err := e.adoption.client.Get(ctx, key, controlPlane); err != nil {
		return err
	}
	if apply.Name == controlPlane.Spec.WorkspaceTemplateApplyRef.Name {
		return e.patch(ctx, controlPlane, map[string]any{"spec": map[string]any{"workspaceTemplateRef": value}})
	}
	profile := apply.Spec.Variables.Text(naming.ProfileVariable)
	for i := range controlPlane.Spec.FargateProfiles {
		if controlPlane.Spec.FargateProfiles[i].Name == profile && profile != "" {
			controlPlane.Spec.FargateProfiles[i].WorkspaceTemplateRef = ref
			return e.patch(ctx, controlPlane, map[string]any{"spec": map[string]any{"fargateProfiles": controlPlane.Spec.FargateProfiles}})
		}
	}
	return e.patch(ctx, apply.DeepCopy(), map[string]any{"spec": map[string]any{"templateRef": value}})
}

// patch writes as captctl migrate does: the reference of an object and of its owner are changed one after the other, and the scope differs meanwhile.
func (e *evacuation) patch(ctx context.Context, object client.Object, content map[string]any) error {
	return e.adoption.client.Patch(ctx, object, cli.MergePatch(content), client.FieldOwner(naming.MigrationFieldManager))
}

// isProven reports whether the manager has planned the state in the other scope, and Terraform would change nothing.
func (e *evacuation) isProven(ctx context.Context, key, template types.NamespacedName) (bool, error) {
	apply, err := cli.Get(ctx, e.adoption.client, key, &infrav1.WorkspaceTemplateApply{})
	if err != nil || apply == nil || apply.TemplateKey() != template {
		return false, err
	}
	plan := &apply.Status.Preview
	switch scope, _ := apply.Status.WorkspaceRef.Scope(); {
	case scope == e.to():
		return true, nil
	case plan.Proof != e.adoption.request || plan.Result == "":
		e.adoption.show(key.Name, conditions.GetMessage(apply, infrav1.ReadyCondition))
		return false, nil
	case states.IsProvenBy(plan):
		return true, nil
	}
	_ = e.adoption.showPlan(apply)
	return false, decision("WorkspaceTemplateApply %s is not moved: the plan in the other scope is not empty. Nothing was applied, and its Workspace is as before. Correct what differs and run the command again", key)
}

// orphan deletes the Workspace of the other scope without Terraform, and waits until it is gone. The state stays.
func (e *evacuation) orphan(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) error {
	ref := apply.Status.WorkspaceRef
	old := &unstructured.Unstructured{}
	old.SetAPIVersion(ref.APIVersion)
	old.SetKind(ref.Kind)
	key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		live, err := cli.Get(ctx, e.adoption.client, key, old.DeepCopy())
		if err != nil || live == nil || live.GetUID() != ref.UID {
			return err == nil, err
		}
		if !live.GetDeletionTimestamp().IsZero() {
			return false, nil
		}
		spec := map[string]any{"managementPolicies": []string{"Observe"}}
		if ref.Namespace == "" {
			spec["deletionPolicy"] = terraform.DeletionOrphan
		}
		content := map[string]any{"spec": spec, "metadata": map[string]any{"annotations": map[string]any{naming.AllowDeleteAnnotation: "true"}}}
		if err := patch(ctx, e.adoption.client, live, content); err != nil {
			return false, err
		}
		err = e.adoption.client.Delete(ctx, live, client.Preconditions{UID: ptr.To(ref.UID), ResourceVersion: ptr.To(live.GetResourceVersion())})
		if apierrors.IsConflict(err) { // The provider has written it meanwhile.
			err = nil
		}
		return false, client.IgnoreNotFound(err)
	})
}

// isMoved reports whether the object has its Workspace in the scope, and is Ready.
func (e *evacuation) isMoved(ctx context.Context, key types.NamespacedName) (bool, error) {
	apply, err := cli.Get(ctx, e.adoption.client, key, &infrav1.WorkspaceTemplateApply{})
	if err != nil || apply == nil {
		return false, err
	}
	ready := conditions.Get(apply, infrav1.ReadyCondition)
	scope, recorded := apply.Status.WorkspaceRef.Scope()
	if recorded && scope == e.to() && ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == apply.Generation {
		e.Printer().Text("  ", output.Good, fmt.Sprintf("%s: Workspace of scope %s", key.Name, e.to()))
		return true, nil
	}
	if ready != nil {
		e.adoption.show(key.Name, ready.Message)
	}
	return false, nil
}
