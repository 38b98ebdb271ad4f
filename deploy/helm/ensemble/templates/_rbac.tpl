{{/*
Returns the Leases of a unit's controllers, and the permission to update only them. Helm creates the Leases once, and the
manager owns them afterwards. Takes (root, unit).
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

{{/*
Returns the permissions of one component of the manager, with names for each unit, if the values require them. With
watchNamespaces, cluster-wide permissions are left out, except for those of metrics. Takes (root, unit, part).
*/}}
{{- define "ensemble.part" -}}
{{- $root := index . 0 -}}
{{- $unit := index . 1 -}}
{{- $part := index . 2 -}}
{{- $clusterWide := not $root.Values.watchNamespaces -}}
{{- $namespaced := true -}}
{{- if eq $part "metrics-auth" -}}
  {{- $clusterWide = $root.Values.metrics.enabled -}}
{{- else if eq $part "certificates" -}}
  {{- $clusterWide = $unit.hasWebhooks -}}
  {{- $namespaced = or $unit.hasWebhooks $root.Values.metrics.enabled -}}
{{- end -}}
{{- $name := printf "name: ensemble-%s" $part -}}
{{- range splitList "---\n" (include "ensemble.fileOfUnit" (list $root (printf "rbac/%s.yaml" $part) $unit)) -}}
  {{- $isShared := or (contains "kind: Namespace\n" .) (contains "name: ensemble-metrics-reader\n" .) -}}
  {{- if and (contains "kind: " .) (not $isShared) (ternary $clusterWide $namespaced (contains "kind: ClusterRole" .)) }}
---
{{ . | replace (printf "%s\n" $name) (printf "%s%s\n" $name $unit.suffix) }}
  {{- end -}}
{{- end -}}
{{- end }}
