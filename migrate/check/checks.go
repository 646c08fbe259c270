// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/config/rbac"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/installation"
)

// The ClusterRoles of config/rbac/captctl.yaml.
const (
	RoleReader        = "capt-migrate-reader"
	RoleJournalReader = "capt-migrate-journal-reader"
	RoleWriter        = "capt-migrate"
	RoleJournal       = "capt-migrate-journal"
	RoleEndpoints     = "capt-migrate-endpoints"
	RoleOwners        = "capt-migrate-owners"
)

// Right is one permission. Its namespace is empty if it is for all of them, and for objects that have none.
type Right struct {
	authorizationv1.ResourceAttributes
	Role string // Role is the ClusterRole of captctl that has the right.
}

// String is "verb resource.group", with the namespace if the right is for one only.
func (r Right) String() string {
	text := r.Verb + " " + schema.GroupResource{Group: r.Group, Resource: path.Join(r.Resource, r.Subresource)}.String()
	if r.Namespace != "" {
		text += " in namespace " + r.Namespace
	}
	return text
}

// Rights returns the rights of some ClusterRoles of captctl. Those of the journal are for the namespace of the journal.
func Rights(journalNamespace string, roles ...string) (rights []Right, err error) {
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(rbac.Captctl), 4096)
	for {
		var role rbacv1.ClusterRole
		switch err := documents.Decode(&role); {
		case errors.Is(err, io.EOF):
			return rights, nil
		case err != nil:
			return nil, fmt.Errorf("reading the roles of captctl: %w", err)
		case !slices.Contains(roles, role.Name):
			continue
		}
		right := Right{Role: role.Name}
		if role.Name == RoleJournalReader || role.Name == RoleJournal {
			right.Namespace = journalNamespace
		}
		for _, rule := range role.Rules {
			for _, right.Group = range rule.APIGroups {
				for _, resource := range rule.Resources {
					right.Resource, right.Subresource, _ = strings.Cut(resource, "/")
					for _, right.Verb = range rule.Verbs {
						rights = append(rights, right)
					}
				}
			}
		}
	}
}

// review finds which rights of some roles the user does not have. The API server does not store reviews.
func (c *checker) review(ctx context.Context, roles ...string) error {
	rights, err := Rights(c.options.JournalNamespace, roles...)
	for _, right := range rights {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right.ResourceAttributes}}
		if err := migrate.Retry(ctx, func(ctx context.Context) error { return c.client.Create(ctx, review) }); err != nil {
			return fmt.Errorf("checking the permission to %s: %w", right, err)
		}
		if !review.Status.Allowed {
			c.missing = append(c.missing, right)
		}
	}
	return err
}

// permissions reports missing rights. Before this version is installed, missing rights to write are only a warning.
func (c *checker) permissions(ctx context.Context) (found Check, err error) {
	review := []string{RoleReader, RoleJournalReader, RoleWriter, RoleJournal, RoleOwners}
	if c.options.FixClusterEndpoints {
		review = append(review, RoleEndpoints)
	}
	if err := c.review(ctx, review...); err != nil {
		return found, err
	}
	found = Check{Status: OK, Message: "all required permissions are granted"}
	required := slices.DeleteFunc(slices.Clone(c.missing), func(right Right) bool { return right.Role == RoleOwners })
	if len(required) == 0 {
		for _, right := range c.missing {
			found.Objects = append(found.Objects, right.String()+": only API servers that protect owner references require it, as OpenShift does; see role "+RoleOwners)
		}
		return found, nil
	}
	roles := []string{}
	found.Status = c.statusIfMissing()
	for _, right := range required {
		found.Objects, roles = append(found.Objects, right.String()), append(roles, right.Role)
		if right.Role == RoleReader || right.Role == RoleJournalReader {
			found.Status = Failed
		}
	}
	found.Message = fmt.Sprintf("%d permissions are missing. Bind these roles of config/rbac/captctl.yaml: %s", len(required), strings.Join(unique(roles), ", "))
	if found.Status == Warning {
		found.Message = "for apply and rollback, " + found.Message
	}
	found.Commands = c.bindCommands(required)
	return found, nil
}

