// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/provider/api/managed"
)

// scope is all in which the two kinds of Workspace differ.
type scope interface {
	gvk() schema.GroupVersionKind
	newObject() client.Object
	wrap(client.Object) workspace

	// providerConfig reads the ProviderConfig a Workspace refers to. References in it are complete.
	providerConfig(ctx context.Context, c client.Reader, w workspace) (*managed.ProviderConfigSpec, error)

	// trackUsage makes sure that a ProviderConfigUsage ties the Workspace to its ProviderConfig.
	trackUsage(ctx context.Context, reader client.Reader, c client.Client, w workspace) error
}

// workspace is a Workspace of either scope.
type workspace interface {
	object() client.Object
	status() *managed.WorkspaceStatus
	policy() policy
	module() managed.Module
	env() []envVar
	varFiles() []varFile

	// connectionSecret is where outputs are published, nil for nowhere.
	connectionSecret() *types.NamespacedName
}

// keyReference names a key of a ConfigMap or a Secret.
type keyReference struct {
	types.NamespacedName
	key string
}

type envVar struct {
	name, value       string
	configMap, secret *keyReference
}

type varFile struct {
	json              bool
	source            managed.VarFileSource
	configMap, secret *keyReference
}
