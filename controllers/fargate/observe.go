// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
)

// Observe looks at the profiles of spec once it is known what they stand on, and works out what their WorkspaceTemplateApplies
// should be. It takes the place of what Existing has found of them.
func (r Readers) Observe(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, on Foundation, f *Facts) (err error) {
	f.ClusterReady, f.Busy = on.Ready, f.busy()
	profiles := make([]Profile, len(controlPlane.Spec.FargateProfiles))
	for i := range controlPlane.Spec.FargateProfiles {
		spec := &controlPlane.Spec.FargateProfiles[i]
		if profiles[i], err = r.profile(ctx, controlPlane, spec, on, f.Busy); err != nil {
			return fmt.Errorf("looking at Fargate profile %s: %w", spec.Name, err)
		}
		f.notTwice(&profiles[i])
		f.Busy = f.Busy || atWork(&owner.Facts{Apply: profiles[i].Apply.Apply}) // The cache may not have it yet.
	}
	f.Profiles = profiles
	if on.Ready && slices.ContainsFunc(profiles, func(p Profile) bool { return f.due(&p) }) {
		f.Missing, err = r.missing(ctx, controlPlane.Namespace, on) // Secrets are read only for what is about to be written.
	}
	return err
}

// notTwice keeps a profile that exists from being made a second time, under the name of a reference that came later.
func (f *Facts) notTwice(p *Profile) {
	if p.Apply.Apply != nil || p.Apply.Desired == nil {
		return
	}
	name := p.Apply.Desired.GetName()
	i := slices.IndexFunc(f.Profiles, func(q Profile) bool { return q.Name == p.Name && q.Apply.Apply != nil && q.Apply.Apply.Name != name })
	if i >= 0 {
		p.Apply = owner.Facts{Claimed: fmt.Sprintf("the profile has WorkspaceTemplateApply %s already, and a second one, %s, would make it a second time; nothing is written. "+
			"Take the profile out of spec, and put it in again when that is gone", f.Profiles[i].Apply.Apply.Name, name)}
	}
}

// busy is a function of the profiles that exist. One that can not be destroyed, or waits for somebody, holds up nobody.
func (f *Facts) busy() bool {
	return slices.ContainsFunc(f.Leaving, func(p Profile) bool { return p.destroyed() }) || slices.ContainsFunc(f.Profiles, func(p Profile) bool { return atWork(&p.Apply) })
}

// atWork tells whether Terraform makes or changes a profile that exists, or is about to. Nothing is begun while it is paused.
func atWork(apply *owner.Facts) bool {
	return apply.Apply != nil && !apply.Ready(manager) && apply.Working() && !conditions.IsTrue(apply.Apply, clusterv1.PausedCondition)
}

// destroyed tells whether Terraform destroys a profile that leaves, or is about to.
func (p *Profile) destroyed() bool {
	switch conditions.GetReason(p.Apply.Apply, infrav1.DeletingCondition) {
	case "", infrav1.NotDeletingReason, infrav1.WaitingForWorkspaceDeletionReason, infrav1.WaitingForTurnReason:
		return true
	}
	return false
}

// expected is what spec expects of the WorkspaceTemplateApply of a profile, and which one that is. Without a reference it is that of
// the naming scheme: neither the name of the Cluster nor that of the profile ever changes. CAPT writes no reference down: who
// compares the list with Git, as a whole, would see a difference for ever.
func expected(clusterName, eksName string, spec *controlplanev1.FargateProfile) (adoption.Expectation, infrav1.WorkspaceTemplateApplyReference) {
	want, ref := adoption.OfProfile(clusterName, spec), spec.WorkspaceTemplateApplyRef
	want.Variables[naming.ClusterVariable] = eksName
	if !ref.IsDefined() {
		ref = infrav1.WorkspaceTemplateApplyReference{Name: want.SchemeName}
	}
	return want, ref
}

// profile looks at one profile of spec.
func (r Readers) profile(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, spec *controlplanev1.FargateProfile, on Foundation, busy bool) (Profile, error) {
	want, ref := expected(on.ClusterName, on.EKSName, spec)
	apply, err := owner.Observe(ctx, r.Cached, r.Uncached, controlPlane, ref, want)
	if err == nil && on.Ready && !busy { // It may be made now.
		err = apply.Confirm(ctx, r.Uncached, controlPlane, ref, want)
	}
	profile := Profile{Name: spec.Name, Apply: apply}
	if err != nil || apply.Claimed != "" || len(apply.Candidates) > 0 {
		return profile, err
	}
	return profile, profile.desire(r.Cached, controlPlane, spec, ref.Name, on)
}

