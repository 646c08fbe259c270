// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// The Workspaces would get an empty state in another account. The warning has their number.
// CAPT has recorded the state of an object that had another name than CAPT derives: one that is restored without status takes it over.
func TestARestoredObjectTakesTheStateThatCAPTHasRecorded(t *testing.T) {
	defaults := &defaulter[*infrav1.WorkspaceTemplateApply]{reader: newEnvironment(t)}
	of := func(record string, modifiers ...builder.Option) *infrav1.WorkspaceTemplateApply {
		return builder.WorkspaceTemplateApply("vpc", append(modifiers, builder.WithAnnotation(naming.TerraformStateAnnotation, record))...)
	}
	got := replaced(t, defaults, nil, of("ClusterProviderConfig/aws legacy"), "v1beta2", by("kubectl"))
	assert.Equal(t, infrav1.TerraformState{Name: "legacy", ProviderConfig: "ClusterProviderConfig/aws"}, got.Spec.TerraformState)
	assert.Empty(t, got.Annotations[naming.TerraformStateAnnotation], "spec has it")
	assert.Empty(t, defaulted(t, defaults, nil, of("ClusterProviderConfig/aws legacy")).Spec.TerraformState, "the user may not name states")
	assert.Empty(t, replaced(t, defaults, nil, of("legacy"), "v1beta2", by("kubectl")).Spec.TerraformState)
	old := of("ClusterProviderConfig/aws legacy")
	assert.Empty(t, replaced(t, defaults, old, old, "v1beta2", by("kubectl")).Spec.TerraformState, "it exists")
	named := infrav1.TerraformState{Name: "named", ProviderConfig: "aws"}
	with := of("ClusterProviderConfig/aws legacy", builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TerraformState = named }))
	assert.Equal(t, named, replaced(t, defaults, nil, with, "v1beta2", by("kubectl")).Spec.TerraformState)
}

func TestATemplateInUseWarnsAboutAnotherProviderConfig(t *testing.T) {
	in := func(name string) *infrav1.WorkspaceTemplate {
		return builder.WorkspaceTemplate("vpc", builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
			spec.ProviderConfigRef = &terraform.ProviderConfigReference{Name: name}
		}))
	}
	users := []client.Object{builder.WorkspaceTemplateApply("a"), builder.WorkspaceTemplateApply("b"),
		builder.WorkspaceTemplateApply("c", builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Name = "other" }))}
	response := validated(t, validator[*infrav1.WorkspaceTemplate]{reader: newEnvironment(t, users...)}, in("one"), in("two"))
	assert.True(t, response.Allowed)
	assert.Len(t, response.Warnings, 1)
	assert.Contains(t, response.Warnings[0], "providerConfigRef: the template is used by 2 WorkspaceTemplateApplies in ")

	assert.Empty(t, validated(t, validator[*infrav1.WorkspaceTemplate]{reader: newEnvironment(t)}, in("one"), in("two")).Warnings, "nothing uses it")
	module := in("one")
	builder.WithModule("# new")(module)
	assert.NotContains(t, validated(t, validator[*infrav1.WorkspaceTemplate]{reader: newEnvironment(t, users...)}, in("one"), module).Warnings[0], "providerConfigRef")
}

func TestAnEditOfATemplateWarnsHowManyUseIt(t *testing.T) {
	user := func(name, cluster string) client.Object {
		return builder.WorkspaceTemplateApply(name, builder.WithLabel(clusterv1.ClusterNameLabel, cluster))
	}
	users := newEnvironment(t, user("a-vpc", "a"), user("a-vpc-2", "a"), user("b-vpc", "b"), builder.WorkspaceTemplateApply("own"))
	before, after := builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplate("vpc", builder.WithModule("output \"new\" { value = 1 }"))
	response := validated(t, validator[*infrav1.WorkspaceTemplate]{reader: users}, before, after)
	assert.True(t, response.Allowed)
	require.Len(t, response.Warnings, 1)
	assert.Contains(t, response.Warnings[0], "spec.template.spec: the template is used by 4 WorkspaceTemplateApplies in 2 Clusters: ")

	assert.Empty(t, validated(t, validator[*infrav1.WorkspaceTemplate]{reader: newEnvironment(t)}, before, after).Warnings, "nothing uses it")
	before, after = builder.WorkspaceTemplate("vpc", builder.WithModule(`output "a" { value = "${x}" }`)), builder.WorkspaceTemplate("vpc", builder.WithModule(`output "a" { value = "${x}" }`))
	after.Spec.Substitution = infrav1.SubstitutionFields
	response = validated(t, validator[*infrav1.WorkspaceTemplate]{reader: users}, before, after)
	require.Len(t, response.Warnings, 2, "a switch of the substitution renders them as well")
	assert.Contains(t, response.Warnings[0], "spec.template.spec.forProvider.module: ${x} is not replaced, because spec.substitution is Fields")
	assert.Contains(t, response.Warnings[1], "the template is used by 4 WorkspaceTemplateApplies in 2 Clusters: ")
	before = builder.WorkspaceTemplate("vpc")
	shared := builder.WorkspaceTemplate("vpc", builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.AllowedNamespaces.Names, template.Spec.Template.Metadata.Version = []string{"team-a"}, "2"
	}))
	assert.Empty(t, validated(t, validator[*infrav1.WorkspaceTemplate]{reader: users}, before, shared).Warnings, "the rendered Workspaces do not change")
}

