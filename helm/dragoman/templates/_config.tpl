{{/* preStop + lame duck + the longest stream + what settling and the last bytes need. */}}
{{- define "dragoman.gracePeriod" -}}
{{- with .Values.drain -}}
{{- add .preStopSeconds .lameDuckSeconds .maxStreamSeconds 10 -}}
{{- end -}}
{{- end -}}

{{/*
What the chart decides of the configuration, as a YAML object. A sidecar gets SIGTERM when its only client is gone, so it
need not wait for anyone.
*/}}
{{- define "dragoman.decided" -}}
{{- $gateway := eq .Values.mode "gateway" -}}
listen: {{ include "dragoman.bind" (dict "address" (ternary .Values.bindAddress "localhost" $gateway) "port" 8080) | quote }}
admin_listen: {{ include "dragoman.bind" (dict "address" .Values.bindAddress "port" 9090) | quote }}
drain:
  lame_duck: {{ ternary (int .Values.drain.lameDuckSeconds) 0 $gateway }}s
  max_stream: {{ ternary (int .Values.drain.maxStreamSeconds) 5 $gateway }}s
{{- end -}}

{{/* The same for a configuration that is not the chart's: the environment wins over files. */}}
{{- define "dragoman.decidedEnv" -}}
{{- $decided := include "dragoman.decided" . | fromYaml -}}
- name: DRAGOMAN_LISTEN
  value: {{ $decided.listen | quote }}
- name: DRAGOMAN_ADMIN_LISTEN
  value: {{ $decided.admin_listen | quote }}
- name: DRAGOMAN_DRAIN__LAME_DUCK
  value: {{ $decided.drain.lame_duck }}
- name: DRAGOMAN_DRAIN__MAX_STREAM
  value: {{ $decided.drain.max_stream }}
{{- end -}}

{{/* The whole dragoman.yaml. */}}
{{- define "dragoman.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if not (or .Values.config .Values.configFromSecrets) -}}
  {{- $claude := dict "name" "claude" "protocol" "messages" "base_url" "https://api.anthropic.com" -}}
  {{- $config = dict "upstreams" (list $claude) -}}
{{- end -}}
{{- if and (eq .Values.mode "gateway") (not (hasKey $config "tenants")) -}}
  {{- $_ := set $config "tenants" list -}}
{{- end -}}
{{- toYaml (merge (include "dragoman.decided" . | fromYaml) $config) -}}
{{- end -}}

{{- define "dragoman.configMapName" -}}
{{- default (include "dragoman.fullname" .) .Values.existingConfigMap -}}
{{- end -}}

{{- define "dragoman.secretName" -}}
{{- if .Values.secrets.create -}}
{{ include "dragoman.fullname" . }}
{{- else -}}
{{ .Values.secrets.existing }}
{{- end -}}
{{- end -}}

{{/* Changes when running pods can't take a new configuration over (proxy/settings/restarting.py), so that they are replaced. */}}
{{- define "dragoman.checksum" -}}
{{- include "dragoman.check" . -}}
{{- $config := .Values.config -}}
{{- if .Values.hotReload -}}
  {{- $telemetry := .Values.config.telemetry | default dict -}}
  {{- $state := pick (.Values.config.state | default dict) "url" "on_failure" "limits_file" "content_keys" -}}
  {{- $traces := pick ($telemetry.traces | default dict) "endpoint" "headers" -}}
  {{- $backlog := pick (.Values.config.capacity | default dict) "backlog" -}}
  {{- $config = list $state $traces (pick ($telemetry.logs | default dict) "format") $backlog -}}
{{- end -}}
{{- list $config (ternary nil .Values.secrets.create .Values.hotReload) | toJson | sha256sum -}}
{{- end -}}
