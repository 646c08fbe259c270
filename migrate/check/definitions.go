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

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// OlderTemplateKind is how the older CAPT spelled CAPTControlPlaneTemplate. The kind of a definition can not be changed.
const OlderTemplateKind = migrate.OlderTemplateKind

// hasOlderVersion tells whether there was a kind in the older CAPT. The one that came with today's version has no other, and
// is never converted.
func hasOlderVersion(kind migrate.Kind) bool { return kind.Kind != "CAPTClusterTemplate" }

func (l *look) definitions(ctx context.Context) (Check, error) {
	var wrong []string
	for _, kind := range migrate.Kinds() {
		var definition apiextensionsv1.CustomResourceDefinition
		err := l.client.Get(ctx, client.ObjectKey{Name: kind.Definition()}, &definition)
		switch {
		case apierrors.IsNotFound(err):
			wrong = append(wrong, kind.Definition()+": is not installed")
		case err != nil:
			return Check{}, err
		default:
			for _, problem := range problems(kind, &definition) {
				wrong = append(wrong, kind.Definition()+": "+problem)
			}
		}
	}
	if len(wrong) == 0 {
		return Check{Status: OK, Message: fmt.Sprintf("all %d definitions are there, %s is stored and %s is converted",
			len(migrate.Kinds()), migrate.Version, migrate.LegacyVersion)}, nil
	}
	return Check{Status: Failed, Objects: wrong,
		Message: "the definitions are not those of this CAPT; install them, after captctl migrate crds, with a manager that runs with --webhooks-only"}, nil
}

// problems are what keeps a definition from being used for a migration.
func problems(kind migrate.Kind, definition *apiextensionsv1.CustomResourceDefinition) []string {
	spec := definition.Spec
	if spec.Names.Kind != kind.Kind {
		return []string{fmt.Sprintf("its kind is %s, not %s, and can not be changed; run captctl migrate crds", spec.Names.Kind, kind.Kind)}
	}
	var found []string
	if definition.DeletionTimestamp != nil {
		found = append(found, "it is being deleted")
	}
	today := version(definition, migrate.Version)
	if today == nil || !today.Served || !today.Storage {
		found = append(found, migrate.Version+" is not served and stored")
	}
	if !hasOlderVersion(kind) {
		return found
	}
	if older := version(definition, migrate.LegacyVersion); older == nil || !older.Served {
		found = append(found, migrate.LegacyVersion+" is not served")
	}
	if problem := conversionProblem(spec.Conversion); problem != "" {
		found = append(found, problem)
	}
	return found
}

func conversionProblem(conversion *apiextensionsv1.CustomResourceConversion) string {
	switch {
	case conversion == nil || conversion.Strategy != apiextensionsv1.WebhookConverter || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil:
		return "no webhook converts its versions"
	case len(conversion.Webhook.ClientConfig.CABundle) == 0:
		return "its conversion webhook has no caBundle; cert-manager's CA injector writes it"
	}
	return ""
}

func version(definition *apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.CustomResourceDefinitionVersion {
	for i := range definition.Spec.Versions {
		if definition.Spec.Versions[i].Name == name {
			return &definition.Spec.Versions[i]
		}
	}
	return nil
}

// conversion reads one object of each kind in each version: whichever is not the stored one has to be converted.
func (l *look) conversion(ctx context.Context) (Check, error) {
	var wrong []string
	read := 0
	for _, kind := range migrate.Kinds() {
		for _, version := range []string{migrate.LegacyVersion, migrate.Version} {
			if version == migrate.LegacyVersion && !hasOlderVersion(kind) {
				continue
			}
			objects, err := l.readOne(ctx, kind, version)
			if err != nil {
				wrong = append(wrong, fmt.Sprintf("%s in %s: %v", kind.Kind, version, err))
			}
			read += objects
		}
	}
	switch {
	case len(wrong) > 0:
		return Check{Status: Failed, Objects: wrong, Message: "objects can not be read in both versions; does the manager run with --webhooks-only, and does the API server reach it?"}, nil
	case read == 0:
		return Check{Status: OK, Message: "there are no objects to convert"}, nil
	}
	return Check{Status: OK, Message: "objects can be read in both versions"}, nil
}

// readOne lists one object, and gets it: a list can come out of the API server's cache, which was converted some time ago.
func (l *look) readOne(ctx context.Context, kind migrate.Kind, version string) (int, error) {
	objects, err := l.list(ctx, kind, version, 1)
	if err != nil || len(objects) == 0 {
		return 0, err
	}
	object := &objects[0]
	return 1, client.IgnoreNotFound(l.client.Get(ctx, client.ObjectKeyFromObject(object), object))
}

func (l *look) list(ctx context.Context, kind migrate.Kind, version string, limit int64) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	gvk := kind.GroupVersionKind
	gvk.Version, gvk.Kind = version, gvk.Kind+"List"
	list.SetGroupVersionKind(gvk)
	if err := l.client.List(ctx, list, client.Limit(limit)); err != nil {
		return nil, err
	}
	return list.Items, nil
}