func TestATemplateThatLosesAPlaceholderIsAdmittedWithAWarning(t *testing.T) {
	restricted := builder.CAPTControlPlane("office", builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.EndpointAccess = &controlplanev1.EndpointAccess{PublicCIDRs: []controlplanev1.CIDR{"203.0.113.0/24"}}
	}))
	before := builder.WorkspaceTemplate("eks", builder.Consuming("endpoint_public_access_cidrs"))
	response := validated(t, validator[*infrav1.WorkspaceTemplate]{reader: newEnvironment(t, restricted)}, before, builder.WorkspaceTemplate("eks"))
	assert.True(t, response.Allowed)
	assert.Len(t, response.Warnings, 1)
	assert.Contains(t, response.Warnings[0], "default/office")
}

// After a manifest without the pinned template is applied, Terraform runs.
func TestUnpinningIsAdmittedWithAWarning(t *testing.T) {
	pinned, unpinned := builder.WorkspaceTemplate("demo-pinned", builder.WithLabel(naming.PinnedLabel, "true")), builder.WorkspaceTemplate("eks")
	apply := builder.WorkspaceTemplateApply("demo-eks", builder.WithWorkspaceName("demo-eks-workspace"))
	controlPlane := func(template, description string) *controlplanev1.CAPTControlPlane {
		return builder.CAPTControlPlane("demo", builder.WithApplyRef(apply.Name), builder.With(func(c *controlplanev1.CAPTControlPlane) {
			c.Spec.WorkspaceTemplateRef.Name = template
			c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"description": controlplanev1.TagValue(description)}
		}))
	}
	for name, row := range map[string]struct {
		old, object *controlplanev1.CAPTControlPlane
		want        int
	}{
		"pinned template replaced": {controlPlane(pinned.Name, ""), controlPlane("eks", ""), 1},
		"it keeps the pinned one":  {controlPlane(pinned.Name, ""), controlPlane(pinned.Name, "edited"), 0},
		"other template replaced":  {controlPlane("eks", ""), controlPlane(pinned.Name, ""), 0},
	} {
		t.Run(name, func(t *testing.T) {
			response := validated(t, validator[*controlplanev1.CAPTControlPlane]{reader: newEnvironment(t, pinned, unpinned, apply)}, row.old, row.object)
			var found []string
			for _, warning := range response.Warnings {
				if strings.Contains(warning, "no longer refers to its pinned template") {
					found = append(found, warning)
				}
			}
			require.Len(t, found, row.want, "%v", response.Warnings)
			if row.want > 0 {
				assert.Contains(t, found[0], "CAPTControlPlane demo no longer refers to its pinned template: Terraform will run for Workspace demo-eks-workspace unless WorkspaceTemplate default/eks")
			}
		})
	}
	captCluster := func(template string) *infrav1.CAPTCluster {
		return builder.CAPTCluster("demo", builder.WithApplyRef(apply.Name), builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.Ref.Name = template }))
	}
	assert.NotEmpty(t, validated(t, validator[*infrav1.CAPTCluster]{reader: newEnvironment(t, pinned, unpinned, apply)}, captCluster(pinned.Name), captCluster("eks")).Warnings)
	alone := apply.DeepCopy()
	alone.Spec.TemplateRef.Name = pinned.Name
	assert.NotEmpty(t, validated(t, validator[*infrav1.WorkspaceTemplateApply]{reader: newEnvironment(t, pinned, unpinned, alone)}, alone, builder.WorkspaceTemplateApply("demo-eks",
		builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Spec = alone.Spec; a.Spec.TemplateRef.Name = "eks" }))).Warnings)
}

