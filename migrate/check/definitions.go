// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// definition returns the definition of a kind; nil if there is none.
func (l *look) definition(ctx context.Context, kind migrate.Kind) (*apiextensionsv1.CustomResourceDefinition, error) {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	err := l.client.Get(ctx, client.ObjectKey{Name: kind.Definition()}, definition)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return definition, err
}

// definitions reports whether this version's are installed and can be used.
func (l *look) definitions(ctx context.Context) (Check, error) {
	found := Check{Status: Failed, Message: "the definitions are not those of this version. Install it as docs/install.md says"}
	for _, kind := range migrate.Kinds() {
		definition, err := l.definition(ctx, kind)
		if err != nil {
			return Check{}, err
		}
		for _, problem := range problems(kind, definition) {
			found.Objects = append(found.Objects, kind.Definition()+": "+problem)
		}
		if isLegacyTemplate(definition) {
			found.Commands = replaceTemplates()
		}
	}
	if len(found.Objects) > 0 {
		return found, nil
	}
	return Check{Status: OK, Message: fmt.Sprintf("all %d definitions store %s and convert %s", len(migrate.Kinds()), migrate.Version, migrate.LegacyVersion)}, nil
}

// isLegacyTemplate reports whether a definition is that of CaptControlPlaneTemplate.
func isLegacyTemplate(definition *apiextensionsv1.CustomResourceDefinition) bool {
	return definition != nil && definition.Spec.Names.Kind == migrate.OlderTemplateKind
}

// replaceTemplates are commands that export the objects of CaptControlPlaneTemplate and delete their definition, also where the policies of
// this version protect it.
func replaceTemplates() []string {
	const name = migrate.OlderTemplateDefinition
	return []string{
		"kubectl get " + name + " --all-namespaces -o yaml > captcontrolplanetemplates.yaml",
		"kubectl annotate --overwrite crd " + name + " capt.cluster.x-k8s.io/allow-delete=true",
		"kubectl delete crd " + name,
	}
}

// problems are why a definition cannot be used for a migration.
func problems(kind migrate.Kind, definition *apiextensionsv1.CustomResourceDefinition) (found []string) {
	switch {
	case definition == nil:
		return []string{"it is not installed"}
	case definition.Spec.Names.Kind != kind.Kind:
		return []string{fmt.Sprintf("its kind is %s, not %s, and cannot be changed. Export its objects, delete it, and install this version", definition.Spec.Names.Kind, kind.Kind)}
	case definition.DeletionTimestamp != nil:
		found = append(found, "it is being deleted")
	}
	if current := version(definition, migrate.Version); current == nil || !current.Served || !current.Storage {
		found = append(found, migrate.Version+" is not served and stored")
	}
	if kind.Kind == "CAPTClusterTemplate" { // It has one version only.
		return found
	}
	if older := version(definition, migrate.LegacyVersion); older == nil || !older.Served {
		found = append(found, migrate.LegacyVersion+" is not served")
	}
	return append(found, conversionProblems(definition.Spec.Conversion)...)
}

func conversionProblems(conversion *apiextensionsv1.CustomResourceConversion) []string {
	switch {
	case conversion == nil || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil:
		return []string{"no webhook converts its versions"}
	case len(conversion.Webhook.ClientConfig.CABundle) == 0:
		return []string{"its conversion webhook has no caBundle. cert-manager's CA injector writes it"}
	}
	return nil
}

