// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
)

var (
	namePath    = field.NewPath("metadata", "name")
	versionPath = field.NewPath("spec", "version")
)

// ControlPlaneVariables lists the variables that CAPT sets for the template of a control plane, with one for each tag. They override
// variables of the user. vpc_id is set once the ID of the VPC is known.
func ControlPlaneVariables(tags map[string]controlplanev1.TagValue) []string {
	names := []string{
		naming.ClusterVariable, naming.VersionVariable, naming.RegionVariable, naming.VPCIDVariable,
		naming.PublicAccessVariable, naming.PrivateAccessVariable, naming.PublicAccessCIDRsVariable, naming.AddonsVariable, naming.TagsVariable,
	}
	for key := range tags {
		names = append(names, naming.TagPrefix+key)
	}
	return names
}

// ValidateCAPTControlPlane checks what the schema of a CAPTControlPlane cannot: names, the version, documents in fields, and consistency
// with other objects.
func ValidateCAPTControlPlane(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane) (findings Findings, err error) {
	of := templates{Reader: reader, namespace: controlPlane.Namespace}
	findings.Refuse(validateNameLength(controlPlane.Name, naming.MaxCAPTControlPlaneNameLength)...)
	findings.Add(validateVersion(controlPlane))
	err = cmp.Or(
		findings.include(validateControlPlaneSpec(ctx, of, &controlPlane.Spec.CAPTControlPlaneTemplateResourceSpec, field.NewPath("spec"))),
		findings.include(validateVersionChange(ctx, reader, controlPlane)),
		findings.include(validateControlPlaneRegion(ctx, reader, controlPlane)),
		findings.include(validateKubeconfigNames(ctx, reader, controlPlane)),
		findings.include(validateEKSName(ctx, reader, controlPlane)),
		findings.include(checkControlPlaneFields(ctx, of, controlPlane)),
		findings.include(validateApplyReferences(ctx, reader, controlPlane)))
	return findings, err
}

// ValidateCAPTControlPlaneTemplate applies the rules for CAPTControlPlanes to a template, except for rules about other objects of the same
// Cluster.
func ValidateCAPTControlPlaneTemplate(ctx context.Context, reader Reader, template *controlplanev1.CAPTControlPlaneTemplate) (findings Findings, err error) {
	of, spec, path := templates{reader, template.Namespace, true}, &template.Spec.Template.Spec, templatePath.Child("spec")
	findings.Refuse(template.Spec.Template.ObjectMeta.Validate(templatePath.Child("metadata"))...)
	err = cmp.Or(
		findings.include(validateControlPlaneSpec(ctx, of, spec, path)),
		findings.include(of.checkFields(ctx, spec.WorkspaceTemplateRef, commonFields(spec, path))))
	return findings, err
}

// validateControlPlaneSpec checks the fields that a CAPTControlPlane and a CAPTControlPlaneTemplate have in common.
func validateControlPlaneSpec(ctx context.Context, of templates, spec *controlplanev1.CAPTControlPlaneTemplateResourceSpec, path *field.Path) (findings Findings, err error) {
	variables := variablesOf{spec.Variables, path.Child("variables"), ControlPlaneVariables(spec.AdditionalTags), derivedFrom(spec, path), naming.NetworkVariables()}
	findings.Refuse(validateAddons(spec.Addons, path.Child("addons"))...)
	findings.Refuse(validateTags(spec.AdditionalTags, path.Child("additionalTags"))...)
	findings.Add(validateEndpointAccess(spec.EndpointAccess, path.Child("endpointAccess")))
	findings.Add(validateRecovery(spec.Recovery, path))
	err = cmp.Or(
		findings.include(of.validateUse(ctx, spec.WorkspaceTemplateRef, path.Child("workspaceTemplateRef"), variables)),
		findings.include(validateFargateProfiles(ctx, of, spec.FargateProfiles, path.Child("fargateProfiles"))))
	return findings, err
}

