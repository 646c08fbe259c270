/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

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
