// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/provider/api"
)

// version0 is a manager whose client writes the status of some Workspaces as a provider before v1 did: without the generation in
// conditions.
type version0 struct {
	ctrl.Manager
	is func(types.NamespacedName) bool
}

// GetClient returns the client that the reconciler uses.
func (m version0) GetClient() client.Client { return version0Client{m.Manager.GetClient(), m.is} }

type version0Client struct {
	client.Client
	is func(types.NamespacedName) bool
}

func (c version0Client) Status() client.SubResourceWriter {
	return version0Status{c.Client.Status(), c.is}
}

type version0Status struct {
	client.SubResourceWriter
	is func(types.NamespacedName) bool
}

func (s version0Status) Update(ctx context.Context, o client.Object, options ...client.SubResourceUpdateOption) error {
	if s.is(client.ObjectKeyFromObject(o)) {
		var status *api.Status
		switch w := o.(type) {
		case *api.ClusterWorkspace:
			status = &w.Status
		case *api.NamespacedWorkspace:
			status = &w.Status
		}
		for i := range status.Conditions {
			status.Conditions[i].ObservedGeneration = 0
		}
	}
	return s.SubResourceWriter.Update(ctx, o, options...)
}