// validateEndpointAccess checks what EKS rejects only when the VPC exists, and what its nodes run into:
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html.
func validateEndpointAccess(access *controlplanev1.EndpointAccess, path *field.Path) (findings Findings) {
	if access == nil {
		return findings
	}
	everywhere := len(access.PublicCIDRs) == 0
	for i, cidr := range access.PublicCIDRs {
		if network, err := netip.ParsePrefix(string(cidr)); err == nil { // The schema rejects others.
			everywhere = everywhere || network.Bits() == 0
			findings.Refuse(validatePublicNetwork(network, path.Child("publicCIDRs").Index(i))...)
		}
	}
	if access.HasPublic() && !access.HasPrivate() && !everywhere {
		findings.Warn(path.Child("private"), "is Disabled, so nodes and pods on Fargate reach the API server only from publicCIDRs. Set it to Enabled, or add the addresses of the NAT gateway to publicCIDRs")
	}
	return findings
}

func validatePublicNetwork(network netip.Prefix, path *field.Path) (errs field.ErrorList) {
	switch address := network.Addr(); {
	case network.Masked() != network:
		errs = append(errs, Invalid(path, "is an address in a network. Write the network %s", network.Masked()))
	case network.Bits() > 0 && (address.IsPrivate() || address.IsLoopback() || address.IsLinkLocalUnicast() || address.IsMulticast()):
		errs = append(errs, Invalid(path, "is not a network of public addresses, and EKS rejects it. Write the public addresses from which the API server is used, for example those of a NAT gateway"))
	}
	return errs
}

// derivedFrom returns the variables that CAPT sets from fields that are set.
func derivedFrom(spec *controlplanev1.CAPTControlPlaneTemplateResourceSpec, path *field.Path) map[string]derived {
	found := map[string]derived{}
	tags := path.Child("additionalTags")
	for tag, value := range spec.AdditionalTags {
		found[naming.TagPrefix+tag] = derived{string(value), tags.Key(tag), false}
		found[naming.TagsVariable] = derived{path: tags, document: true}
	}
	if len(spec.Addons) > 0 {
		found[naming.AddonsVariable] = derived{path: path.Child("addons"), document: true}
	}
	if spec.EndpointAccess != nil && len(spec.EndpointAccess.PublicCIDRs) > 0 {
		found[naming.PublicAccessCIDRsVariable] = derived{path: path.Child("endpointAccess", "publicCIDRs"), document: true}
	}
	return found
}

// validateRecovery warns of parameters that an action does not have. The schema checks the rest.
func validateRecovery(strategy *infrav1.RecoveryStrategy, spec *field.Path) (findings Findings) {
	parameters := map[infrav1.RecoveryActionType]string{
		infrav1.RecoveryRecreateFargateProfile: infrav1.ProfileParameter,
		infrav1.RecoveryRecreateWorkspace:      infrav1.AllowDestroyParameter,
	}
	for i := 0; strategy != nil && i < len(strategy.Actions); i++ {
		action := &strategy.Actions[i]
		for _, name := range slices.Sorted(maps.Keys(action.Parameters)) {
			if name != parameters[action.Type] {
				findings.Warn(spec.Child("recovery", "actions").Index(i).Child("parameters").Key(name), "has no effect: action %s has no such parameter. Remove it", action.Type)
			}
		}
	}
	return findings
}

// validateVersion checks the format of the version, and warns of a version that EKS may not offer.
func validateVersion(controlPlane *controlplanev1.CAPTControlPlane) (findings Findings) {
	version, err := ParseKubernetesVersion(controlPlane.Spec.Version)
	switch {
	case err != nil:
		findings.Refuse(Invalid(versionPath, "%s", err))
	case !isTestedWithEKS(version):
		findings.Warn(versionPath, "EKS %[3]s is not among the versions this release was tested with (1.%[1]d to 1.%[2]d). Check that EKS offers it", oldestEKSMinor, newestEKSMinor, version.EKS)
	}
	return findings
}

// validateVersionChange checks that EKS can change from the current version to the one in spec. The controller applies the same rule before
// it writes.
func validateVersionChange(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane) (findings Findings, err error) {
	apply, err := ApplyInUse(ctx, reader, controlPlane)
	if err != nil {
		return findings, err
	}
	current := CurrentVersions(controlPlane, apply)
	warning, refused := ValidateVersionChange(current, controlPlane.Spec.Version)
	if refused == nil && current.changesTo(controlPlane.Spec.Version) {
		cluster, err := clusterName(ctx, reader, controlPlane)
		if err != nil {
			return findings, err
		}
		groups, err := reader.NodeGroups(ctx, types.NamespacedName{Namespace: controlPlane.Namespace, Name: cluster})
		if err != nil {
			return findings, err
		}
		refused = ValidateVersionOfNodes(current, controlPlane.Spec.Version, groups)
	}
	switch {
	case refused != nil:
		findings.Refuse(Forbidden(versionPath, "%s", refused))
	case warning != "":
		findings.Warn(versionPath, "%s", warning)
	}
	return findings, nil
}

