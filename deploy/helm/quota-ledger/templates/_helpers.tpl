{{/* Names. */}}
{{- define "quota-ledger.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Short enough for a part and the hash of a StatefulSet's revision to be appended: together they are a label. */}}
{{- define "quota-ledger.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $full .Values.fullnameOverride | trunc 45 | trimSuffix "-" }}
{{- end }}

{{- define "quota-ledger.quotad" -}}
{{ include "quota-ledger.fullname" . }}-quotad
{{- end }}

{{- define "quota-ledger.bridge" -}}
{{ include "quota-ledger.fullname" . }}-bridge
{{- end }}

{{- define "quota-ledger.nats" -}}
{{ include "quota-ledger.fullname" . }}-nats
{{- end }}

{{/* Secret with the certificate that quotad serves. */}}
{{- define "quota-ledger.certificate" -}}
{{- $certificates := .Values.webhook.certificates }}
{{- if eq $certificates.mode "existing" }}
{{- required "webhook.certificates.existing.secret: name the Secret with tls.crt and tls.key" $certificates.existing.secret }}
{{- else }}
{{- include "quota-ledger.quotad" . }}-tls
{{- end }}
{{- end }}

{{/* Labels. The argument is (list . component). */}}
{{- define "quota-ledger.selector" -}}
{{- $root := first . -}}
app.kubernetes.io/name: {{ include "quota-ledger.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ last . }}
{{- end }}

{{- define "quota-ledger.labels" -}}
{{- $root := first . -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "quota-ledger.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: quota-ledger
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "quota-ledger.image" -}}
{{- $image := .Values.image -}}
{{ $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default .Chart.AppVersion $image.tag }}{{ end }}
{{- end }}

{{/* The namespaces that the webhook is never called for, as a JSON list: what the cluster, quotad and its needs need to
come up. By name, since tenants may set labels. */}}
{{- define "quota-ledger.exempt" -}}
{{- $webhook := .Values.webhook }}
{{- $exempt := concat (list "kube-system" "kube-node-lease" "kube-public" .Release.Namespace (ternary .Release.Namespace .Values.nats.namespace .Values.nats.embedded.enabled)) $webhook.exempt }}
{{- if eq $webhook.certificates.mode "certManager" }}
{{- $exempt = append $exempt $webhook.certificates.certManager.namespace }}
{{- end }}
{{- $exempt | uniq | compact | sortAlpha | toJson }}
{{- end }}

{{/* Scheduling and what else both workloads have at their pods. The argument is (list . values). */}}
{{- define "quota-ledger.pod" -}}
{{- $root := first . }}
{{- $values := last . }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "quota-ledger.container" -}}
image: {{ include "quota-ledger.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* What both need of NATS. */}}
{{- define "quota-ledger.nats.config" -}}
{{- $nats := .Values.nats }}
url: {{ ternary (printf "nats://%s.%s.svc:4222" (include "quota-ledger.nats" .) .Release.Namespace) $nats.url $nats.embedded.enabled | quote }}
stream: {{ $nats.stream | quote }}
{{- if $nats.credentialsSecret }}
credentials_file: /etc/quota-ledger/nats/nats.creds
{{- end }}
{{- if $nats.caSecret }}
tls_ca: /etc/quota-ledger/nats-ca/ca.crt
{{- end }}
{{- end }}

{{- define "quota-ledger.nats.mounts" -}}
{{- if .Values.nats.credentialsSecret }}
- {name: nats, mountPath: /etc/quota-ledger/nats, readOnly: true}
{{- end }}
{{- if .Values.nats.caSecret }}
- {name: nats-ca, mountPath: /etc/quota-ledger/nats-ca, readOnly: true}
{{- end }}
{{- end }}

{{- define "quota-ledger.nats.volumes" -}}
{{- with .Values.nats.credentialsSecret }}
- name: nats
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .Values.nats.caSecret }}
- name: nats-ca
  secret: {secretName: {{ . }}}
{{- end }}
{{- end }}
