// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform

import "regexp"

// Placeholder matches ${name} in the strings of a template; its first group is the name of the variable. Any other text in ${…} is an
// expression for Terraform.
var Placeholder = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
