// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/builder"
)

// nameless is an option for an object with generateName.
func nameless(object client.Object) {
	object.SetGenerateName(object.GetName() + "-")
	object.SetName("")
}

// unborn removes the fields that the API server has not set yet when it calls the defaulting webhook.
func unborn(object client.Object) { object.SetUID("") }

// unadopted is a WorkspaceTemplateApply of CAPT v0.3.
var unadopted = builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)

func TestReferenceOfANewCAPTClusterIsDefaulted(t *testing.T) {
	for name, row := range map[string]struct {
		there  []client.Object
		object []builder.Option
		want   string // Empty for no reference.
	}{
		"nothing is there":                     {nil, nil, "demo-vpc"},
		"apply in another namespace":           {[]client.Object{builder.WorkspaceTemplateApply("demo-vpc", builder.WithNamespace("x"))}, nil, "demo-vpc"},
		"apply of another name":                {[]client.Object{builder.WorkspaceTemplateApply("demo")}, nil, "demo-vpc"},
		"apply of that name exists":            {[]client.Object{builder.WorkspaceTemplateApply("demo-vpc")}, nil, ""},
		"apply of that name has another owner": {[]client.Object{builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(builder.CAPTCluster("other")))}, nil, ""},
		"the user chose":                       {nil, []builder.Option{builder.WithApplyRef("by-hand")}, "by-hand"},
		"the user chose an existing one":       {[]client.Object{builder.WorkspaceTemplateApply("demo-vpc")}, []builder.Option{builder.WithApplyRef("demo-vpc")}, "demo-vpc"},
		"one CAPT v0.3 left":                   {[]client.Object{builder.WorkspaceTemplateApply("by-hand", unadopted)}, nil, ""},
		"CAPT v0.3's, of another owner":        {[]client.Object{builder.WorkspaceTemplateApply("x", unadopted, builder.OwnedBy(builder.CAPTCluster("x")))}, nil, "demo-vpc"},
		"CAPT v0.3's, of another namespace":    {[]client.Object{builder.WorkspaceTemplateApply("x", unadopted, builder.WithNamespace("x"))}, nil, "demo-vpc"},
		"CAPT v0.3's, adopted":                 {[]client.Object{builder.WorkspaceTemplateApply("x", unadopted, builder.WithWorkspaceName("x"))}, nil, "demo-vpc"},
		"existing VPC":                         {nil, []builder.Option{builder.WithExistingVPC("vpc-1")}, ""},
		"generateName":                         {nil, []builder.Option{nameless}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			object := builder.CAPTCluster("demo", append(row.object, unborn)...)
			got := defaulted(t, &defaulter[*infrav1.CAPTCluster]{reader: newEnvironment(t, row.there...)}, nil, object)
			want := object.DeepCopy()
			builder.WithApplyRef(row.want)(want)
			assert.Equal(t, want, got)
		})
	}
	require.ErrorIs(t, setDefaults(t.Context(), down, builder.CAPTCluster("demo")), assert.AnError)
	require.NoError(t, setDefaults(t.Context(), down, builder.CAPTCluster("demo", builder.WithApplyRef("by-hand"))))
}

// kubectl replace and GitOps tools replace the object with a manifest without the reference.
func TestCAPTClusterKeepsItsReference(t *testing.T) {
	w := newEnvironment(t)
	old := builder.CAPTCluster("demo", builder.WithApplyRef("by-hand"))
	assert.Equal(t, old, defaulted(t, &defaulter[*infrav1.CAPTCluster]{reader: w}, old, builder.CAPTCluster("demo")))

	other := builder.CAPTCluster("demo", builder.WithApplyRef("other"))
	assert.Equal(t, other, defaulted(t, &defaulter[*infrav1.CAPTCluster]{reader: w}, old, other), "the schema refuses it, and reports why")

	without := builder.CAPTCluster("demo")
	assert.Equal(t, without, defaulted(t, &defaulter[*infrav1.CAPTCluster]{reader: w}, without, without), "an older object waits for the user, or for the controller")
}

// down is a reader of an API server that does not respond.
var down = cacheReader{Reader: builder.FailingGet[client.Object](builder.Clients().Build(), assert.AnError)}

