// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"
	"text/template"
	"time"

	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/yaml"
)

//go:embed chart
var chartFiles embed.FS

// Markers are what kustomize puts where the values of the chart belong, so kustomize decides where that is. As plain words they are not quoted.
const (
	namespaceMarker = "helm-marker-namespace"
	prefixMarker    = "helm-marker-prefix-"
	imageMarker     = "helm-marker-image"
	tagMarker       = "helm-marker-tag"
)

// chart writes the objects of an installation as templates of Helm.
type chart struct {
	// expressions are the Helm expressions that replace the markers value0, value1 and so on.
	expressions []string
	// defaults of values.yaml, from the objects.
	defaults map[string]any
}

type object = map[string]any

// value returns a marker for an expression.
func (c *chart) value(expression string) string {
	c.expressions = append(c.expressions, expression)
	return fmt.Sprintf("helm-value-%d.", len(c.expressions)-1)
}

// optional returns a marker for a value that is written only if it is not empty.
func (c *chart) optional(value string) string { return "helm-optional" + value + "." }

// newChart returns the files of the chart by name.
func newChart(root, image, version string) (map[string][]byte, error) {
	objects, err := installation{namespaceMarker, prefixMarker, imageMarker, tagMarker}.render(root)
	if err != nil {
		return nil, err
	}
	c := &chart{defaults: object{"image": image, "version": version}}
	files := map[string][]byte{}
	for _, found := range objects {
		if found.GetKind() == "Namespace" {
			continue // Helm creates it, with --create-namespace.
		}
		text, err := c.template(found)
		if err != nil {
			return nil, err
		}
		name := "templates/" + strings.ToLower(found.GetKind()) + ".yaml"
		files[name] = append(files[name], text...)
	}
	return files, c.addFixed(files)
}

// addFixed adds the files that do not depend on kind and number of objects.
func (c *chart) addFixed(files map[string][]byte) error {
	functions := template.FuncMap{"yaml": func(indent int, value any) (string, error) {
		text, err := yaml.Marshal(value)
		padding := "\n" + strings.Repeat(" ", indent)
		return padding + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", padding), err
	}}
	parsed, err := template.New("").Delims("<<", ">>").Funcs(functions).Option("missingkey=error").ParseFS(chartFiles, "chart/*")
	if err != nil {
		return err
	}
	for name, target := range map[string]string{
		"Chart.yaml": "Chart.yaml", "values.yaml": "values.yaml", "values.schema.json": "values.schema.json", "NOTES.txt": "templates/NOTES.txt",
	} {
		var out bytes.Buffer
		if err := parsed.ExecuteTemplate(&out, name, c.defaults); err != nil {
			return err
		}
		files[target] = out.Bytes()
	}
	return nil
}

// template returns one object as a template.
func (c *chart) template(found *resource.Resource) ([]byte, error) {
	content, err := found.Map()
	if err != nil {
		return nil, err
	}
	condition := c.edit(found.GetKind(), content)
	text, err := yaml.Marshal(content)
	if err != nil {
		return nil, err
	}
	// Texts of CAPT with the delimiters of Helm would be executed.
	text = bytes.ReplaceAll(text, []byte("{{"), []byte(`{{ "{{" }}`))
	written := c.expand(string(text))
	if condition != "" {
		written = "{{- if " + condition + " }}\n" + written + "{{- end }}\n"
	}
	return []byte("---\n" + written), nil
}

// edit puts markers into an object, and returns the condition for installing it.
func (c *chart) edit(kind string, content object) (condition string) {
	const certificates = ".Values.certificates.certManager"
	switch kind {
	case "CustomResourceDefinition":
		annotations(content)["helm.sh/resource-policy"] = "keep"
		if conversion, ok := field(content, "spec", "conversion", "webhook", "clientConfig").(object); ok {
			conversion["caBundle"] = c.optional(".Values.certificates.caBundle")
		}
		return ".Values.crds.install"
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		for _, webhook := range field(content, "webhooks").([]any) {
			field(webhook, "clientConfig").(object)["caBundle"] = c.optional(".Values.certificates.caBundle")
		}
	case "Issuer", "Certificate":
		if spec := field(content, "spec").(object); spec["secretName"] == c.servingSecret() {
			spec["secretName"] = c.value(".Values.certificates.secretName")
		}
		return certificates
	case "ServiceAccount":
		field(content, "metadata").(object)["annotations"] = c.optional(".Values.serviceAccount.annotations")
	case "Deployment":
		c.editDeployment(content)
	}
	return ""
}