type wta = infrav1.WorkspaceTemplateApply

func of(namespace, name string) builder.Option {
	return builder.With(func(apply *wta) {
		apply.Spec.TemplateRef = infrav1.WorkspaceTemplateReference{Namespace: namespace, Name: name}
	})
}

func allowing(names ...string) builder.Option {
	return builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.AllowedNamespaces = infrav1.AllowedNamespaces{Names: names}
	})
}

func TestWorkspaceNameOfANewWorkspaceTemplateApplyIsDefaulted(t *testing.T) {
	w := newEnvironment(t,
		builder.WorkspaceTemplate("vpc"),
		builder.WorkspaceTemplate("wide", builder.WithNamespace("shared"), builder.WithScope(terraform.ScopeCluster), allowing(builder.Namespace)),
		builder.WorkspaceTemplate("closed", builder.WithNamespace("shared")),
		builder.Workspace("left", builder.AtRest, builder.InClusterScope()), builder.Workspace("taken", builder.AtRest, builder.InClusterScope(), builder.With(func(w *unstructured.Unstructured) {
			w.SetAnnotations(map[string]string{naming.ClaimAnnotation: "team-b/taken"})
		})))
	for name, row := range map[string]struct {
		apply *wta
		want  string
	}{
		"by the scheme":                      {builder.WorkspaceTemplateApply("demo-apply"), "demo"},
		"by the scheme of the cluster scope": {builder.WorkspaceTemplateApply("demo-apply", of("shared", "wide")), "default-demo-sgf5y"},
		"set by the user":                    {builder.WorkspaceTemplateApply("demo-apply", builder.WithWorkspaceName("mine")), "mine"},
		"not before the template is there":   {builder.WorkspaceTemplateApply("demo-apply", of("", "later")), ""},
		"not for a template it may not use":  {builder.WorkspaceTemplateApply("demo-apply", of("shared", "closed")), ""},
		"not before it has a name": {builder.WorkspaceTemplateApply("", builder.With(func(apply *wta) {
			apply.GenerateName = "demo-"
		})), ""},
		"restored object of CAPT v0.3":        {builder.WorkspaceTemplateApply("demo-apply", of("shared", "wide"), builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)), ""},
		"not beside a Workspace of CAPT v0.3": {builder.WorkspaceTemplateApply("left-apply", of("shared", "wide")), ""},
		"beside a Workspace with a claim":     {builder.WorkspaceTemplateApply("taken-apply", of("shared", "wide")), naming.Workspace(terraform.ScopeCluster, types.NamespacedName{Namespace: builder.Namespace, Name: "taken-apply"})},
		"beside it in the namespaced scope":   {builder.WorkspaceTemplateApply("left-apply"), "left"},
		"no template name":                    {builder.WorkspaceTemplateApply("demo-apply", of("", "")), ""},
		"invalid template name":               {builder.WorkspaceTemplateApply("demo-apply", of("", "a/b")), ""},
		"invalid template namespace":          {builder.WorkspaceTemplateApply("demo-apply", of("a/b", "vpc")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := defaulted(t, &defaulter[*infrav1.WorkspaceTemplateApply]{reader: w}, nil, row.apply)
			want := row.apply.DeepCopy()
			want.Spec.WorkspaceName = row.want
			assert.Equal(t, want.Spec, got.Spec)
		})
	}
}

