//! The multi-tenancy benchmarks of Kubernetes' working group, each as its document describes it, for
//! a Tenant with the policies of docs/tenants/administrators.md.
//!
//! Connections between namespaces are tested on real nodes.

use cluster::wait::eventually;
use futures::{StreamExt, stream};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use crate::{
    isolation::{Owner, create_tenant},
    support::{PATIENCE, TestEnv, webhooks_env},
};

const INSIDE: &str = "wind-dev";

/// Number of benchmarks.
const BENCHMARKS: usize = 23;

/// What the benchmark expects of a request.
#[derive(Clone, Copy, Debug)]
enum Expected {
    Allowed,
    /// Denied with this text.
    Denied(&'static str),
}

use Expected::{Allowed, Denied};

/// Kubernetes' own rules for Pods, which the Tenant's label enables.
const RESTRICTED: Expected = Denied("violates PodSecurity \"restricted:latest\"");
const NO_RIGHT: Expected = Denied("cannot");
const MANAGED: Expected = Denied("is managed by the Tenant controller");

fn spec() -> Value {
    let level = json!({ "labels": { "pod-security.kubernetes.io/enforce": "restricted" } });
    let hard = json!({
        "limits.cpu": "8", "limits.memory": "16Gi", "requests.cpu": "8", "requests.memory": "16Gi",
        "requests.storage": "10Gi", "pods": "10", "services": "5", "replicationcontrollers": "5", "resourcequotas": "3",
        "secrets": "10", "configmaps": "10", "persistentvolumeclaims": "5", "services.nodeports": "0",
        "services.loadbalancers": "1",
    });
    let limits = json!({
        "type": "Container", "default": { "cpu": "100m", "memory": "64Mi" },
        "defaultRequest": { "cpu": "100m", "memory": "64Mi" },
    });
    json!({
        "namespaceOptions": { "quota": 2, "additionalMetadata": level },
        "limitRanges": { "items": [{ "limits": [limits] }] },
        "networkPolicies": { "items": [{ "podSelector": {}, "policyTypes": ["Ingress", "Egress"] }] },
        "resourceQuotas": { "scope": "Tenant", "items": [{ "hard": hard }] },
        "imagePullPolicies": ["Always"],
        "storageClasses": { "allowed": ["deleting"] },
        "serviceOptions": { "allowedServices": { "nodePort": false, "externalName": false } },
    })
}

fn manifest(api_version: &str, kind: &str, spec: Value) -> Value {
    let metadata = json!({ "name": "tried", "namespace": INSIDE });
    json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec })
}

/// Returns a Pod that the level `restricted` allows, after a change of its spec and its container.
fn pod(change: impl FnOnce(&mut Value)) -> Value {
    let security = json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } });
    let container = json!({ "name": "main", "image": "docker.io/a", "imagePullPolicy": "Always", "securityContext": security });
    let mut spec = json!({
        "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
        "containers": [container],
    });
    change(&mut spec);
    manifest("v1", "Pod", spec)
}

fn with_volume(volume: Value) -> Value {
    pod(|spec| spec["volumes"] = json!([volume]))
}

fn claim(fields: Value) -> Value {
    let mut spec =
        json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    manifest("v1", "PersistentVolumeClaim", spec)
}

fn storage_class(name: &str, reclaim: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name },
        "provisioner": "example.com/none", "reclaimPolicy": reclaim,
    })
}

/// Returns a volume with the data of nobody.
fn existing_volume() -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "existing" },
        "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/nowhere" } },
    })
}