func version(definition *apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.CustomResourceDefinitionVersion {
	for i := range definition.Spec.Versions {
		if definition.Spec.Versions[i].Name == name {
			return &definition.Spec.Versions[i]
		}
	}
	return nil
}

// legacyDefinitions reports whether CAPT v0.3's are installed, and what of them this version does not succeed.
func (l *look) legacyDefinitions(ctx context.Context) (Check, error) {
	found := Check{Status: OK, Message: "the definitions are those of CAPT v0.3"}
	for _, kind := range migrate.Kinds() {
		definition, err := l.definition(ctx, kind)
		switch {
		case err != nil:
			return Check{}, err
		case definition == nil && kind.InLegacy():
			found.Status, found.Message = Failed, "CAPT v0.3 is not installed, or only in part: there is nothing to migrate"
			found.Objects = append(found.Objects, kind.Definition()+": it is not installed")
		case isLegacyTemplate(definition) && found.Status == OK:
			objects, err := l.some(ctx, schema.GroupVersionKind{Group: kind.Group, Version: l.version, Kind: migrate.OlderTemplateKind}, 1)
			if err != nil {
				return Check{}, err
			}
			found.Status = Warning
			found.Message = "the kind of " + definition.Name + " cannot be changed in place. Delete it before this version is installed"
			if len(objects) > 0 { // The finding has the commands that export them as well.
				found.Message += ", as finding TemplateKindRenamed says"
			} else {
				found.Commands = replaceTemplates()[2:]
			}
		}
	}
	machines, err := l.machines(ctx)
	found.Objects = append(found.Objects, machines...)
	return found, err
}

// machines are the definitions of CaptMachine and its kin.
func (l *look) machines(ctx context.Context) (found []string, err error) {
	for _, name := range legacyDefinitionNames {
		switch err := l.client.Get(ctx, client.ObjectKey{Name: name}, &apiextensionsv1.CustomResourceDefinition{}); {
		case err == nil:
			found = append(found, name+": this version has no such kind. Keep the definition while it has objects, which own WorkspaceTemplateApplies")
		case !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	return found, nil
}

// stored reports the stored versions.
func (l *look) stored(ctx context.Context) (Check, error) {
	found := Check{Status: OK, Message: "nothing is stored in v1beta1. Clusters can still be rolled back"}
	for _, kind := range migrate.Kinds() {
		definition, err := l.definition(ctx, kind)
		if err != nil {
			return Check{}, err
		}
		if definition == nil {
			continue
		}
		if slices.Contains(definition.Status.StoredVersions, migrate.LegacyVersion) {
			found.Message = "objects may be stored in v1beta1. The manager migrates them once no object awaits adoption; " +
				"to decide when, run it with --skip-crd-migration-phases=StorageVersionMigration"
		}
		found.Objects = append(found.Objects, kind.Definition()+": "+strings.Join(definition.Status.StoredVersions, ", "))
	}
	return found, nil
}

// some lists a few objects of a kind.
func (l *look) some(ctx context.Context, kind schema.GroupVersionKind, limit int64) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := l.client.List(ctx, list, client.Limit(limit))
	return list.Items, err
}

// conversion reads one object of each kind in each version: the one that is not stored is converted.
func (l *look) conversion(ctx context.Context) (Check, error) {
	var wrong []string
	for _, kind := range migrate.Kinds() {
		for _, version := range []string{migrate.LegacyVersion, migrate.Version} {
			if kind.Kind == "CAPTClusterTemplate" && version == migrate.LegacyVersion {
				continue
			}
			objects, err := l.some(ctx, kind.GroupKind().WithVersion(version), 1)
			if err == nil && len(objects) > 0 { // A list can come from the API server's cache, which was converted before.
				err = client.IgnoreNotFound(l.client.Get(ctx, client.ObjectKeyFromObject(&objects[0]), &objects[0]))
			}
			if err != nil {
				wrong = append(wrong, fmt.Sprintf("%s in %s: %v", kind.Kind, version, err))
			}
		}
	}
	if len(wrong) > 0 {
		return Check{Status: Failed, Objects: wrong, Message: "objects cannot be read in both versions. Check that the manager runs, and that the API server reaches its webhooks"}, nil
	}
	return Check{Status: OK, Message: "objects can be read in both versions"}, nil
}

// admission patches one object of each kind with nothing, as a dry run: conversion, defaulting and validation take place, and nothing is
// stored.
func (l *look) admission(ctx context.Context) (Check, error) {
	var wrong, tried, forbidden []string
	for _, kind := range migrate.Kinds() {
		switch {
		case kind.Kind == "CAPTClusterTemplate", kind.Kind == "CAPTControlPlaneTemplate": // captctl does not write them.
			continue
		case l.missing[Right{Verb: "patch", Group: kind.Group, Resource: kind.Resource, Role: RoleWriter}]:
			forbidden = append(forbidden, kind.Kind)
			continue
		}
		objects, err := l.some(ctx, kind.GroupVersionKind, 20) // Admission refuses to change what is being deleted.
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", kind.Kind, err))
			continue
		}
		chosen := slices.IndexFunc(objects, func(object unstructured.Unstructured) bool { return object.GetDeletionTimestamp() == nil })
		if chosen < 0 {
			continue
		}
		object := &objects[chosen]
		tried = append(tried, kind.Kind)
		name := object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
		err = l.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte("{}")), client.DryRunAll, client.FieldOwner(migrate.FieldManager))
		if err != nil {
			wrong = append(wrong, name+": "+err.Error())
		}
	}
	switch {
	case len(wrong) > 0:
		return Check{Status: Failed, Objects: wrong, Message: "a write that changes nothing is refused (dry run). Check that the manager runs, and that the API server reaches its webhooks"}, nil
	case len(forbidden) > 0:
		return Check{Status: Warning, Objects: forbidden, Message: "not tried: the right to patch is missing"}, nil
	}
	return Check{Status: OK, Message: "a write that changes nothing is accepted (dry run of " + strings.Join(tried, ", ") + ")"}, nil
}
