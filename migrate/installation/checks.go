// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	schemas "github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
	"github.com/capt-provider/capt/config/policy"
	"github.com/capt-provider/capt/config/rbac"
	"github.com/capt-provider/capt/migrate"
)

const install = "Install this version as described in docs/install.md"

// manager also compares the versions: a manager of another version may not know what captctl writes.
func (c *checker) manager(context.Context) (Check, error) {
	found, err := c.managers()
	if err != nil || len(found) == 0 {
		return Check{Status: Warning, Message: "no Deployment of the manager was found. If it runs elsewhere, check its log. Otherwise: " + install}, err
	}
	check := running(found)
	for i := range found {
		if version := tag(&found[i]); strings.HasPrefix(version, "v") && strings.HasPrefix(c.Version, "v") && !strings.Contains(c.Version, "-") && version != c.Version {
			check.add(Warning, "image "+version, fmt.Sprintf("captctl has version %s, and the manager %s: use the same", c.Version, version))
		}
	}
	return check, nil
}

// review reports which rights a ServiceAccount does not have.
func (c *checker) review(ctx context.Context, account, namespace string, rules []rbacv1.PolicyRule, within string) (missing []string, err error) {
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					names := rule.ResourceNames
					if len(names) == 0 {
						names = []string{""}
					}
					name, subresource, _ := strings.Cut(resource, "/")
					review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
						User: "system:serviceaccount:" + namespace + ":" + account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
						ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: within, Verb: verb, Group: group, Resource: name, Subresource: subresource, Name: names[0]},
					}}
					if err := c.Client.Create(ctx, review); err != nil {
						return nil, err
					}
					if !review.Status.Allowed {
						missing = append(missing, verb+" "+schema.GroupResource{Group: group, Resource: resource}.String())
					}
				}
			}
		}
	}
	return missing, nil
}

// rights compares the rights of the manager with its ClusterRole. In an installation for one namespace, it does not migrate stored versions.
func (c *checker) rights(ctx context.Context) (Check, error) {
	found, err := c.managers()
	if err != nil || len(found) == 0 {
		return Check{Status: Unknown, Message: "unknown: no Deployment of the manager was found, so its ServiceAccount is not known"}, err
	}
	var role rbacv1.ClusterRole
	if err := yaml.Unmarshal(rbac.Manager, &role); err != nil {
		return Check{}, err
	}
	check := Check{Status: OK, Message: "the manager has all rights of capt-manager-role"}
	for i := range found {
		pod, within := found[i].Spec.Template.Spec, flag(&found[i], "namespace", "")
		missing, err := c.review(ctx, pod.ServiceAccountName, found[i].Namespace, role.Rules, within)
		if err != nil {
			return check, err
		}
		for _, right := range missing {
			if within != "" && (strings.HasPrefix(right, "patch customresourcedefinitions") || strings.Contains(right, " captcontrolplanetemplates.")) {
				continue
			}
			check.add(Error, right, "the manager of namespace "+found[i].Namespace+" lacks rights. Apply config/rbac of this version, and check the bindings of capt-manager-role",
				"kubectl get clusterrolebindings,rolebindings -A -o wide | grep capt-manager-role")
		}
	}
	return check, nil
}

// Definitions of this version, by name.
func Definitions() (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	found := map[string]*apiextensionsv1.CustomResourceDefinition{}
	definitions, err := schemas.Definitions(crd.Definitions)
	for _, definition := range definitions {
		found[definition.Name] = definition
	}
	return found, err
}

func (c *checker) readDefinitions(ctx context.Context) (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	wanted, err := c.wanted()
	if err != nil {
		return nil, err
	}
	return migrate.Definitions(ctx, c.Client, slices.Collect(maps.Keys(wanted))...)
}

// contractLabel of a definition shows Cluster API which version implements its contract.
var contractLabel = clusterv1.GroupVersion.String()

