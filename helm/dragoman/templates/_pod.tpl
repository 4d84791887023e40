{{/* Both contexts meet the restricted level of the Pod Security Standards. */}}
{{- define "dragoman.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "dragoman.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* What the gateway and the sidecar have in common. */}}
{{- define "dragoman.container" -}}
name: dragoman
image: {{ include "dragoman.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [serve, --config, /etc/dragoman]
{{- if or .Values.existingConfigMap .Values.env }}
env:
  {{- if .Values.existingConfigMap }}
  {{- include "dragoman.decidedEnv" . | nindent 2 }}
  {{- end }}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- with .Values.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
startupProbe:
  httpGet: {path: /readyz, port: http-admin}
  periodSeconds: 1
  failureThreshold: 30
readinessProbe:
  httpGet: {path: /readyz, port: http-admin}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 2
livenessProbe:
  httpGet: {path: /healthz, port: http-admin}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
volumeMounts:
  - name: dragoman
    mountPath: /etc/dragoman
    readOnly: true
  {{- if include "dragoman.secretName" . }}
  - name: dragoman-secrets
    mountPath: /run/secrets/dragoman
    readOnly: true
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* One volume for all parts of the configuration, since they are one to Dragoman. */}}
{{- define "dragoman.volumes" -}}
- name: dragoman
  projected:
    defaultMode: 0444
    sources:
      - configMap:
          name: {{ include "dragoman.configMapName" . }}
      {{- range .Values.configFromSecrets }}
      - secret:
          name: {{ . }}
      {{- end }}
{{- with include "dragoman.secretName" . }}
- name: dragoman-secrets
  secret:
    secretName: {{ . }}
    defaultMode: 0444
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
