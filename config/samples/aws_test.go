// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package samples_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// desiredSizeFile, below the directory in an environment variable, has the size of the node group: AWS and autoscalers know it, and Terraform reads it.
// nodeGroupFile has all its attributes.
const (
	awsDir          = "CAPT_STAND_IN_OF_AWS"
	desiredSizeFile = "desired-size"
	nodeGroupFile   = "node-group"
)

// TestMain makes the test binary the stand-in of the AWS provider when OpenTofu starts it.
func TestMain(m *testing.M) {
	if os.Getenv("TF_PLUGIN_MAGIC_COOKIE") == "" {
		os.Exit(m.Run())
	}
	if err := tf6server.Serve("registry.opentofu.org/hashicorp/aws", func() tfprotov6.ProviderServer { return &awsProvider{} }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// fields are the attributes of a type, for example "string! " with a mark: ! required, ? optional, = computed, and its blocks, in fields.
type fields map[string]any

// wireTypes matches what the text of a value has besides names and values.
var wireTypes = regexp.MustCompile(`tftypes\.\w+(\[[^<]*\])?<|>`)

var timeouts = fields{"create": "string?", "update": "string?", "delete": "string?"}

// The part of hashicorp/aws that the samples and the stand-ins of modules use: its names, types, and which are required.
var (
	awsResources = map[string]fields{
		"aws_iam_role":                   {"name": "string?=", "name_prefix": "string?=", "assume_role_policy": "string!", "path": "string?", "permissions_boundary": "string?", "tags": "map?", "arn": "string=", "id": "string="},
		"aws_iam_role_policy_attachment": {"role": "string!", "policy_arn": "string!", "id": "string="},
		"aws_eks_cluster": {"name": "string!", "version": "string?=", "id": "string=", "compute_config": fields{
			"enabled": "bool?", "node_pools": "set?", "node_role_arn": "string?"}},
		"aws_eks_node_group": {
			"cluster_name": "string!", "node_group_name": "string?=", "node_role_arn": "string!", "subnet_ids": "set!", "version": "string?=",
			"instance_types": "list?=", "ami_type": "string?=", "release_version": "string?=", "capacity_type": "string?=", "disk_size": "number?=", "labels": "map?", "tags": "map?",
			"force_update_version": "bool?", "arn": "string=", "id": "string=", "status": "string=", "timeouts": timeouts,
			"scaling_config":  fields{"min_size": "number!", "max_size": "number!", "desired_size": "number!"},
			"taint":           fields{"key": "string!", "value": "string?", "effect": "string!"},
			"update_config":   fields{"max_unavailable": "number?", "max_unavailable_percentage": "number?"},
			"launch_template": fields{"id": "string?=", "name": "string?=", "version": "string!"}, "node_repair_config": fields{"enabled": "bool?"},
			"remote_access": fields{"ec2_ssh_key": "string?", "source_security_group_ids": "set?"},
		},
		"aws_eks_addon": {
			"cluster_name": "string!", "addon_name": "string!", "addon_version": "string?=", "configuration_values": "string?=", "tags": "map?",
			"resolve_conflicts_on_create": "string?", "resolve_conflicts_on_update": "string?", "preserve": "bool?", "arn": "string=", "id": "string=", "timeouts": timeouts,
		},
	}
	awsData = map[string]fields{
		"aws_availability_zones": {"state": "string?", "exclude_zone_ids": "set?", "names": "list=", "id": "string=", "filter": fields{"name": "string!", "values": "set!"}},
		"aws_subnets":            {"tags": "map?", "ids": "list=", "id": "string=", "filter": fields{"name": "string!", "values": "set!"}},
		"aws_subnet":             {"id": "string!", "availability_zone": "string="},
		"aws_partition":          {"partition": "string=", "dns_suffix": "string=", "id": "string="},
		"aws_autoscaling_groups": {"names": "list=", "id": "string=", "filter": fields{"name": "string!", "values": "set!"}},
		"aws_autoscaling_group":  {"name": "string!", "desired_capacity": "number=", "id": "string="},
	}
	awsSettings = fields{"region": "string?"}

	attributeTypes = map[string]tftypes.Type{
		"string": tftypes.String, "number": tftypes.Number, "bool": tftypes.Bool, "map": tftypes.Map{ElementType: tftypes.String},
		"list": tftypes.List{ElementType: tftypes.String}, "set": tftypes.Set{ElementType: tftypes.String},
	}
)

func (f fields) schema() *tfprotov6.SchemaBlock {
	block := &tfprotov6.SchemaBlock{}
	for name, value := range f {
		switch value := value.(type) {
		case fields:
			mode := tfprotov6.SchemaNestedBlockNestingModeList
			if name == "timeouts" {
				mode = tfprotov6.SchemaNestedBlockNestingModeSingle
			}
			block.BlockTypes = append(block.BlockTypes, &tfprotov6.SchemaNestedBlock{TypeName: name, Block: value.schema(), Nesting: mode})
		case string:
			block.Attributes = append(block.Attributes, &tfprotov6.SchemaAttribute{Name: name, Type: attributeTypes[strings.TrimRight(value, "!?=")],
				Required: strings.Contains(value, "!"), Optional: strings.Contains(value, "?"), Computed: strings.Contains(value, "=")})
		}
	}
	return block
}

// awsProvider implements the part of the protocol that OpenTofu uses for resources and data sources. The embedded interface is nil.
type awsProvider struct{ tfprotov6.ProviderServer }

func (*awsProvider) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	schemas := func(types map[string]fields) map[string]*tfprotov6.Schema {
		found := map[string]*tfprotov6.Schema{}
		for name, f := range types {
			found[name] = &tfprotov6.Schema{Block: f.schema()}
		}
		return found
	}
	return &tfprotov6.GetProviderSchemaResponse{Provider: &tfprotov6.Schema{Block: awsSettings.schema()}, ResourceSchemas: schemas(awsResources), DataSourceSchemas: schemas(awsData)}, nil
}

func (*awsProvider) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{}, nil
}