func (c *checker) checkDefinitions(context.Context) (Check, error) {
	wanted, err := c.wanted()
	if err != nil {
		return Check{}, err
	}
	installed, err := c.definitions()
	if err != nil {
		return Check{}, err
	}
	check := Check{Status: OK, Message: fmt.Sprintf("all %d are those of this version", len(wanted))}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		definition := installed[name]
		for _, problem := range DefinitionProblems(wanted[name], definition) {
			check.add(Error, name+": "+problem, "the CustomResourceDefinitions are not usable. "+install)
		}
		switch {
		case definition == nil:
		case !sameSchemas(wanted[name], definition):
			check.add(Warning, name+": its schema is not that of this captctl", "some CustomResourceDefinitions are of another version than captctl. Use the same version of both")
		case definition.Labels[contractLabel] == "":
			check.add(Error, name+": the label "+contractLabel+" is missing", "Cluster API does not find the version of its contract. "+install)
		case len(definition.Status.StoredVersions) > 1:
			check.add(Warning, name+": stored in "+strings.Join(definition.Status.StoredVersions, ", "),
				"objects may be stored in an older version. The manager migrates them, unless something keeps it from that: see its log, and captctl migrate check")
		}
	}
	return check, nil
}

// DefinitionProblems are why an installed definition cannot be used as the wanted one; installed is nil if there is none.
func DefinitionProblems(wanted, installed *apiextensionsv1.CustomResourceDefinition) (found []string) {
	switch {
	case installed == nil:
		return []string{"it is not installed"}
	case installed.Spec.Names.Kind != wanted.Spec.Names.Kind:
		return []string{fmt.Sprintf("its kind is %s, not %s, and cannot be changed. Export its objects, delete it, and install this version", installed.Spec.Names.Kind, wanted.Spec.Names.Kind)}
	case installed.DeletionTimestamp != nil:
		found = append(found, "it is being deleted")
	}
	stored, _ := apihelpers.GetCRDStorageVersion(wanted)
	if actual, _ := apihelpers.GetCRDStorageVersion(installed); actual != stored || !apihelpers.HasServedCRDVersion(installed, stored) {
		found = append(found, stored+" is not served and stored")
	}
	if len(wanted.Spec.Versions) == 1 {
		return found
	}
	for _, version := range wanted.Spec.Versions {
		if version.Name != stored && !apihelpers.HasServedCRDVersion(installed, version.Name) {
			found = append(found, version.Name+" is not served")
		}
	}
	return append(found, conversionProblems(installed)...)
}

func conversionProblems(installed *apiextensionsv1.CustomResourceDefinition) (found []string) {
	switch webhook := ptr.Deref(installed.Spec.Conversion, apiextensionsv1.CustomResourceConversion{}).Webhook; {
	case webhook == nil || webhook.ClientConfig == nil:
		found = append(found, "no webhook converts its versions")
	case len(webhook.ClientConfig.CABundle) == 0:
		found = append(found, "its conversion webhook has no caBundle. Check cert-manager's CA injector, which writes it")
	}
	return found
}

// sameSchemas compares the schemas as JSON: pointers to empty values are lost on the way.
func sameSchemas(a, b *apiextensionsv1.CustomResourceDefinition) bool {
	text := func(of *apiextensionsv1.CustomResourceDefinition) string {
		schemas := map[string]*apiextensionsv1.CustomResourceValidation{}
		for _, version := range of.Spec.Versions {
			schemas[version.Name] = version.Schema
		}
		data, err := json.Marshal(schemas)
		return fmt.Sprint(string(data), err)
	}
	return text(a) == text(b)
}

// Unconvertible reads an object of each kind that has several versions in each of them: the one that is not stored is converted. It returns what cannot be
// read, and how many objects it has read.
func Unconvertible(ctx context.Context, reader client.Reader, definitions map[string]*apiextensionsv1.CustomResourceDefinition) (problems []string, read int, err error) {
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		definition := definitions[name]
		for _, version := range definition.Spec.Versions {
			if !version.Served || len(definition.Spec.Versions) == 1 {
				continue
			}
			kind := schema.GroupVersionKind{Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind}
			objects, err := list(ctx, reader, kind, client.Limit(1))
			if err == nil && len(objects) > 0 { // A list can come from the API server's cache, which was converted before.
				read++
				err = client.IgnoreNotFound(reader.Get(ctx, client.ObjectKeyFromObject(&objects[0]), &objects[0]))
			}
			switch {
			case apierrors.IsForbidden(err):
				return problems, read, err
			case err != nil:
				problems = append(problems, fmt.Sprintf("%s in %s: %v", kind.Kind, kind.Version, err))
			}
		}
	}
	return problems, read, nil
}

