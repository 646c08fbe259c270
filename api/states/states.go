// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package states decides about the adoption of Terraform states that CAPT has not created (spec.terraformState of a WorkspaceTemplateApply): who has a state, and
// whether a plan proves that nothing would change. Its functions are pure.
package states

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
)

// IsPending reports whether a WorkspaceTemplateApply is to adopt a state, and has no Workspace yet.
func IsPending(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Spec.TerraformState.Name != "" && apply.Status.WorkspaceRef == nil
}

// IsProvenBy reports whether a plan shows that Terraform would change no resource. Resources that import blocks take over, and outputs, are only written
// to the state.
func IsProvenBy(plan *infrav1.RevisionPreview) bool {
	c := plan.Changes
	switch {
	case plan.Result == infrav1.PreviewEmpty:
		return true
	case plan.Result != infrav1.PreviewChanges, c == nil, c.Unknown != "", c.Drifted > 0:
		return false
	}
	return !slices.ContainsFunc(c.Counts, func(count infrav1.PlannedCount) bool { return count.Action != infrav1.PlanImport }) && len(c.Counts)+int(c.Outputs) > 0
}

// Claim is what a WorkspaceTemplateApply, which has no Workspace yet, and other objects have of a state.
type Claim struct {
	Apply *infrav1.WorkspaceTemplateApply
	// Config is the ProviderConfig of the Workspace that would be created: its kind, namespace and name.
	Config *unstructured.Unstructured
	// Own is the Workspace that would be created; nil if it is not known. It may exist: the manager may end before it records that it created it.
	Own *unstructured.Unstructured
	// Prefix is the --state-prefix of the manager.
	Prefix string
	// Workspaces and Applies are all that exist.
	Workspaces []unstructured.Unstructured
	Applies    []infrav1.WorkspaceTemplateApply
	// Template returns the template of another WorkspaceTemplateApply; nil if it does not exist, or does not allow its namespace.
	Template func(*infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceTemplate, error)
	// Read reads a ProviderConfig; nil if it does not exist.
	Read func(*unstructured.Unstructured) (*unstructured.Unstructured, error)
	// Discloses is true if objects of other namespaces may be named.
	Discloses bool
}

// User describes the object that has the state of spec.terraformState; empty without one. What is in other namespaces is not disclosed.
func (c *Claim) User() (string, error) {
	state := c.Apply.Spec.TerraformState.Name
	seen := map[string]bool{} // The UIDs of Workspaces that exist: they decide, and not what is recorded about them.
	for i := range c.Workspaces {
		w := &c.Workspaces[i]
		seen[string(w.GetUID())] = true
		if naming.IsPreview(w) || c.isOwn(w) || cmp.Or(w.GetAnnotations()[render.ExternalNameAnnotation], w.GetName()) != state {
			continue
		}
		same, err := c.sameBackend(render.ProviderConfigObject(w))
		switch {
		case err != nil:
			return "", err
		case same:
			return c.name("Workspace", render.NamespaceOf(w), w.GetName()), nil
		}
	}
	for i := range c.Applies {
		other := &c.Applies[i]
		has, err := c.hasState(other, seen)
		switch {
		case err != nil:
			return "", err
		case has:
			return c.name("WorkspaceTemplateApply", other.Namespace, other.Name), nil
		}
	}
	return "", nil
}

func (c *Claim) isOwn(w *unstructured.Unstructured) bool {
	return c.Own != nil && isSame(w, c.Own) && w.GetAnnotations()[naming.ClaimAnnotation] == naming.KeyOf(c.Apply).String()
}

// Missing describes the Workspaces with the backend whose states are not among those that it has.
func (c *Claim) Missing(names []string) (missing []string, err error) {
	for i := range c.Workspaces {
		w := &c.Workspaces[i]
		name := cmp.Or(w.GetAnnotations()[render.ExternalNameAnnotation], w.GetName())
		if naming.IsPreview(w) || slices.Contains(names, name) {
			continue
		}
		config := render.ProviderConfigObject(w)
		here, err := c.locationOf(c.Config)
		there, other := c.locationOf(config)
		if err := cmp.Or(err, other); err != nil {
			return nil, err
		}
		if isSame(config, c.Config) || here != nil && maps.Equal(here, there) {
			missing = append(missing, fmt.Sprintf("%s  in use by %s", name, c.name("Workspace", render.NamespaceOf(w), w.GetName())))
		}
	}
	return missing, nil
}

