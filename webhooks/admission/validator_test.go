// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

// newEnvironment returns a reader for objects, as the webhooks have it.
func newEnvironment(t *testing.T, objects ...client.Object) cacheReader {
	t.Helper()
	fakes := fake.NewClientBuilder().WithScheme(builder.Scheme()).WithObjects(objects...)
	require.NoError(t, indexFields(t.Context(), builder.Indexes{ClientBuilder: fakes}))
	return cacheReader{Reader: fakes.Build()}
}

// request returns the admission request for a change from old, which is nil for a new object.
func request(t *testing.T, old, object client.Object) admission.Request {
	t.Helper()
	gvk, err := apiutil.GVKForObject(object, builder.Scheme())
	require.NoError(t, err)
	raw := func(object client.Object) runtime.RawExtension {
		data, err := json.Marshal(object)
		require.NoError(t, err)
		return runtime.RawExtension{Raw: data}
	}
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: object.GetNamespace(), Name: object.GetName(),
		Kind: metav1.GroupVersionKind(gvk), Object: raw(object),
	}}
	if old != nil {
		r.Operation, r.OldObject = admissionv1.Update, raw(old)
	}
	return r
}

// defaulted returns an object after defaulting.
func defaulted[T client.Object](t *testing.T, defaulter *defaulter[T], old, object T) T {
	t.Helper()
	return replaced(t, defaulter, old, object, "v1beta2")
}

// by makes a request one of a field manager. The user may migrate.
func by(manager string) func(*admission.Request) {
	return func(r *admission.Request) {
		r.Options.Raw, r.UserInfo.Username = fmt.Appendf(nil, `{"fieldManager":%q}`, manager), administrator
	}
}

const administrator = "administrator"

// isAdministrator is a reviewer.
func isAdministrator(_ context.Context, r admission.Request) (bool, error) {
	return r.UserInfo.Username == administrator, nil
}

// replaced returns an object after a client replaced it with a manifest in a version.
func replaced[T client.Object](t *testing.T, defaulter *defaulter[T], old, manifest T, version string, changes ...func(*admission.Request)) T {
	t.Helper()
	defaulter.decoder, defaulter.mayMigrate = admission.NewDecoder(builder.Scheme()), isAdministrator
	r := request(t, absent(old), manifest)
	r.RequestKind = &metav1.GroupVersionKind{Group: r.Kind.Group, Version: version, Kind: r.Kind.Kind}
	for _, change := range changes {
		change(&r)
	}
	response := defaulter.Handle(t.Context(), r)
	require.True(t, response.Allowed, "%v", response.Result)
	data := r.Object.Raw
	if len(response.Patches) > 0 {
		operations, err := json.Marshal(response.Patches)
		require.NoError(t, err)
		patch, err := jsonpatch.DecodePatch(operations)
		require.NoError(t, err)
		data, err = patch.Apply(data)
		require.NoError(t, err)
	}
	out := newObject(manifest)
	require.NoError(t, json.Unmarshal(data, out))
	out.SetCreationTimestamp(manifest.GetCreationTimestamp()) // JSON has no time zone.
	return out
}

// validated returns the response to a change from old, which is nil for a new object.
func validated[T client.Object](t *testing.T, validator validator[T], old, object T, changes ...func(*admission.Request)) admission.Response {
	t.Helper()
	r := request(t, absent(old), object)
	for _, change := range changes {
		change(&r)
	}
	validator.mayMigrate = isAdministrator
	return admission.WithValidator[T](builder.Scheme(), validator).Handler.Handle(t.Context(), r)
}

// absent turns a nil pointer into a nil interface.
func absent[T client.Object](object T) client.Object {
	if any(object) == any(*new(T)) {
		return nil
	}
	return object
}

// refusedFields returns the fields in an error.
func refusedFields(t *testing.T, response admission.Response) []string {
	t.Helper()
	if response.Allowed {
		return nil
	}
	require.Equal(t, metav1.StatusReasonInvalid, response.Result.Reason, "%v", response.Result)
	var fields []string
	for _, cause := range response.Result.Details.Causes {
		fields = append(fields, cause.Field)
	}
	return fields
}

