// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/webhooks/conversion"
)

// forgotten returns an object after a round trip through v1beta1 without the annotation, as from a manifest in Git.
func forgotten[T client.Object](t *testing.T, object T) T {
	t.Helper()
	scheme, registry := conversion.NewRegistry()
	gvks, _, err := scheme.ObjectKinds(object)
	require.NoError(t, err)
	hub := gvks[0]
	converter, found := registry.GetConverter(hub.GroupKind())
	require.True(t, found)
	spoke, err := scheme.New(hub.GroupKind().WithVersion("v1beta1"))
	require.NoError(t, err)
	back := newObject(object)
	spoke.GetObjectKind().SetGroupVersionKind(hub.GroupKind().WithVersion("v1beta1"))
	for _, o := range []client.Object{object, back} {
		o.GetObjectKind().SetGroupVersionKind(hub)
	}
	require.NoError(t, converter.ConvertObject(t.Context(), object, spoke))
	spoke.(client.Object).SetAnnotations(nil)
	require.NoError(t, converter.ConvertObject(t.Context(), spoke, back))
	back.SetAnnotations(nil)
	back.SetManagedFields(nil)
	return back
}

func TestManifestInAnOlderVersionDoesNotRemoveHubFields(t *testing.T) {
	t.Run("CAPTCluster with a template", func(t *testing.T) {
		old := builder.CAPTCluster("demo", builder.With(func(c *infrav1.CAPTCluster) {
			c.Spec.DeletionProtection = infrav1.DeletionProtectionEnabled
			c.Spec.VPC = infrav1.VPC{Template: infrav1.VPCTemplate{
				Ref: infrav1.WorkspaceTemplateReference{Name: "vpc"}, Variables: infrav1.TextVariables(map[string]string{"a": "b"}), DeletionPolicy: infrav1.DeletionPolicyDelete, TimeoutSeconds: 60,
			}}
		}))
		manifest := forgotten(t, old)
		require.Empty(t, manifest.Spec.VPC.Template.Variables)
		assert.Equal(t, old.Spec, replaced(t, &defaulter[*infrav1.CAPTCluster]{reader: newEnvironment(t)}, old, manifest, "v1beta1").Spec)
		assert.Empty(t, replaced(t, &defaulter[*infrav1.CAPTCluster]{reader: newEnvironment(t)}, old, manifest, "v1beta2").Spec.VPC.Template.Variables, "in v1beta2 it is set")
	})
	t.Run("CAPTCluster with a VPC", func(t *testing.T) {
		old := builder.CAPTCluster("demo", builder.With(func(c *infrav1.CAPTCluster) {
			c.Spec.VPC = infrav1.VPC{ExistingID: "vpc-1", ConnectionSecretRef: infrav1.LocalSecretReference{Name: "vpc"}}
		}))
		assert.Equal(t, old.Spec, replaced(t, &defaulter[*infrav1.CAPTCluster]{reader: newEnvironment(t)}, old, forgotten(t, old), "v1beta1").Spec)
	})
	t.Run("CAPTControlPlane", func(t *testing.T) {
		old := builder.CAPTControlPlane("demo", builder.With(func(c *controlplanev1.CAPTControlPlane) {
			c.Spec.Variables = infrav1.TextVariables(map[string]string{"a": "b"})
			c.Spec.Kubeconfig.Source = controlplanev1.KubeconfigSource("Output")
			c.Spec.EndpointProbe = controlplanev1.EndpointProbe("Disabled")
			c.Spec.DeletionProtection = infrav1.DeletionProtectionEnabled
			c.Spec.Recovery = &infrav1.RecoveryStrategy{MaxRetries: ptr.To[int32](1)}
			c.Spec.Timeouts = controlplanev1.Timeouts{ControlPlaneSeconds: 600, VPCReadySeconds: 900, SecretSeconds: 60}
			c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "example.com", Port: 443}
		}), profiles("a", "of-a", "B", "of-b"))
		manifest := forgotten(t, old)
		manifest.Spec.ControlPlaneEndpoint.Host = "https://example.com" // An export from before the adoption.
		assert.Equal(t, old.Spec, replaced(t, &defaulter[*controlplanev1.CAPTControlPlane]{reader: newEnvironment(t)}, old, manifest, "v1beta1").Spec)
	})
	t.Run("WorkspaceTemplate", func(t *testing.T) {
		old := builder.WorkspaceTemplate("eks", builder.With(func(template *infrav1.WorkspaceTemplate) {
			template.Spec.WorkspaceScope = terraform.ScopeNamespaced
			template.Spec.AllowedNamespaces = infrav1.AllowedNamespaces{Names: []string{"shop"}}
			template.Spec.PublishOutputs = []string{"words"}
			template.Spec.PassVariables, template.Spec.Inputs = infrav1.PassDeclared, []infrav1.TemplateInput{{Name: "a"}}
			template.Spec.Rollout = infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Canary: infrav1.RolloutCanaries{Count: 1}}
			template.Spec.Template.Spec = terraform.WorkspaceSpec{
				DeletionPolicy: terraform.DeletionDelete, ManagementPolicies: []terraform.ManagementAction{terraform.ManageAll},
				ProviderConfigRef: &terraform.ProviderConfigReference{Kind: "ClusterProviderConfig", Name: "aws"},
				ForProvider:       terraform.WorkspaceParameters{Source: terraform.SourceRemote, Module: "https://example.com/a", RemotePullPolicy: "Always"},
			}
		}))
		manifest := forgotten(t, old)
		require.NotEqual(t, old.Spec, manifest.Spec)
		assert.Equal(t, old.Spec, replaced(t, &defaulter[*infrav1.WorkspaceTemplate]{}, old, manifest, "v1beta1").Spec)
		want := manifest.DeepCopy()
		want.Spec.PassVariables = infrav1.PassDeclared
		assert.Equal(t, want.Spec, replaced(t, &defaulter[*infrav1.WorkspaceTemplate]{}, old, manifest, "v1beta2").Spec)
	})
	t.Run("WorkspaceTemplateApply", func(t *testing.T) {
		old := builder.WorkspaceTemplateApply("demo", builder.WithWorkspaceName("w"), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Spec.WaitForSecrets = []infrav1.SecretDependency{{Name: "a", Namespace: "b", Keys: []string{"key"}}, {Name: "c", Namespace: "b"}}
			apply.Spec.DeletionPolicy = infrav1.DeletionPolicyDelete
			apply.Spec.TemplateRevision = "0123456789ab"
		}))
		assert.Equal(t, old.Spec, replaced(t, &defaulter[*infrav1.WorkspaceTemplateApply]{reader: newEnvironment(t)}, old, forgotten(t, old), "v1beta1").Spec)
	})
}

