{{/* Rejects invalid values and clusters before Helm changes anything. Takes (root, plan). Without a cluster, lookup returns nothing. */}}
{{- define "ensemble.checks" -}}
{{- $root := index . 0 -}}
{{- $plan := index . 1 -}}
{{- include "ensemble.checkNamespaces" . -}}
{{- $withWebhooks := list -}}
{{- range $plan.units -}}
  {{- if .hasWebhooks -}}{{- $withWebhooks = append $withWebhooks .arg -}}{{- end -}}
{{- end -}}
{{- if gt (len $withWebhooks) 1 -}}
  {{- fail (printf "perController: several controllers have webhooks (%s) but share one Service; set perController=false" (join "; " $withWebhooks)) -}}
{{- end -}}
{{- if and $root.Values.monitoring.serviceMonitor.enabled (not $root.Values.metrics.enabled) -}}
  {{- fail "monitoring.serviceMonitor.enabled requires metrics.enabled=true" -}}
{{- end -}}
{{- $names := list -}}
{{- range $plan.rows -}}{{- $names = append $names .name -}}{{- end -}}
{{- if and $root.Values.bindableClusterRoles (not (has "tenant" $names)) -}}
  {{- fail "bindableClusterRoles requires the controller tenant; enable it, or set bindableClusterRoles={}" -}}
{{- end -}}
{{- include "ensemble.checkCRDs" . -}}
{{- include "ensemble.checkCapsule" . -}}
{{- include "ensemble.checkOtherRelease" . -}}
{{- end }}

{{- define "ensemble.checkNamespaces" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.watchNamespaces -}}
  {{- $clusterWide := list -}}
  {{- $namespaced := list -}}
  {{- range (index . 1).rows -}}
    {{- if .isNamespaced -}}{{- $namespaced = append $namespaced .name -}}{{- else -}}{{- $clusterWide = append $clusterWide .name -}}{{- end -}}
  {{- end -}}
  {{- if $clusterWide -}}
    {{- fail (printf "watchNamespaces: these controllers need cluster-wide permissions: %s; set controllers={%s}" (join ", " $clusterWide) (join "," $namespaced)) -}}
  {{- end -}}
  {{- if has $root.Release.Namespace $root.Values.watchNamespaces -}}
    {{- fail (printf "watchNamespaces: %s is the manager's own namespace, which controllers ignore; remove it" $root.Release.Namespace) -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{- define "ensemble.checkCRDs" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.crds.install -}}
  {{- range $row := (index . 1).rows -}}
    {{- range $name := $row.definitions -}}
      {{- $existing := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name -}}
      {{- if $existing -}}
        {{- $labels := $existing.metadata.labels | default dict -}}
        {{- if ne (index $labels "app.kubernetes.io/part-of" | default "") "ensemble" -}}
          {{- $annotations := $existing.metadata.annotations | default dict -}}
          {{- $release := index $annotations "meta.helm.sh/release-name" | default "another owner" -}}
          {{- fail (printf "cannot install CustomResourceDefinition %s: it exists and belongs to %s. Nothing was changed. If it is from Capsule, see docs/tenants/coming-from-capsule.md. Otherwise disable the controller %s (controllers={*,-%s})" $name $release $row.name $row.name) -}}
        {{- end -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{/* The webhooks of Capsule would validate or reject the writes of this manager. */}}
{{- define "ensemble.checkCapsule" -}}
{{- if (index . 1).hasWebhooks -}}
  {{- range $kind := list "ValidatingWebhookConfiguration" "MutatingWebhookConfiguration" -}}
    {{- range $one := (lookup "admissionregistration.k8s.io/v1" $kind "" "").items -}}
      {{- range $one.webhooks -}}
        {{- if regexMatch "(projectcapsule\\.dev|capsule\\.clastix\\.io)$" .name -}}
          {{- fail (printf "Capsule is installed in this cluster: found %s %s. Nothing was changed. See docs/tenants/coming-from-capsule.md, or disable Tenants (controllers={*,-tenant})" $kind $one.metadata.name) -}}
        {{- end -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{/* The names of cluster-scoped objects are fixed, so only one release can manage the whole cluster. */}}
{{- define "ensemble.checkOtherRelease" -}}
{{- $root := index . 0 -}}
{{- if not $root.Values.watchNamespaces -}}
  {{- range (index . 1).rows -}}
    {{- $existing := lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" (printf "ensemble-%s" .name) -}}
    {{- if $existing -}}
      {{- $annotations := $existing.metadata.annotations | default dict -}}
      {{- $name := index $annotations "meta.helm.sh/release-name" -}}
      {{- $namespace := index $annotations "meta.helm.sh/release-namespace" -}}
      {{- if and $namespace (or (ne $namespace $root.Release.Namespace) (ne $name $root.Release.Name)) -}}
        {{- fail (printf "release %s in namespace %s already manages this cluster. Nothing was changed. Upgrade it (helm upgrade %s --namespace %s), uninstall it, or set watchNamespaces for this release" $name $namespace $name $namespace) -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end }}
