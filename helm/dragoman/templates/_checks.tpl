{{/* What the schema can't say: values that contradict each other. Each message says what would be right. */}}
{{- define "dragoman.check" -}}
{{- $gateway := eq .Values.mode "gateway" -}}
{{- range $key := list "listen" "admin_listen" "drain" }}
  {{- if hasKey $.Values.config $key }}
    {{- fail (printf "config.%s: the chart writes it; set %s instead" $key (ternary "drain.maxStreamSeconds" "bindAddress" (eq $key "drain"))) }}
  {{- end }}
{{- end }}
{{- if hasKey .Values.config "workers" }}
  {{- fail "config.workers: a pod is one process, so that all of it is probed and scraped; set replicas, or autoscaling, instead" }}
{{- end }}
{{- range $key := list "state" "telemetry" "capacity" "timeouts" }}
  {{- with get $.Values.config $key }}
    {{- if not (kindIs "map" .) }}
      {{- fail (printf "config.%s: expected an object, got %s" $key (kindOf .)) }}
    {{- end }}
  {{- end }}
{{- end }}
{{- range .Values.env }}
  {{- if has .name (list "DRAGOMAN_LISTEN" "DRAGOMAN_ADMIN_LISTEN" "DRAGOMAN_WORKERS" "DRAGOMAN_DRAIN__LAME_DUCK" "DRAGOMAN_DRAIN__MAX_STREAM") }}
    {{- fail (printf "env: %s is what the chart decides; set bindAddress, drain or replicas instead" .name) }}
  {{- end }}
{{- end }}
{{- if and .Values.config .Values.existingConfigMap }}
  {{- fail "config and existingConfigMap: give one of the two" }}
{{- end }}
{{- if and .Values.secrets.existing .Values.secrets.create }}
  {{- fail "secrets.existing and secrets.create: give one of the two" }}
{{- end }}
{{- if eq .Values.image.tag "latest" }}
  {{- fail "image.tag: latest says nothing of what runs; name a version, or image.digest" }}
{{- end }}
{{- $grace := int (include "dragoman.gracePeriod" .) }}
{{- if gt $grace 600 }}
  {{- fail (printf "drain: preStopSeconds + lameDuckSeconds + maxStreamSeconds + 10 is %d s, and no more than 600 s are waited for: lower maxStreamSeconds by %d" $grace (sub $grace 600)) }}
{{- end }}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) }}
  {{- fail "autoscaling.minReplicas is above autoscaling.maxReplicas" }}
{{- end }}
{{- range $key := list "ingress" "httpRoute" "autoscaling" }}
  {{- if and (not $gateway) (index $.Values $key).enabled }}
    {{- fail (printf "%s.enabled: mode is %s, which has no Service and no Deployment" $key $.Values.mode) }}
  {{- end }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) }}
  {{- fail "ingress.hosts: name at least one" }}
{{- end }}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) }}
  {{- fail "httpRoute.parentRefs: name the Gateway" }}
{{- end }}
{{- $outside := or .Values.ingress.enabled .Values.httpRoute.enabled (ne .Values.service.type "ClusterIP") }}
{{- with .Values.networkPolicy }}
  {{- if and $gateway $outside .enabled (not .clientNamespaces) (not .clientCIDRs) }}
    {{- fail "networkPolicy: it would shut out what comes from outside; name the ingress controller's namespace in networkPolicy.clientNamespaces, or addresses in networkPolicy.clientCIDRs" }}
  {{- end }}
{{- end }}
{{- end -}}