// servingSecret is the Secret with the certificate of the webhooks.
func (c *chart) servingSecret() string { return "capt-webhook-serving-cert" }

func (c *chart) editDeployment(content object) {
	template := field(content, "spec", "template").(object)
	pod := field(template, "spec").(object)
	container := field(pod, "containers").([]any)[0].(object)
	for _, move := range []struct {
		from      object
		key, name string
	}{
		{field(content, "spec").(object), "replicas", "replicas"}, {container, "resources", "resources"}, {container, "env", "env"}, {pod, "tolerations", "tolerations"},
	} {
		c.defaults[move.name] = move.from[move.key]
		move.from[move.key] = c.value(".Values." + move.name + " | toJson")
	}
	c.defaults["servingSecret"] = c.servingSecret()
	field(field(pod, "volumes").([]any)[0], "secret").(object)["secretName"] = c.value(".Values.certificates.secretName")
	container["image"] = c.value(`printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion)`)
	container["imagePullPolicy"] = c.optional(".Values.image.pullPolicy")
	container["args"] = c.value("concat (" + jsonOf("fromJsonArray", container["args"]) + ") .Values.extraArgs | toJson")
	for _, key := range []string{"imagePullSecrets", "nodeSelector", "affinity", "priorityClassName"} {
		pod[key] = c.optional(".Values." + key)
	}
	field(template, "metadata").(object)["annotations"] = c.value("merge (" + jsonOf("fromJson", annotations(template)) + ") .Values.podAnnotations | toJson")
}

// jsonOf returns the expression for a constant value.
func jsonOf(function string, value any) string {
	text, _ := json.Marshal(value) // What was read from YAML can be written.
	return function + " `" + string(text) + "`"
}

var (
	valueMarker    = regexp.MustCompile(`helm-value-(\d+)\.`)
	optionalMarker = regexp.MustCompile(`(?m)^( *)(- )?(\S+): helm-optional(\S+)\.$`)
	injection      = regexp.MustCompile(`(?m)^ *cert-manager\.io/inject-ca-from: .*$`)
)

// expand replaces markers with Helm expressions.
func (c *chart) expand(text string) string {
	text = injection.ReplaceAllString(text, "{{- if .Values.certificates.certManager }}\n$0\n{{- end }}")
	text = optionalMarker.ReplaceAllString(text, "{{- with $4 }}\n$1$3: {{ toJson . }}\n{{- end }}")
	text = valueMarker.ReplaceAllStringFunc(text, func(found string) string {
		var index int
		_, _ = fmt.Sscanf(found, "helm-value-%d.", &index) // The regular expression matched.
		return "{{ " + c.expressions[index] + " }}"
	})
	return strings.NewReplacer(namespaceMarker, "{{ .Release.Namespace }}", prefixMarker, "{{ .Values.namePrefix }}").Replace(text)
}

// field returns a field, nil if it does not exist.
func field(of any, names ...string) any {
	for _, name := range names {
		fields, _ := of.(object)
		of = fields[name]
	}
	return of
}

func annotations(of object) object {
	metadata := field(of, "metadata").(object)
	if metadata["annotations"] == nil {
		metadata["annotations"] = object{}
	}
	return metadata["annotations"].(object)
}

// packageChart returns the archive that helm package would write.
func packageChart(files map[string][]byte, created time.Time) ([]byte, error) {
	var entries []entry
	for _, name := range sorted(files) {
		entries = append(entries, entry{name: path.Join("capt", name), mode: 0o644, data: files[name]})
	}
	data, err := archive(created, entries...)
	if err != nil {
		return nil, err
	}
	return compress(data)
}
