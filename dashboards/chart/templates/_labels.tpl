{{- define "labels" -}}
app.kubernetes.io/name: kafka-mirror
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* A text as it stands inside a string of JSON. */}}
{{- define "inside" -}}
{{ . | toString | toJson | trimPrefix "\"" | trimSuffix "\"" }}
{{- end }}
