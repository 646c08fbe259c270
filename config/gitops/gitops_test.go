// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package gitops tests how GitOps tools interpret the status of CAPT's objects.
package gitops

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/cel-go/cel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// Health of Argo CD.
const (
	healthy     = "Healthy"
	progressing = "Progressing"
	degraded    = "Degraded"
	suspended   = "Suspended"
)

// observed is an object in one state, as CAPT reports it, and how each tool interprets it.
type observed struct {
	name   string
	object *unstructured.Unstructured
	argo   string
	flux   status.Status
	// kstatus is the interpretation of Flux without healthCheckExprs, and of other tools.
	kstatus status.Status
}

// tables are the golden tables of the controllers. Each row has a state and the conditions that CAPT reports for it.
var tables = map[string]string{
	"controlplane.cluster.x-k8s.io/v1beta2, Kind=CAPTControlPlane":         "captcontrolplane",
	"infrastructure.cluster.x-k8s.io/v1beta2, Kind=CAPTCluster":            "captcluster",
	"infrastructure.cluster.x-k8s.io/v1beta2, Kind=CAPTMachinePool":        "captmachinepool",
	"infrastructure.cluster.x-k8s.io/v1beta2, Kind=WorkspaceTemplateApply": "workspacetemplateapply",
}

// states returns the object of each row of the table of a kind.
func states(t *testing.T, kind string) (all []observed) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "controllers", tables[kind], "testdata", "status.golden"))
	require.NoError(t, err)
	name := ""
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		if !strings.HasPrefix(line, "  ") {
			name = line
			continue
		}
		all = append(all, observed{name: kind + ": " + name + ": " + line, object: objectOf(kind, line)})
	}
	require.Greater(t, len(all), 40)
	return all
}

// objectOf returns an object from a row: the step and, of a control plane, the state and the phase; then conditions, and other fields.
func objectOf(kind, row string) *unstructured.Unstructured {
	apiVersion, name, _ := strings.Cut(kind, ", Kind=")
	fields := strings.Split(row, "; ")
	reported := map[string]any{"observedGeneration": int64(2)}
	if parts := strings.Split(fields[0], ", "); len(parts) > 1 && parts[1] != "" {
		reported["state"] = parts[1]
	}
	metadata := map[string]any{"name": "demo", "generation": int64(2)}
	var conditions []any
	for _, field := range fields[1:] {
		condition := strings.Fields(field)
		if len(condition) != 3 || condition[1] != "True" && condition[1] != "False" && condition[1] != "Unknown" {
			continue
		}
		conditions = append(conditions, map[string]any{"type": condition[0], "status": condition[1], "reason": condition[2], "message": "why"})
		if condition[0] == infrav1.DeletingCondition && condition[1] == "True" {
			metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		}
	}
	reported["conditions"] = conditions
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": name, "metadata": metadata, "status": reported}}
}

// configuration is what users configure, see docs/gitops.md: scripts of Argo CD by key, and expressions of Flux by kind.
type configuration struct {
	scripts     map[string]string
	expressions map[string][]expression
}

// expression is one of the healthCheckExprs of a kind.
type expression struct {
	program cel.Program
	status  status.Status
}

// kustomization is the part of a Kustomization of Flux that these tests read.
type kustomization struct {
	Spec struct {
		HealthCheckExprs []struct{ APIVersion, Kind, Current, Failed string }
	}
}

func load(t *testing.T) configuration {
	t.Helper()
	settings, clusters, templates := corev1.ConfigMap{}, kustomization{}, kustomization{}
	for file, object := range map[string]any{
		filepath.Join("argocd", "argocd-cm.yaml"): &settings, filepath.Join("flux", "clusters.yaml"): &clusters, filepath.Join("flux", "templates.yaml"): &templates,
	} {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, yaml.Unmarshal(data, object))
	}
	c := configuration{settings.Data, map[string][]expression{}}
	for _, check := range slices.Concat(clusters.Spec.HealthCheckExprs, templates.Spec.HealthCheckExprs) {
		kind := check.APIVersion + ", Kind=" + check.Kind
		if check.Failed != "" { // Flux evaluates it first.
			c.expressions[kind] = append(c.expressions[kind], expression{programOf(t, check.Failed), status.FailedStatus})
		}
		c.expressions[kind] = append(c.expressions[kind], expression{programOf(t, check.Current), status.CurrentStatus})
	}
	return c
}

// programOf compiles as Flux does, which does not check types: it does not know the fields of an object.
func programOf(t *testing.T, text string) cel.Program {
	t.Helper()
	environment, err := cel.NewEnv(cel.CrossTypeNumericComparisons(true), cel.OptionalTypes())
	require.NoError(t, err)
	parsed, issues := environment.Parse(text)
	require.NoError(t, issues.Err())
	program, err := environment.Program(parsed)
	require.NoError(t, err)
	return program
}