func (c *checker) bindCommands(rights []Right) (commands []string) {
	subject := "--user=" + quote(c.user)
	if account, ok := strings.CutPrefix(c.user, "system:serviceaccount:"); ok {
		subject = "--serviceaccount=" + quote(account)
	}
	if c.options.Before == Untouched { // Later the roles are part of the installation.
		commands = append(commands, "kubectl apply -f config/rbac/captctl.yaml")
	}
	for _, right := range rights {
		name := quote(right.Role + ":" + strings.NewReplacer("/", "-", "%", "-").Replace(c.user)) // One binding per user.
		command := fmt.Sprintf("kubectl create clusterrolebinding %s --clusterrole=%s %s", name, right.Role, subject)
		if right.Namespace != "" {
			command = fmt.Sprintf("kubectl -n %s create rolebinding %s --clusterrole=%s %s", right.Namespace, name, right.Role, subject)
		}
		commands = append(commands, command)
	}
	return unique(commands)
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func (c *checker) journal(ctx context.Context) (Check, error) {
	const purpose = "captctl keeps its Lease and its journals there."
	name := c.options.JournalNamespace
	namespace := &corev1.Namespace{}
	err := c.client.Get(ctx, client.ObjectKey{Name: name}, namespace)
	switch {
	case apierrors.IsNotFound(err):
		return Check{Status: c.statusIfMissing(), Commands: []string{"kubectl create namespace " + name}, Message: fmt.Sprintf(
			"namespace %s does not exist. %s Create it, or name another one with --journal-namespace", name, purpose)}, nil
	case namespace.DeletionTimestamp != nil:
		return Check{Status: Failed, Message: fmt.Sprintf("namespace %s is being deleted. %s Name another one with --journal-namespace", name, purpose)}, nil
	}
	return Check{Status: OK, Message: fmt.Sprintf("namespace %s exists", name)}, err
}

// statusIfMissing is the status of a check of something that only later stages need: a warning before this version is installed.
func (c *checker) statusIfMissing() Status {
	if c.options.Before == Untouched {
		return Warning
	}
	return Failed
}

// clock reports a difference of the clocks that matters where captctl compares times of several hosts.
func (c *checker) clock(context.Context) (Check, error) {
	if c.skew.Abs() > 30*time.Second {
		return Check{Status: Warning, Message: fmt.Sprintf(
			"the clock of this host differs from that of the API server by %s. Times in reports and journals are wrong. Synchronize it", c.skew.Abs())}, nil
	}
	return Check{Status: OK, Message: "the clocks of this host and of the API server agree"}, nil
}

func (c *checker) clusterAPI(context.Context) (Check, error) {
	version := clusterv1.GroupVersion.String()
	if served, err := c.serves(clusterv1.GroupVersion.WithKind("Cluster")); served || err != nil {
		return Check{Status: OK, Message: "Cluster API serves " + version}, err
	}
	return Check{Status: Failed, Commands: []string{"clusterctl upgrade plan"}, Message: fmt.Sprintf("Cluster API does not serve %s. Upgrade it to v1.11 or later", version)}, nil
}

// certManager reports whether cert-manager is installed: without a certificate, objects cannot be read once the definitions are installed.
func (c *checker) certManager(context.Context) (Check, error) {
	served, err := c.serves(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"})
	if served || err != nil {
		return Check{Status: OK, Message: "cert-manager is installed"}, err
	}
	return Check{Status: Warning, Message: "cert-manager is not installed. Without a certificate for the webhooks of this version, no object of CAPT can be read. " +
		"Install cert-manager, or provide a certificate as described in docs/install.md"}, nil
}

const providerName = "provider-terraform"

func (c *checker) provider(ctx context.Context) (Check, error) {
	kind := terraform.ScopeCluster.GroupVersionKind()
	if served, err := c.serves(kind); err != nil || !served {
		return Check{Status: Failed, Message: fmt.Sprintf("%s does not exist: Workspaces of CAPT v0.3 cannot be read. Install %s", kind.GroupVersion(), providerName)}, err
	}
	up, down, err := c.replicas(ctx, func(deployment *appsv1.Deployment) bool {
		return strings.Contains(client.ObjectKeyFromObject(deployment).String(), providerName)
	})
	switch {
	case len(up.Objects) > 0:
		return Check{Status: OK, Objects: up.Objects[:1], Message: providerName + " runs"}, nil
	case len(down.Objects) > 0:
		return Check{Status: Warning, Objects: down.Objects, Message: providerName + " does not run, so the conditions of Workspaces may be outdated. Start it first"}, nil
	}
	return Check{Status: Warning, Message: providerName + " was not found. The conditions of Workspaces may be outdated"}, err
}

// Workspaces reports the Workspaces of the WorkspaceTemplateApplies of a fleet that are not up to date.
func Workspaces(fleet *migrate.Snapshot) Check {
	type key struct{ group, namespace, name string }
	keys, legacy := sets.New[key](), terraform.ScopeCluster.GroupVersionKind().Group
	for i := range fleet.Applies {
		apply := &fleet.Applies[i]
		keys.Insert(key{legacy, "", naming.LegacyWorkspace(apply.Name)}, key{legacy, "", apply.Spec.WorkspaceName})
		if ref := apply.Status.WorkspaceRef; ref != nil {
			keys.Insert(key{schema.FromAPIVersionAndKind(ref.APIVersion, "").Group, ref.Namespace, ref.Name})
		}
	}
	found, total := Check{Name: CheckWorkspaces, Status: Warning}, 0
	for i := range fleet.Workspaces {
		workspace := &fleet.Workspaces[i]
		if !keys.Has(key{workspace.GroupVersionKind().Group, workspace.GetNamespace(), workspace.GetName()}) {
			continue
		}
		total++
		if why := migrate.WhyNotUpToDate(workspace); why != "" {
			found.Objects = append(found.Objects, fmt.Sprintf("Workspace %s: %s", workspace.GetName(), why))
		}
	}
	slices.Sort(found.Objects)
	found.Message = fmt.Sprintf("%d of %d Workspaces are not up to date: Terraform may run for them during "+
		"the migration, independently of it. Wait until Terraform has finished, or fix them first", len(found.Objects), total)
	return found.orOK("all %d Workspaces of WorkspaceTemplateApplies are up to date", total)
}

// legacyDefinitionNames are those of kinds that only CAPT v0.3 has. Their objects own WorkspaceTemplateApplies, too.
var legacyDefinitionNames = []string{
	"captmachines.infrastructure.cluster.x-k8s.io", "captmachinesets.infrastructure.cluster.x-k8s.io",
	"captmachinedeployments.infrastructure.cluster.x-k8s.io", "captmachinetemplates.infrastructure.cluster.x-k8s.io",
}

func (c *checker) definitions(context.Context) (Check, error) {
	found := Check{Status: Failed, Message: "the CustomResourceDefinitions are not those of this version. Install this version as described in docs/install.md"}
	wanted, unreadable := installation.Definitions()
	installed, err := c.installed()
	for _, kind := range migrate.Kinds() {
		for _, problem := range installation.DefinitionProblems(wanted[kind.Definition()], installed[kind.Definition()]) {
			found.Objects = append(found.Objects, kind.Definition()+": "+problem)
		}
	}
	if isLegacyTemplate(installed[migrate.OlderTemplateDefinition]) {
		found.Commands = replaceTemplates()
	}
	return found.orOK("all %d definitions store %s and convert %s", len(migrate.Kinds()), migrate.Version, migrate.LegacyVersion), errors.Join(unreadable, err)
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

// conversion reads one object of each kind in each version.
func (c *checker) conversion(ctx context.Context) (Check, error) {
	found := Check{Status: Failed, Message: "objects cannot be read in both versions. Check that the manager runs (kubectl -n capt-system get pods), and that the API server reaches its webhooks"}
	installed, err := c.installed()
	if err != nil {
		return found, err
	}
	found.Objects, _, err = installation.Unconvertible(ctx, c.client, installed)
	return found.orOK("objects can be read in both versions"), err
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

// isLegacy reports whether a Deployment is one of CAPT v0.3. If that is uncertain it returns true, because a CAPT v0.3 that still runs can destroy a cluster.
func isLegacy(deployment *appsv1.Deployment) bool {
	return !installation.IsManager(deployment) && (looksLikeCAPT(deployment.Name) || looksLikeCAPT(deployment.Labels["cluster.x-k8s.io/provider"]) ||
		slices.ContainsFunc(deployment.Spec.Template.Spec.Containers, func(container corev1.Container) bool {
			return looksLikeCAPT(imageName(container.Image))
		}))
}

func looksLikeCAPT(name string) bool {
	return slices.Contains(strings.Split(strings.ToLower(name), "-"), "capt")
}

func imageName(image string) string {
	repository, _, _ := strings.Cut(image, "@")
	name, _, _ := strings.Cut(path.Base(repository), ":")
	return name
}

func (c *checker) deployments(ctx context.Context, is func(*appsv1.Deployment) bool) ([]appsv1.Deployment, error) {
	var list appsv1.DeploymentList
	if err := c.client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing Deployments: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(deployment appsv1.Deployment) bool { return !is(&deployment) }), nil
}

// replicas reports the Deployments for which a function holds: those with an available replica, and those without, with the commands that start them.
func (c *checker) replicas(ctx context.Context, is func(*appsv1.Deployment) bool) (up, down Check, err error) {
	up.Status, down.Status = OK, Warning
	deployments, err := c.deployments(ctx, is)
	up.Objects, down.Objects, down.Commands = installation.Replicas(deployments)
	return up, down, err
}

// legacy reports whether CAPT v0.3 runs. It would revert what is adopted, and may create a second cluster where a reference is empty.
func (c *checker) legacy(ctx context.Context) (Check, error) {
	found := Check{Status: c.statusIfMissing()}
	deployments, err := c.deployments(ctx, isLegacy)
	if err != nil {
		return found, err
	}
	for i := range deployments {
		if err := c.addStopCommands(ctx, &deployments[i], &found); err != nil {
			return found, fmt.Errorf("checking Deployment %s: %w", client.ObjectKeyFromObject(&deployments[i]), err)
		}
	}
	if len(found.Objects) > 0 {
		found.Message = "CAPT v0.3 is running. It must not run together with this version: it would revert adoptions, and can create clusters a second time. Stop it"
		found.Commands = unique(found.Commands)
		return found, nil
	}
	found.Message = fmt.Sprintf("a manager of CAPT v0.3 has written in the last %s, and no Deployment of it runs in this cluster. "+
		"Stop it wherever it runs. If it was stopped just now, wait %[1]s and run the command again", c.options.Quiet)
	found.Objects, err = c.recentWrites(ctx)
	return found.orOK("CAPT v0.3 does not run"), err
}

func (c *checker) addStopCommands(ctx context.Context, deployment *appsv1.Deployment, found *Check) error {
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return err
	}
	name := "Deployment " + client.ObjectKeyFromObject(deployment).String()
	await := fmt.Sprintf("kubectl -n %s wait pod -l '%s' --for=delete --timeout=2m", deployment.Namespace, selector)
	if ptr.Deref(deployment.Spec.Replicas, 1) > 0 {
		state := name + ": it is not scaled to 0"
		by := installerOf(deployment)
		if by.name != "" {
			state += "; " + by.name + " can scale it up again"
		}
		found.Objects = append(found.Objects, state)
		found.Commands = append(found.Commands, by.suspend...)
		found.Commands = append(found.Commands, fmt.Sprintf("kubectl -n %s scale deployment/%s --replicas=0", deployment.Namespace, deployment.Name), await)
		return nil
	}
	// On a node that does not respond, a Pod runs on after its Deployment was scaled down.
	var pods corev1.PodList
	err = c.client.List(ctx, &pods, client.InNamespace(deployment.Namespace), client.MatchingLabelsSelector{Selector: selector})
	runs := slices.IndexFunc(pods.Items, func(pod corev1.Pod) bool {
		return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
	})
	if runs >= 0 {
		found.Objects = append(found.Objects, fmt.Sprintf("%s: it is scaled to 0, but Pod %s still exists", name, pods.Items[runs].Name))
		found.Commands = append(found.Commands, await)
	}
	return err
}

// recentWrites lists the latest writes of CAPT v0.3. They show that it runs even if it runs outside of this cluster, or under a name that is not recognized.
func (c *checker) recentWrites(ctx context.Context) (recent []string, err error) {
	for _, kind := range migrate.Kinds() {
		err := migrate.EachMetadata(ctx, c.client, kind.GroupKind().WithVersion(c.version), func(object *metav1.PartialObjectMetadata) error {
			for _, write := range migrate.LegacyWrites(object, c.now.Add(-c.options.Quiet)) {
				recent = append(recent, fmt.Sprintf("%s %s/%s: %s", kind.Kind, object.GetNamespace(), object.GetName(), write))
			}
			return nil
		})
		if err != nil && !meta.IsNoMatchError(err) { // The definitions are reported.
			return nil, err
		}
	}
	return recent, nil
}

func unique(list []string) (once []string) {
	for _, item := range list {
		if !slices.Contains(once, item) {
			once = append(once, item)
		}
	}
	return once
}

// installer is the tool that installed an object: it restores what is changed, and deletes the object when it is uninstalled.
type installer struct {
	name    string   // Of the tool and of its object, as far as they are known.
	suspend []string // Commands that keep the tool from restoring what it installed. Helm does nothing by itself.
	keep    string   // keep is the annotation with which the tool does not delete an object. Helm reads it in its own copy of the manifest only.
}

func installerOf(object metav1.Object) installer {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	for _, flux := range []struct{ kind, group, keep string }{
		{"Kustomization", "kustomize.toolkit.fluxcd.io", "kustomize.toolkit.fluxcd.io/prune=disabled"}, {"HelmRelease", "helm.toolkit.fluxcd.io", ""},
	} {
		if name, namespace := labels[flux.group+"/name"], labels[flux.group+"/namespace"]; name != "" {
			suspend := fmt.Sprintf("flux suspend %s %s -n %s", strings.ToLower(flux.kind), name, namespace)
			return installer{"Flux " + flux.kind + " " + path.Join(namespace, name), []string{suspend}, flux.keep}
		}
	}
	argoCD := installer{keep: "argocd.argoproj.io/sync-options=Prune=false,Delete=false"}
	// The tracking ID is application:group/kind:namespace/name.
	application, _, _ := strings.Cut(annotations["argocd.argoproj.io/tracking-id"], ":")
	if name := cmp.Or(application, labels["argocd.argoproj.io/instance"], annotations["argocd.argoproj.io/instance"]); name != "" {
		argoCD.name, argoCD.suspend = "Argo CD Application "+name, []string{"argocd app set " + name + " --sync-policy none"}
		return argoCD
	}
	if name := annotations["meta.helm.sh/release-name"]; name != "" {
		return installer{name: "Helm release " + path.Join(annotations["meta.helm.sh/release-namespace"], name)}
	}
	if owner := metav1.GetControllerOf(object); owner != nil {
		return installer{name: owner.Kind + " " + path.Join(object.GetNamespace(), owner.Name)}
	}
	if instance := labels["app.kubernetes.io/instance"]; instance != "" {
		argoCD.name = "Argo CD or Helm, as " + instance
		return argoCD
	}
	if labels["app.kubernetes.io/managed-by"] == "Helm" {
		return installer{name: "Helm"}
	}
	return installer{}
}

// installers reports tools that would delete the definitions, and with them all that Terraform created, when CAPT v0.3 is uninstalled.
func (c *checker) installers(ctx context.Context) (Check, error) {
	found := Check{Status: Warning, Message: "a tool installed these objects. Uninstalling with that tool can delete the definitions, every object of CAPT, and the " +
		"cloud resources. Remove CAPT v0.3 as described in docs/migration-reference.md, never with helm uninstall or by pruning"}
	installed, err := c.installed()
	if err != nil {
		return found, err
	}
	var keep []string
	for _, name := range slices.Sorted(maps.Keys(installed)) {
		by := installerOf(installed[name])
		key, value, _ := strings.Cut(by.keep, "=")
		if by.name == "" || key != "" && installed[name].Annotations[key] == value {
			continue
		}
		found.Objects = append(found.Objects, fmt.Sprintf("CustomResourceDefinition %s: %s", name, by.name))
		found.Commands = append(found.Commands, by.suspend...) // A tool that is not suspended removes the annotation.
		if by.keep != "" {
			keep = append(keep, fmt.Sprintf("kubectl annotate --overwrite crd %s %s", name, by.keep))
		}
	}
	deployments, err := c.deployments(ctx, isLegacy)
	for i := range deployments {
		if by := installerOf(&deployments[i]); by.name != "" {
			found.Objects = append(found.Objects, fmt.Sprintf("Deployment %s: %s", client.ObjectKeyFromObject(&deployments[i]), by.name))
			found.Commands = append(found.Commands, by.suspend...)
		}
	}
	found.Commands = append(unique(found.Commands), keep...)
	return found.orOK("no definition of CAPT and no Deployment of CAPT v0.3 is known to be installed by Helm, Flux or Argo CD"), err
}

// manager reports whether the manager of this version runs. It may run outside of this cluster, so that its absence is a warning.
func (c *checker) manager(ctx context.Context) (Check, error) {
	const consequence = "The manager confirms each adoption: captctl migrate apply waits for that, and fails after --wait"
	up, down, err := c.replicas(ctx, installation.IsManager)
	up.Message, down.Message = "the manager of this version runs", "the manager is not available. "+consequence
	switch {
	case len(down.Objects) > 0:
		return down, nil
	case len(up.Objects) > 0 || err != nil:
		return up, err
	}
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: c.options.JournalNamespace, Name: naming.LeaderElectionLease("", "")}
	if err := client.IgnoreNotFound(c.client.Get(ctx, key, lease)); err != nil {
		return up, err
	}
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	if renewed := lease.Spec.RenewTime; renewed != nil && renewed.Add(lasts).After(c.now) {
		up.Objects = []string{"Lease " + key.String()}
		return up, nil
	}
	return Check{Status: Warning, Message: "no Deployment and no Lease of the manager was found. " + consequence + ". If it runs elsewhere, check its log; else install it as described in docs/install.md"}, nil
}