// clusterctl move and backups keep the finalizers of objects, and create templates that were stored before they had the field without it.
func TestOnlyNewTemplatesGetTheDefaultOfSubstitution(t *testing.T) {
	moved := builder.WorkspaceTemplate("eks", builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer))
	fresh := builder.WorkspaceTemplate("eks")
	substitution := func(template *infrav1.WorkspaceTemplate, version string) infrav1.Substitution {
		return replaced(t, &defaulter[*infrav1.WorkspaceTemplate]{}, nil, template, version).Spec.Substitution
	}
	assert.Equal(t, infrav1.SubstitutionFields, substitution(fresh, "v1beta2"))
	assert.Empty(t, substitution(fresh, "v1beta1"), "conversion sets it if the module has a placeholder")
	assert.Empty(t, substitution(moved, "v1beta2"))
	moved.Spec.Substitution = infrav1.SubstitutionAll
	assert.Equal(t, infrav1.SubstitutionAll, substitution(moved, "v1beta2"))
}

// After a migration pinned a template, each write of an old manifest refers to another template, with any owner of the field.
func TestManifestOfCAPTv03DoesNotUnpinATemplate(t *testing.T) {
	pinned := builder.WorkspaceTemplate("demo-pinned-0", builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Labels = map[string]string{naming.PinnedLabel: "true"}
	}))
	w := newEnvironment(t, pinned, builder.WorkspaceTemplate("eks"), builder.WorkspaceTemplate("other"))
	for from, row := range map[string]struct{ v1beta1, v1beta2 string }{"demo-pinned-0": {"demo-pinned-0", "eks"}, "other": {"eks", "eks"}, "gone": {"eks", "eks"}} {
		t.Run(from, func(t *testing.T) {
			for version, want := range map[string]string{"v1beta1": row.v1beta1, "v1beta2": row.v1beta2} {
				cluster := builder.CAPTCluster("demo", builder.With(func(c *infrav1.CAPTCluster) {
					c.Spec.VPC = infrav1.VPC{Template: infrav1.VPCTemplate{Ref: infrav1.WorkspaceTemplateReference{Name: from}}}
				}))
				manifest := cluster.DeepCopy()
				manifest.Spec.VPC.Template.Ref.Name = "eks"
				assert.Equal(t, want, replaced(t, &defaulter[*infrav1.CAPTCluster]{reader: w}, cluster, manifest, version).Spec.VPC.Template.Ref.Name)

				controlPlane := builder.CAPTControlPlane("demo", builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.WorkspaceTemplateRef.Name = from }))
				edited := controlPlane.DeepCopy()
				edited.Spec.WorkspaceTemplateRef.Name = "eks"
				assert.Equal(t, want, replaced(t, &defaulter[*controlplanev1.CAPTControlPlane]{reader: w}, controlPlane, edited, version).Spec.WorkspaceTemplateRef.Name)

				apply := builder.WorkspaceTemplateApply("demo", of("", from), builder.WithWorkspaceName("demo"))
				assert.Equal(t, want, replaced(t, &defaulter[*infrav1.WorkspaceTemplateApply]{reader: w}, apply, builder.WorkspaceTemplateApply("demo", of("", "eks"), builder.WithWorkspaceName("demo")), version).Spec.TemplateRef.Name)
			}
		})
	}
}