func (c *checker) conversion(ctx context.Context) (Check, error) {
	installed, err := c.definitions()
	if err != nil {
		return Check{}, err
	}
	problems, read, err := Unconvertible(ctx, c.Client, installed)
	check := Check{Status: OK, Message: fmt.Sprintf("objects can be read in all versions (%d tried)", read)}
	for _, problem := range problems {
		check.add(Error, problem, "objects cannot be read in all versions. Check that the manager runs, and that the API server reaches its webhooks", "kubectl -n capt-system get pods")
	}
	return check, err
}

// ours selects the objects of an installation: clusterctl uses the label, too.
var ours = client.MatchingLabels{clusterv1.ProviderNameLabel: "infrastructure-capt"}

func (c *checker) webhooks(ctx context.Context) (Check, error) {
	var mutating admissionv1.MutatingWebhookConfigurationList
	var validating admissionv1.ValidatingWebhookConfigurationList
	if err := c.Client.List(ctx, &mutating, ours); err != nil {
		return Check{}, err
	}
	if err := c.Client.List(ctx, &validating, ours); err != nil {
		return Check{}, err
	}
	check, clients := Check{Status: OK, Message: "installed, with certificates, and their Service has endpoints"}, map[string]admissionv1.WebhookClientConfig{}
	for i := range mutating.Items {
		for _, webhook := range mutating.Items[i].Webhooks {
			clients[webhook.Name] = webhook.ClientConfig
		}
	}
	for i := range validating.Items {
		for _, webhook := range validating.Items[i].Webhooks {
			clients[webhook.Name] = webhook.ClientConfig
		}
	}
	if len(mutating.Items) == 0 || len(validating.Items) == 0 {
		check.add(Error, fmt.Sprintf("%d MutatingWebhookConfigurations, %d ValidatingWebhookConfigurations", len(mutating.Items), len(validating.Items)), "the webhook configurations are not installed. "+install)
	}
	err := c.reachable(ctx, clients, &check)
	return check, err
}

// reachable checks that the API server trusts the webhooks, and that their Services have endpoints.
func (c *checker) reachable(ctx context.Context, clients map[string]admissionv1.WebhookClientConfig, check *Check) error {
	services := map[client.ObjectKey]bool{}
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		if status, message := c.bundle(clients[name].CABundle); status != OK {
			check.add(status, name+": "+message, "the API server cannot trust a webhook, or only for some time. cert-manager's CA injector writes caBundle: check that it runs", "kubectl -n cert-manager get pods")
		}
		service := clients[name].Service
		if service == nil {
			continue
		}
		key := client.ObjectKey{Namespace: service.Namespace, Name: service.Name}
		if services[key] {
			continue
		}
		services[key] = true
		switch ready, err := c.hasEndpoint(ctx, key); {
		case err != nil:
			return err
		case !ready:
			check.add(Error, "Service "+key.String()+": no endpoint is ready", "the API server cannot reach the webhooks, so objects of CAPT cannot be written. Check the manager", "kubectl -n "+key.Namespace+" get pods")
		}
	}
	return nil
}

// soon is how long before its end a certificate is reported: cert-manager renews earlier.
const soon = 14 * 24 * time.Hour

// bundle checks the CA certificates of a webhook.
func (c *checker) bundle(data []byte) (Status, string) {
	if len(data) == 0 {
		return Error, "caBundle is empty"
	}
	status, message := Error, "caBundle has no certificate"
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		switch {
		case err != nil:
			continue
		case certificate.NotAfter.Before(c.Now):
			message = "caBundle expired at " + certificate.NotAfter.UTC().Format(time.RFC3339)
		case certificate.NotAfter.Before(c.Now.Add(soon)):
			status, message = Warning, "caBundle expires at "+certificate.NotAfter.UTC().Format(time.RFC3339)
		default:
			return OK, ""
		}
	}
	return status, message
}

