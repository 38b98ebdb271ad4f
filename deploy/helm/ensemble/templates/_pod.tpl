{{/* Returns the image of all programs. */}}
{{- define "ensemble.image" -}}
{{- $tag := printf ":%s" (.Values.image.tag | default .Chart.AppVersion) -}}
{{- with .Values.image.digest -}}{{- $tag = printf "@%s" . -}}{{- end -}}
{{- printf "%s%s" .Values.image.repository $tag -}}
{{- end }}

{{/*
Sets image, flags, and scheduling of a Pod or pod template that runs the manager, the cleanup, or the check.
Takes (root, Pod, controllers).
*/}}
{{- define "ensemble.fillPod" -}}
{{- $values := (index . 0).Values -}}
{{- $template := index . 1 -}}
{{- $container := index $template.spec.containers 0 -}}
{{- $args := list (printf "--controllers=%s" (index . 2)) -}}
{{- with $values.watchNamespaces -}}{{- $args = append $args (printf "--watch-namespaces=%s" (join "," .)) -}}{{- end -}}
{{- if $values.certManager.enabled -}}{{- $args = append $args "--certificates=cert-manager" -}}{{- end -}}
{{- if not $values.metrics.enabled -}}{{- $args = append $args "--metrics-bind-address=0" -}}{{- end -}}
{{- $image := include "ensemble.image" (index . 0) -}}
{{- $_ := set $container "image" $image -}}
{{- range $container.env -}}
  {{- if eq .name "POSTGRES_INSTANCE_IMAGE" -}}{{- $_ = set . "value" $image -}}{{- end -}}
{{- end -}}
{{- $_ = set $container "imagePullPolicy" $values.image.pullPolicy -}}
{{- $_ = set $container "args" (concat $args $values.extraArgs) -}}
{{- $_ = set $container "env" (concat $container.env $values.extraEnv) -}}
{{- $_ = set $container "resources" $values.resources -}}
{{- with $values.imagePullSecrets -}}{{- $_ = set $template.spec "imagePullSecrets" . -}}{{- end -}}
{{- with $values.nodeSelector -}}{{- $_ = set $template.spec "nodeSelector" . -}}{{- end -}}
{{- with $values.tolerations -}}{{- $_ = set $template.spec "tolerations" . -}}{{- end -}}
{{- with merge (dict) $values.podAnnotations ($template.metadata.annotations | default dict) -}}
  {{- $_ = set $template.metadata "annotations" . -}}
{{- end -}}
{{- end }}
