// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/uuid"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/planlog"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/controllers/workspace/planlogs"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
	"github.com/capt-provider/capt/test/builder"
)

var previewName = naming.PreviewWorkspace(terraform.ScopeNamespaced, builder.WorkspaceTemplateApply("demo-vpc"))

// previewing is an object at rest with module "# 1", whose template has module "# 2".
type previewing struct {
	*environment
	target string
}

func newPreviewing(t *testing.T, changes ...builder.Option) *previewing {
	t.Helper()
	template := stagedTemplate("# 2")
	template.Spec.Rollout.Preview = infrav1.RolloutPreviewAlways
	old, revision := stored(t, stagedTemplate("# 1"))
	env := newEnvironment(t, template, revision, builder.WorkspaceTemplateApply("demo-vpc", append(changes, builder.WithConnectionSecret("out", ""), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.TemplateRevision = old
	}))...))
	env.look()
	env.provide("demo-vpc", builder.AtRest)
	env.look()
	return &previewing{env, rollout.HashOf(template)}
}

// look reconciles.
func (env *environment) look() ctrl.Result {
	env.Helper()
	result, err := env.reconcile("demo-vpc")
	require.NoError(env, err)
	return result
}

func (p *previewing) preview() *unstructured.Unstructured { return p.workspace(previewName) }

// shows makes the provider report on the preview.
func (p *previewing) shows(row builder.Row, checksum string, options ...builder.Option) {
	p.Helper()
	object, shown := p.preview(), builder.Workspace(previewName, row, options...)
	require.NotNil(p, object)
	if object.GetUID() == "" {
		object.SetUID(uuid.NewUUID())
	}
	object.Object["status"] = shown.Object["status"]
	if checksum != "" {
		require.NoError(p, unstructured.SetNestedField(object.Object, checksum, "status", "atProvider", "checksum"))
	}
	p.update(object)
}

func (p *previewing) result() infrav1.PreviewResult {
	if preview := p.get("demo-vpc").Status.Preview; preview.TemplateRevision == p.target {
		return preview.Result
	}
	return ""
}

func TestARevisionIsPreviewedBeforeItIsAssigned(t *testing.T) {
	p := newPreviewing(t)
	p.look()
	preview := p.preview()
	require.NotNil(t, preview)
	spec := preview.Object["spec"].(map[string]any)
	assert.Equal(t, []any{"Observe"}, spec["managementPolicies"])
	assert.NotContains(t, spec, "writeConnectionSecretToRef")
	assert.Equal(t, p.workspace("demo-vpc").GetAnnotations()[render.ExternalNameAnnotation], preview.GetAnnotations()[render.ExternalNameAnnotation])
	assert.Equal(t, "# 1", p.module(), "the Workspace is not changed")

	p.shows(builder.ResourcesExist, "") // The first look.
	assert.Contains(t, p.mustWrite(), "patch")
	require.NotEmpty(t, p.preview().GetAnnotations()[naming.PreviewLookAnnotation])
	assert.Equal(t, 30*time.Second, p.look().RequeueAfter)
	assert.Empty(t, p.Writes)
	p.shows(builder.AtRest, "abc")
	assert.Equal(t, []string{"status"}, p.mustWrite(), "the result is recorded first")
	assert.Equal(t, infrav1.PreviewEmpty, p.result())
	assert.Equal(t, []string{"delete Workspace"}, p.mustWrite())
	require.Nil(t, p.preview())
	assert.Empty(t, p.mustWrite(), "at rest nothing is written")

	p.edit("demo-vpc", assign(p.target))
	p.look()
	assert.Equal(t, "# 2", p.module())
	assert.Equal(t, infrav1.PreviewEmpty, p.result(), "the rollout still needs it")
	p.template(builder.WithModule("# 3"))
	p.look()
	assert.Empty(t, p.get("demo-vpc").Status.Preview, "it is about another revision")
}

// mustWrite returns the writes of a reconcile.
func (p *previewing) mustWrite() []string {
	p.Helper()
	p.look()
	return p.Writes
}