// kubectl replace and GitOps tools replace the object with a manifest without the name. Only the migration can remove it.
func TestUpdateKeepsTheWorkspaceNameThatItOmits(t *testing.T) {
	const captctl = `{"kind":"UpdateOptions","fieldManager":"captctl"}`
	old, unnamed := builder.WorkspaceTemplateApply("demo", builder.WithWorkspaceName("mine")), builder.WorkspaceTemplateApply("demo")
	for name, row := range map[string]struct {
		old                    *wta
		text                   string
		user, options, version string
		want                   string
	}{
		"omitted":                  {old, "", administrator, `{"fieldManager":"kubectl"}`, "v1beta2", "mine"},
		"omitted, without options": {old, "", administrator, "", "v1beta2", "mine"},
		"omitted by captctl":       {old, "", administrator, captctl, "v1beta2", ""},
		"omitted by captctl of a user without the right":     {old, "", "tenant", captctl, "v1beta2", "mine"},
		"omitted by captctl, in a version without the field": {old, "", administrator, captctl, "v1beta1", "mine"},
		"unchanged":                   {old, "mine", "", "", "v1beta2", "mine"},
		"changed, left to validation": {old, "other", "", "", "v1beta2", "other"},
		"set for the first time":      {unnamed, "first", "", "", "v1beta2", "first"},
		"never set":                   {unnamed, "", "", "", "v1beta2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			update := builder.WorkspaceTemplateApply("demo", builder.WithWorkspaceName(row.text))
			options := func(r *admission.Request) { r.Options.Raw, r.UserInfo.Username = []byte(row.options), row.user }
			defaulter := &defaulter[*infrav1.WorkspaceTemplateApply]{reader: newEnvironment(t, builder.WorkspaceTemplate("vpc"))}
			assert.Equal(t, row.want, replaced(t, defaulter, row.old, update, row.version, options).Spec.WorkspaceName)
		})
	}
}

func TestNothingIsDefaultedWhenALookupFails(t *testing.T) {
	defaulter := &defaulter[*infrav1.WorkspaceTemplateApply]{reader: down}
	defaulter.decoder = admission.NewDecoder(builder.Scheme())
	response := defaulter.Handle(t.Context(), request(t, nil, builder.WorkspaceTemplateApply("demo")))
	assert.False(t, response.Allowed)
	assert.Equal(t, int32(http.StatusInternalServerError), response.Result.Code)
	assert.Contains(t, response.Result.Message, "checking demo")
}

// Defaulting runs before validation, and an object with a Workspace name is treated as restored from a backup. The reader of defaulting
// uses the cache for lookups by index and for Clusters.
func TestNameReservedForAFargateProfileIsRejected(t *testing.T) {
	controlPlane := builder.CAPTControlPlane("demo", profiles("web", "", "Batch_1", "", "adopted", "by-hand"))
	objects := []client.Object{controlPlane, builder.CAPTCluster("demo"), builder.WorkspaceTemplate("fargate"), builder.WorkspaceTemplate("small")}
	cached, live := newEnvironment(t, append(objects, builder.Cluster("demo"))...), cacheReader{Reader: fake.NewClientBuilder().WithScheme(builder.Scheme()).WithObjects(objects...).Build()}
	hashed := naming.FargateWorkspaceTemplateApply("demo", "Batch_1")
	made := func(name, template, profile string, options ...builder.Option) *wta {
		identity := builder.WithVariables(map[string]string{"cluster_name": "demo", "profile_name": profile})
		return builder.WorkspaceTemplateApply(name, append(options, of("", template), identity)...)
	}
	kept := []string{"metadata.name"}
	for name, row := range map[string]struct {
		apply *wta
		named string
		want  []string
	}{
		"matches":                           {made("demo-web-fargate-apply", "fargate", "web"), "demo-web-fargate", nil},
		"of another template":               {made("demo-web-fargate-apply", "small", "web"), "", kept},
		"of another profile":                {made("demo-web-fargate-apply", "fargate", "other"), "", kept},
		"of another template, by its hash":  {made(hashed, "small", "Batch_1"), "", kept},
		"of another template, by reference": {made("by-hand", "small", "adopted"), "", kept},
		"the control plane's own":           {made("demo-web-fargate-apply", "small", "web", builder.OwnedBy(controlPlane)), "demo-web-fargate", nil},
		"restored":                          {made("demo-web-fargate-apply", "small", "web", builder.WithWorkspaceName("x")), "x", nil},
		"restored, before it had one":       {made("demo-web-fargate-apply", "small", "web", builder.WithFinalizers("f")), "demo-web-fargate", nil},
		"name reserved for a VPC":           {made("demo-vpc", "small", ""), "", kept},
		"a name that is not reserved":       {made("demo-adopted-fargate-apply", "small", "adopted"), "demo-adopted-fargate", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := defaulted(t, &defaulter[*infrav1.WorkspaceTemplateApply]{reader: liveReader{Reader: cached, Live: live}}, nil, row.apply)
			assert.Equal(t, row.named, got.Spec.WorkspaceName)
			assert.Equal(t, row.want, refusedFields(t, validated(t, validator[*infrav1.WorkspaceTemplateApply]{reader: cached}, nil, got)))
		})
	}
}

