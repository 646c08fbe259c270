// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

// forms are the ways in which a value may be written: as it is, as a part of JSON, of HCL or of an address, and in base64,
// wherever in a longer text it begins.
func forms(value string) map[string]string {
	inJSON, err := json.Marshal(value)
	if err != nil {
		panic(err) // A string can be encoded as JSON.
	}
	inHCL := strconv.Quote(value)
	all := map[string]string{
		"as it is": value, "in JSON": string(inJSON[1 : len(inJSON)-1]), "in HCL": inHCL[1 : len(inHCL)-1],
		"in a query": url.QueryEscape(value), "in a path": url.PathEscape(value),
	}
	for before, first := range []int{0, 2, 3} { // Characters of base64 that hold bits of what comes before the value.
		text := append(make([]byte, before), value...)
		last := len(text) * 8 / 6 // The rest holds bits of what comes after it.
		all["in base64, "+strings.Repeat("x", before)] = base64.RawStdEncoding.EncodeToString(text)[first:last]
		all["in base64 for addresses, "+strings.Repeat("x", before)] = base64.RawURLEncoding.EncodeToString(text)[first:last]
	}
	return all
}

// packed is the compressed copy of Terraform's output at the end of the provider's errors.
var packed = regexp.MustCompile(`H4sI[A-Za-z0-9+/]+=*`)

// unpack returns what the compressed parts of a text say.
func unpack(text string) string {
	var all strings.Builder
	for _, match := range packed.FindAllString(text, -1) {
		data, err := base64.StdEncoding.DecodeString(match)
		if err != nil {
			continue
		}
		reader, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			continue
		}
		_, _ = io.Copy(&all, reader)
	}
	return all.String()
}

// find says in which form a text holds a value; nothing when it does not. The text itself may be JSON, in which every form
// is written once more as a part of JSON.
func find(text, value string) string {
	unpacked := unpack(text)
	for form, written := range forms(value) {
		again, _ := json.Marshal(written)
		if strings.Contains(text, written) || strings.Contains(text, string(again[1:len(again)-1])) {
			return form
		}
		if strings.Contains(unpacked, written) {
			return "compressed, " + form
		}
	}
	return ""
}

// everything lists all objects of a namespace, of every kind that is served, and all Workspaces without a namespace. It
// returns their JSON by kind and name.
func (w *world) everything(namespace string) map[string]string {
	w.Helper()
	clients, err := discovery.NewDiscoveryClientForConfig(shared.Config())
	require.NoError(w, err)
	objects, err := dynamic.NewForConfig(shared.Config())
	require.NoError(w, err)
	groups, err := clients.ServerPreferredResources()
	require.NoError(w, err)

	found := map[string]string{}
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		require.NoError(w, err)
		for _, resource := range group.APIResources {
			clusterWide := !resource.Namespaced && resource.Kind == "Workspace"
			if !slices.Contains(resource.Verbs, "list") || !resource.Namespaced && !clusterWide {
				continue
			}
			reader := dynamic.ResourceInterface(objects.Resource(version.WithResource(resource.Name)))
			if resource.Namespaced {
				reader = objects.Resource(version.WithResource(resource.Name)).Namespace(namespace)
			}
			list, err := reader.List(w.Context(), metav1.ListOptions{})
			require.NoError(w, err, resource.Name)
			for _, item := range list.Items {
				data, err := item.MarshalJSON()
				require.NoError(w, err)
				found[resource.Kind+"."+version.Group+" "+item.GetName()] = string(data)
			}
		}
	}
	require.Contains(w, found, "Secret. canary", "the scan finds nothing at all")
	return found
}

// whereIs names the objects that hold a value.
func whereIs(objects map[string]string, value string) []string {
	var where []string
	for name, content := range objects {
		if form := find(content, value); form != "" {
			where = append(where, name+" ("+form+")")
		}
	}
	slices.Sort(where)
	return where
}

// requireNothingLeaked checks that no object of the tenant, and no Workspace, holds what the other namespace keeps secret.
func (w *world) requireNothingLeaked() {
	w.Helper()
	require.Empty(w, whereIs(w.everything(w.a), w.canary))
	for _, workspace := range w.workspaces() {
		data, err := workspace.MarshalJSON()
		require.NoError(w, err)
		require.Empty(w, find(string(data), w.canary), "Workspace %s/%s", workspace.GetNamespace(), workspace.GetName())
	}
}
