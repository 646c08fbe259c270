// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// referenceClusters are the clusters of the reference fleet, with their namespaces.
var referenceClusters = map[string]string{"demo": "default", "prod-1": "default", "in-old-vpc": "default", "broken": "default", "apps": "team-a"}

// Of some fields only the presence is compared: what differs from one cluster to the next, and what users chose.
var anyValue = regexp.MustCompile(`\.uid$|[tT]ime$|Revision$|[mM]essage$|\.checksum$|\.module$|\.description$|\.host$|\.vpcId$|\.outputs\.|^data\.|` +
	`\.variables\.cluster_(endpoint|certificate_authority_data)$|\[cluster_(endpoint|certificate_authority_data)\]\.value$|last-applied-configuration$|external-create-`)

// Fields that the API server and kubectl keep for themselves, and the canary of this package.
var notCompared = regexp.MustCompile(`^metadata\.(uid|resourceVersion|generation|creationTimestamp|managedFields)|^data\.canary$|^(apiVersion|kind)$`)

// ofCluster are the fields of a Cluster that CAPT v0.3 has a part in. All others are Cluster API's.
var ofCluster = regexp.MustCompile(`^metadata\.(name|finalizers)|^spec\.controlPlaneEndpoint|^status\.phase$`)

// ofDeployment are the fields of a Deployment by which it is recognized.
var ofDeployment = regexp.MustCompile(`^metadata\.(name|namespace|labels)|^spec\.(replicas|selector)|^spec\.template\.metadata\.labels|\.image$|\.serviceAccountName$`)

// shapes are the fields of each object of a fleet, one per line. Objects with the same fields share one block.
func shapes(objects []unstructured.Unstructured) string {
	names := map[string][]string{}
	for i := range objects {
		object := &objects[i]
		block := object.GetKind() + "\n" + strings.Join(shape(object), "\n")
		names[block] = append(names[block], strings.TrimPrefix(object.GetNamespace()+"/", "/")+object.GetName())
	}
	var blocks []string
	for block, of := range names {
		slices.Sort(of)
		kind, fields, _ := strings.Cut(block, "\n")
		blocks = append(blocks, kind+" "+strings.Join(of, " ")+"\n"+fields+"\n")
	}
	slices.Sort(blocks)
	return strings.Join(blocks, "\n")
}

func shape(object *unstructured.Unstructured) []string {
	cluster, namespace := clusterOf(object)
	fields := map[string]string{}
	flatten(fields, "", object.Object)
	var lines []string
	for path, value := range fields {
		switch {
		case notCompared.MatchString(path), object.GetKind() == "Cluster" && !ofCluster.MatchString(path):
			continue
		case object.GetKind() == "Deployment" && !ofDeployment.MatchString(path):
			continue
		case object.GetKind() == "Cluster" && fields["spec.controlPlaneEndpoint.host"] == "" && strings.HasPrefix(path, "spec.controlPlaneEndpoint"):
			continue // The versions of a Cluster differ in how they say that there is none.
		case anyValue.MatchString(path) && value != "":
			value = "*"
		case strings.HasSuffix(path, "namespace") && value == namespace:
			value = "<namespace>"
		case cluster != "":
			value = strings.ReplaceAll(value, cluster, "<cluster>")
		}
		lines = append(lines, "  "+path+": "+value)
	}
	slices.Sort(lines)
	return lines
}

// clusterOf is the cluster of the reference fleet that an object belongs to, with its namespace.
func clusterOf(object *unstructured.Unstructured) (name, namespace string) {
	for cluster, namespace := range referenceClusters {
		if object.GetName() == cluster || strings.HasPrefix(object.GetName(), cluster+"-") {
			return cluster, namespace
		}
	}
	return "", object.GetNamespace()
}

// flatten collects the leaves of an object by their paths. Elements of lists go by what names them, since their order means nothing.
func flatten(fields map[string]string, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 {
			fields[path] = "{}"
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			flatten(fields, strings.TrimPrefix(path+"."+key, "."), value[key])
		}
	case []any:
		for i, element := range value {
			flatten(fields, fmt.Sprintf("%s[%v]", path, nameOf(element, i)), element)
		}
	default:
		fields[path] = fmt.Sprint(value)
	}
}

func nameOf(element any, index int) any {
	fields, _ := element.(map[string]any)
	for _, key := range []string{"type", "key"} {
		if name, found := fields[key]; found {
			return name
		}
	}
	return index
}
