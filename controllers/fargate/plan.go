// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/owner"
)

// PlanInput is what the plan of the profiles depends on in addition to the facts. The control plane provides it.
type PlanInput struct {
	// Paused is why nothing is written; empty when the control plane is not paused.
	Paused string
	// Blocked is true while nothing may be created or changed because the control plane is blocked.
	Blocked bool
	// Ready is true when Terraform has applied the control plane as spec wants it. Nothing is created or changed before.
	Ready bool
}

// Plan is what one reconcile does about the Fargate profiles of a control plane.
type Plan struct {
	PlanInput
	// Profiles of spec, in its order.
	Profiles []PlannedProfile
	// Obsolete are the profiles to delete.
	Obsolete []Profile
	// Busy is true while Terraform runs for a profile, so that no other one is created.
	Busy bool
	// Missing describes what must exist before a profile is created or updated, but does not; empty when nothing is missing.
	Missing      string
	controlPlane *controlplanev1.CAPTControlPlane
}

// PlannedProfile is a profile of spec.
type PlannedProfile struct {
	Name  string
	Apply owner.Plan
	// Timeout of Terraform; nil before it starts, and while paused.
	Timeout *owner.Timeout
}

// defaultSeconds is the default of spec.timeouts.fargateProfileSeconds.
const defaultSeconds = 1800

// Plan decides what to do. It is pure.
func (f *Facts) Plan(controlPlane *controlplanev1.CAPTControlPlane, in PlanInput) (Plan, error) {
	p := Plan{PlanInput: in, Obsolete: f.Obsolete, Busy: f.busy(), controlPlane: controlPlane}
	for i := range f.Profiles {
		profile, err := f.planProfile(controlPlane, i, in)
		if err != nil {
			return p, err
		}
		p.Profiles = append(p.Profiles, profile)
	}
	if in.Ready && slices.ContainsFunc(p.Profiles, func(profile PlannedProfile) bool { return profile.isPending(p.Busy) }) {
		missing := []string{f.Cluster.missingConnectionKeys(), f.missingVPCSecret()}
		p.Missing = strings.Join(slices.DeleteFunc(missing, func(s string) bool { return s == "" }), "; ")
	}
	return p, nil
}

// anyPending reports whether a profile is to be created or changed when nothing blocks it. Observe asks for it: only then is the Secret
// of the VPC read, whose value is not cached.
func (f *Facts) anyPending(controlPlane *controlplanev1.CAPTControlPlane) (bool, error) {
	p, err := f.Plan(controlPlane, PlanInput{})
	return slices.ContainsFunc(p.Profiles, func(profile PlannedProfile) bool { return profile.isPending(p.Busy) }), err
}

func (f *Facts) planProfile(controlPlane *controlplanev1.CAPTControlPlane, i int, in PlanInput) (PlannedProfile, error) {
	profile, facts := &f.Profiles[i], f.Profiles[i].Apply
	if f.Cluster == nil || in.Blocked && facts.Live == nil { // The reference is not resolved, or does not count yet.
		facts = owner.Facts{Live: profile.Existing}
	}
	of := owner.PlanInput{Owner: ownerOf(controlPlane, profile.Name), Paused: in.Paused != ""}
	if f.Cluster != nil && !in.Blocked && facts.Conflict == "" && facts.Block == nil {
		wanted := desired.FargateProfile{
			ControlPlane: controlPlane, Profile: &controlPlane.Spec.FargateProfiles[i], Cluster: f.Cluster.EKSCluster, Existing: facts.Existing(), Owned: profile.Existing,
		}
		if conflict := wanted.Elsewhere(); conflict != nil {
			facts = owner.Facts{Conflict: conflict.Message}
		} else {
			of.Want = wanted.Want()
		}
	}
	plan, err := facts.Plan(of)
	planned := PlannedProfile{Name: profile.Name, Apply: plan}
	if in.Paused == "" {
		planned.Timeout = owner.NewTimeout("spec.timeouts.fargateProfileSeconds", controlplanev1.FargateProfileFailedReason, controlPlane.Spec.Timeouts.FargateProfileSeconds, defaultSeconds, profile.Running).Of(&facts)
	}
	return planned, err
}

func ownerOf(controlPlane *controlplanev1.CAPTControlPlane, profile string) owner.Owner {
	return owner.Owner{
		Object: controlPlane, Kind: controlplanev1.GroupVersion.WithKind("CAPTControlPlane"), Ref: &infrav1.WorkspaceTemplateApplyReference{},
		Finalizer: controlplanev1.FargateProfileFinalizer, FieldManager: naming.CAPTControlPlaneFieldManager, Creates: "Fargate profile " + profile,
	}
}

