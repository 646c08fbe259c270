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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

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