// lineNumber matches the line number in an error of the YAML parser. The rest of the error may quote the document, which may have secrets.
var lineNumber = regexp.MustCompile(`line [0-9]+`)

// validateAddons checks the configuration values of add-ons. The schema checks their names and their number.
func validateAddons(addons []controlplanev1.Addon, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range addons {
		text := addons[i].ConfigurationValues
		if text == "" {
			continue
		}
		path := path.Index(i).Child("configurationValues")
		var document any
		err := yaml.Unmarshal([]byte(text), &document)
		if err != nil {
			where := ""
			if line := lineNumber.FindString(err.Error()); line != "" {
				where = " (" + line + ")"
			}
			errs = append(errs, Invalid(path, "is neither JSON nor YAML%s. Write a JSON or YAML object, for example {\"replicaCount\": 2}", where))
			continue
		}
		if _, ok := document.(map[string]any); !ok {
			errs = append(errs, Invalid(path, "must be a JSON or YAML object, for example {\"replicaCount\": 2}"))
		}
	}
	return errs
}

const (
	// reservedTag is the prefix of tags that AWS reserves, in upper or lower case. See TagResource in the API reference of Amazon EKS.
	reservedTag = "aws:"
	tagSymbols  = "+-=._:/@"
)

// validateTags checks the requirements of AWS for tags that the schema does not check: characters that every AWS service accepts, and the
// reserved prefix with upper-case letters. See "Tag your Amazon EC2 resources" in the user guide of Amazon EC2.
func validateTags(tags map[string]controlplanev1.TagValue, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if strings.HasPrefix(strings.ToLower(key), reservedTag) && !strings.HasPrefix(key, reservedTag) { // The schema rejects the prefix in lower case.
			errs = append(errs, Invalid(path.Key(key), "tag keys with the prefix aws:, in upper or lower case, are reserved by AWS. Rename the tag"))
		}
		for _, part := range []struct{ name, text string }{{"key", key}, {"value", string(tags[key])}} {
			for _, r := range part.text { // Letters, digits and spaces may be of any script.
				if !unicode.In(r, unicode.L, unicode.N, unicode.Z) && !strings.ContainsRune(tagSymbols, r) {
					errs = append(errs, Invalid(path.Key(key), "the %s has the character %s. AWS allows letters, digits, spaces and + - = . _ : / @", part.name, strconv.QuoteRune(r)))
					break
				}
			}
		}
	}
	return errs
}

// RepairEndpoint corrects a stored endpoint. CAPT v0.3 wrote the whole URL, including https://, as the host, which clients cannot connect
// to. If the URL cannot be parsed, or the host is a text such as null, the result is the zero value, so that the controller writes the endpoint again.
func RepairEndpoint(stored clusterv1.APIEndpoint) clusterv1.APIEndpoint {
	if terraform.HasNoValue(stored.Host) {
		return clusterv1.APIEndpoint{}
	}
	if !strings.Contains(stored.Host, "://") {
		return stored
	}
	host, port, err := terraform.ParseEndpoint(stored.Host)
	if err != nil {
		return clusterv1.APIEndpoint{}
	}
	if stored.Port != 0 {
		port = stored.Port
	}
	return clusterv1.APIEndpoint{Host: host, Port: port}
}