/// A benchmark: its title, and requests with what it expects of them.
type Benchmark = (&'static str, Vec<(Value, Expected)>);

/// Returns the benchmarks about Pods.
fn pods() -> Vec<Benchmark> {
    let privileged = |field: &'static str, value: Value| {
        pod(|spec| spec["containers"][0]["securityContext"][field] = value)
    };
    vec![
        (
            "Block add capabilities",
            vec![
                (pod(|_| ()), Allowed),
                (privileged("capabilities", json!({ "drop": ["ALL"], "add": ["SYS_ADMIN"] })), RESTRICTED),
            ],
        ),
        (
            "Require always imagePullPolicy",
            vec![(
                pod(|spec| spec["containers"][0]["imagePullPolicy"] = "IfNotPresent".into()),
                Denied("image pull policy \"IfNotPresent\" is not allowed"),
            )],
        ),
        (
            "Require run as non-root user",
            vec![
                (pod(|spec| spec["securityContext"]["runAsNonRoot"] = false.into()), RESTRICTED),
                (pod(|spec| spec["securityContext"]["runAsUser"] = 0.into()), RESTRICTED),
            ],
        ),
        ("Block privileged containers", vec![(privileged("privileged", true.into()), Denied("privileged"))]),
        (
            "Block privilege escalation",
            vec![(privileged("allowPrivilegeEscalation", true.into()), RESTRICTED)],
        ),
        (
            "Block use of host path volumes",
            vec![(with_volume(json!({ "name": "host", "hostPath": { "path": "/" } })), RESTRICTED)],
        ),
        (
            "Block use of host networking and ports",
            vec![
                (pod(|spec| spec["hostNetwork"] = true.into()), RESTRICTED),
                (
                    pod(|spec| {
                        spec["containers"][0]["ports"] = json!([{ "containerPort": 80, "hostPort": 80 }]);
                    }),
                    RESTRICTED,
                ),
            ],
        ),
        ("Block use of host PID", vec![(pod(|spec| spec["hostPID"] = true.into()), RESTRICTED)]),
        ("Block use of host IPC", vec![(pod(|spec| spec["hostIPC"] = true.into()), RESTRICTED)]),
        (
            "Require PersistentVolumeClaim for storage",
            vec![
                (
                    with_volume(json!({ "name": "data", "persistentVolumeClaim": { "claimName": "a" } })),
                    Allowed,
                ),
                (with_volume(json!({ "name": "data", "nfs": { "server": "a", "path": "/" } })), RESTRICTED),
            ],
        ),
    ]
}

/// Returns the benchmarks about other objects.
fn objects() -> Vec<Benchmark> {
    let line = |line: &str| Value::from(format!("{line} --namespace={INSIDE} --dry-run=server"));
    let policy = json!({ "podSelector": {} });
    let port = |kind: &str| json!({ "type": kind, "ports": [{ "port": 80 }] });
    let quota =
        "patch resourcequota capsule-wind-0 --type=merge --patch={\"spec\":{\"hard\":{\"pods\":\"99\"}}}";
    vec![
        (
            "Allow self-service management of Network Policies",
            vec![(manifest("networking.k8s.io/v1", "NetworkPolicy", policy), Allowed)],
        ),
        (
            "Allow self-service management of Roles",
            vec![(line("create role tried --verb=get --resource=pods"), Allowed)],
        ),
        (
            "Allow self-service management of Role Bindings",
            vec![(line("create rolebinding tried --clusterrole=view --user=carol"), Allowed)],
        ),
        (
            "Block use of NodePort services",
            vec![
                (manifest("v1", "Service", port("ClusterIP")), Allowed),
                (manifest("v1", "Service", port("NodePort")), Denied("type NodePort are not allowed")),
            ],
        ),
        (
            "Require PV reclaim policy of delete",
            vec![
                (claim(json!({ "storageClassName": "deleting" })), Allowed),
                (
                    claim(json!({ "storageClassName": "retaining" })),
                    Denied("StorageClass \"retaining\" is not allowed"),
                ),
            ],
        ),
        (
            "Block use of existing PVs",
            vec![(
                claim(json!({ "storageClassName": "deleting", "volumeName": "existing" })),
                Denied("PersistentVolume existing does not have the label"),
            )],
        ),
        (
            "Block network access across tenant namespaces",
            vec![(line("delete networkpolicy capsule-wind-0"), MANAGED)],
        ),
        (
            "Block modification of resource quotas",
            vec![(line(quota), NO_RIGHT), (line("delete resourcequota capsule-wind-0"), NO_RIGHT)],
        ),
    ]
}

impl Owner<'_> {
    /// Makes a request, which is a command or a manifest.
    async fn try_request(&self, request: &Value) -> Result<String, String> {
        if let Some(line) = request.as_str() {
            return self.run(line).await;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), request.to_string()).unwrap();
        self.run(&format!("create --dry-run=server -f {}", file.path().display())).await
    }

    /// Returns which of these resources the owner may use, each as `verb resource`.
    async fn rights(
        &self,
        env: &TestEnv,
        namespace: Option<&str>,
        resources: &[(String, String)],
    ) -> Vec<String> {
        let api = Api::<SubjectAccessReview>::all(env.cluster.client().await.unwrap());
        let verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
        let requests = resources.iter().flat_map(|resource| verbs.map(|verb| (verb, resource)));
        let reviews = stream::iter(requests.collect::<Vec<_>>()).map(async |(verb, (group, resource))| {
            let attributes = ResourceAttributes {
                group: Some(group.clone()),
                resource: Some(resource.clone()),
                verb: Some(verb.to_owned()),
                namespace: namespace.map(str::to_owned),
                ..ResourceAttributes::default()
            };
            let spec = SubjectAccessReviewSpec {
                user: Some(self.name.clone()),
                groups: Some(vec!["projectcapsule.dev".to_owned(), "system:authenticated".to_owned()]),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            };
            let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
            let answer = api.create(&PostParams::default(), &review).await.unwrap();
            answer.status.unwrap().allowed.then(|| format!("{verb} {resource}"))
        });
        reviews.buffer_unordered(16).filter_map(std::future::ready).collect().await
    }
}

