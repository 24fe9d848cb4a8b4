{{- define "labels" -}}
app.kubernetes.io/name: kafka-mirror
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "memory" -}}
{{ addf 720 (mulf 68 .Values.slots) (mulf 0.08 .Values.partitions) (mulf 48 .Values.slots .Values.flows) | ceil | int }}
{{- end }}

{{- define "settings" -}}
{{ .Values.settings | trim }}

# Added by the chart.
tasks.max = {{ .Values.slots }}
mirror.slots = {{ .Values.slots }}
mirror.metrics.listen = 0.0.0.0:9404
mirror.state.dir = /var/lib/kafka-mirror/state
{{- end }}