// validateKubeconfigNames rejects a control plane whose kubeconfig Secrets have the same names as the kubeconfig Secrets of another
// Cluster: Secret a-user-kubeconfig is the kubeconfig of Cluster a-user in Cluster API's contract, and the kubeconfig for users of Cluster
// a.
func validateKubeconfigNames(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane) (findings Findings, err error) {
	cluster, err := reader.ClusterOf(ctx, controlPlane)
	if err != nil || cluster == nil {
		return findings, err
	}
	const userSuffix = "-user"
	secret := naming.UserKubeconfigSecret(cluster.Name)
	// Every Cluster has the Secret of the contract, with any control plane provider.
	other, err := Get[*clusterv1.Cluster](ctx, reader, types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + userSuffix})
	if name, ok := strings.CutSuffix(cluster.Name, userSuffix); err == nil && other == nil && ok && name != "" {
		secret = naming.KubeconfigSecret(cluster.Name)
		other, err = Get[*clusterv1.Cluster](ctx, reader, types.NamespacedName{Namespace: cluster.Namespace, Name: name})
		if other != nil && other.Spec.ControlPlaneRef.Kind != "CAPTControlPlane" { // Other providers do not create the Secret for users.
			other = nil
		}
	}
	if other != nil {
		findings.Refuse(Forbidden(namePath, "the kubeconfigs of Clusters %s and %s would have the same Secret %s. Choose another name for one of the Clusters",
			cluster.Name, other.Name, secret))
	}
	return findings, err
}

// ValidateStatePrefix checks the value of --state-prefix, which becomes part of the names of Terraform workspaces.
func ValidateStatePrefix(prefix string) error {
	switch {
	case prefix == "":
		return nil
	case len(prefix) > naming.MaxStatePrefixLength:
		return fmt.Errorf("%q has %d characters; use at most %d", prefix, len(prefix), naming.MaxStatePrefixLength)
	case len(utilvalidation.IsDNS1123Label(prefix)) > 0:
		return fmt.Errorf(`%q: use lower-case letters, digits and "-", and begin and end with a letter or digit`, prefix)
	}
	return nil
}

var regionPath = field.NewPath("spec", "region")

// validateCAPTClusterRegion checks the region of a CAPTCluster against the control plane of its Cluster.
func validateCAPTClusterRegion(ctx context.Context, reader Reader, captCluster *infrav1.CAPTCluster) (findings Findings, err error) {
	cluster, err := reader.ClusterOf(ctx, captCluster)
	if err != nil {
		return findings, err
	}
	controlPlane, err := controlPlaneOf(ctx, reader, cluster)
	if err != nil || controlPlane == nil {
		return findings, err
	}
	apply, err := ApplyInUse(ctx, reader, controlPlane)
	if conflict := RegionConflict(controlPlane, captCluster, apply); err == nil && conflict != nil {
		findings.Refuse(Invalid(regionPath, "%s", conflict))
	}
	return findings, err
}

// validateControlPlaneRegion checks the region of a CAPTControlPlane against its WorkspaceTemplateApply and its CAPTCluster.
func validateControlPlaneRegion(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane) (findings Findings, err error) {
	apply, err := ApplyInUse(ctx, reader, controlPlane)
	if err != nil {
		return findings, err
	}
	captCluster, err := captClusterOf(ctx, reader, controlPlane)
	if err != nil {
		return findings, err
	}
	if err := RegionChange(controlPlane, captCluster, apply); err != nil {
		findings.Refuse(Forbidden(regionPath, "%s", err))
	} else if err := RegionConflict(controlPlane, captCluster, apply); err != nil {
		findings.Refuse(Invalid(regionPath, "%s", err))
	}
	return findings, nil
}

// captClusterOf returns the CAPTCluster of the same Cluster; nil when it does not exist, or not yet.
func captClusterOf(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane) (*infrav1.CAPTCluster, error) {
	cluster, err := reader.ClusterOf(ctx, controlPlane)
	if err != nil || cluster == nil {
		return nil, err
	}
	ref := cluster.Spec.InfrastructureRef
	if ref.Kind != "CAPTCluster" || ref.APIGroup != infrav1.GroupVersion.Group {
		return nil, nil
	}
	return Get[*infrav1.CAPTCluster](ctx, reader, types.NamespacedName{Namespace: controlPlane.Namespace, Name: ref.Name})
}

// Region returns the region of a control plane: spec.region, or the region of the CAPTCluster, which may be nil; empty if neither has one.
func Region(controlPlane *controlplanev1.CAPTControlPlane, captCluster *infrav1.CAPTCluster) string {
	if controlPlane.Spec.Region == "" && captCluster != nil {
		return captCluster.Spec.Region
	}
	return controlPlane.Spec.Region
}

