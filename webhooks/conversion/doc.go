// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

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
