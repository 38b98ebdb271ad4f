{{/*
The Leases of a unit's controllers, and the right to hold them and no others. The Leases are the manager's from the first
moment on: Helm makes them once and leaves them alone. Takes (root, unit).
*/}}
{{- define "ensemble.leaderElection" -}}
{{- $unit := index . 1 -}}
{{- $text := include "ensemble.fileOfUnit" (list (index . 0) "rbac/leader-election.yaml" $unit) -}}
{{- $others := list -}}
{{- range ((index . 0).Files.Get "files/controllers.yaml" | fromYaml).controllers -}}
  {{- if not (has .name $unit.controllers) -}}{{- $others = append $others .name -}}{{- end -}}
{{- end -}}
{{- range splitList "---\n" $text -}}
  {{- $document := . | replace "name: ensemble-leader-election\n" (printf "name: ensemble-leader-election%s\n" $unit.suffix) -}}
  {{- $isOthers := false -}}
  {{- range $others -}}
    {{- $document = $document | replace (printf "  - ensemble-%s\n" .) "" -}}
    {{- if contains (printf "\n  name: ensemble-%s\n" .) $document -}}{{- $isOthers = true -}}{{- end -}}
  {{- end -}}
  {{- if contains "kind: Lease\n" $document -}}
    {{- $document = $document | replace "\nmetadata:\n" "\nmetadata:\n  annotations:\n    helm.sh/hook: pre-install\n" -}}
  {{- end -}}
  {{- if not $isOthers }}
---
{{ $document }}
  {{- end -}}
{{- end -}}
{{- end }}

{{/* The right to keep the certificates; to tell the API server of them only where it asks the unit. Takes (root, unit). */}}
{{- define "ensemble.certificates" -}}
{{- $unit := index . 1 -}}
{{- range splitList "---\n" (include "ensemble.fileOfUnit" (list (index . 0) "rbac/certificates.yaml" $unit)) -}}
  {{- if or $unit.hasWebhooks (not (contains "kind: ClusterRole" .)) }}
---
{{ . | replace "name: ensemble-certificates\n" (printf "name: ensemble-certificates%s\n" $unit.suffix) }}
  {{- end -}}
{{- end -}}
{{- end }}

{{/* The right to ask who reads the metrics. Takes (root, unit). */}}
{{- define "ensemble.metricsAuth" -}}
{{- $unit := index . 1 -}}
{{- range splitList "---\n" (include "ensemble.fileOfUnit" (list (index . 0) "rbac/metrics-auth.yaml" $unit)) -}}
  {{- if not (contains "name: ensemble-metrics-reader" .) }}
---
{{ . | replace "name: ensemble-metrics-auth\n" (printf "name: ensemble-metrics-auth%s\n" $unit.suffix) }}
  {{- end -}}
{{- end -}}
{{- end }}
