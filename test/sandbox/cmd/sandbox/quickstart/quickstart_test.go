// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package quickstart

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestQuickstartWaitsForTheClusterAndItsControlPlane(t *testing.T) {
	object := func(kind, name string, conditions ...any) unstructured.Unstructured {
		o := unstructured.Unstructured{Object: map[string]any{"kind": kind, "status": map[string]any{"conditions": conditions}}}
		o.SetName(name)
		return o
	}
	is := func(condition, status string) any { return map[string]any{"type": condition, "status": status} }
	reached := object("Cluster", demo, is("Available", "True"), is("RemoteConnectionProbe", "True"))
	ready := object("CAPTControlPlane", demo, is("Available", "True"), is("Ready", "True"))
	for name, row := range map[string]struct {
		objects []unstructured.Unstructured
		want    bool
	}{
		"both":                           {[]unstructured.Unstructured{reached, ready}, true},
		"no control plane":               {[]unstructured.Unstructured{reached}, false},
		"no Cluster":                     {[]unstructured.Unstructured{ready}, false},
		"a Fargate profile is missing":   {[]unstructured.Unstructured{reached, object("CAPTControlPlane", demo, is("Available", "True"), is("Ready", "False"))}, false},
		"Cluster API has not reached it": {[]unstructured.Unstructured{object("Cluster", demo, is("Available", "True")), ready}, false},
		"another cluster is ready":       {[]unstructured.Unstructured{reached, object("CAPTControlPlane", "other", is("Ready", "True"))}, false},
	} {
		require.Equal(t, row.want, demoIsReady(row.objects), name)
	}
}

func TestPrintedCommandLinesCanBePasted(t *testing.T) {
	require.Equal(t, `get captcontrolplane demo -o 'custom-columns=READY:.status.fargateProfiles[*].ready' --field-manager='it'\''s me' ''`,
		commandLine([]string{"get", "captcontrolplane", "demo", "-o", "custom-columns=READY:.status.fargateProfiles[*].ready"})+
			" --field-manager="+commandLine([]string{"it's me"})+" "+commandLine([]string{""}))
}
