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

// Package conversion converts between v1beta1, in which the older CAPT's objects are, and v1beta2, the hub and storage
// version. The conversion webhook and captctl call the same functions.
//
// Every function is total (whatever an API server can send is converted), pure (no API calls, and the source is neither
// changed nor shared), and lossless in both directions: package carry sees to that. What is left to this package are the
// plain rules, what the fields of one version mean in the other:
//
//   - Towards v1beta2 the rules also set what the CRD would set by default, so that the first write in v1beta2 changes
//     nothing, metadata.generation least of all. Towards v1beta1 they do the same with the defaults of that version.
//   - Towards v1beta2 the rules avoid what the CRD would refuse, where the meaning allows it. Where it does not, the
//     object is converted as it is and can be read, labelled and deleted; see docs on the functions.
package conversion