// A user could choose a revision that is not approved.
func TestOnlyCAPTAssignsARevision(t *testing.T) {
	revision := func(hash string) *wta {
		return builder.WorkspaceTemplateApply("demo", builder.With(func(apply *wta) { apply.Spec.TemplateRevision = hash }))
	}
	refused := []string{"spec.templateRevision"}
	captctl := func(r *admission.Request) { r.Options.Raw = []byte(`{"fieldManager":"captctl"}`) }
	for name, row := range map[string]struct {
		old, object *wta
		change      func(*admission.Request)
		want        []string
	}{
		"of a new object":                        {nil, revision("a"), captctl, refused},
		"of a new object, by an administrator":   {nil, revision("a"), by("clusterctl"), nil},
		"for the first time":                     {revision(""), revision("a"), captctl, refused},
		"another one":                            {revision("a"), revision("b"), captctl, refused},
		"another one, by an administrator":       {revision("a"), revision("b"), by("captctl"), refused},
		"the same one":                           {revision("a"), revision("a"), captctl, nil},
		"none, as in a manifest without a value": {revision("a"), revision(""), captctl, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnvironment(t, builder.WorkspaceTemplate("vpc"))
			assert.Equal(t, row.want, refusedFields(t, validated(t, validator[*infrav1.WorkspaceTemplateApply]{reader: w}, row.old, row.object, row.change)))
		})
	}
}

// A user could name the Terraform state of another cluster.
func TestOnlyUsersWhoMayMigrateNameATerraformState(t *testing.T) {
	state := func(name string) *wta {
		return builder.WorkspaceTemplateApply("demo", builder.With(func(apply *wta) {
			if name != "" {
				apply.Spec.TerraformState = infrav1.TerraformState{Name: name, ProviderConfig: "ClusterProviderConfig/aws"}
			}
		}))
	}
	both := []string{"spec.terraformState.name", "spec.terraformState.providerConfig"}
	captctl := func(r *admission.Request) { r.Options.Raw = []byte(`{"fieldManager":"captctl"}`) }
	for name, row := range map[string]struct {
		old, object *wta
		change      func(*admission.Request)
		want        []string
	}{
		"of a new object":                      {nil, state("a"), captctl, both},
		"of a new object, by an administrator": {nil, state("a"), by("captctl-adopt"), nil},
		"later, by an administrator":           {state(""), state("a"), by("captctl"), both},
		"another one":                          {state("a"), state("b"), by("captctl"), both[:1]},
		"the same one":                         {state("a"), state("a"), captctl, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnvironment(t, builder.WorkspaceTemplate("vpc"))
			assert.Equal(t, row.want, refusedFields(t, validated(t, validator[*infrav1.WorkspaceTemplateApply]{reader: w}, row.old, row.object, row.change)))
		})
	}
	got := defaulted(t, &defaulter[*infrav1.WorkspaceTemplateApply]{reader: newEnvironment(t)}, state("a"), state(""))
	assert.Equal(t, state("a").Spec.TerraformState, got.Spec.TerraformState, "a manifest without it keeps it")
}

// Pinning replaces the reference, and a rollback restores it.
func TestRollbackMayRestoreAReferenceToATemplateInDeletion(t *testing.T) {
	deleted := builder.WorkspaceTemplate("eks", builder.WithFinalizers("f"), builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}))
	w := newEnvironment(t, deleted, builder.WorkspaceTemplate("demo-pinned-0"))
	pinned, restored := builder.WorkspaceTemplateApply("demo", of("", "demo-pinned-0")), builder.WorkspaceTemplateApply("demo", of("", "eks"))
	for manager, want := range map[string][]string{naming.MigrationFieldManager: nil, "kubectl": {"spec.templateRef"}} {
		t.Run(manager, func(t *testing.T) {
			assert.Equal(t, want, refusedFields(t, validated(t, validator[*infrav1.WorkspaceTemplateApply]{reader: w}, pinned, restored, by(manager))))
		})
	}
}

// captctl evacuate moves the state of such an object to a Workspace of the other scope. Until then, the manager writes nothing.
func TestEvacuationMayReferToATemplateOfTheOtherScope(t *testing.T) {
	w := newEnvironment(t, builder.WorkspaceTemplate("wide", builder.WithScope(terraform.ScopeCluster)), builder.WorkspaceTemplate("namespaced"))
	wide := builder.WorkspaceTemplateApply("demo", of("", "wide"), builder.With(func(apply *wta) {
		apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{APIVersion: terraform.ScopeCluster.GroupVersionKind().GroupVersion().String(), Kind: "Workspace", Name: "demo"}
	}))
	namespaced := wide.DeepCopy()
	namespaced.Spec.TemplateRef.Name = "namespaced"
	for manager, want := range map[string][]string{naming.MigrationFieldManager: nil, "kubectl": {"spec.templateRef"}} {
		assert.Equal(t, want, refusedFields(t, validated(t, validator[*infrav1.WorkspaceTemplateApply]{reader: w}, wide, namespaced, by(manager))))
	}
}