func (*awsProvider) ValidateProviderConfig(_ context.Context, request *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: request.Config}, nil
}

func (*awsProvider) ConfigureProvider(_ context.Context, request *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	settings, err := attributesOf(awsSettings, request.Config)
	if err == nil && text(settings["region"]) == "" {
		err = errors.New("Invalid provider configuration: region is not set")
	}
	return &tfprotov6.ConfigureProviderResponse{Diagnostics: diagnostics(err)}, nil
}

func (*awsProvider) StopProvider(context.Context, *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{}, nil
}

func (*awsProvider) ValidateResourceConfig(_ context.Context, request *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	config, err := attributesOf(awsResources[request.TypeName], request.Config)
	if prefix, name := text(config["name_prefix"]), text(config["name"]); err == nil && request.TypeName == "aws_iam_role" && (len(prefix) > 38 || len(name) > 64) {
		err = fmt.Errorf("expected length of name_prefix to be in the range (1 - 38), and of name in the range (1 - 64), got %s%s", prefix, name)
	}
	return &tfprotov6.ValidateResourceConfigResponse{Diagnostics: diagnostics(err)}, nil
}

func (*awsProvider) ValidateDataResourceConfig(context.Context, *tfprotov6.ValidateDataResourceConfigRequest) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	return &tfprotov6.ValidateDataResourceConfigResponse{}, nil
}

func (*awsProvider) UpgradeResourceState(_ context.Context, request *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	kind := awsResources[request.TypeName].schema().ValueType()
	state, err := request.RawState.Unmarshal(kind)
	if err != nil {
		return nil, err
	}
	upgraded, err := tfprotov6.NewDynamicValue(kind, state)
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: &upgraded}, err
}