// profiles returns an option that adds Fargate profiles. The value is the name in their reference; empty for none.
func profiles(pairs ...string) builder.Option {
	return builder.With(func(c *controlplanev1.CAPTControlPlane) {
		for i := 0; i < len(pairs); i += 2 {
			profile := controlplanev1.FargateProfile{Name: pairs[i], WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"},
				Selectors: []controlplanev1.FargateSelector{{Namespace: "default"}}}
			if pairs[i+1] != "" {
				profile.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{Name: pairs[i+1]}
			}
			c.Spec.FargateProfiles = append(c.Spec.FargateProfiles, profile)
		}
	})
}

func TestReferenceOfANewCAPTControlPlaneIsDefaulted(t *testing.T) {
	for name, row := range map[string]struct {
		there  []client.Object
		object []builder.Option
		want   string // Empty for no reference.
	}{
		"nothing is there":          {nil, nil, "demo-eks-controlplane-apply"},
		"apply of that name exists": {[]client.Object{builder.WorkspaceTemplateApply("demo-eks-controlplane-apply")}, nil, ""},
		"the user chose":            {nil, []builder.Option{builder.WithApplyRef("by-hand")}, "by-hand"},
		"generateName":              {nil, []builder.Option{nameless}, ""},
		"it was built once":         {nil, []builder.Option{builder.WithEndpoint("demo.eks.amazonaws.com", 443)}, ""},
		"one CAPT v0.3 left":        {[]client.Object{builder.WorkspaceTemplateApply("by-hand", unadopted)}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			object := builder.CAPTControlPlane("demo", append(row.object, unborn)...)
			got := defaulted(t, &defaulter[*controlplanev1.CAPTControlPlane]{reader: newEnvironment(t, row.there...)}, nil, object)
			want := object.DeepCopy()
			builder.WithApplyRef(row.want)(want)
			assert.Equal(t, want, got)
		})
	}
	require.ErrorIs(t, setDefaults(t.Context(), down, builder.CAPTControlPlane("demo")), assert.AnError)
}

// Cluster API's contract requires a semantic version with the prefix v.
func TestVersionIsStoredInFull(t *testing.T) {
	version := func(text string) *controlplanev1.CAPTControlPlane {
		return builder.CAPTControlPlane("demo", unborn, builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = text }))
	}
	for given, want := range map[string]string{
		"1.34": "v1.34.0", "v1.34": "v1.34.0", "1.34.2": "v1.34.2", "v1.34.2": "v1.34.2", "latest": "latest", "": "",
	} {
		defaults := &defaulter[*controlplanev1.CAPTControlPlane]{reader: newEnvironment(t)}
		assert.Equal(t, want, defaulted(t, defaults, nil, version(given)).Spec.Version, "created with %q", given)
		assert.Equal(t, want, defaulted(t, defaults, version("v1.33.0"), version(given)).Spec.Version, "changed to %q", given)
	}
}

func TestCAPTControlPlaneKeepsFieldsThatCAPTWrote(t *testing.T) {
	old := builder.CAPTControlPlane("demo", builder.WithApplyRef("by-hand"), builder.WithEndpoint("1.2.3.4", 443), profiles("a", "of-a", "b", "of-b", "c", ""))
	for name, row := range map[string]struct{ update, want []builder.Option }{
		"all of it is left out": {
			[]builder.Option{profiles("a", "", "b", "", "c", "")},
			[]builder.Option{builder.WithApplyRef("by-hand"), builder.WithEndpoint("1.2.3.4", 443), profiles("a", "of-a", "b", "of-b", "c", "")}},
		"profiles move, come and go": {
			[]builder.Option{profiles("new", "", "b", "")},
			[]builder.Option{builder.WithApplyRef("by-hand"), builder.WithEndpoint("1.2.3.4", 443), profiles("new", "", "b", "of-b")}},
		"values of the user are kept": {
			[]builder.Option{builder.WithApplyRef("x"), builder.WithEndpoint("5.6.7.8", 6443), profiles("a", "x")},
			[]builder.Option{builder.WithApplyRef("x"), builder.WithEndpoint("5.6.7.8", 6443), profiles("a", "x")}},
	} {
		t.Run(name, func(t *testing.T) {
			got := defaulted(t, &defaulter[*controlplanev1.CAPTControlPlane]{reader: newEnvironment(t)}, old, builder.CAPTControlPlane("demo", row.update...))
			assert.Equal(t, builder.CAPTControlPlane("demo", row.want...), got)
		})
	}
}