// RegionChange returns an error, with a remedy, if a control plane would move to another region than the one that its
// WorkspaceTemplateApply has. Before the WorkspaceTemplateApply has a region, the control plane can be in any region. captCluster and apply
// may be nil.
func RegionChange(controlPlane *controlplanev1.CAPTControlPlane, captCluster *infrav1.CAPTCluster, apply *infrav1.WorkspaceTemplateApply) error {
	from, to := appliedRegion(apply), Region(controlPlane, captCluster)
	if from == "" || to == "" || from == to {
		return nil
	}
	remedy := "Set spec.region of the CAPTControlPlane to " + from
	if captCluster != nil && captCluster.Spec.Region != from { // The two would disagree.
		remedy = "Set spec.infrastructureRef of the Cluster to a CAPTCluster in " + from + " that has the VPC of the control plane"
	}
	return fmt.Errorf("the control plane exists in region %s and cannot move to %s. %s", from, to, remedy)
}

// RegionConflict returns an error, with a remedy, if a control plane and the CAPTCluster of the same Cluster have different regions. The
// remedy depends on which region can still change: the region of a CAPTCluster is immutable, and the region of a control plane is immutable
// once its WorkspaceTemplateApply has it. A control plane without spec.region uses the region of the CAPTCluster. captCluster and apply may be nil.
func RegionConflict(controlPlane *controlplanev1.CAPTControlPlane, captCluster *infrav1.CAPTCluster, apply *infrav1.WorkspaceTemplateApply) error {
	if captCluster == nil {
		return nil
	}
	own, vpc := controlPlane.Spec.Region, captCluster.Spec.Region
	if own == "" || vpc == "" || own == vpc {
		return nil
	}
	remedy := "Remove spec.region of the CAPTControlPlane, or set spec.infrastructureRef of the Cluster to a CAPTCluster in the same region"
	switch appliedRegion(apply) {
	case own:
		remedy = "Set spec.infrastructureRef of the Cluster to a CAPTCluster in the region of the control plane that has its VPC"
	case vpc:
		remedy = "Remove spec.region of the CAPTControlPlane"
	}
	return fmt.Errorf("CAPTControlPlane %s is in region %s, but CAPTCluster %s of the same Cluster is in region %s. %s",
		controlPlane.Name, own, captCluster.Name, vpc, remedy)
}

// appliedRegion returns the region that the WorkspaceTemplateApply of a control plane has; empty when it has none, or when apply is nil.
func appliedRegion(apply *infrav1.WorkspaceTemplateApply) string {
	if apply == nil {
		return ""
	}
	return apply.Spec.Variables.Text(naming.RegionVariable)
}

// defaultProfileQuota is the default quota of EKS for Fargate profiles per cluster. See "Service quotas" in the user guide of Amazon EKS.
const defaultProfileQuota = 10

// wildcards replaces the wildcards that EKS allows in selectors: * for any number of characters, ? for one. See "Fargate profile
// components" in the user guide of Amazon EKS. With a letter in their place, the rules of Kubernetes for names and labels apply.
var wildcards = strings.NewReplacer("*", "x", "?", "x")

// FargateVariables lists the variables that CAPT sets for the template of a Fargate profile. Users cannot set variables of a profile.
func FargateVariables() []string {
	return []string{
		naming.ClusterVariable, naming.ProfileVariable, naming.RegionVariable, naming.SelectorsVariable, naming.TagsVariable,
		naming.VPCConnectionVariable, naming.EKSConnectionVariable,
	}
}

// validateFargateProfiles checks the profiles of a control plane, or of a template for control planes.
func validateFargateProfiles(ctx context.Context, of templates, profiles []controlplanev1.FargateProfile, path *field.Path) (findings Findings, err error) {
	if len(profiles) > defaultProfileQuota {
		findings.Warn(path, "the default quota of EKS is %d Fargate profiles per cluster. Without a higher quota, Terraform fails", defaultProfileQuota)
	}
	for i := range profiles {
		profile, path := &profiles[i], path.Index(i)
		template, found, err := of.lookUp(ctx, profile.WorkspaceTemplateRef, path.Child("workspaceTemplateRef"))
		if err != nil {
			return findings, err
		}
		findings.Add(found)
		if template != nil {
			findings.Add(of.relaxed(checkProfileTemplate(template, profile.Name, path.Child("workspaceTemplateRef"))))
			_, others := FieldsWithoutEffect(template, FargateFields(path))
			findings.AddWarnings(others)
		}
		// EKS accepts such a name, so it is not an error. Pods can select a profile by the label eks.amazonaws.com/fargate-profile.
		if len(content.IsLabelValue(profile.Name)) > 0 {
			findings.Warn(path.Child("name"), "is not a valid label value, so pods cannot select the profile by name. Use at most 63 characters, beginning and ending with a letter or digit")
		}
		for j := range profile.Selectors {
			findings.Refuse(validateSelector(&profile.Selectors[j], path.Child("selectors").Index(j))...)
		}
		findings.Add(warnOfDuplicateSelectors(profiles, i, path.Child("selectors")))
	}
	return findings, nil
}

