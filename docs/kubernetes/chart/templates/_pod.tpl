{{- define "pod" -}}
metadata:
  labels:
    {{- include "labels" . | nindent 4 }}
  annotations:
    checksum/settings: {{ include "settings" . | sha256sum }} # other settings: new pods, one after the other
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  {{- with .Values.serviceAccountName }}
  serviceAccountName: {{ . }}
  {{- end }}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  # After SIGTERM a process commits its positions and gives its slots to the others, also if a cluster does not respond.
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    {{- with .Values.runAsUser }}
    runAsUser: {{ . }}
    {{- end }}
    {{- with .Values.fsGroup }}
    fsGroup: {{ . }}
    {{- end }}
    seccompProfile: {type: RuntimeDefault}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "labels" . | nindent 10 }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: kafka-mirror
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [run, /etc/kafka-mirror/connect-mirror-maker.properties]
      ports:
        - {name: metrics, containerPort: 9404}
      # A start takes seconds. If no cluster responds, the process ends with code 3, and Kubernetes starts it again.
      startupProbe:
        httpGet: {path: /ready, port: metrics}
        periodSeconds: 5
        failureThreshold: 24
      # 200 while it replicates; 503 while it starts and stops. A cluster that goes down later does not change it.
      readinessProbe:
        httpGet: {path: /ready, port: metrics}
        periodSeconds: 5
      # The port, not /ready: a process that stops must not be killed. A process that hangs gives its slots to the others.
      livenessProbe:
        tcpSocket: {port: metrics}
        periodSeconds: 20
        failureThreshold: 6
      resources:
        {{- with .Values.resources }}
        {{- toYaml . | nindent 8 }}
        {{- else }}
        requests: {cpu: {{ .Values.cpu | quote }}, memory: {{ include "memory" . }}Mi}
        limits: {memory: {{ mulf (include "memory" . | float64) 1.25 | ceil | int }}Mi}
        {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: settings, mountPath: /etc/kafka-mirror/connect-mirror-maker.properties, subPath: connect-mirror-maker.properties}
        {{- if .Values.secretName }}
        - {name: secrets, mountPath: /etc/kafka-mirror/secrets, readOnly: true} # no subPath: changes of the Secret arrive
        {{- end }}
        - {name: state, mountPath: /var/lib/kafka-mirror}
        - {name: tmp, mountPath: /tmp}
  volumes:
    - name: settings
      configMap: {name: {{ .Release.Name }}}
    {{- with .Values.secretName }}
    - name: secrets
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    - name: tmp
      emptyDir: {}
    {{- if not .Values.persistence.enabled }}
    - name: state
      emptyDir: {}
    {{- end }}
{{- end }}
