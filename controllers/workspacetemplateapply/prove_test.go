// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// proving is an object whose adoption captctl migrate apply --prove has written. Its Workspace is not as rendered: CAPT would write it.
type proving struct {
	*environment
	scope terraform.Scope
}

func newProving(t *testing.T, scope terraform.Scope, row builder.Row, changes ...builder.Option) *proving {
	t.Helper()
	var options []builder.Option
	if scope == terraform.ScopeCluster {
		options = append(options, builder.InClusterScope())
	}
	live := builder.Workspace("demo", row, append(options, changes...)...)
	require.NoError(t, unstructured.SetNestedStringMap(live.Object, map[string]string{"kind": "ClusterProviderConfig", "name": "aws"}, "spec", "providerConfigRef"))
	env := newEnvironment(t, live, builder.WorkspaceTemplate("vpc", builder.WithScope(scope)), builder.WorkspaceTemplateApply("demo-apply",
		builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer), legacyStatus("demo"), builder.WithWorkspaceName("demo"),
		builder.WithRecordedWorkspace(live), builder.WithAnnotation(naming.ProveAnnotation, "first")))
	return &proving{env, scope}
}

// in returns a Workspace of the scope; nil when there is none.
func (p *proving) in(name string) *unstructured.Unstructured {
	p.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(p.scope.GroupVersionKind())
	key := client.ObjectKey{Name: name}
	if p.scope == terraform.ScopeNamespaced {
		key.Namespace = builder.Namespace
	}
	if err := p.API.Get(p.T.Context(), key, object); err != nil {
		require.True(p, apierrors.IsNotFound(err), err)
		return nil
	}
	return object
}

func (p *proving) preview() *unstructured.Unstructured {
	p.Helper()
	return p.in(naming.PreviewWorkspace(p.scope, builder.WorkspaceTemplateApply("demo-apply")))
}

// shows makes the provider report on the preview, and reconciles.
func (p *proving) shows(row builder.Row, checksum string) {
	p.Helper()
	object := p.preview()
	require.NotNil(p, object)
	object.Object["status"] = builder.Workspace(object.GetName(), row).Object["status"]
	if checksum != "" {
		require.NoError(p, unstructured.SetNestedField(object.Object, checksum, "status", "atProvider", "checksum"))
	}
	p.update(object)
	p.look()
}

// look reconciles, and returns the writes.
func (p *proving) look() []string {
	p.Helper()
	_, err := p.reconcile("demo-apply")
	require.NoError(p, err)
	return p.Writes
}

func (p *proving) required() string {
	p.Helper()
	return builder.ConditionSummary(p.get("demo-apply").Status.Conditions)["AdoptionRequired"]
}

func TestAnAdoptionWaitsForAnEmptyPlan(t *testing.T) {
	for _, scope := range terraform.Scopes() {
		t.Run(string(scope), func(t *testing.T) {
			p := newProving(t, scope, builder.AtRest)
			before, live := p.get("demo-apply"), p.in("demo")
			p.look()
			preview := p.preview()
			require.NotNil(t, preview)
			policies, _, _ := unstructured.NestedStringSlice(preview.Object, "spec", "managementPolicies")
			assert.Equal(t, []string{"Observe"}, policies)
			assert.Equal(t, "True WaitingForProof", p.required())
			p.shows(builder.ResourcesExist, "")
			assert.Equal(t, live, p.in("demo"), "the Workspace is not written")
			after := p.get("demo-apply")
			assert.Equal(t, before.Spec, after.Spec)
			assert.Equal(t, before.Finalizers, after.Finalizers)
			assert.Equal(t, before.Annotations, after.Annotations)

			p.shows(builder.AtRest, "abc")
			assert.Equal(t, "first", p.get("demo-apply").Status.Preview.Proof)
			assert.Equal(t, infrav1.PreviewEmpty, p.get("demo-apply").Status.Preview.Result)
			p.look()
			assert.Nil(t, p.preview())
			assert.Equal(t, "True Proven", p.required())
			assert.Equal(t, live, p.in("demo"), "captctl completes the adoption")
			assert.Equal(t, before.Finalizers, p.get("demo-apply").Finalizers)
			assert.Empty(t, p.look(), "at rest nothing is written")

			p.edit("demo-apply", end)
			for range 3 {
				p.look()
			}
			assert.Equal(t, "False AdoptionNotRequired", p.required())
			assert.NotEqual(t, live.Object["spec"], p.in("demo").Object["spec"], "it is adopted")
			assert.Contains(t, p.get("demo-apply").Finalizers, infrav1.WorkspaceTemplateApplyFinalizer)
			assert.Empty(t, p.get("demo-apply").Status.Preview)
			assert.Empty(t, p.look())
		})
	}
}

func TestAnAdoptionWithChangesIsNotMade(t *testing.T) {
	p := newProving(t, terraform.ScopeCluster, builder.AtRest)
	live := p.in("demo")
	p.look()
	p.shows(builder.ResourcesExist, "abc")
	p.reconciler.Clock = clocktesting.NewFakePassiveClock(now.Add(11 * time.Second))
	p.look()
	assert.Equal(t, infrav1.PreviewChanges, p.get("demo-apply").Status.Preview.Result)
	for range 3 {
		p.look()
	}
	assert.Equal(t, "True NotProven", p.required())
	assert.Nil(t, p.preview())
	assert.Equal(t, live, p.in("demo"))

	// Another request, after the cause was removed.
	p.edit("demo-apply", func(apply *infrav1.WorkspaceTemplateApply) { apply.Annotations[naming.ProveAnnotation] = "second" })
	p.look()
	assert.Equal(t, "True WaitingForProof", p.required())
	p.shows(builder.AtRest, "abc")
	assert.Equal(t, "True Proven", p.required())
}

