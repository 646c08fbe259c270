// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
)

// ControllerIndex finds the WorkspaceTemplateApplies of Fargate profiles by the UID of their control plane.
const ControllerIndex = "fargateProfileOf"

// IndexController is the function of ControllerIndex.
func IndexController(object client.Object) []string {
	controller := metav1.GetControllerOf(object)
	if controller == nil || object.GetLabels()[naming.TurnsLabel] != naming.FargateTurns {
		return nil
	}
	return []string{string(controller.UID)}
}

// Readers are the cache, and the API server itself for what must not be missed.
type Readers struct {
	Cached   client.Client
	Uncached client.Reader
}

// Existing looks for the profiles that exist: those of spec, in its order, and those that are leaving. Of a control plane that is
// deleted, all are leaving. What was made a moment ago must not be missed when that lets go of the control plane.
func (r Readers) Existing(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane) (f Facts, err error) {
	deleted := !controlPlane.DeletionTimestamp.IsZero()
	var list infrav1.WorkspaceTemplateApplyList
	inNamespace := client.InNamespace(controlPlane.Namespace)
	err = r.Cached.List(ctx, &list, inNamespace, client.MatchingFields{ControllerIndex: string(controlPlane.UID)})
	if none := len(controlPlane.Spec.FargateProfiles)+len(list.Items) == 0; err == nil && isHeld(controlPlane) && (deleted || none) {
		// A namespace may have many clusters, and the answer has whole objects: only those with the labels that they were made with.
		var live infrav1.WorkspaceTemplateApplyList
		err = r.Uncached.List(ctx, &live, inNamespace, labelsOf(controlPlane))
		list.Items = merged(live.Items, list.Items)
	}
	if err != nil {
		return f, fmt.Errorf("listing the WorkspaceTemplateApplies of Fargate profiles: %w", err)
	}
	of := map[string]*infrav1.WorkspaceTemplateApply{}
	for i := range list.Items {
		apply := &list.Items[i]
		switch {
		case !metav1.IsControlledBy(apply, controlPlane):
		case deleted || !wanted(controlPlane, apply):
			f.Leaving = append(f.Leaving, Profile{Name: profileName(apply), Apply: owner.Facts{Apply: apply}})
		default:
			of[profileName(apply)] = apply
		}
	}
	slices.SortFunc(f.Leaving, byName)
	for i := range controlPlane.Spec.FargateProfiles {
		if name := controlPlane.Spec.FargateProfiles[i].Name; !deleted {
			f.Profiles = append(f.Profiles, Profile{Name: name, Apply: owner.Facts{Apply: of[name]}})
		}
	}
	return f, r.confirm(ctx, controlPlane, &f)
}

func labelsOf(controlPlane *controlplanev1.CAPTControlPlane) client.MatchingLabels {
	labels := client.MatchingLabels{naming.TurnsLabel: naming.FargateTurns}
	if cluster := controlPlane.Labels[clusterv1.ClusterNameLabel]; cluster != "" {
		labels[clusterv1.ClusterNameLabel] = cluster
	}
	return labels
}

// merged adds those of the cache that the API server did not name: somebody may have changed their labels.
func merged(live, cached []infrav1.WorkspaceTemplateApply) []infrav1.WorkspaceTemplateApply {
	for i := range cached {
		if !slices.ContainsFunc(live, func(a infrav1.WorkspaceTemplateApply) bool { return a.UID == cached[i].UID }) {
			live = append(live, cached[i])
		}
	}
	return live
}

// Strays adds the profiles of a control plane that is deleted which it does not control: the one that spec refers to and that was
// never written, since something was missing for that; and those whose owner reference is gone, since somebody has deleted the
// control plane and told the garbage collector to orphan what it owns. EKS keeps a cluster that has profiles, and nobody else
// would delete them.
func (r Readers) Strays(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, eksName string, f *Facts) error {
	if controlPlane.DeletionTimestamp.IsZero() {
		return nil
	}
	for i := range controlPlane.Spec.FargateProfiles {
		spec := &controlPlane.Spec.FargateProfiles[i]
		want, ref := expected(controlPlane.Labels[clusterv1.ClusterNameLabel], eksName, spec)
		known := slices.ContainsFunc(f.Leaving, func(p Profile) bool { return p.Apply.Apply.Name == ref.Name })
		if known || ref.Name == "" {
			continue
		}
		apply, err := owner.Observe(ctx, r.Cached, r.Uncached, controlPlane, ref, want)
		if err != nil {
			return fmt.Errorf("looking at Fargate profile %s: %w", spec.Name, err)
		}
		if found := apply.Apply; found != nil && (spec.WorkspaceTemplateApplyRef.IsDefined() || found.Labels[naming.TurnsLabel] == naming.FargateTurns || metav1.IsControlledBy(found, controlPlane)) {
			f.Leaving = append(f.Leaving, Profile{Name: spec.Name, Apply: apply})
		}
	}
	slices.SortFunc(f.Leaving, byName)
	return nil
}

func byName(a, b Profile) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Apply.Apply.Name, b.Apply.Apply.Name))
}

// confirm looks past the cache before a profile is deleted because spec does not have it. The caches of a manager that has just
// taken over may show what its predecessor made, and a spec of before somebody asked for it. That a control plane is being
// deleted is never taken back.
func (r Readers) confirm(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) error {
	unasked := func(p Profile) bool { return p.Apply.Apply.DeletionTimestamp.IsZero() }
	if !controlPlane.DeletionTimestamp.IsZero() || !slices.ContainsFunc(f.Leaving, unasked) {
		return nil
	}
	now, err := engine.Get(ctx, r.Uncached, client.ObjectKeyFromObject(controlPlane), &controlplanev1.CAPTControlPlane{})
	switch {
	case err != nil:
		return fmt.Errorf("reading the control plane: %w", err)
	case now == nil || now.UID != controlPlane.UID || now.Generation != controlPlane.Generation:
		return apierrors.NewConflict(controlplanev1.GroupVersion.WithResource("captcontrolplanes").GroupResource(), controlPlane.Name,
			errors.New("spec has changed since the cache saw it")) // The change is on its way, and wakes us again.
	}
	return nil
}

// wanted tells whether spec has the profile of a WorkspaceTemplateApply. One that does not say which profile it is for is left
// alone.
func wanted(controlPlane *controlplanev1.CAPTControlPlane, apply *infrav1.WorkspaceTemplateApply) bool {
	name := apply.Spec.Variables[naming.ProfileVariable]
	return name == "" || slices.ContainsFunc(controlPlane.Spec.FargateProfiles, func(p controlplanev1.FargateProfile) bool {
		return p.Name == name || p.WorkspaceTemplateApplyRef.IsDefined() && p.WorkspaceTemplateApplyRef.Name == apply.Name
	})
}

func profileName(apply *infrav1.WorkspaceTemplateApply) string {
	if name := apply.Spec.Variables[naming.ProfileVariable]; name != "" {
		return name
	}
	return apply.Name
}