// checkProfileTemplate checks that the placeholders in the template of a Fargate profile have a value: without one, the Workspace cannot be rendered with
// substitution Fields. Values that are not allowed at their position are warnings, because the template can be corrected later.
func checkProfileTemplate(template *infrav1.WorkspaceTemplate, profile string, path *field.Path) Findings {
	var findings Findings
	given := FargateVariables()
	_, needed := modules.Placeholders(&template.Spec)
	for _, name := range sets.List(needed.Delete(append(given, modules.WorkspaceNameVariable)...)) {
		findings.Refuse(field.Required(path, fmt.Sprintf("placeholder ${%[3]s} of WorkspaceTemplate %[1]s/%[2]s has no value and is not replaced: templates of Fargate profiles only get %[4]s. Write the value into the template",
			template.Namespace, template.Name, name, strings.Join(given, ", "))))
	}
	if template.Spec.Substitution != infrav1.SubstitutionFields {
		findings.DowngradeToWarnings()
	}
	for _, name := range modules.TemplateInterface(&template.Spec).Pass(nil).Missing {
		if !slices.Contains(given, name) {
			findings.Refuse(field.Required(path, fmt.Sprintf("the module of WorkspaceTemplate %[1]s/%[2]s requires variable %[3]s: templates of Fargate profiles only get %[4]s. Write the value into the template",
				template.Namespace, template.Name, name, strings.Join(given, ", "))))
		}
	}
	values := map[string]string{naming.ProfileVariable: profile, naming.SelectorsVariable: "[{}]", naming.TagsVariable: "{}"}
	for _, e := range validateVariableValues(template, values, path.Key).Errors {
		findings.Warn(path, "WorkspaceTemplate %s/%s: %s", template.Namespace, template.Name, e.Detail)
	}
	return findings
}

// warnOfDuplicateSelectors warns of selectors of a profile that are duplicates of a selector of the same or an earlier profile. Other
// overlaps, through wildcards, may be intended.
func warnOfDuplicateSelectors(profiles []controlplanev1.FargateProfile, index int, path *field.Path) Findings {
	var findings Findings
	own := profiles[index].Selectors
	for j := range own {
		same := func(other controlplanev1.FargateSelector) bool { return equality.Semantic.DeepEqual(other, own[j]) }
		if slices.ContainsFunc(own[:j], same) {
			findings.Warn(path.Index(j), "duplicates another selector of the profile. Remove it")
			continue
		}
		before := slices.IndexFunc(profiles[:index], func(profile controlplanev1.FargateProfile) bool { return slices.ContainsFunc(profile.Selectors, same) })
		if before >= 0 {
			findings.Warn(path.Index(j), "Fargate profile %s has the same selector. EKS chooses one of the two, unless the pod has the label eks.amazonaws.com/fargate-profile", profiles[before].Name)
		}
	}
	return findings
}

// validateSelector checks that a selector can match pods: its namespace and labels are valid.
func validateSelector(selector *controlplanev1.FargateSelector, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	refuse := func(path *field.Path, messages []string) {
		for _, message := range messages {
			errs = append(errs, Invalid(path, "cannot match any pod: %s. The wildcards * and ? are allowed", message))
		}
	}
	refuse(path.Child("namespace"), content.IsDNS1123Label(wildcards.Replace(selector.Namespace)))
	for _, key := range slices.Sorted(maps.Keys(selector.Labels)) {
		refuse(path.Child("labels").Key(key), content.IsLabelKey(wildcards.Replace(key)))
		refuse(path.Child("labels").Key(key), content.IsLabelValue(wildcards.Replace(selector.Labels[key])))
	}
	return errs
}
