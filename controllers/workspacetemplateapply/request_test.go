// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/plans"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform/planlog"
	"github.com/capt-provider/capt/test/builder"
)

var atNow = builder.WithCreation(now)

// newPlanned is an object at rest with module "# 1", without a staged rollout, and a manager that reads the log.
func newPlanned(t *testing.T) (*previewing, *planLog) {
	t.Helper()
	env, log := newEnvironment(t, builder.WorkspaceTemplate("vpc", builder.WithModule("# 1")), builder.WorkspaceTemplateApply("demo-vpc", builder.WithConnectionSecret("out", ""))), &planLog{}
	env.reconciler.Plans = log
	env.rest("demo-vpc")
	require.Empty(t, env.mustReconcile("demo-vpc"))
	return &previewing{environment: env}, log
}

// planFor is the plan for a request.
func (p *previewing) planFor(name string) *infrav1.RevisionPreview {
	p.Helper()
	return plans.Of(p.get("demo-vpc"), builder.UID("PlanRequest", name))
}

func (p *previewing) previewedModule() string {
	p.Helper()
	preview := p.preview()
	if preview == nil {
		return ""
	}
	module, _, err := unstructured.NestedString(preview.Object, "spec", "forProvider", "module")
	require.NoError(p, err)
	return module
}

func TestTheCurrentContentIsPlannedOnRequest(t *testing.T) {
	p, log := newPlanned(t)
	before := p.get("demo-vpc").Status
	p.create(builder.PlanRequest("drift", []string{"demo-vpc"}, atNow))
	p.look()
	assert.Equal(t, "# 1", p.previewedModule())
	assert.Equal(t, []string{"-json"}, p.planArgs())
	assert.NotContains(t, p.preview().Object["spec"], "writeConnectionSecretToRef")

	log.changes = &planlog.Changes{DriftTotal: 1}
	p.showsChanges()
	assert.Equal(t, []string{"status"}, p.mustWrite(), "once, with the result")
	plan := p.planFor("drift")
	require.NotNil(t, plan)
	assert.Equal(t, infrav1.PreviewChanges, plan.Result)
	assert.Equal(t, &infrav1.PlannedChanges{Drifted: 1}, plan.Changes)
	assert.Equal(t, []string{"delete Workspace"}, p.mustWrite())
	assert.Empty(t, p.mustWrite(), "at rest nothing is written")

	after := p.get("demo-vpc").Status
	after.Plans = nil
	assert.Equal(t, before, after, "nothing else depends on it")
}

func TestAContentIsPlannedForTheUsersOfItsTemplateOnly(t *testing.T) {
	p, _ := newPlanned(t)
	edited := builder.WorkspaceTemplate("vpc", builder.WithModule("# 2"))
	for name, request := range map[string]*infrav1.PlanRequest{
		"another namespace": builder.PlanRequestFor("a", edited, atNow, builder.WithNamespace("other")),
		"another template":  builder.PlanRequestFor("b", builder.WorkspaceTemplate("eks"), atNow),
		"another object":    builder.PlanRequest("c", []string{"other"}, atNow),
		"a name elsewhere":  builder.PlanRequest("d", []string{"demo-vpc"}, atNow, builder.WithNamespace("other")),
	} {
		p.create(request)
		assert.Empty(t, p.mustWrite(), name)
	}
	p.create(builder.PlanRequestFor("e", edited, atNow))
	p.look()
	assert.Equal(t, "# 2", p.previewedModule())
	p.shows(builder.AtRest, "abc")
	p.look()
	assert.Equal(t, infrav1.PreviewEmpty, p.planFor("e").Result)
	assert.NotEqual(t, rollout.HashOf(builder.WorkspaceTemplate("vpc", builder.WithModule("# 1"))), p.planFor("e").TemplateRevision)
	assert.Equal(t, "# 1", p.module())
}

func TestARolloutIsPreviewedBeforeARequest(t *testing.T) {
	p := newPreviewing(t)
	p.create(builder.PlanRequest("drift", []string{"demo-vpc"}, atNow))
	p.look()
	require.Equal(t, "# 2", p.previewedModule())
	p.shows(builder.AtRest, "abc")
	p.look()
	require.Equal(t, infrav1.PreviewEmpty, p.result())
	p.look() // The preview of the other content is deleted.
	p.look()
	require.Equal(t, "# 1", p.previewedModule())
	assert.Equal(t, infrav1.PreviewEmpty, p.result(), "the rollout keeps its result")

	p.template(builder.WithModule("# 3"))
	p.look()
	p.look()
	assert.Equal(t, "# 3", p.previewedModule(), "a new revision comes first")
	p.shows(builder.AtRest, "abc")
	p.look()
	p.look()
	p.look()
	assert.Equal(t, "# 1", p.previewedModule())
	p.shows(builder.AtRest, "abc")
	p.look()
	assert.Equal(t, infrav1.PreviewEmpty, p.planFor("drift").Result)
	p.look()
	assert.Empty(t, p.mustWrite(), "at rest nothing is written")
	assert.Nil(t, p.preview())
}

