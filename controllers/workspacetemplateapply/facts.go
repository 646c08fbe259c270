// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspace/failure"
)

// Facts are everything a decision about a WorkspaceTemplateApply rests on.
type Facts struct {
	Now time.Time
	// Paused says why the object is paused; empty when it is not.
	Paused string
	// Frozen is true when the object is paused in the way that clusterctl does it: by its Cluster, or by itself when it has
	// none.
	Frozen bool
	// Block is what keeps clusterctl from moving the object, and until when: one of the values of its annotation.
	Block string
	// Unguarded is true when the policy is not there that keeps providers away from what is moved; looked up only then.
	Unguarded bool
	// Retained is true when the Workspace is to be left when the object is deleted.
	Retained bool
	// RetainConflict is why the object must not be deleted although it is Retained; looked up during deletion only.
	RetainConflict string
	// TemplateKey is the WorkspaceTemplate that spec refers to.
	TemplateKey types.NamespacedName
	// Template is nil when it does not exist or may not be used from here; nobody is told which of the two.
	Template *infrav1.WorkspaceTemplate
	// Name of the Workspace: what spec says, else what the naming scheme gives.
	Name string
	// TemplateLeaves is true when the template is being deleted, and the object has never had a Workspace.
	TemplateLeaves bool
	// Rendered is nil when the template is missing or RenderErrors says what is wrong with it.
	Rendered     *render.Rendered
	RenderErrors field.ErrorList
	// Unadopted is the Workspace that the older CAPT seems to have made for the object, which nobody has adopted yet; empty
	// when there is none.
	Unadopted string
	// Unreadable is what could not be looked at. Nothing is written then, and the look is taken again.
	Unreadable error
	// Missing lists what is waited for.
	Missing []infrav1.MissingDependency
	// KindMissing is true when provider-terraform's CRD is not installed. KindNotServed is true, too, when it was installed a
	// moment ago, or does not serve the version that CAPT knows. KindScope is the scope that is meant.
	KindMissing, KindNotServed bool
	KindScope                  terraform.Scope
	// Live is nil when the Workspace does not exist. Ownership says whose it is.
	Live      *workspace.Live
	Ownership workspace.Ownership
	// Forgotten is where the state of the Workspace was that the object had, when that is gone, status with it, and a new one
	// would have another.
	Forgotten string
	// StateUnknown is true when there is no Workspace, and nothing says which state one of this name would have to get.
	StateUnknown bool
	// Restored is true when the object came from a backup or a move, and was not recorded as the owner of its Workspace since.
	Restored bool
	// OwnerMissing describes an owner that does not exist, or cannot be read, while nothing is recorded for the object: the garbage
	// collector may be about to delete it.
	OwnerMissing string
	// Rival says in words which other WorkspaceTemplateApply has the older claim to the same Workspace.
	Rival string
	// Told is the error that the Workspace shows, in words.
	Told failure.Told
	// GoneForGood is true when the Workspace was there, is gone, and is not made again: an owner who wants to keep what exists
	// does not want another one in its place.
	GoneForGood bool
	// OtherScope is true when the Workspace is of another scope than those the template makes.
	OtherScope bool
	// ProviderConfig is the one that an update would give to the Workspace in place of another, which nothing allows; empty when
	// it would not.
	ProviderConfig string
	// Dependents are WorkspaceTemplateApplies whose Workspaces were made on top of this one; looked up during deletion only.
	Dependents []string
	// Watched is for how long the Workspace has been seen without a sign of the provider.
	Watched time.Duration
	// AwaitsTurn says in words what the object waits for whose turn has not come; empty when it waits for no turn.
	AwaitsTurn string
	// Rejected is why the API server refused the rendered Workspace, in words; empty when it did not.
	Rejected string
	// RejectedFor is how long it is not sent again unless something changes.
	RejectedFor time.Duration
	// NotWritten is why the Workspace could not be written this time.
	NotWritten error
	// WrittenGeneration and LastUpdate are what status says.
	WrittenGeneration int64
	LastUpdate        *infrav1.WorkspaceUpdate
	// Generation of the WorkspaceTemplateApply.
	Generation int64
}

// Differs tells whether the Workspace is not yet what was rendered.
func (f *Facts) Differs() bool {
	return f.Live != nil && f.Rendered != nil && f.Live.Differs(f.Rendered)
}

// outdated reports whether the Workspace is ours and has to be updated.
func (f *Facts) outdated() bool { return f.owned() && !f.Live.Deleting() && f.Differs() }

// disowned reports whether the managedFields of the Workspace no longer say that CAPT applied it.
func (f *Facts) disowned(apply *infrav1.WorkspaceTemplateApply) bool {
	return f.owned() && !f.Live.Deleting() && f.Live.Disowned(apply)
}

// owned reports whether the Workspace is there and ours, and may be recorded.
func (f *Facts) owned() bool {
	return f.Live != nil && f.Ownership == workspace.Owned && f.OwnerMissing == ""
}

// otherProviderConfig is the one that an update would give to the Workspace in place of the one it has, unless it is the one that is
// allowed; empty when it would not.
func (f *Facts) otherProviderConfig(allowed string) string {
	if !f.owned() || f.OtherScope || !f.Differs() {
		return ""
	}
	if want := f.Rendered.ProviderConfig(); want != f.Live.ProviderConfig() && want != allowed {
		return want
	}
	return ""
}

// written tells whether the Workspace is as spec says. Without a template, that it once was counts, unless spec has changed since.
func (f *Facts) written() bool {
	if f.Rendered == nil {
		return f.owned() && f.WrittenGeneration == f.Generation
	}
	return f.owned() && !f.Differs()
}

// Observation of the Workspace; the zero value when there is none of ours.
func (f *Facts) Observation() workspace.Observation {
	if !f.owned() {
		return workspace.Observation{}
	}
	published := terraform.PublishedOutputs()
	if f.Template != nil {
		published = append(published, f.Template.Spec.PublishOutputs...)
	}
	return workspace.Observe(f.Live, workspace.Circumstances{
		Watched: f.Watched, Differs: !f.written(), LastUpdate: f.LastUpdate, Published: published, Told: f.Told,
	})
}