func (c *checker) hasEndpoint(ctx context.Context, service client.ObjectKey) (bool, error) {
	var slicesOf discoveryv1.EndpointSliceList
	err := c.Client.List(ctx, &slicesOf, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name})
	return slices.ContainsFunc(slicesOf.Items, func(slice discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(slice.Endpoints, func(endpoint discoveryv1.Endpoint) bool { return ptr.Deref(endpoint.Conditions.Ready, true) })
	}), err
}

// certificates checks those of cert-manager in the namespace of the manager.
func (c *checker) certificates(ctx context.Context) (Check, error) {
	kind := schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}
	if served, err := c.serves(kind); err != nil || !served {
		return Check{Status: Warning, Message: "cert-manager is not installed, so the certificate of the webhooks is yours to renew: the manager reloads it"}, err
	}
	objects, err := list(ctx, c.Client, kind, ours)
	if err != nil || len(objects) == 0 {
		return Check{Status: Warning, Message: "cert-manager has no Certificate of CAPT. If you provide the certificate of the webhooks yourself, renew it: the manager reloads it"}, err
	}
	check := Check{Status: OK, Message: "issued, and renewed by cert-manager"}
	for i := range objects {
		object := &objects[i]
		name := "Certificate " + client.ObjectKeyFromObject(object).String()
		text, _, _ := unstructured.NestedString(object.Object, "status", "notAfter")
		switch end, err := time.Parse(time.RFC3339, text); {
		case err != nil:
			check.add(Error, name+": not issued", "a certificate was not issued. See its events", "kubectl -n "+object.GetNamespace()+" describe certificate "+object.GetName())
		case end.Before(c.Now):
			check.add(Error, name+": expired at "+text, "a certificate has expired. Check cert-manager", "kubectl -n "+object.GetNamespace()+" describe certificate "+object.GetName())
		case end.Before(c.Now.Add(soon)):
			check.add(Warning, name+": expires at "+text, "a certificate expires soon. Check that cert-manager renews it", "kubectl -n "+object.GetNamespace()+" describe certificate "+object.GetName())
		}
	}
	return check, nil
}

// policyNames are those of the policies of this version.
func policyNames() (names []string, err error) {
	files, err := fs.Glob(policy.Files, "*.yaml")
	for _, file := range files {
		data, readErr := policy.Files.ReadFile(file)
		err = errors.Join(err, readErr)
		for _, document := range bytes.Split(data, []byte("\n---\n")) {
			var object metav1.PartialObjectMetadata
			if err = errors.Join(err, yaml.Unmarshal(document, &object)); object.Kind == "ValidatingAdmissionPolicy" {
				names = append(names, object.Name)
			}
		}
	}
	return names, err
}

// policies checks that each policy is installed, and bound with the action Deny. Names may have a prefix.
func (c *checker) policies(ctx context.Context) (Check, error) {
	names, err := policyNames()
	if err != nil {
		return Check{}, err
	}
	var installed admissionv1.ValidatingAdmissionPolicyList
	var bindings admissionv1.ValidatingAdmissionPolicyBindingList
	if err := c.Client.List(ctx, &installed, ours); err != nil {
		return Check{}, err
	}
	if err := c.Client.List(ctx, &bindings, ours); err != nil {
		return Check{}, err
	}
	check := Check{Status: OK, Message: fmt.Sprintf("all %d are installed and bound", len(names))}
	for _, name := range names {
		at := slices.IndexFunc(installed.Items, func(policy admissionv1.ValidatingAdmissionPolicy) bool { return strings.HasSuffix(policy.Name, name) })
		bound := at >= 0 && slices.ContainsFunc(bindings.Items, func(binding admissionv1.ValidatingAdmissionPolicyBinding) bool {
			return binding.Spec.PolicyName == installed.Items[at].Name && slices.Contains(binding.Spec.ValidationActions, admissionv1.Deny)
		})
		switch {
		case at < 0:
			check.add(Warning, name+": not installed", "what these policies protect, for example from an accidental deletion, is not protected while webhooks are down, or at all. "+install)
		case !bound:
			check.add(Warning, installed.Items[at].Name+": no binding with the action Deny", "a policy has no effect. "+install)
		case installed.Items[at].Status.TypeChecking != nil && len(installed.Items[at].Status.TypeChecking.ExpressionWarnings) > 0:
			check.add(Warning, installed.Items[at].Name+": "+installed.Items[at].Status.TypeChecking.ExpressionWarnings[0].Warning, "the API server cannot check an expression of a policy. Are all kinds installed that it is about?")
		}
	}
	return check, nil
}