// CAPT v0.3 wrote a URL as the host, so that clients cannot connect.
func TestAnInvalidEndpointIsNotRestored(t *testing.T) {
	for stored, want := range map[string][]builder.Option{
		"https://a.example.com": {builder.WithEndpoint("a.example.com", 443)},
		"http://a.example.com":  nil,
	} {
		old := builder.CAPTControlPlane("demo", builder.WithEndpoint(stored, 443))
		got := defaulted(t, &defaulter[*controlplanev1.CAPTControlPlane]{reader: newEnvironment(t)}, old, builder.CAPTControlPlane("demo"))
		assert.Equal(t, builder.CAPTControlPlane("demo", want...), got)
	}
}

// Otherwise the API server would report that the version is too short, and not that it is missing.
func TestDefaultingAddsNoEmptyFields(t *testing.T) {
	defaulter := &defaulter[*controlplanev1.CAPTControlPlane]{reader: newEnvironment(t)}
	defaulter.decoder = admission.NewDecoder(builder.Scheme())
	r := request(t, nil, builder.CAPTControlPlane("demo"))
	r.Object.Raw = []byte(`{"apiVersion":"controlplane.cluster.x-k8s.io/v1beta2","kind":"CAPTControlPlane","metadata":{"namespace":"team","name":"demo"},"spec":{"workspaceTemplateRef":{"name":"eks"},"unknown":1}}`)
	response := defaulter.Handle(t.Context(), r)
	require.Len(t, response.Patches, 1)
	assert.Equal(t, "add", response.Patches[0].Operation)
	assert.Equal(t, "/spec/workspaceTemplateApplyRef", response.Patches[0].Path)
}

// An object that was stored before the rule existed can be changed in other fields; an update cannot add a field without effect.
func TestUpdatesOfFieldsThatHaveNoEffect(t *testing.T) {
	closed := func(cidrs ...controlplanev1.CIDR) builder.Option {
		return builder.With(func(c *controlplanev1.CAPTControlPlane) {
			c.Spec.EndpointAccess = &controlplanev1.EndpointAccess{PublicCIDRs: cidrs}
		})
	}
	office, running := closed("203.0.113.0/24"), builder.WithEndpoint("x.eks.amazonaws.com", 443)
	elsewhere := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Variables = infrav1.TextVariables(map[string]string{"a": "b"})
	})
	plane := func(options ...builder.Option) *controlplanev1.CAPTControlPlane {
		return builder.CAPTControlPlane("demo", options...)
	}
	refused := []string{"spec.endpointAccess.publicCIDRs"}
	for name, row := range map[string]struct {
		old, controlPlane *controlplanev1.CAPTControlPlane
		want              []string
	}{
		"a new one": {nil, plane(office), refused},
		"new object of an existing cluster, as after a move": {nil, plane(office, running), nil},
		"change of another field":                            {plane(office), plane(office, elsewhere), nil},
		"change of another field, existing cluster":          {plane(office, running), plane(office, running, elsewhere), nil},
		"an endpoint that is written":                        {plane(office), plane(office, running), nil},
		"a field that is set":                                {plane(), plane(office), refused},
		"a field that is set, and it runs":                   {plane(running), plane(running, office), refused},
		"other networks, and it runs":                        {plane(running, office), plane(running, closed("198.51.100.0/24")), refused},
		"a field that is unset, and it runs":                 {plane(running, office), plane(running), nil},
	} {
		t.Run(name, func(t *testing.T) {
			environment := newEnvironment(t, builder.WorkspaceTemplate("eks"))
			assert.Equal(t, row.want, refusedFields(t, validated(t, validator[*controlplanev1.CAPTControlPlane]{reader: environment}, row.old, row.controlPlane)))
		})
	}
}

// captctl migrate changes the template of the owner before the template of its WorkspaceTemplateApply.
func TestMigrationMayPinTheTemplateOfTheOwnerFirst(t *testing.T) {
	old := builder.CAPTControlPlane("demo")
	w := newEnvironment(t, builder.WorkspaceTemplate("pinned"), builder.WorkspaceTemplateApply("other-name", of("", "eks"), builder.OwnedBy(old)), builder.Cluster("demo"))
	pinned := builder.CAPTControlPlane("demo", builder.WithApplyRef("other-name"), builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.WorkspaceTemplateRef.Name = "pinned"
	}))
	for manager, want := range map[string][]string{naming.MigrationFieldManager: nil, "kubectl": {"spec.workspaceTemplateApplyRef.name"}} {
		t.Run(manager, func(t *testing.T) {
			assert.Equal(t, want, refusedFields(t, validated(t, validator[*controlplanev1.CAPTControlPlane]{reader: w}, old, pinned, by(manager))))
		})
	}
}