// candidates is of how many objects one is chosen for the dry run: one that is not being deleted, which admission lets pass.
const candidates = 20

// admission patches one object of each kind with nothing, as a dry run: it goes through conversion, defaulting and
// validation, and nothing is stored.
func (l *look) admission(ctx context.Context) (Check, error) {
	var wrong, tried, forbidden []string
	for _, kind := range migrate.Kinds() {
		if !l.may("patch", kind.Group, kind.Resource) {
			forbidden = append(forbidden, kind.Kind)
			continue
		}
		objects, err := l.list(ctx, kind, migrate.Version, candidates)
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
		err = ask(func() error {
			return l.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte("{}")), client.DryRunAll, client.FieldOwner(migrate.FieldManager))
		})
		if err != nil {
			wrong = append(wrong, name+": "+err.Error())
		}
	}
	switch {
	case len(wrong) > 0:
		return Check{Status: Failed, Objects: wrong, Message: "a write that changes nothing would be refused (it was a dry run)"}, nil
	case len(forbidden) > 0:
		return Check{Status: Warning, Objects: forbidden, Message: "not tried, since the permission to patch is missing"}, nil
	case len(tried) == 0:
		return Check{Status: OK, Message: "there are no objects to try it with"}, nil
	}
	return Check{Status: OK, Message: "a dry run of a write that changes nothing goes through, for " + strings.Join(tried, ", ")}, nil
}

// clusterAPI looks whether Cluster API speaks the version that this CAPT reads.
func (l *look) clusterAPI(ctx context.Context) (Check, error) {
	name := "clusters." + clusterv1.GroupVersion.Group
	var definition apiextensionsv1.CustomResourceDefinition
	err := l.client.Get(ctx, client.ObjectKey{Name: name}, &definition)
	if apierrors.IsNotFound(err) {
		return Check{Status: Failed, Message: "Cluster API is not installed; CAPT needs v1.11 or later"}, nil
	}
	if err != nil {
		return Check{}, err
	}
	installed, err := l.clusterAPIVersion(ctx)
	if err != nil {
		return Check{}, err
	}
	served := version(&definition, clusterv1.GroupVersion.Version)
	if served == nil || !served.Served {
		return Check{Status: Failed, Message: fmt.Sprintf("Cluster API (%s) does not serve %s; upgrade it to v1.11 or later", installed, clusterv1.GroupVersion)}, nil
	}
	return Check{Status: OK, Message: fmt.Sprintf("Cluster API (%s) serves %s", installed, clusterv1.GroupVersion)}, nil
}

// clusterAPIVersion is as precise as the images of its manager are tagged.
func (l *look) clusterAPIVersion(ctx context.Context) (string, error) {
	var deployments appsv1.DeploymentList
	if err := l.client.List(ctx, &deployments, client.MatchingLabels{"cluster.x-k8s.io/provider": "cluster-api"}); err != nil {
		return "", fmt.Errorf("listing Deployments of Cluster API: %w", err)
	}
	for i := range deployments.Items {
		for _, container := range deployments.Items[i].Spec.Template.Spec.Containers {
			if _, tag := splitImage(container.Image); tag != "" {
				return tag, nil
			}
		}
	}
	return "its version is not known", nil
}