// clusterAPI checks its version, and that it may write the objects of CAPT: without that, no Cluster becomes ready.
func (c *checker) clusterAPI(ctx context.Context) (Check, error) {
	served, err := c.serves(clusterv1.GroupVersion.WithKind("Cluster"))
	if err != nil || !served {
		return Check{Status: Error, Message: "Cluster API does not serve " + contractLabel + ". Install it, or upgrade it to v1.11 or later", Commands: []string{"clusterctl upgrade plan"}}, err
	}
	found, err := c.deploymentsOf(func(deployment *appsv1.Deployment) bool {
		return deployment.Labels[clusterv1.ProviderNameLabel] == "cluster-api"
	})
	if err != nil || len(found) == 0 {
		return Check{Status: Warning, Message: "serves " + contractLabel + ", but no Deployment of it was found. If it runs elsewhere, that is all right"}, err
	}
	check := running(found)
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{"infrastructure.cluster.x-k8s.io"}, Resources: []string{"captclusters", "captmachinepools"}, Verbs: []string{"get", "patch", "delete"}},
		{APIGroups: []string{"controlplane.cluster.x-k8s.io"}, Resources: []string{"captcontrolplanes"}, Verbs: []string{"get", "patch", "delete"}},
		{APIGroups: []string{"bootstrap.cluster.x-k8s.io"}, Resources: []string{"captbootstrapconfigs"}, Verbs: []string{"get", "patch", "delete"}},
	}
	missing, err := c.review(ctx, found[0].Spec.Template.Spec.ServiceAccountName, found[0].Namespace, rules, flag(&found[0], "namespace", ""))
	switch {
	case apierrors.IsForbidden(err):
		check.Message += "; whether it may write objects of CAPT is " + unreadable(err).Message
	case err != nil:
		return check, err
	}
	for _, right := range missing {
		check.add(Error, right, "Cluster API may not read or write objects of CAPT. Its ClusterRole aggregates those with the label cluster.x-k8s.io/aggregate-to-manager")
	}
	return check, nil
}

// busy is how many Workspaces one worker of the provider handles without long queues.
const busy = 10

func (c *checker) provider(ctx context.Context) (Check, error) {
	workspaces, err := c.workspaces()
	if err != nil {
		return Check{}, err
	}
	kind := terraform.ScopeNamespaced.GroupVersionKind()
	if served, err := c.serves(kind); err != nil || !served {
		return Check{Status: Error, Message: kind.GroupVersion().String() + " is not served. Install provider-terraform v1 or later, see docs/aws.md"}, err
	}
	found, err := c.deploymentsOf(func(deployment *appsv1.Deployment) bool {
		return strings.Contains(client.ObjectKeyFromObject(deployment).String(), "provider-terraform")
	})
	if err != nil {
		return Check{}, err
	}
	check := Check{Status: Warning, Message: "no Deployment of provider-terraform was found. If it runs elsewhere, that is all right"}
	if len(found) > 0 {
		check = running(found)
	}
	for i := range found {
		if flag(&found[i], "enable-management-policies", "true") == "false" {
			check.add(Warning, "--enable-management-policies=false", "provider-terraform does not accept previews, so no plan is shown before an approval. Remove the flag")
		}
		if rate := flag(&found[i], "max-reconcile-rate", "1"); rate == "1" && len(workspaces) > busy {
			check.add(Warning, "--max-reconcile-rate="+rate, fmt.Sprintf("provider-terraform works on one of %d Workspaces at a time. Raise the flag --max-reconcile-rate, see docs/provider-terraform.md", len(workspaces)))
		}
	}
	c.queue(workspaces, &check)
	if err := c.pods(ctx, &check); !apierrors.IsForbidden(err) {
		return check, err
	}
	return check, nil
}