// desire computes the WorkspaceTemplateApply of a profile. Its Workspace stays below that of the control plane: whoever deletes
// both at once, the profile goes first.
func (p *Profile) desire(c client.Client, controlPlane *controlplanev1.CAPTControlPlane, spec *controlplanev1.FargateProfile, name string, on Foundation) error {
	variables, err := variables(controlPlane, spec, on)
	if err != nil {
		return err
	}
	return p.Apply.Desire(c, owner.Want{
		Owner: controlPlane, ClusterName: on.ClusterName, Name: name, Template: spec.WorkspaceTemplateRef,
		Labels:            map[string]string{naming.TurnsLabel: naming.FargateTurns},
		Intent:            adoption.Intent{Variables: variables, ConnectionSecret: naming.FargateConnectionSecret(on.ClusterName, spec.Name)},
		WaitForWorkspaces: []infrav1.WorkspaceDependency{{Name: on.Workspace, Namespace: controlPlane.Namespace}},
		WaitForSecrets:    on.secrets(controlPlane.Namespace),
	})
}

// secrets are those that must have values before Terraform makes a profile.
func (on *Foundation) secrets(namespace string) []infrav1.SecretDependency {
	return []infrav1.SecretDependency{
		{Name: on.ConnectionName, Namespace: namespace, Keys: connectionKeys()},
		{Name: on.VPCSecretName, Namespace: namespace, Keys: []string{terraform.OutputVPCConfig}},
	}
}

// connectionKeys are what must be known of the EKS cluster before a profile is made.
func connectionKeys() []string {
	return []string{terraform.OutputClusterName, terraform.OutputClusterEndpoint, terraform.OutputClusterCA}
}

// variables for the template of a profile; api/validation lists them. Maps and lists are JSON. Secrets are named, so that a
// template for many clusters can read them through varFiles.
func variables(controlPlane *controlplanev1.CAPTControlPlane, spec *controlplanev1.FargateProfile, on Foundation) (map[string]string, error) {
	tags := controlPlane.Spec.AdditionalTags
	if tags == nil {
		tags = map[string]controlplanev1.TagValue{}
	}
	out := map[string]string{
		naming.ClusterVariable:       on.EKSName,
		naming.ProfileVariable:       spec.Name,
		naming.RegionVariable:        on.Region,
		naming.EKSConnectionVariable: on.ConnectionName,
		naming.VPCConnectionVariable: on.VPCSecretName,
	}
	for name, value := range map[string]any{"selectors": spec.Selectors, "tags": tags} {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encoding variable %s: %w", name, err)
		}
		out[name] = string(text)
	}
	return out, nil
}

// missing says what of the two Secrets is missing, or can not be used.
func (r Readers) missing(ctx context.Context, namespace string, on Foundation) (string, error) {
	ofVPC, err := r.missingVPC(ctx, namespace, on.VPCSecretName)
	lacks := slices.DeleteFunc([]string{on.missing(), ofVPC}, func(lack string) bool { return lack == "" })
	return strings.Join(lacks, "; "), err
}

// missing says what of the connection Secret of the control plane is missing.
func (on *Foundation) missing() string {
	if on.Connection == nil {
		return fmt.Sprintf("Secret %s does not exist; provider-terraform writes it when it looks at Workspace %s, whose conditions say how that went", on.ConnectionName, on.Workspace)
	}
	var keys []string
	for _, key := range connectionKeys() {
		if len(on.Connection.Data[key]) == 0 {
			keys = append(keys, "key "+key)
		}
	}
	if len(keys) == 0 {
		return ""
	}
	return fmt.Sprintf("Secret %s has no value for %s; add outputs of these names to the template of the control plane", on.ConnectionName, strings.Join(keys, ", "))
}

func (r Readers) missingVPC(ctx context.Context, namespace, name string) (string, error) {
	if name == "" {
		return fmt.Sprintf("nobody says which Secret describes the VPC; set spec.vpc.connectionSecretRef of the CAPTCluster to one that has the key %s", terraform.OutputVPCConfig), nil
	}
	secret, err := engine.Get(ctx, r.Uncached, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Secret{})
	switch {
	case err != nil:
		return "", fmt.Errorf("reading Secret %s: %w", name, err)
	case secret == nil:
		return fmt.Sprintf("Secret %s does not exist; it describes the VPC. If a template makes that, provider-terraform writes the Secret; for an existing VPC, create it with the key %s", name, terraform.OutputVPCConfig), nil
	case len(secret.Data[terraform.OutputVPCConfig]) == 0:
		return fmt.Sprintf("Secret %s has no value for key %s; add an output of that name to the template of the VPC, or the key to the Secret of an existing VPC", name, terraform.OutputVPCConfig), nil
	}
	if err := terraform.CheckVPCConfig(string(secret.Data[terraform.OutputVPCConfig])); err != nil {
		return fmt.Sprintf("key %s of Secret %s does not describe a VPC: %v", terraform.OutputVPCConfig, name, err), nil
	}
	return "", nil
}
