// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"net/url"
	"path/filepath"

	"github.com/capt-provider/capt/cmd/captctl/cli"
)

// The part of SARIF 2.1.0 that captctl writes: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     Level           `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		Physical sarifPhysicalLocation `json:"physicalLocation"`
	}
	sarifPhysicalLocation struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		Line   int `json:"startLine"`
		Column int `json:"startColumn,omitempty"`
	}
)

// sarifOf returns a report as SARIF.
func sarifOf(report *Report) *sarifLog {
	run := sarifRun{Tool: sarifTool{sarifDriver{"captctl", cli.BuildVersion().Version}}, Results: []sarifResult{}}
	for _, finding := range report.Findings {
		text := finding.Message
		if finding.Field != "" {
			text = finding.Object + ": " + finding.Field + ": " + text
		}
		run.Results = append(run.Results, sarifResult{"captctl-validate", finding.Level, sarifMessage{text}, []sarifLocation{
			{sarifPhysicalLocation{sarifArtifact{(&url.URL{Path: filepath.ToSlash(finding.File)}).String()}, sarifRegion{finding.Line, finding.Column}}},
		}})
	}
	return &sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}}
}