// isPending reports whether a profile must be created or updated now. Profiles are created one after the other, so a profile that does not
// exist is not pending while Terraform is busy with another one. A profile that is being deleted is recreated later.
func (p *PlannedProfile) isPending(busy bool) bool {
	if p.Apply.Live == nil {
		return !busy && p.Apply.Differs
	}
	return p.Apply.Differs && p.Apply.Live.DeletionTimestamp.IsZero()
}

func (c *Cluster) missingConnectionKeys() string {
	if c.Connection == nil {
		return fmt.Sprintf("Secret %s does not exist. provider-terraform writes it; see the conditions of Workspace %s", c.ConnectionName, c.Workspace)
	}
	var keys []string
	for _, key := range desired.ConnectionKeys() {
		if len(c.Connection.Data[key]) == 0 {
			keys = append(keys, "key "+key)
		}
	}
	if len(keys) == 0 {
		return ""
	}
	return fmt.Sprintf("Secret %s has no value for %s. Add outputs of these names to the template of the control plane", c.ConnectionName, strings.Join(keys, ", "))
}

func (f *Facts) missingVPCSecret() string {
	name, secret := f.Cluster.VPCSecretName, f.VPCSecret
	switch {
	case name == "":
		return fmt.Sprintf("no Secret describes the VPC. Set spec.vpc.connectionSecretRef of the CAPTCluster to a Secret with the key %s", terraform.OutputVPCConfig)
	case secret == nil:
		return fmt.Sprintf("Secret %s does not exist. It describes the VPC: for a VPC from a template, provider-terraform writes it; for an existing VPC, create it with the key %s", name, terraform.OutputVPCConfig)
	case len(secret.Data[terraform.OutputVPCConfig]) == 0:
		return fmt.Sprintf("Secret %s has no value for key %s. Add an output of that name to the template of the VPC; for an existing VPC, add the key to the Secret", name, terraform.OutputVPCConfig)
	}
	if err := terraform.CheckVPCConfig(string(secret.Data[terraform.OutputVPCConfig])); err != nil {
		return fmt.Sprintf("key %s of Secret %s does not describe a VPC: %v", terraform.OutputVPCConfig, name, err)
	}
	return ""
}

// Act creates, updates and deletes the profiles. uncached reads from the API server. A profile that cannot be written does not block the others.
func (p *Plan) Act(ctx context.Context, c client.Client, uncached client.Reader) error {
	switch {
	case p.Paused != "":
		return nil
	case len(p.Profiles)+len(p.Obsolete) == 0:
		return ownerOf(p.controlPlane, "").Release(ctx, c)
	}
	if err := p.hold(ctx, c); err != nil {
		return err
	}
	return errors.Join(p.deleteObsolete(ctx, c), p.writeProfiles(ctx, c, uncached))
}

// hold adds the finalizer before the first profile is created.
func (p *Plan) hold(ctx context.Context, c client.Client) error {
	exists := func(profile PlannedProfile) bool { return profile.Apply.Live != nil || p.mayWrite(&profile) }
	if !p.controlPlane.DeletionTimestamp.IsZero() || len(p.Obsolete) == 0 && !slices.ContainsFunc(p.Profiles, exists) {
		return nil
	}
	return ownerOf(p.controlPlane, "").Hold(ctx, c, nil)
}

func (p *Plan) deleteObsolete(ctx context.Context, c client.Client) error {
	var errs []error
	for i := range p.Obsolete {
		if apply := &p.Obsolete[i].Apply; apply.Live.DeletionTimestamp.IsZero() {
			errs = append(errs, owner.Delete(ctx, c, apply.Live))
		}
	}
	return errors.Join(errs...)
}

func (p *Plan) writeProfiles(ctx context.Context, c client.Client, uncached client.Reader) error {
	var errs []error
	for i := range p.Profiles {
		profile := &p.Profiles[i]
		changes := p.mayWrite(profile)
		if !changes && (profile.Apply.Differs || p.blocked() != nil) {
			continue
		}
		// Without a difference, this restores lost managedFields.
		if err := profile.Apply.Write(ctx, c, uncached); err != nil {
			errs = append(errs, fmt.Errorf("writing Fargate profile %s: %w", profile.Name, err))
			continue
		}
		p.Busy = p.Busy || changes
	}
	return errors.Join(errs...)
}

// mayWrite reports whether a profile is created or changed now.
func (p *Plan) mayWrite(profile *PlannedProfile) bool {
	return p.blocked() == nil && profile.isPending(p.Busy)
}