func isSame(a, b *unstructured.Unstructured) bool {
	return a.GroupVersionKind() == b.GroupVersionKind() && naming.KeyOf(a) == naming.KeyOf(b)
}

// name is how messages name an object.
func (c *Claim) name(kind, namespace, name string) string {
	switch {
	case c.Discloses:
		return kind + " " + strings.TrimPrefix(namespace+"/"+name, "/")
	case namespace == c.Apply.Namespace:
		return kind + " " + name
	}
	return "a " + kind + " of another namespace"
}

// hasState reports whether another object without a live Workspace has the state: status records it, its name is derived from the object, or an older object
// is to adopt it.
func (c *Claim) hasState(other *infrav1.WorkspaceTemplateApply, seen map[string]bool) (bool, error) {
	state, ref := c.Apply.Spec.TerraformState.Name, other.Status.WorkspaceRef
	switch {
	case other.UID == c.Apply.UID && naming.KeyOf(other) == naming.KeyOf(c.Apply), ref != nil && seen[string(ref.UID)]:
		return false, nil
	case ref != nil:
		return desired.RecordedExternalName(other) == state, nil
	case other.Spec.TerraformState.Name == "":
		return naming.ExternalName(c.Prefix, naming.KeyOf(other)) == state, nil
	case other.Spec.TerraformState.Name != state || c.Apply.UID != "" && !desired.Older(other, c.Apply):
		return false, nil
	}
	template, err := c.Template(other)
	if err != nil || template == nil {
		return true, err
	}
	return c.sameBackend(ConfigOf(template, other.Namespace))
}

// ConfigNameOf returns the ProviderConfig of a template as spec.terraformState has it.
func ConfigNameOf(template *infrav1.WorkspaceTemplate) string {
	ref := ptr.Deref(template.Spec.Template.Spec.ProviderConfigRef, terraform.ProviderConfigReference{})
	return render.ProviderConfigName(template.Spec.WorkspaceScope, ref.Kind, ref.Name)
}

// ConfigOf returns kind, namespace and name of the ProviderConfig of the Workspace that a template renders to in a namespace.
func ConfigOf(template *infrav1.WorkspaceTemplate, namespace string) *unstructured.Unstructured {
	w, ref := &unstructured.Unstructured{Object: map[string]any{}}, ptr.Deref(template.Spec.Template.Spec.ProviderConfigRef, terraform.ProviderConfigReference{})
	w.SetGroupVersionKind(template.Spec.WorkspaceScope.OrDefault().GroupVersionKind())
	w.SetNamespace(namespace)
	w.Object["spec"] = map[string]any{"providerConfigRef": map[string]any{"kind": ref.Kind, "name": ref.Name}}
	return render.ProviderConfigObject(w)
}

// sameBackend reports whether a ProviderConfig has the same backend as the object, or may have it.
func (c *Claim) sameBackend(config *unstructured.Unstructured) (bool, error) {
	if isSame(config, c.Config) {
		return true, nil
	}
	one, err := c.locationOf(c.Config)
	if err != nil || one == nil {
		return true, err
	}
	other, err := c.locationOf(config)
	return other == nil || maps.Equal(one, other), err
}

// locations are the arguments of backends that decide where a state is, in addition to its name.
var locations = map[string][]string{
	"s3":         {"bucket", "key", "workspace_key_prefix", "endpoint"},
	"gcs":        {"bucket", "prefix"},
	"azurerm":    {"storage_account_name", "container_name", "key"},
	"kubernetes": {"secret_suffix", "namespace", "host", "config_path"},
}

// locationOf returns where a ProviderConfig has its states; nil if that is not known.
func (c *Claim) locationOf(config *unstructured.Unstructured) (map[string]string, error) {
	read, err := c.Read(config.DeepCopy())
	if err != nil || read == nil {
		return nil, err
	}
	spec, err := terraform.ProviderConfigSpecOf(read)
	if err != nil {
		return nil, nil //nolint:nilerr // The provider cannot use it, either.
	}
	backend, err := modules.BackendOf("configuration.tf", []byte(ptr.Deref(spec.Configuration, "")))
	if err != nil || backend == nil || locations[backend.Type] == nil {
		return nil, nil //nolint:nilerr // As above.
	}
	arguments, location := backend.Arguments(ptr.Deref(spec.BackendFile, "")), map[string]string{"": backend.Type}
	for _, name := range locations[backend.Type] {
		location[name] = arguments[name]
	}
	return location, nil
}

// Part is a Terraform state, and the template that describes its resources.
type Part struct {
	Template  infrav1.WorkspaceTemplateReference
	State     infrav1.TerraformState
	Variables infrav1.Variables
}

