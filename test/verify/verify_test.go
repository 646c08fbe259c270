/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package verify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/verify"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// failed are the names of the checks that failed.
func failed(report verify.Report) (names []string) {
	for _, c := range report.Checks {
		if !c.OK {
			names = append(names, c.Name)
		}
	}
	return names
}

// text is what a report says of objects.
func text(report verify.Report) string {
	var lines []string
	for _, c := range report.Checks {
		for _, deviation := range c.Objects {
			lines = append(lines, deviation.String())
		}
	}
	return strings.Join(lines, "\n")
}

func TestEveryPromiseHoldsAndVerifyWritesNothing(t *testing.T) {
	m := newMigrated(t)
	m.adopt(t)
	began := time.Now()
	report, err := verify.Run(t.Context(), admin, m.plan, verify.Options{})
	require.NoError(t, err)
	require.True(t, report.OK)
	require.Len(t, report.Checks, 10)
	for _, c := range report.Checks {
		require.True(t, c.OK)
		require.NotEmpty(t, c.Message, c.Name)
		require.NotContains(t, c.Message, " 0 ", c.Name)
	}
	require.NoError(t, verify.Adopted(admin, m.plan)(t.Context()))
	writes, err := shared.AuditEvents(audit.Filter{User: sandbox.AdminUser, Verbs: audit.Writes, Since: began})
	require.NoError(t, err)
	require.Empty(t, writes)
}

func TestEachBrokenPromiseIsToldByItsCheck(t *testing.T) {
	for name, test := range map[string]struct {
		breakIt func(*testing.T, *migrated)
		checks  []string
		message string
	}{
		"a label of the Workspace": {func(t *testing.T, m *migrated) {
			merge(t, m.workspace, `{"metadata":{"labels":{"a":"c"}}}`)
		}, []string{"WorkspacesUntouched"}, "its spec, labels, annotations or finalizers are not what they were"},
		"the spec of the Workspace": {func(t *testing.T, m *migrated) {
			merge(t, m.workspace, `{"spec":{"forProvider":{"module":"x"}}}`)
		}, []string{"WorkspacesUntouched", "NothingPending"}, "its generation is another one"},
		"the Workspace was made again": {func(t *testing.T, m *migrated) {
			require.NoError(t, admin.Delete(t.Context(), m.workspace))
			workspaceOf(t, m.workspace.GetName())
		}, []string{"WorkspacesUntouched", "References"}, "deleted and made again"},
		"the Workspace is gone": {func(t *testing.T, m *migrated) {
			require.NoError(t, admin.Delete(t.Context(), m.workspace))
		}, []string{"WorkspacesUntouched", "References"}, "it is gone"},
		"the WorkspaceTemplateApply is gone": {func(t *testing.T, m *migrated) {
			require.NoError(t, admin.Delete(t.Context(), m.apply))
		}, []string{"WorkspaceTemplateApplies", "Adopted", "References"}, "it is gone"},
		"a second WorkspaceTemplateApply": {func(t *testing.T, m *migrated) {
			create(t, m.another("demo-eks-controlplane-apply", m.namespace+"-second"))
		}, []string{"WorkspaceTemplateApplies"}, "it was made for CAPTCluster"},
		"a WorkspaceTemplateApply of an owner that was left alone": {func(t *testing.T, m *migrated) {
			m.plan.Findings = []migrate.Finding{{Severity: migrate.Skipped, Object: m.plan.Units[0].Owner}}
			m.plan.Units = nil
			create(t, m.another("demo-eks-controlplane-apply", m.namespace+"-second"))
		}, []string{"WorkspaceTemplateApplies"}, "it was made for CAPTCluster"},
		"two claim the Workspace": {func(t *testing.T, m *migrated) {
			second := m.another("second", m.workspace.GetName())
			second.SetOwnerReferences(nil)
			create(t, second)
			t.Cleanup(func() { _ = admin.Delete(t.Context(), second) })
		}, []string{"OneToOne"}, "names the same Workspace"},
		"two refer to the WorkspaceTemplateApply": {func(t *testing.T, m *migrated) {
			create(t, decode(`{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: CAPTCluster, metadata: {name: second, namespace: %s},
  spec: {region: eu-west-1, vpc: {template: {ref: {name: vpc}}}, workspaceTemplateApplyRef: {name: demo-vpc}}}`, m.namespace))
		}, []string{"OneToOne"}, "refers to the same WorkspaceTemplateApply, demo-vpc"},
		"the template does not permit it": {func(t *testing.T, m *migrated) {
			merge(t, m.template, `{"spec":{"allowedNamespaces":null}}`)
		}, []string{"TemplatesPermit"}, "does not permit namespace"},
		"the template is gone": {func(t *testing.T, m *migrated) {
			require.NoError(t, admin.Delete(t.Context(), m.template))
		}, []string{"TemplatesPermit"}, "is gone"},
		"an owner reference of v1beta1": {func(t *testing.T, m *migrated) {
			merge(t, m.apply, `{"metadata":{"ownerReferences":[{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"CAPTCluster","name":"demo","uid":"`+string(m.owner.GetUID())+`"}]}}`)
		}, []string{"Storage"}, "owner reference to CAPTCluster demo of infrastructure.cluster.x-k8s.io/v1beta1"},
		"another management cluster": {func(_ *testing.T, m *migrated) {
			m.plan.ClusterUID = "another"
		}, []string{"ManagementCluster"}, "its UID is not another"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMigrated(t)
			m.adopt(t)
			test.breakIt(t, m)
			report, err := verify.Run(t.Context(), admin, m.plan, verify.Options{})
			require.Equal(t, migrate.NotVerified, migrate.OutcomeOf(err), "%v", err)
			require.Equal(t, test.checks, failed(report))
			require.Contains(t, text(report), test.message)
		})
	}
}

func TestWhatIsNotAdoptedIsTold(t *testing.T) {
	m := newMigrated(t)
	report, err := verify.Run(t.Context(), admin, m.plan, verify.Options{})
	require.Equal(t, migrate.NotVerified, migrate.OutcomeOf(err), "%v", err)
	require.Equal(t, []string{"Adopted", "References"}, failed(report))
	err = verify.Adopted(admin, m.plan)(t.Context())
	require.Equal(t, migrate.NotVerified, migrate.OutcomeOf(err), "%v", err)

	m.plan.Scope = migrate.ScopeStorage
	_, err = verify.Run(t.Context(), admin, m.plan, verify.Options{})
	require.NoError(t, err, "a plan that does not adopt makes no such promise")
}

func TestWhatLifeGoesOnToWriteIsNoViolation(t *testing.T) {
	m := newMigrated(t)
	m.adopt(t)
	merge(t, m.owner, `{"metadata":{"labels":{"example.com/seen":"true"}},"spec":{"vpc":{"template":{"deletionPolicy":"Retain"}}}}`)
	merge(t, m.apply, `{"spec":{"variables":{"cidr":"10.0.0.0/16"}}}`)
	elsewhere := m.another("elsewhere", m.namespace+"-elsewhere")
	elsewhere.SetOwnerReferences(nil)
	create(t, elsewhere)
	report, err := verify.Run(t.Context(), admin, m.plan, verify.Options{})
	require.NoError(t, err)
	require.Contains(t, report.Checks[2].Notes[len(report.Checks[2].Notes)-1].String(), "it was made since the plan was")
}
