// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/migrate"
)

// legacyDefinitionNames are those of kinds that only CAPT v0.3 has. Their objects own WorkspaceTemplateApplies, too.
var legacyDefinitionNames = []string{
	"captmachines.infrastructure.cluster.x-k8s.io", "captmachinesets.infrastructure.cluster.x-k8s.io",
	"captmachinedeployments.infrastructure.cluster.x-k8s.io", "captmachinetemplates.infrastructure.cluster.x-k8s.io",
}

func (c *checker) definitions(context.Context) (Check, error) {
	found := Check{Status: Failed, Message: "the CustomResourceDefinitions are not those of this version. Install this version as described in docs/install.md"}
	installed, err := c.installed()
	for _, kind := range migrate.Kinds() {
		for _, problem := range definitionProblems(kind, installed[kind.Definition()]) {
			found.Objects = append(found.Objects, kind.Definition()+": "+problem)
		}
	}
	if isLegacyTemplate(installed[migrate.OlderTemplateDefinition]) {
		found.Commands = replaceTemplates()
	}
	return found.orOK("all %d definitions store %s and convert %s", len(migrate.Kinds()), migrate.Version, migrate.LegacyVersion), err
}

func isLegacyTemplate(definition *apiextensionsv1.CustomResourceDefinition) bool {
	return definition != nil && definition.Spec.Names.Kind == migrate.OlderTemplateKind
}

// replaceTemplates are commands that export the objects of CaptControlPlaneTemplate and delete their definition, which policies may protect.
func replaceTemplates() []string {
	const name = migrate.OlderTemplateDefinition
	return []string{
		"kubectl get " + name + " --all-namespaces -o yaml > captcontrolplanetemplates.yaml",
		"kubectl annotate --overwrite crd " + name + " " + naming.AllowDeleteAnnotation + "=true",
		"kubectl delete crd " + name,
	}
}

func definitionProblems(kind migrate.Kind, definition *apiextensionsv1.CustomResourceDefinition) (found []string) {
	switch {
	case definition == nil:
		return []string{"it is not installed"}
	case definition.Spec.Names.Kind != kind.Kind:
		return []string{fmt.Sprintf("its kind is %s, not %s, and cannot be changed. Export its objects, delete it, and install this version", definition.Spec.Names.Kind, kind.Kind)}
	case definition.DeletionTimestamp != nil:
		found = append(found, "it is being deleted")
	}
	stored, _ := apihelpers.GetCRDStorageVersion(definition)
	if stored != migrate.Version || !apihelpers.HasServedCRDVersion(definition, migrate.Version) {
		found = append(found, migrate.Version+" is not served and stored")
	}
	if kind.IsNew() {
		return found
	}
	if !apihelpers.HasServedCRDVersion(definition, migrate.LegacyVersion) {
		found = append(found, migrate.LegacyVersion+" is not served")
	}
	switch webhook := ptr.Deref(definition.Spec.Conversion, apiextensionsv1.CustomResourceConversion{}).Webhook; {
	case webhook == nil || webhook.ClientConfig == nil:
		found = append(found, "no webhook converts its versions")
	case len(webhook.ClientConfig.CABundle) == 0:
		found = append(found, "its conversion webhook has no caBundle. Check cert-manager's CA injector, which writes it")
	}
	return found
}

// legacyDefinitions reports whether the definitions of CAPT v0.3 are installed, and which of them this version does not have or cannot use.
func (c *checker) legacyDefinitions(ctx context.Context) (Check, error) {
	found := Check{Status: OK, Message: "the definitions are those of CAPT v0.3"}
	installed, err := c.installed()
	if err != nil {
		return found, err
	}
	for _, kind := range migrate.Kinds() {
		if kind.InLegacy() && installed[kind.Definition()] == nil {
			found.Status, found.Message = Failed, "CAPT v0.3 is not installed, or only partly: there is nothing to migrate"
			found.Objects = append(found.Objects, kind.Definition()+": it is not installed")
		}
	}
	if template := installed[migrate.OlderTemplateDefinition]; isLegacyTemplate(template) && found.Status == OK {
		objects, err := c.listSome(ctx, schema.GroupVersionKind{Group: template.Spec.Group, Version: c.version, Kind: migrate.OlderTemplateKind}, 0)
		if err != nil {
			return found, err
		}
		found.Status = Warning
		found.Message = "Cluster API could never use the kind of " + template.Name + ", and it cannot be changed in place. Delete it before this version is installed"
		found.Commands = []string{replaceTemplates()[2]}
		if len(objects) > 0 {
			found.Commands = []string{replaceTemplates()[0], replaceTemplates()[2]}
		}
		for i := range objects {
			found.Objects = append(found.Objects, migrate.RefOf(&objects[i]).String())
		}
	}
	for _, name := range legacyDefinitionNames {
		if installed[name] != nil {
			found.Objects = append(found.Objects,
				name+": this version has no such kind. Keep the definition while it has objects, which own WorkspaceTemplateApplies")
		}
	}
	return found, nil
}

