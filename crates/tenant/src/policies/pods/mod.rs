//! Registries, pull policies, classes, and metadata of Pods.

mod image;
mod reviewed_pod;

use std::collections::HashSet;

use capsule::{
    api::v1beta2::{AdditionalMetadata, DefaultAllowedList, PullPolicy, Tenant, TenantSpec},
    class_filter::ClassFilter,
    name_filter::NameFilter,
};

use self::image::registry;
pub(crate) use self::reviewed_pod::{ImageUse, ReviewedPod};
use super::Violation;
use crate::reasons::{FORBIDDEN_CONTAINER_REGISTRY, FORBIDDEN_PULL_POLICY, MISSING_FQCI};

/// Compiled policy of a Tenant for Pods.
#[derive(Debug)]
pub(crate) struct PodPolicy {
    tenant: String,
    registries: Option<NameFilter>,
    pull_policies: Vec<PullPolicy>,
    /// PriorityClasses that Pods may use. `None` allows all.
    pub(crate) priority: Option<ClassFilter>,
    /// RuntimeClasses that Pods may use. `None` allows all.
    pub(crate) runtime: Option<ClassFilter>,
    /// Labels and annotations of all Pods.
    pub(crate) metadata: AdditionalMetadata,
}

impl From<&Tenant> for PodPolicy {
    fn from(tenant: &Tenant) -> Self {
        let spec = &tenant.spec;
        let filter = |list: &Option<DefaultAllowedList>| list.as_ref().map(ClassFilter::new);
        let metadata = spec.pod_options.as_ref().and_then(|options| options.additional_metadata.clone());
        Self {
            tenant: tenant.metadata.name.clone().unwrap_or_default(),
            registries: spec.container_registries.as_ref().map(NameFilter::from),
            pull_policies: spec.image_pull_policies.clone(),
            priority: filter(&spec.priority_classes),
            runtime: filter(&spec.runtime_classes),
            metadata: metadata.unwrap_or_default(),
        }
    }
}

impl PodPolicy {
    /// Returns whether the Tenant restricts or changes Pods.
    pub(crate) fn applies(spec: &TenantSpec) -> bool {
        let metadata = spec.pod_options.as_ref().and_then(|options| options.additional_metadata.as_ref());
        spec.container_registries.is_some()
            || !spec.image_pull_policies.is_empty()
            || spec.priority_classes.is_some()
            || spec.runtime_classes.is_some()
            || metadata.is_some_and(|metadata| !metadata.is_empty())
    }

    /// Checks the images that the old Pod does not have. Capsule's order: for each container the
    /// pull policy, then for each container the registry.
    pub(crate) fn check_images(&self, old: Option<&ReviewedPod>, new: &ReviewedPod) -> Result<(), Violation> {
        let before = old.map(ReviewedPod::images).unwrap_or_default();
        let before: HashSet<_> = before.iter().map(ImageUse::identity).collect();
        let images = new.images().into_iter().filter(|image| !before.contains(&image.identity()));
        let images: Vec<_> = images.collect();
        images.iter().try_for_each(|image| self.check_pull_policy(image))?;
        images.iter().try_for_each(|image| self.check_registry(image))
    }

    fn check_pull_policy(&self, image: &ImageUse<'_>) -> Result<(), Violation> {
        let is_allowed =
            |policy: &PullPolicy| image.pull_policy.eq_ignore_ascii_case(pull_policy_name(*policy));
        if self.pull_policies.is_empty() || self.pull_policies.iter().any(is_allowed) {
            return Ok(());
        }
        let allowed: Vec<_> = self.pull_policies.iter().map(|policy| pull_policy_name(*policy)).collect();
        Err(Violation::new(
            FORBIDDEN_PULL_POLICY,
            format!(
                "{}: image pull policy {:?} is not allowed by Tenant {}; allowed policies: {}",
                image.pull_policy_path(),
                image.pull_policy,
                self.tenant,
                allowed.join(", ")
            ),
        ))
    }

    fn check_registry(&self, image: &ImageUse<'_>) -> Result<(), Violation> {
        let Some(allowed) = &self.registries else { return Ok(()) };
        let (path, reference, tenant) = (image.reference_path(), image.reference, &self.tenant);
        match registry(reference) {
            Some(registry) if allowed.matches(registry) => Ok(()),
            Some(registry) => Err(Violation::new(
                FORBIDDEN_CONTAINER_REGISTRY,
                format!(
                    "{path}: registry {registry:?} of image {reference:?} is not allowed by Tenant {tenant}; allowed \
                     registries: {allowed}"
                ),
            )),
            None => Err(Violation::new(
                MISSING_FQCI,
                format!(
                    "{path}: image {reference:?} names no registry, which Tenant {tenant} requires; write it as \
                     REGISTRY/IMAGE; allowed registries: {allowed}"
                ),
            )),
        }
    }
}

