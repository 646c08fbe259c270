// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/test/sandbox"
)

// replace replaces an object by a manifest, which never had what CAPT wrote. The controllers may write in the same moment.
func (w *world) replace(manifest string) {
	w.Helper()
	require.NoError(w, sandbox.Build(w.Context(), os.Stderr, sandbox.Kubectl))
	var answer []byte
	err := wait.PollUntilContextTimeout(w.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		kubectl := exec.CommandContext(ctx, shared.Binary(sandbox.Kubectl), "--kubeconfig", shared.Kubeconfig(), "--namespace", w.namespace, "replace", "-f", "-")
		kubectl.Stdin = strings.NewReader(manifest)
		var err error
		answer, err = kubectl.CombinedOutput()
		if err != nil && strings.Contains(string(answer), "(Conflict)") {
			return false, nil
		}
		return err == nil, err
	})
	require.NoError(w, err, "%s", answer)
}

// profiles returns the Fargate profiles of control plane "demo" in short: name, namespace of the first selector, and reference.
func (w *world) profiles() (lines []string) {
	w.Helper()
	controlPlane := &controlplanev1.CAPTControlPlane{}
	require.NoError(w, w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: "demo"}, controlPlane))
	for _, profile := range controlPlane.Spec.FargateProfiles {
		reference := "none"
		if profile.WorkspaceTemplateApplyRef.IsDefined() {
			reference = profile.WorkspaceTemplateApplyRef.Name
		}
		lines = append(lines, fmt.Sprintf("%s selects %s, has %s", profile.Name, profile.Selectors[0].Namespace, reference))
	}
	return lines
}

func TestFargateProfilesKeepTheirReferencesWhenAManifestReplacesThem(t *testing.T) {
	t.Parallel()
	for version, list := range map[string]string{"v1beta1": "additionalFargateProfiles", "v1beta2": "fargateProfiles"} {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t)
			manifest := func(profiles ...string) string {
				for i, selected := range profiles {
					name, namespace, _ := strings.Cut(selected, " ")
					profiles[i] = fmt.Sprintf("{name: %s, selectors: [{namespace: %s}], workspaceTemplateRef: {name: fargate}}", name, namespace)
				}
				spec := fmt.Sprintf(`{version: "1.35", workspaceTemplateRef: {name: eks}, %s: [%s]}`, list, strings.Join(profiles, ", "))
				// The controller shall write nothing into it.
				return strings.Replace(versioned(version, "CAPTControlPlane", "demo", spec),
					"metadata: {", "metadata: {annotations: {"+clusterv1.PausedAnnotation+": ''}, ", 1)
			}
			w.apply(strings.Replace(planeWith(`fargateProfiles: [
				{name: a, selectors: [{namespace: one}], workspaceTemplateRef: {name: fargate}, workspaceTemplateApplyRef: {name: of-a}},
				{name: B, selectors: [{namespace: two}], workspaceTemplateRef: {name: fargate}, workspaceTemplateApplyRef: {name: of-b}}]`),
				"metadata: {", "metadata: {annotations: {"+clusterv1.PausedAnnotation+": ''}, ", 1))

			w.replace(manifest("B changed", "new three", "a one"))
			require.Equal(t, []string{"B selects changed, has of-b", "new selects three, has none", "a selects one, has of-a"}, w.profiles())

			// That is the way to have another WorkspaceTemplateApply for a profile.
			w.replace(manifest("B changed"))
			w.replace(manifest("B changed", "a one"))
			require.Equal(t, []string{"B selects changed, has of-b", "a selects one, has none"}, w.profiles())
		})
	}
}