// ReadResource reports the size of the node group that AWS knows.
func (*awsProvider) ReadResource(_ context.Context, request *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	state, err := attributesOf(awsResources[request.TypeName], request.CurrentState)
	if size, exists := desiredSize(); err == nil && exists && request.TypeName == "aws_eks_node_group" {
		scaling := blockOf(state, "scaling_config")
		scaling["desired_size"] = tftypes.NewValue(tftypes.Number, size)
		state["scaling_config"] = tftypes.NewValue(state["scaling_config"].Type(), []tftypes.Value{tftypes.NewValue(state["scaling_config"].Type().(tftypes.List).ElementType, scaling)})
		value, err := valueOf(awsResources[request.TypeName], state)
		return &tfprotov6.ReadResourceResponse{NewState: value}, err
	}
	return &tfprotov6.ReadResourceResponse{NewState: request.CurrentState, Diagnostics: diagnostics(err)}, nil
}

// PlanResourceChange leaves unknown what only AWS knows.
func (*awsProvider) PlanResourceChange(_ context.Context, request *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	if gone, err := request.ProposedNewState.IsNull(); gone || err != nil {
		return &tfprotov6.PlanResourceChangeResponse{PlannedState: request.ProposedNewState}, err
	}
	kind := awsResources[request.TypeName]
	planned, err := attributesOf(kind, request.ProposedNewState)
	if err != nil {
		return nil, err
	}
	for name, value := range planned {
		if mark, _ := kind[name].(string); strings.Contains(mark, "=") && value.IsNull() {
			planned[name] = tftypes.NewValue(value.Type(), tftypes.UnknownValue)
		}
	}
	value, err := valueOf(kind, planned)
	return &tfprotov6.PlanResourceChangeResponse{PlannedState: value}, err
}

func (*awsProvider) ApplyResourceChange(_ context.Context, request *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	if gone, err := request.PlannedState.IsNull(); gone || err != nil {
		return &tfprotov6.ApplyResourceChangeResponse{NewState: request.PlannedState}, err
	}
	kind := awsResources[request.TypeName]
	before, err := attributesOf(kind, request.PriorState)
	if err != nil {
		return nil, err
	}
	after, err := attributesOf(kind, request.PlannedState)
	if err != nil {
		return nil, err
	}
	for name, value := range after {
		if !value.IsKnown() {
			after[name] = tftypes.NewValue(value.Type(), known(value.Type(), request.TypeName+"-"+name))
		}
	}
	if err := refusal(request.TypeName, before, after); err != nil {
		return &tfprotov6.ApplyResourceChangeResponse{NewState: request.PriorState, Diagnostics: diagnostics(err)}, nil
	}
	value, err := valueOf(kind, after)
	return &tfprotov6.ApplyResourceChangeResponse{NewState: value}, err
}

// refusal is the error of AWS about a change that Terraform cannot know to be wrong.
func refusal(resource string, before, after map[string]tftypes.Value) error {
	switch resource {
	case "aws_eks_cluster":
		if blockOf(before, "compute_config") != nil && blockOf(after, "compute_config") == nil {
			return errors.New("InvalidParameterException: compute_config.enabled, kubernetes_networking_config.elastic_load_balancing.enabled, and storage_config.block_storage.enabled must all be set to either true or false")
		}
	case "aws_eks_node_group":
		if types := fmt.Sprint(after["instance_types"]); strings.Contains(types, "7g.") != strings.Contains(text(after["ami_type"]), "ARM") {
			return fmt.Errorf("InvalidParameterException: %s is not a valid instance type for requested amiType %s", types, text(after["ami_type"]))
		}
		scaling := blockOf(after, "scaling_config")
		least, most, desired := number(scaling["min_size"]), number(scaling["max_size"]), number(scaling["desired_size"])
		if least > desired || desired > most {
			return fmt.Errorf("InvalidParameterException: Minimum capacity %d can't be greater than desired size %d, which can't be greater than maximum capacity %d", least, desired, most)
		}
		if err := os.WriteFile(filepath.Join(os.Getenv(awsDir), nodeGroupFile), []byte(wireTypes.ReplaceAllString(fmt.Sprint(after), "")), 0o600); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(os.Getenv(awsDir), desiredSizeFile), []byte(fmt.Sprint(desired)), 0o600)
	}
	return nil
}