// end ends the request, as captctl does when all plans of a unit are empty.
func end(apply *infrav1.WorkspaceTemplateApply) { delete(apply.Annotations, naming.ProveAnnotation) }

// Another content needs another proof.
func TestAProofIsAboutOneContent(t *testing.T) {
	p := newProving(t, terraform.ScopeCluster, builder.AtRest)
	p.look()
	p.shows(builder.AtRest, "abc")
	assert.Equal(t, "True Proven", p.required())
	p.template(builder.WithModule("# edited"))
	p.look()
	p.look()
	module, _, _ := unstructured.NestedString(p.preview().Object, "spec", "forProvider", "module")
	assert.Equal(t, "# edited", module)
	assert.Equal(t, "True WaitingForProof", p.required())
}

func TestARollbackEndsAProof(t *testing.T) {
	for _, scope := range terraform.Scopes() {
		t.Run(string(scope), func(t *testing.T) {
			p := newProving(t, scope, builder.AtRest)
			p.look()
			require.NotNil(t, p.preview())
			apply := p.get("demo-apply")
			apply.Annotations, apply.Spec.WorkspaceName = nil, ""
			p.update(apply)
			apply.Status.WorkspaceRef = nil
			require.NoError(t, p.API.Status().Update(t.Context(), apply))
			p.look()
			assert.Nil(t, p.preview())
			assert.Equal(t, "True AdoptionRequired", p.required())
			assert.Empty(t, p.get("demo-apply").Status.Preview)
			assert.Empty(t, p.look())
		})
	}
}

func TestAnAdoptionThatCannotBeProven(t *testing.T) {
	none := func(*proving) {}
	for want, row := range map[string]struct {
		row     builder.Row
		change  func(p *proving)
		options []builder.Option
	}{
		"Failed Terraform plan failed: ":                                  {builder.PlanFailed, none, nil},
		"Unavailable Workspace demo is paused":                            {builder.WorkspacePaused, none, nil},
		"Unavailable previews require provider-terraform v1 or later":     {builder.AtRest, none, []builder.Option{builder.OfV0()}},
		"Failed Workspace demo was recreated by another client":           {builder.AtRest, func(p *proving) { p.record("another") }, nil},
		"Unavailable no revision of WorkspaceTemplate default/vpc is ass": {builder.AtRest, func(p *proving) { p.template(staged) }, nil},
		"Failed WorkspaceTemplate default/vpc: ": {builder.AtRest, func(p *proving) {
			p.template(builder.With(func(template *infrav1.WorkspaceTemplate) {
				template.Spec.Template.Spec.ForProvider.Env = []terraform.EnvVar{{Name: "TF_WORKSPACE", Value: "another"}}
			}))
		}, nil},
	} {
		t.Run(want, func(t *testing.T) {
			p := newProving(t, terraform.ScopeCluster, row.row, row.options...)
			row.change(p)
			live := p.in("demo")
			p.look()
			recorded := p.get("demo-apply").Status.Preview
			assert.Contains(t, string(recorded.Result)+" "+recorded.Message, want)
			assert.Equal(t, "True NotProven", p.required())
			assert.Nil(t, p.preview())
			assert.Equal(t, live, p.in("demo"))
			assert.Empty(t, p.look(), "at rest nothing is written")
		})
	}
}

func staged(object client.Object) {
	object.(*infrav1.WorkspaceTemplate).Spec.Rollout.Strategy = infrav1.RolloutStaged
}

// record changes the UID that status records.
func (p *proving) record(uid types.UID) {
	p.Helper()
	apply := p.get("demo-apply")
	apply.Status.WorkspaceRef.UID = uid
	require.NoError(p, p.API.Status().Update(p.T.Context(), apply))
}

func TestAProofWaits(t *testing.T) {
	for want, row := range map[string]struct {
		row    builder.Row
		change func(p *proving)
	}{
		"the Workspace to be up to date: ":                       {builder.Updating, func(*proving) {}},
		"the end of the pause: ":                                 {builder.AtRest, func(p *proving) { p.edit("demo-apply", pause) }},
		"the content to write: WorkspaceTemplate default/vpc do": {builder.AtRest, func(p *proving) { p.remove(builder.WorkspaceTemplate("vpc")) }},
		"the plan of provider-terraform in preview":              {builder.AtRest, func(*proving) {}},
	} {
		t.Run(want, func(t *testing.T) {
			p := newProving(t, terraform.ScopeCluster, row.row)
			row.change(p)
			p.look()
			assert.Equal(t, "True WaitingForProof", p.required())
			condition := p.get("demo-apply").Status.Conditions
			message := ""
			for i := range condition {
				if condition[i].Type == infrav1.AdoptionRequiredCondition {
					message = condition[i].Message
				}
			}
			assert.Contains(t, message, "waiting for "+want)
			assert.Empty(t, p.get("demo-apply").Status.Preview)
		})
	}
}

func pause(apply *infrav1.WorkspaceTemplateApply) {
	metav1.SetMetaDataAnnotation(&apply.ObjectMeta, clusterv1.PausedAnnotation, "")
}