// queue adds the Workspaces that the provider has not reconciled yet.
func (c *checker) queue(workspaces []unstructured.Unstructured, check *Check) {
	for i := range workspaces {
		conditions, _, _ := unstructured.NestedSlice(workspaces[i].Object, "status", "conditions")
		if age := c.Now.Sub(workspaces[i].GetCreationTimestamp().Time); len(conditions) == 0 && age > 2*time.Minute {
			check.add(Warning, "Workspace "+strings.TrimPrefix(client.ObjectKeyFromObject(&workspaces[i]).String(), "/")+": not reconciled for "+age.Round(time.Minute).String(),
				"Workspaces wait for provider-terraform. Check that it runs, and its flag --max-reconcile-rate")
		}
	}
}

// pods adds the Pods of the provider that are not ready.
func (c *checker) pods(ctx context.Context, check *Check) error {
	var pods corev1.PodList
	if err := c.Client.List(ctx, &pods, client.HasLabels{terraform.ProviderPodLabel}); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		unready := pod.Status.Phase != corev1.PodRunning || slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
			return condition.Type == corev1.PodReady && condition.Status != corev1.ConditionTrue
		})
		if terraform.IsProviderPod(pod) && unready {
			check.add(Error, "Pod "+client.ObjectKeyFromObject(pod).String()+": not ready, "+string(pod.Status.Phase), "a Pod of provider-terraform is not ready", "kubectl -n "+pod.Namespace+" describe pod "+pod.Name)
		}
	}
	return nil
}

// providerConfigs checks that those exist that Workspaces use, with the Secrets of their credentials.
func (c *checker) providerConfigs(ctx context.Context) (Check, error) {
	workspaces, err := c.workspaces()
	if err != nil {
		return Check{}, err
	}
	users := map[string]*unstructured.Unstructured{}
	for i := range workspaces {
		config := render.ProviderConfigObject(&workspaces[i])
		users[strings.TrimSpace(config.GetKind()+" "+strings.TrimPrefix(client.ObjectKeyFromObject(config).String(), "/"))+" ("+config.GroupVersionKind().Group+")"] = config
	}
	check := Check{Status: OK, Message: fmt.Sprintf("all that Workspaces use exist (%d)", len(users))}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		switch err := c.Client.Get(ctx, client.ObjectKeyFromObject(users[name]), users[name]); {
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			check.add(Error, name+": does not exist", "Terraform cannot run with a ProviderConfig that does not exist. Create it, or correct spec.template.spec.providerConfigRef of the WorkspaceTemplate")
			continue
		case err != nil:
			return check, err
		}
		if err := c.credentials(ctx, name, users[name], &check); err != nil {
			return check, err
		}
	}
	return check, nil
}

// credentials checks that the Secrets of a ProviderConfig exist.
func (c *checker) credentials(ctx context.Context, name string, config *unstructured.Unstructured, check *Check) error {
	spec, err := terraform.ProviderConfigSpecOf(config)
	if err != nil {
		check.add(Error, name+": "+err.Error(), "a ProviderConfig cannot be used. Correct it")
		return nil
	}
	for _, credentials := range spec.Credentials {
		if credentials.SecretRef == nil {
			continue
		}
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		key := client.ObjectKey{Namespace: credentials.SecretRef.Namespace, Name: credentials.SecretRef.Name}
		if key.Namespace == "" {
			key.Namespace = config.GetNamespace()
		}
		switch err := c.Client.Get(ctx, key, secret); {
		case apierrors.IsNotFound(err):
			check.add(Error, name+": Secret "+key.String()+" does not exist", "Terraform has no credentials. Create the Secret that the ProviderConfig names")
		case apierrors.IsForbidden(err):
			check.add(Unknown, name+": Secret "+key.String(), unreadable(err).Message)
		case err != nil:
			return err
		}
	}
	return nil
}