// interpret reads the object as each tool does.
func (o *observed) interpret(t *testing.T, c configuration) {
	t.Helper()
	result, err := status.Compute(o.object)
	require.NoError(t, err, o.name)
	o.kstatus = result.Status
	o.flux = c.fluxStatus(t, o.object)
	o.argo = c.argoHealth(t, o.object)
}

func (o *observed) condition(name string) string {
	conditions, _, _ := unstructured.NestedSlice(o.object.Object, "status", "conditions")
	for _, condition := range conditions {
		if condition := condition.(map[string]any); condition["type"] == name {
			return condition["status"].(string)
		}
	}
	return ""
}

// argoHealth runs the script as Argo CD does: only with the functions of these libraries.
func (c configuration) argoHealth(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	kind := object.GroupVersionKind()
	script := c.scripts[fmt.Sprintf("resource.customizations.health.%s_%s", kind.Group, kind.Kind)]
	require.NotEmpty(t, script, "%s has no script", kind)
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		require.NoError(t, state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)))
	}
	state.SetGlobal("obj", luaValue(state, object.Object))
	require.NoError(t, state.DoString(script))
	result, ok := state.Get(-1).(*lua.LTable)
	require.True(t, ok, "the script returns no table")
	require.Equal(t, lua.LTString, result.RawGetString("message").Type(), "a health has a message")
	return result.RawGetString("status").String()
}

func luaValue(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for name, member := range value {
			table.RawSetString(name, luaValue(state, member))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, member := range value {
			table.Append(luaValue(state, member))
		}
		return table
	case int64:
		return lua.LNumber(value)
	case string:
		return lua.LString(value)
	}
	return lua.LNil
}

// fluxStatus evaluates healthCheckExprs. Flux waits while an expression cannot be evaluated.
func (c configuration) fluxStatus(t *testing.T, object *unstructured.Unstructured) status.Status {
	t.Helper()
	expressions := c.expressions[object.GroupVersionKind().String()]
	require.NotEmpty(t, expressions, "%s has no expressions", object.GroupVersionKind())
	if observed, found, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration"); found && observed != object.GetGeneration() {
		return status.InProgressStatus
	}
	for _, expression := range expressions {
		result, _, err := expression.program.ContextEval(t.Context(), object.Object)
		if err != nil {
			return status.UnknownStatus
		}
		if result.Value() == true {
			return expression.status
		}
	}
	return status.InProgressStatus
}

// In every state that the controllers report, Argo CD, Flux and kstatus agree with CAPT: an object is healthy or current if CAPT reports it as
// Ready, and never before, in between, or while it is being deleted.
func TestToolsAgreeWithTheStateThatCAPTReports(t *testing.T) {
	c, seen := load(t), map[string]int{}
	for kind := range tables {
		rows := states(t, kind)
		if strings.HasSuffix(kind, "Kind=CAPTControlPlane") {
			rows = append(rows, observed{name: "recovering", object: objectOf(kind, "Wait, Recovering, Creating; Ready False ApplyFailed; Recovering True Recovering")})
		}
		for _, o := range rows {
			o.interpret(t, c)
			o.requireAgreement(t)
			state, _, _ := unstructured.NestedString(o.object.Object, "status", "state")
			seen[state]++
			seen[o.argo]++
		}
	}
	for _, state := range []infrav1.State{
		infrav1.StatePending, infrav1.StateValidating, infrav1.StateProvisioning, infrav1.StateConfiguring, infrav1.StateReady,
		infrav1.StateDegraded, infrav1.StateRecovering, infrav1.StateFailed, healthy, progressing, degraded, suspended,
	} {
		assert.NotZero(t, seen[string(state)], "no row is %s", state)
	}
}

// requireAgreement compares the interpretations with what CAPT reports.
func (o *observed) requireAgreement(t *testing.T) {
	t.Helper()
	text, hasState, _ := unstructured.NestedString(o.object.Object, "status", "state")
	state, ready, paused := infrav1.State(text), o.condition(controlplanev1.ReadyCondition) == "True", o.condition("Paused") == "True"

	assert.Equal(t, ready, o.flux == status.CurrentStatus, "%s: Flux: %s", o.name, o.flux)
	assert.Equal(t, ready, o.kstatus == status.CurrentStatus, "%s: kstatus: %s", o.name, o.kstatus)
	assert.Equal(t, ready && !paused, o.argo == healthy, "%s: Argo CD: %s", o.name, o.argo)
	if o.object.GetDeletionTimestamp() != nil {
		assert.False(t, ready, "%s: CAPT reports what is being deleted as Ready", o.name)
		assert.Equal(t, []any{status.TerminatingStatus, progressing}, []any{o.kstatus, o.argo}, o.name)
		return
	}
	assert.Equal(t, paused, o.argo == suspended, "%s: Argo CD: %s", o.name, o.argo)
	assert.Equal(t, state == infrav1.StateFailed, o.flux == status.FailedStatus, "%s: Flux: %s", o.name, o.flux)
	if hasState {
		assert.Equal(t, state == infrav1.StateReady, ready, o.name)
		failed := state == infrav1.StateFailed || state == infrav1.StateDegraded
		assert.Equal(t, failed && !paused, o.argo == degraded, "%s: Argo CD: %s", o.name, o.argo)
	}
}