// Users can remove retainWorkspaceOnDelete from a manifest. But a manifest from before the adoption never had it. kubectl replace with an
// exported manifest removes the controller reference of a Spot role helper and captctl's managedFields.
func TestRetainPolicyThatAnAdoptionSetIsKept(t *testing.T) {
	setBy := func(manager string) builder.Option {
		return builder.With(func(apply *wta) {
			apply.ManagedFields = []metav1.ManagedFieldsEntry{{
				Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: infrav1.GroupVersion.String(), FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:deletionPolicy":{},"f:workspaceName":{}}}`),
			}}
		})
	}
	for title, row := range map[string]struct {
		name   string
		option builder.Option
		want   infrav1.DeletionPolicy
	}{
		"set by a migration": {"demo", setBy(naming.MigrationFieldManager), infrav1.DeletionPolicyRetain},
		"set by a user":      {"demo", setBy("kubectl"), infrav1.DeletionPolicyDelete},
		"a Spot role helper without its control plane": {"demo-spot-role-check", unadopted, infrav1.DeletionPolicyRetain},
	} {
		t.Run(title, func(t *testing.T) {
			old := builder.WorkspaceTemplateApply(row.name, builder.WithWorkspaceName("w"), builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain), row.option)
			manifest := old.DeepCopy()
			manifest.Spec.DeletionPolicy = infrav1.DeletionPolicyDelete
			assert.Equal(t, row.want, replaced(t, &defaulter[*infrav1.WorkspaceTemplateApply]{reader: newEnvironment(t)}, old, manifest, "v1beta1").Spec.DeletionPolicy)
			assert.Equal(t, infrav1.DeletionPolicyDelete, replaced(t, &defaulter[*infrav1.WorkspaceTemplateApply]{reader: newEnvironment(t)}, old, manifest, "v1beta2").Spec.DeletionPolicy)
		})
	}
}