func TestAPreviewWithChanges(t *testing.T) {
	p := newPreviewing(t)
	p.look()
	p.shows(builder.ResourcesExist, "abc")
	p.look()
	assert.Equal(t, 10*time.Second, p.look().RequeueAfter.Round(time.Second))
	p.reconciler.Clock = clocktesting.NewFakePassiveClock(now.Add(11 * time.Second))
	p.look()
	assert.Equal(t, infrav1.PreviewChanges, p.result())
	assert.Equal(t, "# 1", p.module())
}

// planLog is the log of the provider.
type planLog struct {
	changes *planlog.Changes
	err     error
	reads   []string
}

func (l *planLog) Plan(_ context.Context, workspace string, since time.Time) (*planlog.Changes, error) {
	l.reads = append(l.reads, workspace+" "+since.UTC().Format(time.TimeOnly))
	return l.changes, l.err
}

// newLogged is newPreviewing with a manager that reads the log.
func newLogged(t *testing.T) (*previewing, *planLog) {
	t.Helper()
	p, log := newPreviewing(t), &planLog{}
	p.remove(p.preview())
	p.reconciler.slots, p.reconciler.Plans = previews.Slots{}, log
	p.look()
	p.look()
	return p, log
}

// at sets the time to some seconds after the start.
func (p *previewing) at(seconds int) {
	p.reconciler.Clock = clocktesting.NewFakePassiveClock(now.Add(time.Duration(seconds) * time.Second))
}

// showsChanges makes the second look of the provider find changes, at 11 seconds.
func (p *previewing) showsChanges() {
	p.Helper()
	p.shows(builder.ResourcesExist, "abc")
	p.look()
	p.at(11)
}

func (p *previewing) planArgs() []string {
	p.Helper()
	preview := p.preview()
	require.NotNil(p, preview)
	args, _, err := unstructured.NestedStringSlice(preview.Object, "spec", "forProvider", "planArgs")
	require.NoError(p, err)
	logs, _, err := unstructured.NestedBool(preview.Object, "spec", "forProvider", "enableTerraformCLILogging")
	require.NoError(p, err)
	assert.Equal(p, slices.Contains(args, "-json"), logs, "a text has values")
	return args
}

func TestAPreviewRecordsWhatTerraformWouldChange(t *testing.T) {
	p, log := newLogged(t)
	require.Equal(t, []string{"-json"}, p.planArgs())
	log.err = planlog.Unknown(planlog.NoEntry, "no entry")
	p.showsChanges()
	assert.Equal(t, 5*time.Second, p.look().RequeueAfter.Round(time.Second), "it may not be flushed yet")
	assert.Empty(t, p.Writes)
	log.err, log.changes = nil, &planlog.Changes{Counts: planlog.Counts{Replace: 1}, Total: 1, Destroys: []string{"aws_vpc"}}
	assert.Equal(t, []string{"status"}, p.mustWrite(), "once, with the result")
	preview := p.get("demo-vpc").Status.Preview
	assert.Equal(t, infrav1.PreviewChanges, preview.Result)
	assert.Equal(t, &infrav1.PlannedChanges{Counts: []infrav1.PlannedCount{{Action: infrav1.PlanReplace, Count: 1}}, Destroys: []string{"aws_vpc"}}, preview.Changes)
	assert.Equal(t, []string{"delete Workspace"}, p.mustWrite())
	assert.Empty(t, p.mustWrite(), "at rest nothing is written")
	assert.Len(t, log.reads, 2, "and nothing is read")
	assert.Equal(t, previewName, strings.Fields(log.reads[0])[0])
}

func TestReadsOfPlansAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := metrics.NewPlans(registry)
	for _, log := range []planLog{{err: planlog.Unknown(planlogs.NoAccess, "no access")}, {changes: &planlog.Changes{Time: now, Total: 1, Counts: planlog.Counts{Update: 1}}}} {
		p, read := newLogged(t)
		*read, p.reconciler.PlanMetrics = log, m
		p.showsChanges()
		p.look()
	}
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP capt_plan_reads_total Previews whose plan was read from the log of provider-terraform (Read), or is not known, by reason.
# TYPE capt_plan_reads_total counter
capt_plan_reads_total{result="NoAccess"} 1
capt_plan_reads_total{result="Read"} 1
`), "capt_plan_reads_total"))
}

func TestChangesThatAreNotKnown(t *testing.T) {
	for want, row := range map[string]struct {
		err     *planlog.UnknownError
		seconds int
	}{
		"no entry":  {planlog.Unknown(planlog.NoEntry, "no entry"), 41},
		"no access": {planlog.Unknown(planlogs.NoAccess, "no access"), 11},
	} {
		p, log := newLogged(t)
		log.err = row.err
		p.showsChanges()
		p.at(row.seconds)
		assert.Equal(t, []string{"status"}, p.mustWrite())
		assert.Equal(t, want, p.get("demo-vpc").Status.Preview.Changes.Unknown)
	}
	p, log := newLogged(t)
	log.err = context.Canceled
	p.showsChanges()
	_, err := p.reconcile("demo-vpc")
	require.ErrorIs(t, err, context.Canceled)
}

// noText is the error of a plan with -json.
const noText = `observe failed: cannot diff (i.e. plan) Terraform configuration: Terraform encountered an error. Summary: . To see the full error run: echo "H4sIAGYQDGsC/wMAAAAAAAAAAAA=" | base64 -d | gunzip`

func TestAPlanThatFailsWithoutATextIsPlannedOnceMore(t *testing.T) {
	p, log := newLogged(t)
	p.shows(builder.PlanFailed, "", builder.WithError(noText))
	assert.Equal(t, []string{"delete Workspace"}, p.mustWrite())
	p.look()
	require.Empty(t, p.planArgs())
	p.shows(builder.PlanFailed, "", builder.WithError("observe failed: cannot diff (i.e. plan) Terraform configuration: Terraform encountered an error. Summary: Unsupported argument."))
	p.look()
	assert.Equal(t, infrav1.PreviewFailed, p.result())
	assert.Contains(t, p.get("demo-vpc").Status.Preview.Message, "Unsupported argument")
	assert.Empty(t, log.reads)
}

// The cause of the error was transient. The third form is the last one, and after a restart, the one that exists is.
func TestTheFormsOfAPreviewDoNotAlternate(t *testing.T) {
	p, _ := newLogged(t)
	fail := func() {
		p.shows(builder.PlanFailed, "", builder.WithError(noText))
		p.look()
		p.look()
		require.Empty(t, p.planArgs())
	}
	fail()
	p.showsChanges()
	p.look()
	p.look()
	require.Equal(t, []string{"-json"}, p.planArgs())
	fail()
	p.showsChanges()
	p.at(60)
	p.look()
	assert.Equal(t, infrav1.PreviewChanges, p.result())
	assert.Contains(t, p.get("demo-vpc").Status.Preview.Changes.Unknown, "planned without -json")

	p, _ = newLogged(t)
	fail()
	p.reconciler.slots = previews.Slots{} // A restart.
	p.showsChanges()
	p.look()
	assert.Equal(t, infrav1.PreviewChanges, p.result())
}

// A provider without the option must not make previews unavailable.
func TestAPreviewWithoutALog(t *testing.T) {
	p := newPreviewing(t)
	p.remove(p.preview())
	p.reconciler.slots, p.reconciler.Plans = previews.Slots{}, &planLog{}
	p.reconciler.Workspaces.Client = interceptor.NewClient(p.reconciler.Workspaces.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, object client.Object, options ...client.CreateOption) error {
			unstructured.RemoveNestedField(object.(*unstructured.Unstructured).Object, "spec", "forProvider", "enableTerraformCLILogging")
			return w.Create(ctx, object, options...)
		},
	})
	p.look()
	p.look()
	require.Empty(t, p.planArgs())
	p.showsChanges()
	p.look()
	assert.Equal(t, infrav1.PreviewChanges, p.result())
	assert.Contains(t, p.get("demo-vpc").Status.Preview.Changes.Unknown, "enableTerraformCLILogging")
}

func TestAPlanThatFailsIsRepeatedLater(t *testing.T) {
	p := newPreviewing(t)
	p.look()
	p.shows(builder.PlanFailed, "", builder.WithError("observe failed: cannot diff (i.e. plan) Terraform configuration: Terraform encountered an error. Summary: Unsupported argument."))
	p.look()
	assert.Equal(t, infrav1.PreviewFailed, p.result())
	assert.Contains(t, p.get("demo-vpc").Status.Preview.Message, "Unsupported argument")
	assert.Equal(t, previews.RejectedInterval, p.look().RequeueAfter.Round(time.Minute))
	require.Nil(t, p.preview())

	p.reconciler.Clock = clocktesting.NewFakePassiveClock(now.Add(previews.RejectedInterval))
	p.look()
	require.NotNil(t, p.preview())
	assert.Equal(t, infrav1.PreviewFailed, p.result(), "until there is another result")
	p.shows(builder.AtRest, "abc")
	p.look()
	assert.Equal(t, infrav1.PreviewEmpty, p.result())
}

func TestAPreviewIsDeletedWhenItIsNotWanted(t *testing.T) {
	for name, change := range map[string]func(p *previewing){
		"the object is paused": func(p *previewing) {
			p.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) {
				metav1.SetMetaDataAnnotation(&a.ObjectMeta, clusterv1.PausedAnnotation, "")
			})
		},
		"the object is deleted":   func(p *previewing) { p.remove(p.get("demo-vpc")) },
		"the template is deleted": func(p *previewing) { p.remove(builder.WorkspaceTemplate("vpc")) },
		"the policy is removed": func(p *previewing) {
			p.template(builder.With(func(template *infrav1.WorkspaceTemplate) { template.Spec.Rollout = infrav1.WorkspaceTemplateRollout{} }))
		},
		"the rollout is paused": func(p *previewing) {
			p.template(builder.With(func(template *infrav1.WorkspaceTemplate) { template.Spec.Rollout.State = infrav1.RolloutPaused }))
		},
		"the edit is reverted":         func(p *previewing) { p.template(builder.WithModule("# 1")) },
		"Terraform changes something":  func(p *previewing) { p.provide("demo-vpc", builder.Updating) },
		"another content is previewed": func(p *previewing) { p.template(builder.WithModule("# 3")) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPreviewing(t)
			p.look()
			require.NotNil(t, p.preview())
			change(p)
			_, err := p.reconcile("demo-vpc")
			require.NoError(t, err)
			assert.Nil(t, p.preview())
		})
	}
}

func TestAPreviewThatIsNotPossible(t *testing.T) {
	for want, change := range map[string]func(p *previewing){
		"Unavailable previews require provider-terraform v1 or later": func(p *previewing) { p.provide("demo-vpc", builder.AtRest, builder.OfV0()) },
		"Failed Workspace demo-vpc has scope Namespaced, and the revision has scope Cluster": func(p *previewing) {
			p.template(builder.With(func(template *infrav1.WorkspaceTemplate) { template.Spec.WorkspaceScope = "Cluster" }))
		},
		"Failed WorkspaceTemplate default/vpc: ": func(p *previewing) {
			p.template(builder.With(func(template *infrav1.WorkspaceTemplate) {
				template.Spec.Template.Spec.ForProvider.Env = []terraform.EnvVar{{Name: "TF_WORKSPACE", Value: "another"}}
			}))
		},
		"Changes Terraform fails with the current content of the Workspace": func(p *previewing) {
			p.provide("demo-vpc", builder.PlanFailed)
		},
	} {
		t.Run(want, func(t *testing.T) {
			p := newPreviewing(t)
			change(p)
			for range 3 {
				p.look()
			}
			recorded := p.get("demo-vpc").Status.Preview
			assert.Contains(t, string(recorded.Result)+" "+recorded.Message, want)
			assert.Nil(t, p.preview())
			assert.Empty(t, p.mustWrite(), "at rest nothing is written")
		})
	}
}

func TestAWorkspaceWithTheNameOfAPreviewIsKept(t *testing.T) {
	p := newPreviewing(t)
	p.remove(p.preview())
	p.create(builder.Workspace(previewName, builder.AtRest, builder.WithResourceVersion("")))
	p.look()
	p.look()
	assert.Equal(t, infrav1.PreviewUnavailable, p.result())
	require.NotNil(t, p.preview())
	p.remove(p.get("demo-vpc"))
	p.look()
	require.NotNil(t, p.preview(), "it is not a preview")
}

// Users of other namespaces could compute the names of earlier versions, so that the result of such a preview is not used.
func TestAPreviewWithTheNameOfAnEarlierVersionIsDeleted(t *testing.T) {
	for name, wanted := range map[string]bool{"it is wanted": true, "it is not wanted": false} {
		t.Run(name, func(t *testing.T) {
			p := newPreviewing(t)
			p.look()
			p.showsChanges()
			former := p.preview()
			p.remove(p.preview())
			former.SetName("demo-vpc-preview-6x5mz7qzwd")
			former.SetResourceVersion("")
			p.create(former)
			require.Equal(t, []ctrl.Request{request("demo-vpc")}, p.reconciler.ofWorkspace(t.Context(), former))
			if !wanted {
				p.template(builder.WithModule("# 1"))
			}
			p.look()
			assert.Contains(t, p.Writes, "delete Workspace")
			assert.Nil(t, p.workspace(former.GetName()))
			assert.Empty(t, p.result())
			p.look()
			assert.Equal(t, wanted, p.preview() != nil)
		})
	}
	// A preview of an object with the same name that was deleted without its finalizers has the name of another UID.
	p := newPreviewing(t)
	p.look()
	stray := p.preview()
	stray.SetName("demo-vpc-preview-another")
	stray.SetResourceVersion("")
	p.create(stray)
	p.reconciler.ofWorkspace(t.Context(), stray)
	p.reconciler.ofWorkspace(t.Context(), p.preview())
	p.look()
	require.NotNil(t, p.preview())
	require.Nil(t, p.workspace(stray.GetName()))
}

// The event of a preview reconciles its object, and no other one.
func TestThePreviewWakesItsObject(t *testing.T) {
	p := newPreviewing(t)
	p.look()
	assert.Equal(t, []ctrl.Request{request("demo-vpc")}, p.reconciler.ofWorkspace(t.Context(), p.preview()))
}

// The provider could apply the content of such a preview, and its deletion would destroy the resources.
func TestAPreviewThatMayDoMoreThanObserveIsRevertedAndThenDeleted(t *testing.T) {
	for name, change := range map[string]func(p *previewing){
		"it is wanted":        func(*previewing) {},
		"it is not wanted":    func(p *previewing) { p.template(builder.WithModule("# 1")) },
		"it is being deleted": func(p *previewing) { p.remove(p.preview()) },
		"it is being deleted, and not wanted": func(p *previewing) {
			p.remove(p.preview())
			p.template(builder.WithModule("# 1"))
		},
		"its object is deleted": func(p *previewing) { p.remove(p.get("demo-vpc")) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPreviewing(t)
			p.look()
			preview := p.preview()
			builder.WithFinalizers("finalizer.managedresource.crossplane.io")(preview)
			preview.SetGeneration(2)
			require.NoError(t, unstructured.SetNestedStringSlice(preview.Object, []string{"*"}, "spec", "managementPolicies"))
			p.update(preview)
			change(p)
			deleting := p.preview().GetDeletionTimestamp() != nil
			p.look()
			preview = p.preview()
			require.NotNil(t, preview)
			assert.True(t, render.OnlyObserves(preview))
			assert.NotNil(t, preview.GetDeletionTimestamp())
			reverted, deleted := slices.Index(p.Writes, "patch"), slices.Index(p.Writes, "delete Workspace")
			assert.GreaterOrEqual(t, reverted, 0)
			if deleting {
				assert.Negative(t, deleted)
			} else {
				assert.Less(t, reverted, deleted, "%v", p.Writes)
			}
			if name == "it is wanted" {
				assert.Equal(t, infrav1.PreviewUnavailable, p.result())
				assert.Contains(t, p.get("demo-vpc").Status.Preview.Message, "was changed by another client")
			}
		})
	}
}

// A cluster-wide preview has no owner. A manager that no longer leads may have created it.
func TestAPreviewOfAnObjectThatNoLongerExistsIsDeleted(t *testing.T) {
	env := newEnvironment(t)
	orphan := builder.Workspace("gone-preview-abc", builder.ResourcesExist, builder.InClusterScope(), builder.WithResourceVersion(""),
		builder.WithLabel(naming.PreviewLabel, "true"), builder.WithAnnotation(naming.PreviewOfAnnotation, builder.Namespace+"/gone"))
	env.create(orphan)
	requests := env.reconciler.ofWorkspace(t.Context(), orphan)
	require.Equal(t, []ctrl.Request{request("gone")}, requests)
	assert.Equal(t, []string{"patch", "delete Workspace"}, env.mustReconcile("gone"))

	env.reconciler.Namespace = "other"
	assert.Empty(t, env.reconciler.ofWorkspace(t.Context(), orphan), "the cache of this manager has no objects of that namespace")
}

// A user that moves to another template, or that is edited while its revision is not stored, keeps its Workspace until the rollout assigns a revision:
// the rollout must not wait for a preview that never runs.
func TestAnObjectWithoutItsRevisionIsPreviewed(t *testing.T) {
	for name, change := range map[string]func(p *previewing){
		"another template": func(p *previewing) {
			other := builder.WorkspaceTemplate("other", builder.WithModule("# other"), builder.With(func(template *infrav1.WorkspaceTemplate) {
				template.Spec.Rollout = infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Preview: infrav1.RolloutPreviewAlways}
			}))
			p.create(other)
			p.target = rollout.HashOf(other)
			p.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name, a.Generation = "other", 2 })
		},
		"other variables": func(p *previewing) {
			_, revision := stored(t, stagedTemplate("# 1"))
			p.remove(revision)
			p.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) {
				a.Spec.Variables, a.Generation = infrav1.TextVariables(map[string]string{"a": "b"}), 2
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPreviewing(t)
			change(p)
			p.look() // A preview of the former content is deleted.
			p.look()
			require.NotNil(t, p.preview())
			assert.Contains(t, p.ready("demo-vpc"), "False RevisionMissing")
			p.shows(builder.AtRest, "abc")
			p.look()
			assert.Equal(t, infrav1.PreviewEmpty, p.result())
			assert.Equal(t, "# 1", p.module())
		})
	}
}

// An adopted Workspace has what the template renders. Neither a rollout nor a policy may hold the adoption: nothing changes.
func TestAnAdoptedObjectHasTheRevisionOfItsContent(t *testing.T) {
	for name, module := range map[string]string{"as rendered": "# 2", "another content": "# 1"} {
		t.Run(name, func(t *testing.T) {
			p := newPreviewing(t)
			p.remove(p.preview())
			live := p.workspace("demo-vpc")
			require.NoError(t, unstructured.SetNestedField(live.Object, module, "spec", "forProvider", "module"))
			p.update(live)
			p.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRevision, a.Generation = "", 2 })
			adopted := p.get("demo-vpc")
			adopted.Status = infrav1.WorkspaceTemplateApplyStatus{WorkspaceName: "demo-vpc", WorkspaceRef: adopted.Status.WorkspaceRef}
			require.NoError(t, p.Status().Update(t.Context(), adopted))
			p.look()
			assert.Equal(t, module, p.module(), "it is not written")
			status := p.get("demo-vpc").Status
			if module == "# 1" {
				assert.Contains(t, p.ready("demo-vpc"), "False WaitingForRollout")
				assert.Empty(t, status.WrittenTemplateRevision)
				assert.NotNil(t, p.preview(), "the rollout decides")
				return
			}
			assert.Equal(t, "True UpToDate: ", p.ready("demo-vpc"))
			assert.Equal(t, p.target, status.WrittenTemplateRevision, "the rollout assigns it without an update")
			assert.Nil(t, p.preview())
		})
	}
}
