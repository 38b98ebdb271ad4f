{{/*
Returns the selected controllers as JSON: `rows` of files/controllers.yaml, and `units`, each with its own Deployment. The
selection is the same as that of the flag --controllers.
*/}}
{{- define "ensemble.plan" -}}
{{- $table := (.Files.Get "files/controllers.yaml" | fromYaml).controllers -}}
{{- $known := list -}}
{{- $companions := list -}}
{{- range $table -}}
  {{- $known = append $known .name -}}
  {{- $companions = concat $companions .companions -}}
{{- end -}}
{{- $wanted := .Values.controllers -}}
{{- range $wanted -}}
  {{- $name := trimPrefix "-" . -}}
  {{- if and (ne . "*") (not (has $name $known)) -}}
    {{- fail (printf "controllers: unknown controller %q; use %s, or * for all" $name (join ", " $known)) -}}
  {{- end -}}
{{- end -}}
{{- $leaders := list -}}
{{- $followers := list -}}
{{- range $table -}}
  {{- $isNamed := or (has .name $wanted) (and (has "*" $wanted) (not (has .name $companions))) -}}
  {{- if and $isNamed (not (has (printf "-%s" .name) $wanted)) -}}
    {{- $leaders = append $leaders . -}}
    {{- $followers = concat $followers .companions -}}
  {{- end -}}
{{- end -}}
{{- $selected := list -}}
{{- $units := list -}}
{{- range $leader := $leaders -}}
  {{- if not (has .name $followers) -}}
    {{- $names := list .name -}}
    {{- range .companions -}}
      {{- if not (has (printf "-%s" .) $wanted) -}}{{- $names = append $names . -}}{{- end -}}
    {{- end -}}
    {{- $hasWebhooks := false -}}
    {{- range $table -}}
      {{- if and (has .name $names) .hasWebhooks -}}{{- $hasWebhooks = true -}}{{- end -}}
    {{- end -}}
    {{- $selected = concat $selected $names -}}
    {{- $id := printf "ensemble-%s" .name -}}
    {{- $unit := dict "account" $id "instance" $id "suffix" (printf "-%s" .name) "controllers" $names -}}
    {{- $units = append $units (merge $unit (dict "arg" (join "," $names) "hasWebhooks" $hasWebhooks)) -}}
  {{- end -}}
{{- end -}}
{{- if not $selected -}}
  {{- fail (printf "controllers: no controller is enabled; use %s, or * for all" (join ", " $known)) -}}
{{- end -}}
{{- $rows := list -}}
{{- $hasWebhooks := false -}}
{{- range $table -}}
  {{- if has .name $selected -}}
    {{- $rows = append $rows . -}}
    {{- if .hasWebhooks -}}{{- $hasWebhooks = true -}}{{- end -}}
  {{- end -}}
{{- end -}}
{{- if not .Values.perController -}}
  {{- $unit := dict "account" "ensemble-manager" "instance" "ensemble" "suffix" "" "controllers" $selected -}}
  {{- $units = list (merge $unit (dict "arg" (join "," $wanted) "hasWebhooks" $hasWebhooks)) -}}
{{- end -}}
{{- dict "rows" $rows "units" $units "hasWebhooks" $hasWebhooks | toJson -}}
{{- end }}

{{/* Returns a generated file with the namespace of the release. Takes (root, path). */}}
{{- define "ensemble.file" -}}
{{- $root := index . 0 -}}
{{- $namespace := $root.Release.Namespace -}}
{{- $root.Files.Get (printf "files/%s" (index . 1))
  | replace " ensemble-system\n" (printf " %s\n" ($namespace | quote))
  | replace "ensemble-system" $namespace -}}
{{- end }}

{{/* Returns a generated file with the names and the ServiceAccount of a unit. Takes (root, path, unit). */}}
{{- define "ensemble.fileOfUnit" -}}
{{- $unit := index . 2 -}}
{{- include "ensemble.file" .
  | replace "name: ensemble-manager\n" (printf "name: %s\n" $unit.account)
  | replace "app.kubernetes.io/instance: ensemble\n" (printf "app.kubernetes.io/instance: %s\n" $unit.instance) -}}
{{- end }}