// A rollout that is paused must not keep a user from looking for drift.
func TestAPausedRolloutDoesNotDelayARequest(t *testing.T) {
	p := newPreviewing(t)
	p.template(builder.With(func(template *infrav1.WorkspaceTemplate) { template.Spec.Rollout.State = infrav1.RolloutPaused }))
	p.create(builder.PlanRequest("drift", []string{"demo-vpc"}, atNow))
	p.look()
	p.look()
	assert.Equal(t, "# 1", p.previewedModule())
}

func TestAPreviewDoesNotOutliveItsRequest(t *testing.T) {
	for name, end := range map[string]func(p *previewing, request *infrav1.PlanRequest){
		"the request is deleted": func(p *previewing, request *infrav1.PlanRequest) { p.remove(request) },
		"the request is complete": func(p *previewing, request *infrav1.PlanRequest) {
			request.Status.CompletionTime = ptr.To(metav1.NewTime(now))
			p.update(request)
		},
		"the object is paused": func(p *previewing, _ *infrav1.PlanRequest) {
			p.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
				metav1.SetMetaDataAnnotation(&apply.ObjectMeta, clusterv1.PausedAnnotation, "")
			})
		},
		"the object is deleted": func(p *previewing, _ *infrav1.PlanRequest) { p.remove(p.get("demo-vpc")) },
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newPlanned(t)
			request := builder.PlanRequest("drift", []string{"demo-vpc"}, atNow)
			p.create(request)
			p.look()
			require.NotNil(t, p.preview())
			end(p, request)
			p.look()
			p.look()
			assert.Nil(t, p.preview())
			running, waiting := p.reconciler.CountPreviews()
			assert.Zero(t, running+waiting)
		})
	}
}

func TestARequestThatCannotBePlanned(t *testing.T) {
	edited := builder.WorkspaceTemplate("vpc", builder.WithModule("# 2"))
	for name, row := range map[string]struct {
		change  func(p *previewing)
		request *infrav1.PlanRequest
		result  infrav1.PreviewResult
		message string
	}{
		"paused": {func(p *previewing) {
			p.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
				metav1.SetMetaDataAnnotation(&apply.ObjectMeta, clusterv1.PausedAnnotation, "")
			})
		}, nil, infrav1.PreviewUnavailable, "paused: "},
		"no Workspace": {func(p *previewing) { p.destroyed("demo-vpc"); p.remove(p.workspace("demo-vpc")) }, nil, infrav1.PreviewUnavailable, "does not exist"},
		"Terraform fails": {
			func(p *previewing) {
				p.provide("demo-vpc", builder.PlanFailed, builder.WithError("observe failed: cannot diff (i.e. plan) Terraform configuration: Terraform encountered an error. Summary: Unsupported argument."))
			}, nil, infrav1.PreviewChanges, "Terraform fails with the current content",
		},
		"a content that cannot be rendered": {func(*previewing) {}, builder.PlanRequestFor("drift", builder.WorkspaceTemplate("vpc", builder.With(func(template *infrav1.WorkspaceTemplate) {
			template.Spec.Substitution, template.Spec.Template.Spec.ForProvider.Entrypoint = infrav1.SubstitutionFields, "${absent}"
		})), atNow),
			infrav1.PreviewFailed, "absent"},
		"another ProviderConfig": {func(*previewing) {}, builder.PlanRequestFor("drift", builder.WorkspaceTemplate("vpc", inAccount("other", "ProviderConfig")), atNow),
			infrav1.PreviewFailed, "uses ProviderConfig"},
		"a template that is gone": {func(p *previewing) { p.remove(builder.WorkspaceTemplate("vpc")) }, builder.PlanRequestFor("drift", edited, atNow),
			infrav1.PreviewUnavailable, "does not exist, or does not allow"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newPlanned(t)
			row.change(p)
			if row.request == nil {
				row.request = builder.PlanRequest("drift", []string{"demo-vpc"}, atNow)
			}
			p.create(row.request)
			p.look()
			plan := p.planFor("drift")
			require.NotNil(t, plan)
			assert.Equal(t, row.result, plan.Result)
			assert.Contains(t, plan.Message, row.message)
			assert.Nil(t, p.preview())
		})
	}
}

