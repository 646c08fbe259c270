// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// rounds is how many values each property is held against on every run of the tests; the fuzz targets go on from there.
const rounds = 10_000

// hostileModules are modules in which a harmless looking value could mean something.
var hostileModules = []string{
	"output \"a\" { value = \"${value}-${other}-${unknown}-$${value}-${WORKSPACE_NAME}\" }\n",
	"resource \"terraform_data\" \"${value}\" {\n  input = { \"${other}\" = local.all[\"${value}\"], n = ${value} }\n}\n",
	"a = <<EOT\n${value}\nb = <<EOT\nEOT\n",
	"a = <<-EOT\n  ${value}${other}\n  EOT\n",
	"/* *${value}${other} a {} /* */\n",
	"a = \"$${value}{var.a}%${value}{ if true }x%${value}{ endif }\"\n",
	"# ${value}\na = \"%{ if var.a }${other}%{ endif }\"\n",
}

// fragments are what breaks out of text, if anything does.
var fragments = []string{
	"EOT", "\nEOT\n", "\"", "\\", "\\\"", "'", "${", "%{", "$${", "}", "{", "/*", "*/", "//", "#", "\n", "\r", "\t", "\u2028", "\x00", "ö", "東", "\U0001F600",
	"${other}", "${value}", "${WORKSPACE_NAME}", "demo", "a", "0", " ", ".", "_", ":", "/", "@", "+", "=", ",", "-", "resource", "provider \"aws\" {}", "\\u0022",
}

// harmless are fragments of characters that are safe in a module, next to harmless text.
var harmless = []string{"EOT", "/", "demo", "0", " ", ".", "_", ":", "@", "+", "=", ",", "-", "resource"}

// value makes a value out of fragments and of any other characters; every other one of harmless fragments only.
func value(random *rand.Rand) string {
	var text strings.Builder
	if random.IntN(2) == 0 {
		for range random.IntN(8) {
			text.WriteString(harmless[random.IntN(len(harmless))])
		}
		return text.String()
	}
	for range random.IntN(8) {
		if random.IntN(6) == 0 {
			text.WriteRune(rune(random.IntN(0x300)))
			continue
		}
		text.WriteString(fragments[random.IntN(len(fragments))])
	}
	return text.String()
}

func TestTenThousandValuesLeaveModulesAsTheyAreOrAreRefused(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) // The same values each time.
	accepted := 0
	for range rounds {
		if moduleUnchangedOrRefused(t, hostileModules[random.IntN(len(hostileModules))], "value", value(random), value(random)) {
			accepted++
		}
	}
	assert.Greater(t, accepted, rounds/10, "too many values are refused")
	assert.Less(t, accepted, rounds*9/10, "nor to accept it")
}

func TestTenThousandValuesArriveInVarsByteForByte(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4)) // The same values each time.
	for range rounds {
		varsByteForByte(t, value(random), value(random))
	}
}