// Cluster is an EKS cluster that exists. Its VPC is a state, too, or has an ID.
type Cluster struct {
	Key               types.NamespacedName
	Region, Version   string
	EKSName           string // EKSName is the name of the EKS cluster; empty if it is that of the Cluster.
	ControlPlane, VPC Part
	// ExistingVPC is the ID of a VPC that CAPT does not manage, and VPCSecret the Secret that describes it.
	ExistingVPC, VPCSecret string
	// PrivateEndpoint and PublicEndpoint are whether the API server can be reached within the VPC, and over the internet.
	PublicEndpoint, PrivateEndpoint bool
}

// Objects are what adopts states, in the order in which they are created.
type Objects struct {
	Cluster      *clusterv1.Cluster
	Applies      []*infrav1.WorkspaceTemplateApply
	CAPTCluster  *infrav1.CAPTCluster
	ControlPlane *controlplanev1.CAPTControlPlane
}

// Objects returns the objects of the Cluster. It is paused: until all exist, CAPT would create what is missing.
func (c *Cluster) Objects() *Objects {
	meta := metav1.ObjectMeta{Namespace: c.Key.Namespace, Name: c.Key.Name}
	o := &Objects{
		Cluster: &clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{
			Paused:            ptr.To(true),
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: c.Key.Name},
			ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: c.Key.Name},
		}},
		CAPTCluster:  &infrav1.CAPTCluster{ObjectMeta: meta},
		ControlPlane: &controlplanev1.CAPTControlPlane{ObjectMeta: meta},
	}
	o.Cluster.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	o.CAPTCluster.SetGroupVersionKind(infrav1.GroupVersion.WithKind("CAPTCluster"))
	o.ControlPlane.SetGroupVersionKind(controlplanev1.GroupVersion.WithKind("CAPTControlPlane"))
	vpc := &o.CAPTCluster.Spec
	vpc.Region, vpc.DeletionProtection = c.Region, infrav1.DeletionProtectionEnabled
	if vpc.VPC.ExistingID = c.ExistingVPC; c.ExistingVPC == "" {
		vpc.VPC.Template.Ref, vpc.VPC.Template.Variables = c.VPC.Template, c.VPC.Variables
		vpc.WorkspaceTemplateApplyRef.Name = naming.VPCWorkspaceTemplateApply(c.Key.Name)
		o.Applies = append(o.Applies, c.apply(vpc.WorkspaceTemplateApplyRef.Name, c.VPC))
	}
	vpc.VPC.ConnectionSecretRef.Name = c.VPCSecret
	spec := &o.ControlPlane.Spec
	spec.Region, spec.Version, spec.EKSClusterName = c.Region, c.Version, c.EKSName
	spec.WorkspaceTemplateRef, spec.Variables, spec.DeletionProtection = c.ControlPlane.Template, c.ControlPlane.Variables, infrav1.DeletionProtectionEnabled
	spec.WorkspaceTemplateApplyRef.Name = naming.ControlPlaneWorkspaceTemplateApply(c.Key.Name)
	state := map[bool]controlplanev1.EndpointState{true: controlplanev1.EndpointEnabled, false: controlplanev1.EndpointDisabled}
	spec.EndpointAccess = &controlplanev1.EndpointAccess{Public: state[c.PublicEndpoint], Private: state[c.PrivateEndpoint]}
	o.Applies = append(o.Applies, c.apply(spec.WorkspaceTemplateApplyRef.Name, c.ControlPlane))
	return o
}

// apply returns a WorkspaceTemplateApply as its owner accepts it. The owner adds the other variables; until then, nothing is planned.
func (c *Cluster) apply(name string, part Part) *infrav1.WorkspaceTemplateApply {
	eksName := claim.EKSClusterName(&controlplanev1.CAPTControlPlane{Spec: controlplanev1.CAPTControlPlaneSpec{
		CAPTControlPlaneTemplateResourceSpec: controlplanev1.CAPTControlPlaneTemplateResourceSpec{EKSClusterName: c.EKSName},
	}}, c.Key.Name)
	apply := part.Apply(types.NamespacedName{Namespace: c.Key.Namespace, Name: name})
	apply.Labels = map[string]string{clusterv1.ClusterNameLabel: c.Key.Name}
	apply.Spec.Variables = infrav1.TextVariables(map[string]string{naming.ClusterVariable: eksName})
	return apply
}