// The API server rejects a longer message, and with it the whole status of the object.
func TestTheMessageOfAPlanIsLimited(t *testing.T) {
	p, _ := newPlanned(t)
	var arguments []string
	for i := range 2000 {
		arguments = append(arguments, fmt.Sprintf("-var=a=${absent%d}", i))
	}
	p.create(builder.PlanRequestFor("drift", builder.WorkspaceTemplate("vpc", builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.Substitution, template.Spec.Template.Spec.ForProvider.PlanArgs = infrav1.SubstitutionFields, arguments
	})), atNow))
	p.look()
	plan := p.planFor("drift")
	require.NotNil(t, plan)
	assert.Equal(t, infrav1.PreviewFailed, plan.Result)
	assert.Contains(t, plan.Message, "absent0")
	assert.LessOrEqual(t, len(plan.Message), 4096)
}

func TestARequestWaitsTenMinutesForAnObjectThatIsNotAtRest(t *testing.T) {
	p, _ := newPlanned(t)
	p.provide("demo-vpc", builder.Updating)
	p.create(builder.PlanRequest("drift", []string{"demo-vpc"}, atNow))
	assert.Equal(t, 2*time.Minute, p.look().RequeueAfter.Round(time.Minute), "until the change that the provider has not reported on is reported")
	p.at(300)
	assert.Equal(t, restTimeout-5*time.Minute, p.look().RequeueAfter.Round(time.Minute))
	assert.Nil(t, p.preview())
	assert.Nil(t, p.planFor("drift"))
	p.at(601)
	p.look()
	assert.Equal(t, infrav1.PreviewUnavailable, p.planFor("drift").Result)
	assert.Empty(t, p.mustWrite())

	p.create(builder.PlanRequest("later", []string{"demo-vpc"}, builder.WithCreation(now.Add(601*time.Second))))
	p.look()
	p.provide("demo-vpc", builder.AtRest)
	p.look()
	assert.Equal(t, "# 1", p.previewedModule())
}

// A template that cannot be read gives no result.
func TestARequestWaitsForATemplateThatCannotBeRead(t *testing.T) {
	p, _ := newPlanned(t)
	readable := p.reconciler.Client
	p.reconciler.Client = builder.FailingGet[*infrav1.WorkspaceTemplate](p.API, assert.AnError)
	p.create(builder.PlanRequestFor("edited", builder.WorkspaceTemplate("vpc", builder.WithModule("# 2")), atNow))
	_, err := p.reconcile("demo-vpc")
	require.ErrorIs(t, err, assert.AnError)
	assert.Nil(t, p.planFor("edited"))
	assert.Nil(t, p.preview())
	p.reconciler.Client = readable
	p.look()
	p.look()
	assert.Equal(t, "# 2", p.previewedModule())
}

// A plan from before the request does not show what has changed since.
func TestAPlanOfBeforeTheRequestDoesNotCount(t *testing.T) {
	p, _ := newPlanned(t)
	p.create(builder.PlanRequest("first", []string{"demo-vpc"}, atNow))
	p.look()
	p.create(builder.PlanRequest("second", []string{"demo-vpc"}, builder.WithCreation(now.Add(time.Second))))
	p.shows(builder.AtRest, "abc")
	p.look()
	require.Equal(t, infrav1.PreviewEmpty, p.planFor("first").Result)
	p.look()
	require.Nil(t, p.preview())
	p.CreationTime = now.Add(2 * time.Second)
	p.look()
	require.NotNil(t, p.preview())
	assert.Equal(t, p.CreationTime, p.preview().GetCreationTimestamp().UTC())
}

func TestAPlanRequestReconcilesWhatItIsAbout(t *testing.T) {
	p, _ := newPlanned(t)
	mine := []ctrl.Request{request("demo-vpc")}
	for name, row := range map[string]struct {
		request *infrav1.PlanRequest
		want    []ctrl.Request
	}{
		"a name":             {builder.PlanRequest("a", []string{"demo-vpc"}), mine},
		"all":                {builder.PlanRequest("a", nil, builder.With(func(r *infrav1.PlanRequest) { r.Spec.Scope = infrav1.PlanScopeNamespace })), mine},
		"all of another":     {builder.PlanRequest("a", nil, builder.WithNamespace("other"), builder.With(func(r *infrav1.PlanRequest) { r.Spec.Scope = infrav1.PlanScopeNamespace })), nil},
		"its template":       {builder.PlanRequestFor("a", builder.WorkspaceTemplate("vpc")), mine},
		"a template of else": {builder.PlanRequestFor("a", builder.WorkspaceTemplate("vpc"), builder.WithNamespace("other")), nil},
	} {
		assert.Equal(t, row.want, p.reconciler.ofRequest(t.Context(), row.request), name)
	}
}