/// Returns the resources of the API server, as group and plural name.
async fn resources(env: &TestEnv, namespaced: bool) -> Vec<(String, String)> {
    let scope = format!("--namespaced={namespaced}");
    let names = env.kubectl(&["api-resources", "--output=name", "--verbs=list", &scope]).await.unwrap();
    let split = |name: &str| {
        let (plural, group) = name.split_once('.').unwrap_or((name, ""));
        (group.to_owned(), plural.to_owned())
    };
    names.lines().map(split).collect()
}

#[tokio::test]
async fn multi_tenancy_benchmarks_pass() {
    let env = webhooks_env().await;
    for object in
        [storage_class("deleting", "Delete"), storage_class("retaining", "Retain"), existing_volume()]
    {
        env.store(object).await;
    }
    let dora = create_tenant(env, "wind", "dora", spec()).await;
    create_tenant(env, "solar", "emil", spec()).await;
    let mut passed = Vec::new();
    for (title, requests) in objects().into_iter().chain(pods()) {
        for (request, expected) in requests {
            eventually(&format!("{title}: {request}: {expected:?}"), PATIENCE, async || {
                let tried = dora.try_request(&request).await;
                Ok(match (expected, tried) {
                    (Allowed, Ok(_)) => Ok(()),
                    (Denied(text), Err(error)) if error.contains(text) => Ok(()),
                    (_, other) => Err(other),
                })
            })
            .await
            .unwrap();
        }
        passed.push(title);
    }

    // Owners create and change their namespaces; admission restricts them to their own.
    let mut cluster_scoped = resources(env, false).await;
    cluster_scoped.retain(|(group, plural)| (group.as_str(), plural.as_str()) != ("", "namespaces"));
    let rights = dora.rights(env, None, &cluster_scoped).await;
    assert_eq!(rights, [""; 0], "cluster resources");
    passed.push("Block access to cluster resources");
    let namespaced = resources(env, true).await;
    let rights = dora.rights(env, Some("solar-dev"), &namespaced).await;
    assert_eq!(rights, [""; 0], "resources of another Tenant");
    passed.push("Block access to other tenant resources");

    for kind in ["limitranges", "networkpolicies", "resourcequotas", "rolebindings"] {
        let children = env
            .names(&[kind, "--namespace", INSIDE, "--selector=projectcapsule.dev/managed-by=controller"])
            .await;
        assert!(!children.is_empty(), "{kind}");
        for name in children {
            let line = format!("delete {kind} {name} --namespace={INSIDE} --dry-run=server");
            let refused = dora.run(&line).await.unwrap_err();
            assert!(
                refused.contains("is managed by the Tenant controller") || refused.contains("cannot"),
                "{refused}"
            );
        }
    }
    passed.push("Block access to multitenant resources");

    let quota = env.read(&["get", "resourcequota", "capsule-wind-0", "--namespace", INSIDE]).await;
    let hard = quota["spec"]["hard"].as_object().unwrap();
    for (title, resources) in [
        (
            "Configure namespace resource quotas",
            &["limits.cpu", "limits.memory", "requests.cpu", "requests.memory", "requests.storage"][..],
        ),
        (
            "Configure namespace object limits",
            &[
                "pods",
                "services",
                "replicationcontrollers",
                "resourcequotas",
                "secrets",
                "configmaps",
                "persistentvolumeclaims",
                "services.nodeports",
                "services.loadbalancers",
            ],
        ),
    ] {
        for resource in resources {
            assert!(hard.contains_key(*resource), "{title}: {resource}");
        }
        passed.push(title);
    }
    println!("{} benchmarks pass:\n{}", passed.len(), passed.join("\n"));
    assert_eq!(passed.len(), BENCHMARKS);
    env.assert_no_forbidden_requests();
}
