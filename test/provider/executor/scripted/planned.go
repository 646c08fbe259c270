// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package scripted

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/capt-provider/capt/test/provider/executor"
)

// replacing are the arguments whose change replaces a resource.
var replacing = []string{"triggers_replace", "name"}

// change is what a plan does with a resource or an output.
type change struct{ address, action, reason string }

// planned lists what a plan that is not empty changes, as far as the module can be evaluated. If nothing is found, a resource that has
// drifted, or the first one, is updated.
func (p *simulation) planned(m *module, state State, drift string) (changes, outputs []change) {
	e := newEvaluation(m, state)
	for _, address := range m.addresses {
		i := slices.IndexFunc(state.Resources, func(r Resource) bool { return r.Address == address })
		if i < 0 {
			changes = append(changes, change{address, "create", ""})
			continue
		}
		if c := e.changed(state.Resources[i]); c.action != "" {
			changes = append(changes, c)
		}
	}
	_, surplus := split(state.Resources, func(r Resource) bool { return slices.Contains(m.addresses, r.Address) })
	for _, r := range surplus {
		changes = append(changes, change{r.Address, "delete", "delete_because_no_resource_config"})
	}
	outputs = changedOutputs(state.Outputs, m.evaluate(p.selected, state))
	if len(state.Resources) > 0 && (state.Drift != drift || len(changes)+len(outputs) == 0) {
		if first := state.Resources[0].Address; !slices.ContainsFunc(changes, func(c change) bool { return c.address == first }) {
			changes = append(changes, change{first, "update", ""})
		}
	}
	return changes, outputs
}

// changed is the change of a resource that the state and the module have.
func (e *evaluation) changed(r Resource) change {
	c, now := change{address: r.Address}, e.arguments(r.Address)
	for name := range maps.Keys(now) {
		if r.Arguments[name] == now[name] {
			continue
		}
		if c.action = cmp.Or(c.action, "update"); slices.Contains(replacing, name) {
			return change{r.Address, "replace", "cannot_update"}
		}
	}
	return c
}

// arguments are the values of the arguments of a resource, as JSON; empty when they are not known.
func (e *evaluation) arguments(address string) map[string]string {
	known := map[string]string{}
	for name, argument := range e.nodes[address].arguments {
		if slices.Contains(metaArguments, name) {
			continue
		}
		known[name] = ""
		if value := e.value(argument.Expr); value != nil {
			data, _ := ctyjson.Marshal(*value, cty.DynamicPseudoType) // What cannot be encoded never changes.
			known[name] = string(data)
		}
	}
	return known
}

func changedOutputs(before, after []executor.Output) (changes []change) {
	for _, o := range after {
		i := slices.IndexFunc(before, func(old executor.Output) bool { return old.Name == o.Name })
		switch {
		case i < 0:
			changes = append(changes, change{o.Name, "create", ""})
		case !reflect.DeepEqual(before[i].Value, o.Value):
			changes = append(changes, change{o.Name, "update", ""})
		}
	}
	for _, o := range before {
		if !slices.ContainsFunc(after, func(now executor.Output) bool { return now.Name == o.Name }) {
			changes = append(changes, change{o.Name, "delete", ""})
		}
	}
	return changes
}

// isJSON reports whether the CLI prints JSON, also its errors.
func isJSON(o executor.RunOptions) bool { return slices.Contains(o.Args, "-json") }

// printed returns what the CLI prints of a plan: a text, or the lines of -json, which have no values.
func printed(asJSON bool, state State, drifted bool, changes, outputs []change) string {
	count := map[string]int{}
	for _, c := range changes {
		count[c.action]++
	}
	add, remove := count["create"]+count["replace"], count["delete"]+count["replace"]
	summary := fmt.Sprintf("Plan: %d to add, %d to change, %d to destroy.", add, count["update"], remove)
	out := &strings.Builder{}
	if !asJSON {
		out.WriteString("\nOpenTofu will perform the following actions:\n\n")
		for _, c := range changes {
			fmt.Fprintf(out, "  # %s will be changed: %s\n", instance(c.address), c.action)
		}
		return out.String() + "\n" + summary + "\n"
	}
	line := func(message, kind string, content map[string]any) {
		content["@level"], content["@message"], content["@module"], content["type"] = "info", message, "tofu.ui", kind
		content["@timestamp"] = time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")
		data, _ := json.Marshal(content) //nolint:errchkjson // Only strings and numbers.
		out.Write(append(data, '\n'))
	}
	line("OpenTofu", "version", map[string]any{"tofu": "1.12.6", "ui": "1.2"})
	for _, r := range state.Resources {
		line(instance(r.Address)+": Refreshing state... [id="+r.ID+"]", "refresh_start",
			map[string]any{"hook": map[string]any{"resource": resourceOf(r.Address), "id_key": "id", "id_value": r.ID}})
	}
	if drifted && len(state.Resources) > 0 {
		drift := change{state.Resources[0].Address, "update", ""}
		line(instance(drift.address)+": Drift detected (update)", "resource_drift", map[string]any{"change": drift.content()})
	}
	for _, c := range changes {
		line(instance(c.address)+": Plan to "+c.action, "planned_change", map[string]any{"change": c.content()})
	}
	line(summary, "change_summary", map[string]any{"changes": map[string]any{
		"add": add, "change": count["update"], "import": 0, "remove": remove, "forget": 0, "operation": "plan",
	}})
	if actions := map[string]any{}; len(outputs) > 0 {
		for _, o := range outputs {
			actions[o.address] = map[string]any{"sensitive": false, "action": o.action}
		}
		line(fmt.Sprintf("Outputs: %d", len(outputs)), "outputs", map[string]any{"outputs": actions})
	}
	return out.String()
}

func (c change) content() map[string]any {
	content := map[string]any{"resource": resourceOf(c.address), "action": c.action}
	if c.reason != "" {
		content["reason"] = c.reason
	}
	return content
}

// instance is the address of a resource: of a module, one resource is known.
func instance(address string) string {
	if strings.HasPrefix(address, "module.") {
		return address + ".terraform_data.this"
	}
	return address
}

func resourceOf(address string) map[string]any {
	module, local := "", address
	if strings.HasPrefix(address, "module.") {
		module, local = address, "terraform_data.this"
	}
	kind, name, _ := strings.Cut(local, ".")
	return map[string]any{
		"addr": instance(address), "module": module, "resource": local, "implied_provider": strings.Split(kind, "_")[0],
		"resource_type": kind, "resource_name": name, "resource_key": nil,
	}
}
