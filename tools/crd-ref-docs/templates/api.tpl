{{- /* A table of all fields for each kind, with their paths. */ -}}
{{- define "gvList" -}}
# API

<!-- Written by make generate from the types in api. -->

The fields of CAPT's kinds in `v1beta2`. `kubectl explain` shows the same in a cluster, in full. [fields.md](fields.md) has the
effect of each field, [admission.md](admission.md) the rules that a schema cannot express, [status.md](status.md) the conditions, and
[migration.md](migration.md) the differences to `v1beta1`.

`[]` is an element of a list, `{}` a value of a map. `Required`: the field is required where its parent is set.
{{ range $gv := . }}{{ range $gv.SortedKinds }}{{ $kind := . }}{{ with $gv.TypeForKind . }}
## {{ .Name }}

{{ regexReplaceAll "\\s+" .Doc " " }}

| field | type | limits | description |
|---|---|---|---|
{{- range .Members }}{{ if has .Name (list "spec" "status") }}{{ template "fields" (dict "kind" $kind "path" .Name "type" .Type) }}{{ end }}{{ end }}
{{ end }}{{ end }}{{ end }}
{{- end -}}

{{- define "fields" -}}
{{- range .type.Members }}
{{- $path := printf "%s.%s" $.path .Name }}
{{- $doc := regexReplaceAll "\\s+" .Doc " " | trimPrefix (printf "%s is " .Name) | trimPrefix (printf "%s are " .Name) }}
| `{{ $path }}` | {{ template "type" .Type }} | {{ range $i, $limit := without .Validation "Optional: {}" "Schemaless: {}" "Type: object" "Type: string" | uniq }}{{ if $i }}, {{ end }}{{ $limit | trimSuffix ": {}" | replace "|" "\\|" }}{{ end }} | {{ markdownRenderFieldDoc $doc }} |
{{- if not (or (eq $path "status.conditions") (and (eq $path "spec.template.spec") (ne $.kind "WorkspaceTemplate")) (hasSuffix "/meta/v1" .Type.Package)) }}
{{- if .Type.ValueType }}{{ template "fields" (dict "kind" $.kind "path" (printf "%s{}" $path) "type" .Type.ValueType) }}
{{- else }}{{ template "fields" (dict "kind" $.kind "path" (ternary (printf "%s[]" $path) $path (eq (int .Type.Kind) 5)) "type" .Type) }}{{ end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "type" -}}
{{- if eq (int .Kind) 5 }}list of {{ template "type" .UnderlyingType }}
{{- else if .UnderlyingType }}{{ template "type" .UnderlyingType }}
{{- else if .ValueType }}map of {{ template "type" .ValueType }}
{{- else }}{{ ternary "object" (markdownRenderType . | regexFind "\\w+") (and (eq (int .Kind) 6) (not (hasSuffix "/meta/v1" .Package))) }}{{ end }}
{{- end -}}
