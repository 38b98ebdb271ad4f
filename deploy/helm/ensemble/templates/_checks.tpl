{{/* What must not be, found before anything is touched. Takes (root, plan). Without a cluster to look at, lookup finds nothing. */}}
{{- define "ensemble.checks" -}}
{{- $root := index . 0 -}}
{{- $plan := index . 1 -}}
{{- include "ensemble.checkNamespaces" . -}}
{{- $listening := list -}}
{{- range $plan.units -}}
  {{- if .hasWebhooks -}}{{- $listening = append $listening .arg -}}{{- end -}}
{{- end -}}
{{- if gt (len $listening) 1 -}}
  {{- fail (printf "perController: more than one of the controllers has webhooks (%s), and they share one Service; set perController=false" (join "; " $listening)) -}}
{{- end -}}
{{- if and $root.Values.monitoring.serviceMonitor.enabled (not $root.Values.metrics.enabled) -}}
  {{- fail "monitoring.serviceMonitor: there is nothing to scrape with metrics.enabled=false" -}}
{{- end -}}
{{- $names := list -}}
{{- range $plan.rows -}}{{- $names = append $names .name -}}{{- end -}}
{{- if and $root.Values.bindableClusterRoles (not (has "tenant" $names)) -}}
  {{- fail "bindableClusterRoles: these are for Tenants, and the controller tenant is left out; set bindableClusterRoles={}" -}}
{{- end -}}
{{- include "ensemble.checkDefinitions" . -}}
{{- include "ensemble.checkCapsule" . -}}
{{- include "ensemble.checkOther" . -}}
{{- end }}

{{- define "ensemble.checkNamespaces" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.watchNamespaces -}}
  {{- $wide := list -}}
  {{- $fit := list -}}
  {{- range (index . 1).rows -}}
    {{- if .isNamespaced -}}{{- $fit = append $fit .name -}}{{- else -}}{{- $wide = append $wide .name -}}{{- end -}}
  {{- end -}}
  {{- if $wide -}}
    {{- fail (printf "watchNamespaces: these controllers need rights on the whole cluster: %s; set controllers={%s}" (join ", " $wide) (join "," $fit)) -}}
  {{- end -}}
  {{- if has $root.Release.Namespace $root.Values.watchNamespaces -}}
    {{- fail (printf "watchNamespaces: %s is the manager's own namespace, in which controllers do nothing" $root.Release.Namespace) -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{- define "ensemble.checkDefinitions" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.crds.install -}}
  {{- range $row := (index . 1).rows -}}
    {{- range $name := $row.definitions -}}
      {{- $there := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name -}}
      {{- if $there -}}
        {{- $labels := $there.metadata.labels | default dict -}}
        {{- if ne (index $labels "app.kubernetes.io/part-of" | default "") "ensemble" -}}
          {{- $annotations := $there.metadata.annotations | default dict -}}
          {{- $release := index $annotations "meta.helm.sh/release-name" | default "somebody else" -}}
          {{- fail (printf "the definition %s is there already, brought by %s. Nothing was changed. If that is Capsule, docs/tenants/coming-from-capsule.md says how to move; else leave out the controller %s (controllers={*,-%s})" $name $release $row.name $row.name) -}}
        {{- end -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{/* Capsule's webhooks would judge, or block, what ours do. */}}
{{- define "ensemble.checkCapsule" -}}
{{- if (index . 1).hasWebhooks -}}
  {{- range $kind := list "ValidatingWebhookConfiguration" "MutatingWebhookConfiguration" -}}
    {{- range $one := (lookup "admissionregistration.k8s.io/v1" $kind "" "").items -}}
      {{- range $one.webhooks -}}
        {{- if regexMatch "(projectcapsule\\.dev|capsule\\.clastix\\.io)$" .name -}}
          {{- fail (printf "Capsule runs in this cluster: there is the %s %s. Nothing was changed. docs/tenants/coming-from-capsule.md says how to move; or leave out the Tenants (controllers={*,-tenant})" $kind $one.metadata.name) -}}
        {{- end -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{/* Names in the cluster are fixed, so it takes one release that looks after the whole of it. */}}
{{- define "ensemble.checkOther" -}}
{{- $root := index . 0 -}}
{{- if not $root.Values.watchNamespaces -}}
  {{- range (index . 1).rows -}}
    {{- $there := lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" (printf "ensemble-%s" .name) -}}
    {{- if $there -}}
      {{- $annotations := $there.metadata.annotations | default dict -}}
      {{- $name := index $annotations "meta.helm.sh/release-name" -}}
      {{- $namespace := index $annotations "meta.helm.sh/release-namespace" -}}
      {{- if and $namespace (or (ne $namespace $root.Release.Namespace) (ne $name $root.Release.Name)) -}}
        {{- fail (printf "the release %s in the namespace %s looks after this cluster already. Nothing was changed. Upgrade that one (helm upgrade %s --namespace %s), uninstall it, or give this one watchNamespaces" $name $namespace $name $namespace) -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end }}
