// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

var update = flag.Bool("update", false, "write testdata/reference.txt from the reference fleet")

// referenceVariable names the folder of the reference data. Without it the folder is looked for beside the checkout.
const referenceVariable = "CAPT_REFERENCE"

// golden has the fields of every object that CAPT v0.3.0 and provider-terraform really wrote. The fixture has the same ones.
const golden = "testdata/reference.txt"

// TestTheRealFleetNeedsNoDecision compares the file with the reference fleet, where that is at hand, and upgrades it.
func TestTheRealFleetNeedsNoDecision(t *testing.T) {
	folder := referenceFolder(t)
	if folder == "" {
		require.False(t, *update, "there is no reference fleet: set %s", referenceVariable)
		return
	}
	t.Parallel()
	measured := shapes(readReference(t, folder))
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(measured), 0o600))
	}
	known, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, measured, string(known), "%s is not what %s has; run this test with -update", golden, folder)

	w := legacy.New(t, sandbox.Options{})
	load(t, w, readReference(t, folder))
	requireNoDecision(t, w)
}

// requireFieldsOfTheReference requires that a fleet, as it was created, has the fields of the reference fleet.
func requireFieldsOfTheReference(t *testing.T, w *legacy.World) {
	t.Helper()
	known, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.NotEmpty(t, known)
	for _, deployment := range legacy.Deployments(0) {
		require.NoError(t, w.Admin.Create(t.Context(), deployment))
	}
	assert.Equal(t, string(known), shapes(readFixture(t, w)))
}

// referenceFolder is empty when there is none.
func referenceFolder(t *testing.T) string {
	t.Helper()
	root, err := binaries.Root()
	require.NoError(t, err)
	folder, named := os.LookupEnv(referenceVariable)
	if !named {
		folder = filepath.Join(root, "..", "shared", "reference")
	}
	fleet := filepath.Join(folder, "legacy-fleet")
	if _, err := os.Stat(fleet); errors.Is(err, fs.ErrNotExist) && !named {
		return ""
	}
	require.DirExists(t, fleet, referenceVariable)
	return fleet
}

func readReference(t *testing.T, folder string) (objects []unstructured.Unstructured) {
	t.Helper()
	for _, file := range []string{
		"clusters", "captclusters", "captcontrolplanes", "workspacetemplates", "workspacetemplateapplies", "workspaces", "secrets", "deployments",
	} {
		loaded, err := manifests.Load(filepath.Join(folder, file+".yaml"))
		require.NoError(t, err)
		for _, object := range loaded {
			objects = append(objects, items(t, object)...)
		}
	}
	return slices.DeleteFunc(objects, isState)
}

func readFixture(t *testing.T, w *legacy.World) (objects []unstructured.Unstructured) {
	t.Helper()
	for _, kind := range []schema.GroupVersionKind{
		clusterv1.GroupVersion.WithKind("Cluster"),
		infrav1beta1.GroupVersion.WithKind("CAPTCluster"),
		controlplanev1beta1.GroupVersion.WithKind("CAPTControlPlane"),
		infrav1beta1.GroupVersion.WithKind("WorkspaceTemplate"),
		infrav1beta1.GroupVersion.WithKind("WorkspaceTemplateApply"),
		terraform.ScopeCluster.GroupVersionKind(),
		{Version: "v1", Kind: "Secret"},
		{Group: "apps", Version: "v1", Kind: "Deployment"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		require.NoError(t, w.Admin.List(t.Context(), list))
		objects = append(objects, list.Items...)
	}
	return slices.DeleteFunc(objects, isState)
}

// isState reports whether an object is a Secret of Terraform's backend, or no object of a fleet.
func isState(object unstructured.Unstructured) bool {
	return object.GetKind() == "Secret" && (len(object.GetOwnerReferences()) == 0 || object.GetLabels()["tfstate"] != "")
}

func items(t *testing.T, object *unstructured.Unstructured) []unstructured.Unstructured {
	t.Helper()
	if !object.IsList() {
		return []unstructured.Unstructured{*object}
	}
	list, err := object.ToList()
	require.NoError(t, err)
	return list.Items
}
