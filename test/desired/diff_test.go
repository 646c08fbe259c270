// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/changes"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/cluster"
	"github.com/capt-provider/capt/cmd/captctl/diff"
)

// diffOf is what captctl diff shows.
func diffOf(t *testing.T, m *manager) (d diff.Diff) {
	t.Helper()
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	access := cluster.New(streams.ErrOut)
	access.Connect = func(*rest.Config) (client.WithWatch, error) { return m.API, nil }
	command := diff.New(&cli.Environment{IOStreams: streams, Access: access})
	command.SetArgs([]string{"-o", "json"})
	command.SilenceErrors, command.SilenceUsage = true, true
	err := command.ExecuteContext(t.Context())
	if out.Len() == 0 {
		require.NoError(t, err)
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &d))
	return d
}

func TestDiffShowsWhatTheManagerDoes(t *testing.T) {
	seed, fleets := uint64(time.Now().UnixNano()), 60
	if text := os.Getenv("CAPT_DIFF_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("CAPT_DIFF_SEED=%d", seed)
	states := stages(t)
	wrong := map[string]int{}
	for i := range fleets {
		f := generate(rand.New(rand.NewPCG(seed, uint64(i))), states)
		m := newManager(t, f.objects)
		before := m.workspaces(t)
		for _, w := range diffOf(t, m).Workspaces {
			if problem := check(t, f, before, w); problem != "" {
				wrong[problem]++
				if wrong[problem] <= 2 {
					t.Errorf("fleet %d (%s): %s %s: %s %q", i, f, w.Apply, problem, w.Action, w.Message)
				}
			}
		}
	}
	t.Log(wrong)
}

// check lets the controllers of one Workspace run once, and compares what they do.
func check(t *testing.T, f *fleet, before map[string]*unstructured.Unstructured, w changes.Workspace) string {
	t.Helper()
	m := newManager(t, f.objects)
	namespace, name, _ := strings.Cut(w.Apply, "/")
	at := types.NamespacedName{Namespace: namespace, Name: name}
	kind, owner := ownerOf(f, at)
	if kind != "" {
		if err := m.reconcile(t.Context(), kind, owner); err != nil {
			return "owner: " + err.Error()
		}
	}
	if err := m.reconcile(t.Context(), "WorkspaceTemplateApply", at); err != nil {
		return "apply: " + err.Error()
	}
	after := m.workspaces(t)
	did, fields := changes.ActionNone, []render.Difference(nil)
	for key, live := range after {
		switch was := before[key]; {
		case was == nil:
			did, fields = changes.ActionCreate, (&render.Rendered{Object: live}).Content()
		case was.GetDeletionTimestamp().IsZero() && !live.GetDeletionTimestamp().IsZero():
			did = changes.ActionDestroy
		case live.GetResourceVersion() != was.GetResourceVersion():
			did, fields = changes.ActionUpdate, (&render.Rendered{Object: live}).Changes(was)
		}
	}
	for key := range before {
		if after[key] == nil {
			did = changes.ActionDestroy
		}
	}
	said := w.Action
	if said == changes.ActionBlocked || said == changes.ActionInvalid || w.Message != "" {
		said = changes.ActionNone
	}
	if said != did {
		return fmt.Sprintf("said %s, did %s", w.Action, did)
	}
	_ = fields
	return ""
}

// ownerOf is the object that writes a WorkspaceTemplateApply.
func ownerOf(f *fleet, at types.NamespacedName) (string, types.NamespacedName) {
	for _, object := range f.objects {
		key := client.ObjectKeyFromObject(object)
		switch o := object.(type) {
		case *infrav1.CAPTCluster:
			if o.Spec.VPC.Template.IsDefined() && (o.Spec.WorkspaceTemplateApplyRef.Name == at.Name || naming.VPCWorkspaceTemplateApply(o.Name) == at.Name) {
				return "CAPTCluster", key
			}
		case *controlplanev1.CAPTControlPlane:
			own := o.Spec.WorkspaceTemplateApplyRef.Name == at.Name || naming.ControlPlaneWorkspaceTemplateApply(o.Name) == at.Name
			if own || strings.HasPrefix(at.Name, o.Name+"-") && strings.Contains(at.Name, "fargate") {
				return "CAPTControlPlane", key
			}
		}
	}
	return "", types.NamespacedName{}
}