// StoresLegacyVersion reports whether a check of stored versions found that objects may be stored in v1beta1.
func (c Check) StoresLegacyVersion() bool {
	return c.Name == CheckStored && strings.Contains(strings.Join(c.Objects, "\n"), migrate.LegacyVersion)
}

func (c *checker) storedVersions(context.Context) (Check, error) {
	found := Check{Status: OK, Message: "all objects are stored in v1beta2. Clusters can still be rolled back"}
	installed, err := c.installed()
	for _, kind := range migrate.Kinds() {
		definition := installed[kind.Definition()]
		if definition == nil {
			continue
		}
		if apihelpers.IsStoredVersion(definition, migrate.LegacyVersion) {
			found.Message = "objects may be stored in v1beta1. The manager migrates them once no object awaits adoption; " +
				"to postpone that, run it with --skip-crd-migration-phases=StorageVersionMigration"
		}
		found.Objects = append(found.Objects, kind.Definition()+": "+strings.Join(definition.Status.StoredVersions, ", "))
	}
	return found, err
}

func (c *checker) listSome(ctx context.Context, kind schema.GroupVersionKind, limit int64) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := c.client.List(ctx, list, client.Limit(limit))
	return list.Items, err
}

// conversion reads one object of each kind in each version: the one that is not stored is converted.
func (c *checker) conversion(ctx context.Context) (Check, error) {
	found := Check{Status: Failed, Message: "objects cannot be read in both versions. Check that the manager runs (kubectl -n capt-system get pods), and that the API server reaches its webhooks"}
	for _, kind := range migrate.Kinds() {
		for _, version := range []string{migrate.LegacyVersion, migrate.Version} {
			if version == migrate.LegacyVersion && kind.IsNew() {
				continue
			}
			objects, err := c.listSome(ctx, kind.GroupKind().WithVersion(version), 1)
			if err == nil && len(objects) > 0 { // A list can come from the API server's cache, which was converted before.
				err = client.IgnoreNotFound(c.client.Get(ctx, client.ObjectKeyFromObject(&objects[0]), &objects[0]))
			}
			if err != nil {
				found.Objects = append(found.Objects, fmt.Sprintf("%s in %s: %v", kind.Kind, version, err))
			}
		}
	}
	return found.orOK("objects can be read in both versions"), nil
}

// admission patches one object of each kind with nothing, as a dry run, so that conversion, defaulting and validation take place.
func (c *checker) admission(ctx context.Context) (Check, error) {
	refused := Check{Status: Failed, Message: "a dry-run write without changes was rejected. Check that the manager runs (kubectl -n capt-system get pods), and that the API server reaches its webhooks"}
	untried := Check{Status: Warning, Message: "not checked: the permission to patch is missing"}
	var tried []string
	for _, kind := range migrate.Kinds() {
		right := authorizationv1.ResourceAttributes{Verb: "patch", Group: kind.Group, Resource: kind.Resource}
		switch {
		case !kind.InLegacy(): // captctl does not write them.
			continue
		case slices.Contains(c.missing, Right{right, RoleWriter}):
			untried.Objects = append(untried.Objects, kind.Kind)
			continue
		}
		objects, err := c.listSome(ctx, kind.GroupVersionKind, 20)
		if err != nil {
			refused.Objects = append(refused.Objects, fmt.Sprintf("%s: %v", kind.Kind, err))
			continue
		}
		// Admission refuses to change what is being deleted.
		chosen := slices.IndexFunc(objects, func(object unstructured.Unstructured) bool { return object.GetDeletionTimestamp() == nil })
		if chosen < 0 {
			continue
		}
		object := &objects[chosen]
		tried = append(tried, kind.Kind)
		err = c.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte("{}")), client.DryRunAll, client.FieldOwner(migrate.FieldManager))
		if err != nil {
			refused.Objects = append(refused.Objects, fmt.Sprintf("%s %s: %v", kind.Kind, client.ObjectKeyFromObject(object), err))
		}
	}
	if len(refused.Objects) > 0 {
		return refused, nil
	}
	return untried.orOK("a dry-run write without changes was accepted (%s)", strings.Join(tried, ", ")), nil
}