func (*awsProvider) ReadDataSource(_ context.Context, request *tfprotov6.ReadDataSourceRequest) (*tfprotov6.ReadDataSourceResponse, error) {
	kind := awsData[request.TypeName]
	found, err := attributesOf(kind, request.Config)
	if err != nil {
		return nil, err
	}
	if request.TypeName == "aws_availability_zones" && found["exclude_zone_ids"].IsNull() { // EKS refuses subnets in them.
		return &tfprotov6.ReadDataSourceResponse{Diagnostics: diagnostics(errors.New("UnsupportedAvailabilityZoneException: us-east-1e is use1-az3"))}, nil
	}
	list := func(texts ...string) (values []tftypes.Value) {
		for _, text := range texts {
			values = append(values, tftypes.NewValue(tftypes.String, text))
		}
		return values
	}
	size, exists := desiredSize()
	answers := map[string]any{
		"aws_availability_zones.names":           list("eu-central-1a", "eu-central-1b", "eu-central-1c"),
		"aws_subnets.ids":                        list("subnet-0a000000000000000", "subnet-0a000000000000001", "subnet-0a000000000000002"),
		"aws_partition.partition":                "aws",
		"aws_partition.dns_suffix":               "amazonaws.com",
		"aws_autoscaling_groups.names":           list(),
		"aws_autoscaling_group.desired_capacity": size,
	}
	if id := text(found["id"]); request.TypeName == "aws_subnet" && id != "" {
		answers["aws_subnet.availability_zone"] = "eu-central-1" + string("abc"[id[len(id)-1]-'0'])
	}
	if exists {
		answers["aws_autoscaling_groups.names"] = list("eks-default")
	}
	for name, value := range found {
		if mark, _ := kind[name].(string); strings.Contains(mark, "=") {
			answer, has := answers[request.TypeName+"."+name]
			if !has {
				answer = known(value.Type(), request.TypeName)
			}
			found[name] = tftypes.NewValue(value.Type(), answer)
		}
	}
	value, err := valueOf(kind, found)
	return &tfprotov6.ReadDataSourceResponse{State: value}, err
}

// known is a value that AWS could have chosen.
func known(kind tftypes.Type, name string) any {
	switch {
	case kind.Is(tftypes.String):
		return name
	case kind.Is(tftypes.Number):
		return 20
	default:
		return []tftypes.Value{}
	}
}

// desiredSize is the size of the node group, and whether it exists.
func desiredSize() (size int, exists bool) {
	data, err := os.ReadFile(filepath.Join(os.Getenv(awsDir), desiredSizeFile))
	if err != nil {
		return 0, false
	}
	_, err = fmt.Sscan(string(data), &size)
	return size, err == nil
}

func attributesOf(kind fields, value *tfprotov6.DynamicValue) (map[string]tftypes.Value, error) {
	decoded, err := value.Unmarshal(kind.schema().ValueType())
	if err != nil {
		return nil, err
	}
	attributes := map[string]tftypes.Value{}
	return attributes, decoded.As(&attributes)
}

func valueOf(kind fields, attributes map[string]tftypes.Value) (*tfprotov6.DynamicValue, error) {
	t := kind.schema().ValueType()
	value, err := tfprotov6.NewDynamicValue(t, tftypes.NewValue(t, attributes))
	return &value, err
}

// blockOf returns the attributes of a block; nil if there is none.
func blockOf(attributes map[string]tftypes.Value, name string) map[string]tftypes.Value {
	var blocks []tftypes.Value
	var first map[string]tftypes.Value
	if attributes[name].As(&blocks) != nil || len(blocks) == 0 || blocks[0].As(&first) != nil {
		return nil
	}
	return first
}

func text(value tftypes.Value) string {
	var s string
	if !value.IsKnown() || value.IsNull() || value.As(&s) != nil {
		return ""
	}
	return s
}

func number(value tftypes.Value) int64 {
	var n *big.Float
	if value.As(&n) != nil || n == nil {
		return 0
	}
	whole, _ := n.Int64()
	return whole
}

func diagnostics(err error) []*tfprotov6.Diagnostic {
	if err == nil {
		return nil
	}
	return []*tfprotov6.Diagnostic{{Severity: tfprotov6.DiagnosticSeverityError, Summary: err.Error()}}
}
