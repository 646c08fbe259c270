// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// authorities is the module of the certificate authorities in an image (see base).
const authorities = "golang.org/x/crypto/x509roots/fallback"

// billOfMaterials returns the SBOM of a Go program in CycloneDX JSON: the modules that the linker recorded in it, the standard library, and modules
// whose files are beside the program in an image. Those were linked into this program.
func billOfMaterials(file, program, version string, created time.Time, beside ...string) ([]byte, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if own, ok := debug.ReadBuildInfo(); ok {
		info.Deps = append(info.Deps, slices.DeleteFunc(own.Deps, func(module *debug.Module) bool { return !slices.Contains(beside, module.Path) })...)
	}
	main := cdx.Component{
		BOMRef: "pkg:golang/" + info.Main.Path + "@" + version + "#cmd/" + program, PackageURL: "pkg:golang/" + info.Main.Path + "@" + version + "#cmd/" + program,
		Type: cdx.ComponentTypeApplication, Name: program, Version: version, Properties: settings(info),
	}
	library := []cdx.Component{component("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		library = append(library, component(module.Path, module.Version, module.Sum))
	}
	var references []string
	for _, found := range library {
		references = append(references, found.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: created.UTC().Format(time.RFC3339), Component: &main}
	bom.Components = &library
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &references}}
	var out bytes.Buffer
	err = cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return out.Bytes(), err
}

func component(path, version, sum string) cdx.Component {
	url := fmt.Sprintf("pkg:golang/%s@%s", path, strings.ReplaceAll(version, "+", "%2B"))
	found := cdx.Component{BOMRef: url, PackageURL: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version}
	if sum != "" { // The form of go.sum, a hash over the hashes of all files.
		found.Properties = &[]cdx.Property{{Name: "capt:go.sum", Value: sum}}
	}
	return found
}

// settings returns what determined the result of the build.
func settings(info *debug.BuildInfo) *[]cdx.Property {
	var properties []cdx.Property
	for _, setting := range info.Settings {
		properties = append(properties, cdx.Property{Name: "capt:go.build." + strings.TrimPrefix(setting.Key, "-"), Value: setting.Value})
	}
	return &properties
}