// Between a change and its observation, the status is that of the previous generation. Between the creation of an object and its first status,
// kstatus has no condition to read: that is why Flux needs healthCheckExprs.
func TestNothingIsHealthyBeforeCAPTHasObservedIt(t *testing.T) {
	c := load(t)
	for kind := range tables {
		changed := observed{name: kind, object: objectOf(kind, "Wait, Ready, Ready; Ready True Ready")}
		changed.interpret(t, c)
		require.Equal(t, []any{healthy, status.CurrentStatus, status.CurrentStatus}, []any{changed.argo, changed.flux, changed.kstatus}, kind)
		changed.object.SetGeneration(3)
		changed.interpret(t, c)
		assert.Equal(t, []any{progressing, status.InProgressStatus, status.InProgressStatus}, []any{changed.argo, changed.flux, changed.kstatus}, kind)

		created := observed{name: kind, object: changed.object}
		delete(created.object.Object, "status")
		created.interpret(t, c)
		assert.Equal(t, []any{progressing, status.UnknownStatus, status.CurrentStatus}, []any{created.argo, created.flux, created.kstatus}, kind)
	}
}

// Degraded are failures and what needs a change; Progressing is what another object or CAPT resolves.
func TestArgoCDShowsWhichProblemsNeedAChange(t *testing.T) {
	c, kind := load(t), "infrastructure.cluster.x-k8s.io/v1beta2, Kind=WorkspaceTemplateApply"
	for reason, want := range map[string]string{
		"Provisioning": progressing, "Queued": progressing, "WaitingForDependencies": progressing, "TemplateNotFound": progressing,
		"ApplyFailed": degraded, "TemplateInvalid": degraded, "WorkspaceConflict": degraded, "CreateInterrupted": degraded,
	} {
		assert.Equal(t, want, c.argoHealth(t, objectOf(kind, "Observe; Ready False "+reason)), reason)
	}
}

// WorkspaceTemplates and Clusters have no condition Ready, so kstatus regards them as current as soon as they exist. These are the conditions that
// Flux waits for.
func TestFluxWaitsForTemplatesAndClusters(t *testing.T) {
	c := load(t)
	template := func(valid string) *unstructured.Unstructured {
		return objectOf("infrastructure.cluster.x-k8s.io/v1beta2, Kind=WorkspaceTemplate", "Observe; Valid "+valid+" why; InUse False NotUsed")
	}
	assert.Equal(t, status.CurrentStatus, c.fluxStatus(t, template("True")))
	assert.Equal(t, status.FailedStatus, c.fluxStatus(t, template("False")))

	const ready = "; InfrastructureReady True Ready; ControlPlaneAvailable True Available"
	cluster := func(conditions string) *unstructured.Unstructured {
		return objectOf("cluster.x-k8s.io/v1beta2, Kind=Cluster", "Observe"+conditions)
	}
	assert.Equal(t, status.CurrentStatus, c.fluxStatus(t, withSpec(cluster(ready), "paused", false)))
	for _, conditions := range []string{
		"", "; InfrastructureReady True Ready", "; ControlPlaneAvailable True Available", "; InfrastructureReady True Ready; ControlPlaneAvailable False NotAvailable",
	} {
		assert.Equal(t, status.InProgressStatus, c.fluxStatus(t, withSpec(cluster(conditions), "paused", false)), conditions)
	}
	// The Cluster of a ClusterClass is current when Cluster API has carried out its last change.
	topology := map[string]any{"version": "v1.35.0"}
	assert.Equal(t, status.InProgressStatus, c.fluxStatus(t, withSpec(cluster(ready), "topology", topology)))
	assert.Equal(t, status.InProgressStatus, c.fluxStatus(t, withSpec(cluster(ready+"; TopologyReconciled False ClusterUpgrading"), "topology", topology)))
	reconciled := withSpec(cluster(ready+"; TopologyReconciled True ReconcileSucceeded"), "topology", topology)
	setObserved(reconciled, reconciled.GetGeneration()-1)
	assert.Equal(t, status.InProgressStatus, c.fluxStatus(t, reconciled))
	setObserved(reconciled, reconciled.GetGeneration())
	assert.Equal(t, status.CurrentStatus, c.fluxStatus(t, reconciled))
}

func withSpec(object *unstructured.Unstructured, field string, value any) *unstructured.Unstructured {
	object.Object["spec"] = map[string]any{field: value}
	return object
}

// setObserved sets the generation that the conditions of an object are about.
func setObserved(object *unstructured.Unstructured, generation int64) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range conditions {
		condition.(map[string]any)["observedGeneration"] = generation
	}
	object.Object["status"].(map[string]any)["conditions"] = conditions
}