// A Cluster of a ClusterClass refers to its objects only after their creation. Until then, they have its name in a label or owner
// reference.
func TestClusterOf(t *testing.T) {
	unreferring := builder.With(func(cluster *clusterv1.Cluster) {
		cluster.Spec.InfrastructureRef, cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}, clusterv1.ContractVersionedObjectReference{}
	})
	labeled := builder.WithLabel(clusterv1.ClusterNameLabel, "demo")
	owned := func(object client.Object) {
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Cluster", Name: "demo", UID: "u"}})
	}
	foreign := func(object client.Object) {
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "other.example.com/v1", Kind: "Cluster", Name: "demo", UID: "u"}})
	}
	for name, row := range map[string]struct {
		cluster *clusterv1.Cluster
		object  []builder.Option
		found   bool
	}{
		"refers to it":               {builder.Cluster("demo"), nil, true},
		"does not refer to it yet":   {builder.Cluster("demo", unreferring), nil, false},
		"is named by its label":      {builder.Cluster("demo", unreferring), []builder.Option{labeled}, true},
		"is its owner":               {builder.Cluster("demo", unreferring), []builder.Option{owned}, true},
		"is another kind of Cluster": {builder.Cluster("demo", unreferring), []builder.Option{foreign}, false},
		"is in another namespace":    {builder.Cluster("demo", unreferring, builder.WithNamespace("x")), []builder.Option{labeled}, false},
		"does not exist":             {builder.Cluster("other", unreferring), []builder.Option{labeled, owned}, false},
		"refers to another in its place": {builder.Cluster("demo", builder.With(func(cluster *clusterv1.Cluster) {
			cluster.Spec.InfrastructureRef.Name, cluster.Spec.ControlPlaneRef.Name = "other", "other"
		})), []builder.Option{labeled}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnvironment(t, row.cluster)
			for _, object := range []validation.Owner{builder.CAPTCluster("demo", row.object...), builder.CAPTControlPlane("demo", row.object...)} {
				got, err := w.ClusterOf(t.Context(), object)
				require.NoError(t, err)
				assert.Equal(t, row.found, got != nil, "%T", object)
			}
		})
	}
}

func TestOtherNamespacesAreNotReadFromTheCache(t *testing.T) {
	shared := builder.WorkspaceTemplate("vpc", builder.WithNamespace("shared"))
	w := newEnvironment(t)
	w.Namespace, w.OtherNamespaces = builder.Namespace, newEnvironment(t, shared)
	found, err := validation.Get[*infrav1.WorkspaceTemplate](t.Context(), w, client.ObjectKeyFromObject(shared))
	require.NoError(t, err)
	require.NotNil(t, found)
	found, err = validation.Get[*infrav1.WorkspaceTemplate](t.Context(), w, client.ObjectKey{Namespace: builder.Namespace, Name: "vpc"})
	require.NoError(t, err)
	require.Nil(t, found)
}

// write is a new object or a change of an old one, and the fields for which it is rejected. The rules are tested in api/validation. These
// rows prove that the webhooks call them for each kind, and that objects from before a rule are rejected only for changed fields.
type write struct {
	old, object client.Object
	want        []string
}

func (r write) validated(t *testing.T, w cacheReader) admission.Response {
	t.Helper()
	switch object := r.object.(type) {
	case *infrav1.CAPTCluster:
		return validated(t, validator[*infrav1.CAPTCluster]{reader: w}, as[*infrav1.CAPTCluster](r.old), object)
	case *infrav1.CAPTClusterTemplate:
		return validated(t, validator[*infrav1.CAPTClusterTemplate]{reader: w}, as[*infrav1.CAPTClusterTemplate](r.old), object)
	case *controlplanev1.CAPTControlPlane:
		return validated(t, validator[*controlplanev1.CAPTControlPlane]{reader: w}, as[*controlplanev1.CAPTControlPlane](r.old), object)
	case *controlplanev1.CAPTControlPlaneTemplate:
		return validated(t, validator[*controlplanev1.CAPTControlPlaneTemplate]{reader: w}, as[*controlplanev1.CAPTControlPlaneTemplate](r.old), object)
	case *infrav1.WorkspaceTemplate:
		return validated(t, validator[*infrav1.WorkspaceTemplate]{reader: w}, as[*infrav1.WorkspaceTemplate](r.old), object)
	default:
		return validated(t, validator[*infrav1.WorkspaceTemplateApply]{reader: w}, as[*wta](r.old), object.(*wta))
	}
}

// as returns the object; a nil pointer when there is none.
func as[T client.Object](object client.Object) T {
	typed, _ := object.(T)
	return typed
}

