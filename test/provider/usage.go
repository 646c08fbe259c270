// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"

	"github.com/capt-provider/capt/test/provider/api/managed"
)

// Labels that relate a ProviderConfigUsage to its ProviderConfig.
const (
	labelProviderConfig     = "crossplane.io/provider-config"
	labelProviderConfigKind = "crossplane.io/provider-config-kind"
)

var errNoProviderConfig = errors.New("provider config is not set")

func usedBy(w workspace, s scope) managed.TypedReference {
	apiVersion, kind := s.gvk().ToAPIVersionAndKind()
	return managed.TypedReference{APIVersion: apiVersion, Kind: kind, Name: w.object().GetName()}
}
