{{/* A map as TOML. Helm's own toToml writes 4096 as 4096.0, which is no number of bytes. The argument is (list path map). */}}
{{- define "quota-ledger.toml" -}}
{{- $path := first . }}
{{- $map := last . }}
{{- range $key := keys $map | sortAlpha }}
{{- $value := get $map $key }}
{{- if not (or (kindIs "map" $value) (kindIs "invalid" $value)) }}
{{ include "quota-ledger.toml.key" $key }} = {{ include "quota-ledger.toml.value" $value }}
{{- end }}
{{- end }}
{{- range $key := keys $map | sortAlpha }}
{{- $value := get $map $key }}
{{- if kindIs "map" $value }}
{{- $inner := append $path (include "quota-ledger.toml.key" $key) }}

[{{ join "." $inner }}]
{{- include "quota-ledger.toml" (list $inner $value) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "quota-ledger.toml.key" -}}
{{- if regexMatch "^[A-Za-z0-9_-]+$" . }}{{ . }}{{ else }}{{ toRawJson . }}{{ end }}
{{- end }}

{{- define "quota-ledger.toml.value" -}}
{{- if kindIs "slice" . -}}
[{{ range $index, $item := . }}{{ if $index }}, {{ end }}{{ include "quota-ledger.toml.value" $item }}{{ end }}]
{{- else if and (kindIs "float64" .) (eq . (floor .)) -}}
{{ printf "%.0f" . }}
{{- else -}}
{{ toRawJson . }}
{{- end }}
{{- end }}

{{/* Refuses keys that the chart sets itself. The argument is (list where own extra). */}}
{{- define "quota-ledger.disjoint" -}}
{{- $where := index . 0 }}
{{- $own := index . 1 }}
{{- range $key, $value := index . 2 }}
{{- if hasKey $own $key }}
{{- $mine := get $own $key }}
{{- if and (kindIs "map" $mine) (kindIs "map" $value) }}
{{- include "quota-ledger.disjoint" (list (printf "%s.%s" $where $key) $mine $value) }}
{{- else }}
{{- fail (printf "%s.%s: the chart sets this key by a value of its own" $where $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