func TestEachKindIsValidated(t *testing.T) {
	variables := func(names ...string) builder.Option {
		variables := map[string]string{}
		for _, name := range names {
			variables[name] = ""
		}
		return builder.WithVariables(variables)
	}
	tag := func(key string) builder.Option {
		return builder.With(func(c *controlplanev1.CAPTControlPlane) {
			c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{key: ""}
		})
	}
	version := func(text string) builder.Option {
		return builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = text })
	}
	class := func(labels map[string]string, options ...builder.Option) *infrav1.CAPTClusterTemplate {
		template := &infrav1.CAPTClusterTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: "class"}}
		template.Spec.Template.ObjectMeta.Labels = labels
		template.Spec.Template.Spec = builder.CAPTCluster("demo", options...).Spec.CAPTClusterTemplateResourceSpec
		return template
	}
	planes := func(options ...builder.Option) *controlplanev1.CAPTControlPlaneTemplate {
		template := &controlplanev1.CAPTControlPlaneTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: "class"}}
		template.Spec.Template.Spec = builder.CAPTControlPlane("demo", options...).Spec.CAPTControlPlaneTemplateResourceSpec
		return template
	}
	cluster, plane, template, apply := builder.CAPTCluster, builder.CAPTControlPlane, builder.WorkspaceTemplate, builder.WorkspaceTemplateApply
	const ref, module = "demo-eks-controlplane-apply", "spec.template.spec.forProvider.module"
	refers, elsewhere, deleting, finalizer := builder.WithApplyRef(ref), builder.WithRegion("us-east-1"), builder.Deleting(), builder.WithFinalizers("f")
	broken := builder.WithModule("locals {")
	args := builder.WithParameters(func(params *terraform.WorkspaceParameters) { params.InitArgs = []string{"-backend=false"} })
	url := builder.WithEndpoint("https://a.example.com", 443) // The form of CAPT v0.3.
	named, recorded := builder.WithWorkspaceName, builder.WithRecordedWorkspace(builder.Workspace("b", builder.AtRest))
	bad := func(more ...builder.Option) *wta {
		return apply("a", append([]builder.Option{named("b"), builder.WithConnectionSecret("s", "other"), variables("a-b"), builder.WaitingForWorkspace("b", "")}, more...)...)
	}
	w := newEnvironment(t, template("vpc"), template("eks"), template("fargate"), template("wide", builder.WithScope(terraform.ScopeCluster)),
		builder.Cluster("demo"), cluster("demo"), cluster("other", builder.WithApplyRef("by-hand")), plane("demo", refers), apply("b", named("b"), builder.WaitingForWorkspace("a", "")), apply("x-apply", named("x")),
		apply(ref, builder.OwnedBy(plane("demo")), builder.UpToDate(nil), of("", "eks"),
			builder.WithVariables(map[string]string{"cluster_name": "demo", "kubernetes_version": "1.31", "region": builder.Region})))
	for name, row := range map[string]write{
		"CAPTCluster":                                           {nil, cluster("demo", builder.WithApplyRef("demo-vpc")), nil},
		"CAPTCluster with a reference in use":                   {nil, cluster("demo", builder.WithApplyRef("by-hand")), []string{"spec.workspaceTemplateApplyRef.name"}},
		"CAPTCluster, bad before, labeled":                      {cluster("demo", variables("a-b")), cluster("demo", variables("a-b"), builder.WithLabel("a", "b")), nil},
		"CAPTCluster, invalid before, other field changed":      {cluster("demo", variables("a-b")), cluster("demo", variables("a-b", "size")), nil},
		"CAPTCluster, bad before, and now good":                 {cluster("demo", variables("a-b")), cluster("demo"), nil},
		"CAPTCluster, one more mistake of the same kind":        {cluster("demo", variables("a-b")), cluster("demo", variables("a-b", "c-d")), []string{"spec.vpc.template.variables[c-d]"}},
		"CAPTCluster, bad, and being deleted":                   {cluster("demo"), cluster("demo", variables("a-b"), deleting, finalizer), nil},
		"CAPTClusterTemplate":                                   {nil, class(nil), nil},
		"CAPTClusterTemplate, bad":                              {nil, class(nil, variables("a-b")), []string{"spec.template.spec.vpc.template.variables[a-b]"}},
		"CAPTClusterTemplate, changed":                          {class(nil), class(nil, elsewhere), []string{"spec.template.spec"}},
		"CAPTClusterTemplate, bad before, and labeled":          {class(nil, variables("a-b")), class(map[string]string{"a": "b"}, variables("a-b")), nil},
		"CAPTControlPlane":                                      {nil, plane("demo", refers), nil},
		"CAPTControlPlane, two mistakes":                        {nil, plane("demo", refers, tag("a;b"), elsewhere), []string{"spec.additionalTags[a;b]", "spec.region"}},
		"CAPTControlPlane, the next version":                    {plane("demo", refers, version("1.31")), plane("demo", refers, version("1.32")), nil},
		"CAPTControlPlane, two versions, from the first":        {plane("demo", refers, version("1.32")), plane("demo", refers, version("1.33")), []string{"spec.version"}},
		"CAPTControlPlane, two regions, one corrected":          {plane("demo", elsewhere), plane("demo", builder.WithRegion("")), nil}, // Both were created before the Cluster.
		"CAPTControlPlane, two regions, another wrong one":      {plane("demo", elsewhere), plane("demo", builder.WithRegion("us-east-2")), []string{"spec.region"}},
		"CAPTControlPlane, two regions, other field changed":    {plane("demo", elsewhere), plane("demo", elsewhere, tag("team")), nil},
		"CAPTControlPlane, another region, built nowhere":       {plane("new", elsewhere), plane("new", builder.WithRegion("us-east-2")), nil},
		"CAPTControlPlane, invalid before, other field changed": {plane("demo", refers, tag("a;b")), plane("demo", refers, tag("a;b"), profiles("a", "")), nil},
		"CAPTControlPlane, bad before, and another one":         {plane("demo", refers, tag("a;b")), plane("demo", refers, tag("c;d")), []string{"spec.additionalTags[c;d]"}},
		"CAPTControlPlane, bad before, finalizer removed":       {plane("demo", refers, tag("a;b"), finalizer), plane("demo", refers, tag("a;b")), nil},
		"CAPTControlPlane, its endpoint repaired":               {plane("demo", refers, url), plane("demo", refers, builder.WithEndpoint("a.example.com", 443)), nil},
		"CAPTControlPlaneTemplate":                              {nil, planes(), nil},
		"CAPTControlPlaneTemplate, bad":                         {nil, planes(variables("a-b")), []string{"spec.template.spec.variables[a-b]"}},
		"CAPTControlPlaneTemplate, changed from bad":            {planes(variables("a-b")), planes(), []string{"spec.template.spec"}},
		"WorkspaceTemplate":                                     {nil, template("vpc"), nil},
		"WorkspaceTemplate, bad":                                {template("vpc"), template("vpc", broken), []string{module}},
		"WorkspaceTemplate, bad before, allowed to others":      {template("vpc", broken), template("vpc", broken, allowing("team")), nil},
		"WorkspaceTemplate, bad before, another mistake":        {template("vpc", broken), template("vpc", broken, args), []string{"spec.template.spec.forProvider.initArgs[0]"}},
		"WorkspaceTemplateApply":                                {nil, apply("a", named("a")), nil},
		"WorkspaceTemplateApply, reserved name":                 {nil, apply("demo-vpc", of("", "small")), []string{"metadata.name"}},
		"WorkspaceTemplateApply, bad":                           {nil, bad(), []string{"spec.writeConnectionSecretToRef.namespace", "spec.variables[a-b]", "spec.workspaceName", "spec.waitForWorkspaces[0]"}},
		"WorkspaceTemplateApply, bad before, another field":     {bad(), bad(builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain)), nil},
		"WorkspaceTemplateApply, bad before, another mistake":   {bad(), bad(variables("a-b", "c-d")), []string{"spec.variables[c-d]"}},
		"WorkspaceTemplateApply, to another scope":              {bad(recorded), bad(recorded, of("", "wide")), []string{"spec.templateRef"}},
		"WorkspaceTemplateApply, another cluster":               {apply("a", named("a"), recorded), apply("a", named("a"), recorded, variables("cluster_name")), []string{"spec.variables[cluster_name]"}},
		"WorkspaceTemplateApply, another, nothing built":        {apply("a", named("a")), apply("a", named("a"), variables("cluster_name")), nil},
		"WorkspaceTemplateApply, named when its template came":  {apply("x"), apply("x", named("x")), nil}, // Although x-apply has the same name.
	} {
		t.Run(name, func(t *testing.T) { assert.ElementsMatch(t, row.want, refusedFields(t, row.validated(t, w))) })
	}
}