// Otherwise a tenant could find out which templates exist in the namespaces of others, and which of them captctl migrate created.
func TestAdmissionDoesNotDiscloseTemplatesOfOtherNamespaces(t *testing.T) {
	closed := func(name string, options ...builder.Option) client.Object {
		return builder.WorkspaceTemplate(name, append(options, builder.WithNamespace("platform"))...)
	}
	blue := builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.AllowedNamespaces.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "blue"}}
	})
	w := newEnvironment(t, closed("closed"), closed("others", allowing("another-team")), closed("labels", blue),
		closed("pinned", builder.WithLabel(naming.PinnedLabel, "true")),
		closed("consuming", builder.Consuming("endpoint_public_access_cidrs"), builder.WithModule(`output "a" { value = "${word}" }`)),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: builder.Namespace}},
		builder.WorkspaceTemplate("own"), builder.WorkspaceTemplateApply("demo", builder.WithWorkspaceName("demo")))
	for _, template := range []string{"closed", "others", "labels", "pinned", "consuming"} {
		t.Run(template, func(t *testing.T) {
			assert.Equal(t, answers(t, w, "absent"), answers(t, w, template))
		})
	}
}

// answers returns all that admission answers to requests with a template of the namespace platform, without the name of the template.
func answers(t *testing.T, w cacheReader, template string) (texts []string) {
	t.Helper()
	ref := infrav1.WorkspaceTemplateReference{Namespace: "platform", Name: template}
	apply := func(ref infrav1.WorkspaceTemplateReference) *infrav1.WorkspaceTemplateApply {
		return builder.WorkspaceTemplateApply("demo", of(ref.Namespace, ref.Name), builder.WithVariables(map[string]string{"word": `"`}))
	}
	captCluster := builder.CAPTCluster("demo", builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.Ref = ref }))
	controlPlane := builder.CAPTControlPlane("demo", builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.WorkspaceTemplateRef, c.Spec.Variables = ref, infrav1.TextVariables(map[string]string{"word": `"`})
		c.Spec.EndpointAccess = &controlplanev1.EndpointAccess{PublicCIDRs: []controlplanev1.CIDR{"203.0.113.0/24"}}
		c.Spec.FargateProfiles = []controlplanev1.FargateProfile{{Name: "web", WorkspaceTemplateRef: ref, Selectors: []controlplanev1.FargateSelector{{Namespace: "web"}}}}
	}))
	add := func(object client.Object, responses ...admission.Response) {
		data, err := json.Marshal(object)
		require.NoError(t, err)
		texts = append(texts, string(data))
		for _, response := range responses {
			data, err := json.Marshal(response)
			require.NoError(t, err)
			texts = append(texts, string(data))
		}
	}
	ofApply := &defaulter[*infrav1.WorkspaceTemplateApply]{reader: w}
	own := apply(infrav1.WorkspaceTemplateReference{Name: "own"})
	add(defaulted(t, ofApply, nil, apply(ref)), validated(t, validator[*infrav1.WorkspaceTemplateApply]{reader: w}, nil, apply(ref)),
		validated(t, validator[*infrav1.WorkspaceTemplateApply]{reader: w}, own, apply(ref)), validated(t, validator[*infrav1.WorkspaceTemplateApply]{reader: w}, apply(ref), own))
	add(replaced(t, ofApply, apply(ref), own, "v1beta1"))
	add(defaulted(t, &defaulter[*infrav1.CAPTCluster]{reader: w}, nil, captCluster.DeepCopy()), validated(t, validator[*infrav1.CAPTCluster]{reader: w}, nil, captCluster))
	add(defaulted(t, &defaulter[*controlplanev1.CAPTControlPlane]{reader: w}, nil, controlPlane.DeepCopy()), validated(t, validator[*controlplanev1.CAPTControlPlane]{reader: w}, nil, controlPlane))
	for i := range texts {
		texts[i] = strings.ReplaceAll(texts[i], template, "NAME")
	}
	return texts
}
