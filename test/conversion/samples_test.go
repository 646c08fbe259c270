// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import "fmt"

// patterns are the regular expressions of our definitions, with what matches them.
var patterns = map[string]func(filler) string{
	`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`: conditionType,
	`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`: func(f filler) string {
		return pick(f, "Ready", "NoReasonReported", "a:b,c_", f.word())
	},
	`^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$`: func(f filler) string {
		return pick(f, "eu-central-1", "us-gov-west-1", "ap-northeast-3", "eusc-de-east-1")
	},
	`^[A-Za-z0-9_-]+$`: func(f filler) string { return pick(f, "a", "A_b-c", f.word()) },
	`^vpc-[0-9a-z]+$`:  func(f filler) string { return "vpc-" + f.word() },
	`^v?[1-9][0-9]*\.(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*))?([-+].*)?$`: func(f filler) string {
		return pick(f, "1.31", "v1.32", "1.33.0", "v1.34.2", "v1.35.0-eks-1")
	},
}

// conditionType prefers those that conversion treats in some way of its own.
func conditionType(f filler) string {
	return pick(f, "Ready", "Available", "Failed", "KubeconfigReady", "VPCReady", "Synced", "example.com/Part.of_it", f.word())
}

// samples are texts of which the schema does not say all that Go or a rule in CEL asks for.
var samples = map[string]func(filler) string{
	"endpointAccess.publicCIDRs[]": func(f filler) string {
		return pick(f, fmt.Sprintf("10.%d.0.0/16", f.random.Intn(256)), "2001:db8::/32", "192.0.2.1/32")
	},
}

// rules make an object pass the rules in CEL that its schema has.
var rules = map[string]func(filler, map[string]any){
	"v1beta1 CAPTCluster.spec": func(f filler, spec map[string]any) {
		_, made := spec["vpcTemplateRef"]
		id, _ := spec["existingVpcId"].(string)
		switch {
		case made && id != "":
			spec["existingVpcId"] = ""
		case !made && id == "":
			spec["existingVpcId"] = "vpc-" + f.word()
		}
		if !made {
			delete(spec, "retainVpcOnDelete")
		}
	},
	"template.spec": func(_ filler, spec map[string]any) {
		profiles, _ := spec["fargateProfiles"].([]any)
		for _, profile := range profiles {
			delete(profile.(map[string]any), "workspaceTemplateApplyRef")
		}
	},
	"spec.vpc": func(f filler, vpc map[string]any) {
		_, existing := vpc["existingID"]
		_, made := vpc["template"]
		switch {
		case existing && made && f.chance(0.5):
			delete(vpc, "existingID")
		case existing:
			delete(vpc, "template")
		case !made:
			vpc["existingID"] = "vpc-" + f.word()
		}
		if _, existing := vpc["existingID"]; !existing {
			delete(vpc, "connectionSecretRef")
		}
	},
	"spec.endpointAccess": func(_ filler, access map[string]any) {
		if _, found := access["publicCIDRs"]; found {
			access["public"] = "Enabled"
		}
		if access["public"] == "Disabled" {
			access["private"] = "Enabled"
		}
	},
	"recovery.backoff": func(_ filler, backoff map[string]any) {
		initial, found := backoff["initialSeconds"].(int64)
		if found {
			backoff["maxSeconds"] = max(initial, 1800)
		} else {
			backoff["initialSeconds"], backoff["maxSeconds"] = int64(1), int64(86400)
		}
	},
	"recovery.actions[]": func(_ filler, action map[string]any) {
		if action["type"] == "RecreateWorkspace" {
			action["parameters"] = map[string]any{"allowDestroy": "true"}
		}
	},
}
