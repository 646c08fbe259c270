// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

// RetainedList lists the Workspaces that outlived their WorkspaceTemplateApply, sorted by its namespace and name.
type RetainedList struct {
	metav1.TypeMeta `json:",inline"`
	Workspaces      []Retained `json:"workspaces"`
}

// Retained is a Workspace that outlived its WorkspaceTemplateApply.
type Retained struct {
	Namespace string      `json:"namespace"`          // Namespace and Name are those that the WorkspaceTemplateApply had.
	Name      string      `json:"name"`               //
	Workspace string      `json:"workspace"`          // Workspace is its name.
	Scope     string      `json:"scope"`              // Scope of the Workspace.
	UID       string      `json:"uid"`                // UID of the Workspace.
	VPC       string      `json:"vpc,omitempty"`      // VPC is the ID of the VPC, if the module has that output.
	Endpoint  string      `json:"endpoint,omitempty"` // Endpoint is that of an EKS cluster.
	Created   metav1.Time `json:"created"`            // Created is when the Workspace was created.
	Deleting  bool        `json:"deleting,omitempty"` // Deleting is true while Terraform destroys it.
}

func (o *getOptions) showRetained(ctx context.Context, reader client.WithWatch) error {
	kinds := []schema.GroupVersionKind{infrav1.GroupVersion.WithKind(applyKind)}
	for _, scope := range terraform.Scopes() {
		kinds = append(kinds, scope.GroupVersionKind())
	}
	return cli.Show(ctx, &o.Options, reader, cli.Watched{Kinds: kinds, Namespace: o.Only()}, func(ctx context.Context) (*RetainedList, error) {
		var list *RetainedList
		err := o.ReadNamespaces(func(namespace string) (err error) {
			list, err = o.readRetained(ctx, reader, namespace)
			return err
		})
		return list, err
	}, func(p *output.Printer, list *RetainedList) error {
		return p.Document(list, func(p *output.Printer) { showRetained(p, list, o.Clock.Now()) })
	})
}

// readRetained finds the Workspaces whose claim names a WorkspaceTemplateApply that does not exist.
func (o *getOptions) readRetained(ctx context.Context, reader client.Reader, namespace string) (*RetainedList, error) {
	list, applies := &RetainedList{cli.TypeMeta("RetainedList"), []Retained{}}, infrav1.WorkspaceTemplateApplyList{}
	for _, scope := range terraform.Scopes() { // Before the WorkspaceTemplateApplies: one that is created meanwhile is not missing.
		workspaces, err := cli.ListWorkspaces(ctx, reader, scope, namespace)
		if apierrors.IsForbidden(err) && scope == terraform.ScopeCluster {
			o.Warn("Workspaces of scope Cluster are not shown: %v", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range workspaces {
			if one := retainedBy(&workspaces[i], scope); one != nil && (namespace == "" || one.Namespace == namespace) {
				list.Workspaces = append(list.Workspaces, *one)
			}
		}
	}
	if err := reader.List(ctx, &applies, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	live := cli.Indexed(applies.Items)
	list.Workspaces = slices.DeleteFunc(list.Workspaces, func(one Retained) bool {
		return live[client.ObjectKey{Namespace: one.Namespace, Name: one.Name}] != nil
	})
	slices.SortFunc(list.Workspaces, func(a, b Retained) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return list, nil
}

// retainedBy describes a Workspace with a claim; nil for others.
func retainedBy(workspace *unstructured.Unstructured, scope terraform.Scope) *Retained {
	namespace, name, claimed := strings.Cut(workspace.GetAnnotations()[naming.ClaimAnnotation], "/")
	if !claimed {
		return nil
	}
	output := func(name string) string {
		text, _, _ := unstructured.NestedString(workspace.Object, "status", "atProvider", "outputs", name)
		return text
	}
	return &Retained{
		namespace, name, workspace.GetName(), string(scope), string(workspace.GetUID()), output(terraform.OutputVPCID), output(terraform.OutputClusterEndpoint),
		workspace.GetCreationTimestamp(), workspace.GetDeletionTimestamp() != nil,
	}
}

func showRetained(p *output.Printer, list *RetainedList, now time.Time) {
	if len(list.Workspaces) == 0 {
		p.Linef("No Workspaces were retained.")
		return
	}
	rows := output.Rows{}
	for i := range list.Workspaces {
		one := &list.Workspaces[i]
		rows = append(rows, []string{
			one.Namespace, one.Name, one.Workspace, one.VPC, one.Endpoint, map[bool]string{true: "yes"}[one.Deleting], output.Age(now, &one.Created), one.Scope, one.UID,
		})
	}
	p.Table([]output.Column{
		{Name: "Namespace"}, {Name: "Name"}, {Name: "Workspace"}, {Name: "VPC"}, {Name: "Endpoint", Optional: true}, {Name: "Destroying", Optional: true}, {Name: "Age"},
		{Name: "Scope", Wide: true}, {Name: "UID", Wide: true},
	}, rows)
	p.NextStep("A WorkspaceTemplateApply of the same namespace and name takes one over with the annotation "+naming.AdoptWorkspaceAnnotation+": UID (-o wide shows UIDs). To destroy the cloud resources "+
		"of one, delete its Workspace with the annotation "+naming.AllowDeleteAnnotation+`: "true". Destroy none whose WorkspaceTemplateApply is in another management cluster now: clusterctl move leaves cluster-wide Workspaces behind.`, nil)
}
