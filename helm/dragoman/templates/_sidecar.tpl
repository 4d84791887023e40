{{/*
A native sidecar, an item of initContainers: it is up before the application starts and ends after it, so it has no
preStop and stays ready. For other charts, where dragoman is a dependency whose mode is sidecar:

  initContainers: {{- include "dragoman.sidecar" .Subcharts.dragoman | nindent 4 }}
  volumes: {{- include "dragoman.sidecarVolumes" .Subcharts.dragoman | nindent 4 }}

The application asks http://127.0.0.1:8080.
*/}}
{{- define "dragoman.sidecar" -}}
- {{ include "dragoman.container" . | nindent 2 | trim }}
  restartPolicy: Always
  ports:
    - {name: http-admin, containerPort: 9090}
  resources:
    {{- toYaml .Values.sidecar.resources | nindent 4 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
    {{- include "dragoman.containerSecurityContext" . | nindent 4 }}
{{- end -}}

{{- define "dragoman.sidecarVolumes" -}}
{{ include "dragoman.volumes" . }}
{{- end -}}