fn pull_policy_name(policy: PullPolicy) -> &'static str {
    match policy {
        PullPolicy::Always => "Always",
        PullPolicy::Never => "Never",
        PullPolicy::IfNotPresent => "IfNotPresent",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(spec: Value) -> PodPolicy {
        let tenant: Tenant =
            serde_json::from_value(json!({ "metadata": { "name": "oil" }, "spec": spec })).unwrap();
        PodPolicy::from(&tenant)
    }

    fn pod(spec: Value) -> ReviewedPod {
        serde_json::from_value(json!({ "metadata": { "name": "web" }, "spec": spec })).unwrap()
    }

    fn container(image: &str, policy: &str) -> Value {
        json!({ "name": "main", "image": image, "imagePullPolicy": policy })
    }

    fn check(spec: Value, old: Option<Value>, new: Value) -> Result<(), (&'static str, String)> {
        let checked = policy(spec).check_images(old.map(pod).as_ref(), &pod(new));
        checked.map_err(|violation| (violation.reason, violation.message))
    }

    #[test]
    fn checks_registries_in_all_kinds_of_containers_and_image_volumes() {
        let spec = || json!({ "containerRegistries": { "allowed": ["docker.io"], "allowedRegex": "^quay\\.[a-z]+$" } });
        let good = container("docker.io/library/nginx:1", "Always");
        let bad = container("gcr.io/pause:3", "Always");
        assert_eq!(check(spec(), None, json!({ "containers": [good.clone()] })), Ok(()));
        for field in ["containers", "initContainers", "ephemeralContainers"] {
            let mut pod = json!({ "containers": [good.clone()] });
            pod[field] = json!([good.clone(), bad.clone()]);
            let expected = format!(
                "spec.{field}[1].image: registry \"gcr.io\" of image \"gcr.io/pause:3\" is not allowed by Tenant oil; \
                 allowed registries: docker.io, names that match \"^quay\\\\.[a-z]+$\""
            );
            assert_eq!(check(spec(), None, pod), Err((FORBIDDEN_CONTAINER_REGISTRY, expected)));
        }
        let volume = json!([{ "name": "data", "emptyDir": {} },
            { "name": "model", "image": { "reference": "gcr.io/model", "pullPolicy": "Always" } }]);
        let (reason, message) =
            check(spec(), None, json!({ "containers": [good], "volumes": volume })).unwrap_err();
        assert_eq!(reason, FORBIDDEN_CONTAINER_REGISTRY);
        assert!(message.starts_with("spec.volumes[1].image.reference: registry \"gcr.io\""), "{message}");
    }

    #[test]
    fn image_without_registry_is_denied() {
        let spec = json!({ "containerRegistries": { "allowedRegex": ".*" } });
        let (reason, message) =
            check(spec, None, json!({ "containers": [container("nginx", "Always")] })).unwrap_err();
        assert_eq!(reason, MISSING_FQCI);
        assert!(message.contains("image \"nginx\" names no registry"), "{message}");
    }

    #[test]
    fn pull_policies_are_compared_without_case_before_registries() {
        let spec = || json!({ "containerRegistries": {}, "imagePullPolicies": ["Always", "IfNotPresent"] });
        let (reason, message) =
            check(spec(), None, json!({ "containers": [container("a.b/c", "Never")] })).unwrap_err();
        assert_eq!(reason, FORBIDDEN_PULL_POLICY);
        assert_eq!(
            message,
            "spec.containers[0].imagePullPolicy: image pull policy \"Never\" is not allowed by Tenant oil; allowed \
             policies: Always, IfNotPresent"
        );
        let (reason, _) =
            check(spec(), None, json!({ "containers": [container("a.b/c", "always")] })).unwrap_err();
        assert_eq!(reason, FORBIDDEN_CONTAINER_REGISTRY);
    }

    #[test]
    fn update_is_checked_only_for_images_that_it_adds() {
        let spec = || json!({ "containerRegistries": { "allowed": ["docker.io"] } });
        let old = || json!({ "containers": [container("gcr.io/a", "Always")] });
        assert_eq!(check(spec(), Some(old()), old()), Ok(()));
        let mut debugged = old();
        debugged["ephemeralContainers"] = json!([container("docker.io/shell", "Always")]);
        assert_eq!(check(spec(), Some(old()), debugged.clone()), Ok(()));
        debugged["ephemeralContainers"][0]["image"] = "gcr.io/shell".into();
        assert!(check(spec(), Some(old()), debugged).is_err());
        assert!(
            check(spec(), Some(old()), json!({ "containers": [container("gcr.io/b", "Always")] })).is_err()
        );
    }

    #[test]
    fn largest_pod_is_compared_in_one_pass() {
        let spec = || json!({ "containerRegistries": { "allowed": ["docker.io"] } });
        let containers: Vec<_> = (0..20_000)
            .map(|index| json!({ "name": format!("c{index}"), "image": "docker.io/a", "imagePullPolicy": "Always" }))
            .collect();
        let pod = || json!({ "containers": containers });
        assert_eq!(check(spec(), Some(pod()), pod()), Ok(()));
    }

    #[test]
    fn unrestricted_tenant_allows_everything() {
        assert_eq!(check(json!({}), None, json!({ "containers": [container("nginx", "Never")] })), Ok(()));
    }
}