// clusterctl move, a restore and the plan of an earlier captctl create templates that were stored, or planned, before the field existed.
func TestOnlyANewTemplateGetsTheDefaultSubstitution(t *testing.T) {
	for name, row := range map[string]struct {
		template *infrav1.WorkspaceTemplate
		version  string
		manager  string
		want     infrav1.Substitution
	}{
		"new":                         {builder.WorkspaceTemplate("vpc"), "v1beta2", "kubectl", infrav1.SubstitutionFields},
		"new, in v1beta1":             {builder.WorkspaceTemplate("vpc"), "v1beta1", "kubectl", ""},
		"restored":                    {builder.WorkspaceTemplate("vpc", builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer)), "v1beta2", "clusterctl", ""},
		"restored, of CAPT v0.3":      {builder.WorkspaceTemplate("vpc", builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateFinalizer)), "v1beta2", "velero", ""},
		"of a plan without the field": {builder.WorkspaceTemplate("vpc"), "v1beta2", naming.MigrationFieldManager, ""},
	} {
		t.Run(name, func(t *testing.T) {
			created := replaced(t, &defaulter[*infrav1.WorkspaceTemplate]{}, nil, row.template, row.version, by(row.manager))
			assert.Equal(t, row.want, created.Spec.Substitution)
		})
	}
}

// The record of who approved a revision is worth nothing if the user can write it.
func TestAnApprovalIsSignedWithTheUserOfTheRequest(t *testing.T) {
	with := func(approve, by string) *infrav1.WorkspaceTemplate {
		template := builder.WorkspaceTemplate("vpc")
		for key, value := range map[string]string{naming.ApproveAnnotation: approve, naming.ApprovedByAnnotation: by} {
			if value != "" {
				builder.WithAnnotation(key, value)(template)
			}
		}
		if by == "alice" {
			builder.WithAnnotation(naming.ApprovedAtAnnotation, "earlier")(template)
		}
		return template
	}
	asBob := func(r *admission.Request) { r.UserInfo.Username = "bob" }
	for name, row := range map[string]struct {
		old, object *infrav1.WorkspaceTemplate
		want        string
	}{
		"approved":                        {with("", ""), with("1", ""), "bob"},
		"approved in the name of another": {with("", ""), with("1", "alice"), "bob"},
		"created with an approval":        {nil, with("1", "alice"), "bob"},
		"another revision":                {with("1", "alice"), with("2", "alice"), "bob"},
		"not changed":                     {with("1", "alice"), with("1", "alice"), "alice"},
		"the record is changed":           {with("1", "alice"), with("1", "bob"), "alice"},
		"the record is removed":           {with("1", "alice"), with("1", ""), "alice"},
		"the approval is removed":         {with("1", "alice"), with("", "alice"), ""},
		"a record without an approval":    {with("", ""), with("", "alice"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			signed := replaced(t, &defaulter[*infrav1.WorkspaceTemplate]{}, row.old, row.object, "v1beta2", asBob).Annotations
			assert.Equal(t, row.want, signed[naming.ApprovedByAnnotation])
			apply := builder.WorkspaceTemplateApply("demo", builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Annotations = row.object.Annotations }))
			var old *infrav1.WorkspaceTemplateApply
			if row.old != nil {
				old = builder.WorkspaceTemplateApply("demo", builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Annotations = row.old.Annotations }))
			}
			ofApply := replaced(t, &defaulter[*infrav1.WorkspaceTemplateApply]{reader: newEnvironment(t)}, old, apply, "v1beta2", asBob).Annotations
			assert.Equal(t, row.want, ofApply[naming.ApprovedByAnnotation], "the approval of a change")
			switch at := signed[naming.ApprovedAtAnnotation]; row.want {
			case "bob":
				_, err := time.Parse(time.RFC3339, at)
				assert.NoError(t, err)
			case "alice":
				assert.Equal(t, "earlier", at)
			default:
				assert.Empty(t, at)
			}
		})
	}
}
