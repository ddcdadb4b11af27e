{{- /* What the templates have in common. `croft manifests` decides all of this in crates/operator/src/manifests; a test compares both. */ -}}

{{- define "croft.labels" -}}
app.kubernetes.io/name: croft
{{- end }}

{{- /* Which parts run, for what depends on several of them. */ -}}
{{- define "croft.switches" -}}
{{ printf "%t,%t,%t" .Values.parts.namespaces .Values.parts.storage .Values.parts.backup }}
{{- end }}

{{- define "croft.parts" -}}
{{- $parts := list -}}
{{- range $part := list "namespaces" "storage" "backup" -}}
{{- if index $.Values.parts $part -}}{{- $parts = append $parts $part -}}{{- end -}}
{{- end -}}
{{- if not $parts -}}{{- fail "parts: all are switched off; leave one of them on" -}}{{- end -}}
{{ join "," $parts }}
{{- end }}

{{- define "croft.image" -}}
{{- $repository := required "image.repository: say where you pushed the image, for example --set image.repository=registry.example.com/platform/croft; `make image` builds it and says how to push it" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end }}

{{- /* Truthy where tenants' backups may run commands in pods. */ -}}
{{- define "croft.allowsHooks" -}}
{{- if dig "backup" "hooks" true .Values.settings -}}true{{- end -}}
{{- end }}

{{- /* As JSON, sorted. */ -}}
{{- define "croft.systemNamespaces" -}}
{{- $names := include "croft.knownSystemNamespaces" . | fromJsonArray -}}
{{- $names = concat $names (list .Release.Namespace .Values.velero.namespace) .Values.systemNamespaces -}}
{{- $names = concat $names (dig "namespaces" "systemNamespaces" list .Values.settings) -}}
{{ $names | uniq | sortAlpha | toJson }}
{{- end }}

{{- define "croft.quotedSystemNamespaces" -}}
'{{ include "croft.systemNamespaces" . | fromJsonArray | join "', '" }}'
{{- end }}

{{- /* The settings file: what was set, and what follows from the other values. */ -}}
{{- define "croft.settings" -}}
{{- $settings := deepCopy .Values.settings -}}
{{- range $part := list "namespaces" "storage" "backup" "admission" -}}
{{- if not (hasKey $settings $part) -}}{{- $_ := set $settings $part dict -}}{{- end -}}
{{- end -}}
{{- $_ := set $settings.namespaces "systemNamespaces" (include "croft.systemNamespaces" . | fromJsonArray) -}}
{{- $_ := set $settings.backup "veleroNamespace" .Values.velero.namespace -}}
{{- if not (hasKey $settings.storage "restorers") -}}
{{- $known := list "system:serviceaccount:velero:velero" "system:serviceaccount:openshift-adp:velero" -}}
{{- $_ := set $settings.storage "restorers" (append $known (printf "system:serviceaccount:%s:velero" .Values.velero.namespace) | uniq) -}}
{{- end -}}
{{- if .Values.certManager.enabled -}}
{{- $_ := set $settings.admission "certificateSecret" "croft-webhook-certificate" -}}
{{- end -}}
{{- if not $settings.admission -}}{{- $_ := unset $settings "admission" -}}{{- end -}}
{{ toYaml $settings }}
{{- end }}
