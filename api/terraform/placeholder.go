// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform

import "regexp"

// Placeholder matches ${name} in the strings of a template; its first group is the name of the variable. Anything else in
// ${…} is Terraform's own.
var Placeholder = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