// Apply returns a WorkspaceTemplateApply that adopts the state.
func (p *Part) Apply(key types.NamespacedName) *infrav1.WorkspaceTemplateApply {
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	apply.SetGroupVersionKind(infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"))
	apply.Spec = infrav1.WorkspaceTemplateApplySpec{TemplateRef: p.Template, TerraformState: p.State, Variables: p.Variables}
	return apply
}

// Import is a resource that exists and is in no state.
type Import struct {
	To string `json:"to"` // To is its address in the module.
	ID string `json:"id"`
}

// ParseImport parses ADDRESS=ID. An address can have keys in brackets.
func ParseImport(text string) (Import, error) {
	depth := 0
	for i, r := range text {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == '=' && depth == 0:
			found := Import{text[:i], text[i+1:]}
			return found, found.Validate()
		}
	}
	return Import{}, fmt.Errorf("%q is not ADDRESS=ID", text)
}

// Validate checks the address and the ID.
func (i Import) Validate() error {
	if traversal, diagnostics := hclsyntax.ParseTraversalAbs([]byte(i.To), "", hcl.InitialPos); diagnostics.HasErrors() || len(traversal) < 2 {
		return fmt.Errorf("%q is not the address of a resource, such as aws_eks_cluster.this or module.eks.aws_eks_cluster.this[0]", i.To)
	}
	if i.ID == "" {
		return fmt.Errorf("the resource %s has no ID to import", i.To)
	}
	return nil
}

// importHeader begins the import blocks that captctl adds to a module.
const importHeader = "\n# Import blocks of captctl adopt import. It removes them after the import.\n"

// WithImports returns a template with import blocks in its module. Only a root module can have them.
func WithImports(template *infrav1.WorkspaceTemplate, imports []Import) (*infrav1.WorkspaceTemplate, error) {
	params := template.Spec.Template.Spec.ForProvider
	if params.Source != terraform.SourceInline || cmp.Or(params.InlineFormat, terraform.FormatHCL) != terraform.FormatHCL {
		return nil, fmt.Errorf("WorkspaceTemplate %s has no inline module in HCL, and import blocks must be in the root module. Use a template with an inline module that calls the other one in a module block", template.Name)
	}
	if err := checkAddresses(WithoutImports(params.Module), imports); err != nil {
		return nil, err
	}
	file := hclwrite.NewEmptyFile()
	for _, i := range imports {
		body := file.Body().AppendNewBlock("import", nil).Body()
		body.SetAttributeRaw("to", hclwrite.Tokens{{Type: hclsyntax.TokenIdent, Bytes: []byte(i.To)}})
		body.SetAttributeValue("id", cty.StringVal(i.ID))
	}
	with := template.DeepCopy()
	with.Spec.Template.Spec.ForProvider.Module = WithoutImports(params.Module) + importHeader + string(file.Bytes())
	return with, nil
}

// checkAddresses checks that a module has the resource, or calls the module, of each import. What a called module has is not known here.
func checkAddresses(module string, imports []Import) error {
	file, diagnostics := hclsyntax.ParseConfig([]byte(module), "main.tf", hcl.InitialPos)
	if diagnostics.HasErrors() { // The template reports that.
		return nil
	}
	content, _, _ := file.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "resource", LabelNames: []string{"type", "name"}}, {Type: "module", LabelNames: []string{"name"}},
	}})
	var has []string
	for _, block := range content.Blocks {
		address := strings.Join(block.Labels, ".")
		if block.Type == "module" {
			address = "module." + address
		}
		has = append(has, address)
	}
	slices.Sort(has)
	var errs field.ErrorList
	for i, one := range imports {
		if address := one.declared(); !slices.Contains(has, address) {
			errs = append(errs, field.Invalid(field.NewPath("imports").Index(i).Child("to"), one.To, fmt.Sprintf(
				"the module of the template has no %s, so Terraform cannot import to it. It has: %s. Correct the address", address, cmp.Or(strings.Join(has, ", "), "no resource and no module block"))))
		}
	}
	return errs.ToAggregate()
}

// declared is what the root module must have for an import: a resource, or a call of a module.
func (i Import) declared() string {
	traversal, _ := hclsyntax.ParseTraversalAbs([]byte(i.To), "", hcl.InitialPos) // It is valid.
	names := []string{traversal.RootName()}
	if attribute, ok := traversal[1].(hcl.TraverseAttr); ok {
		names = append(names, attribute.Name)
	}
	return strings.Join(names, ".")
}

// WithoutImports returns a module without the import blocks that captctl has added.
func WithoutImports(module string) string {
	before, _, _ := strings.Cut(module, importHeader)
	return before
}
