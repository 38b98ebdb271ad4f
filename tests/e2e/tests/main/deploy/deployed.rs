//! Processes that run as the Pods of a Deployment or Job.

use cluster::{Companion, audit::Entry};
use serde_json::Value;

use crate::support::{Manager, TestEnv, Webhooks, program, reserve_port};

/// Timeout for the Pods of a Deployment to be ready, for kubectl.
const PATIENCE: &str = "--timeout=60s";

/// Pod template of a Deployment, or Pod of a Job, as the API server stores it.
pub(crate) struct Deployed {
    namespace: String,
    name: String,
    pod: Value,
}

impl Deployed {
    /// Reads a Deployment after its Pods have been admitted, scheduled, and become ready.
    pub(crate) async fn read(stage: &TestEnv, namespace: &str, name: &str) -> Self {
        let (deployment, within) = (format!("deployment/{name}"), format!("--namespace={namespace}"));
        let enforced = stage.read(&["get", "namespace", namespace]).await;
        let labels = &enforced["metadata"]["labels"];
        assert_eq!(
            labels["pod-security.kubernetes.io/enforce"], "restricted",
            "the namespace must enforce the restricted Pod Security Standard"
        );
        stage.kubectl(&["rollout", "status", &deployment, &within, PATIENCE]).await.unwrap();
        let mut read = stage.read(&["get", &deployment, &within]).await;
        let pod = read["spec"]["template"]["spec"].take();
        Self { namespace: namespace.to_owned(), name: name.to_owned(), pod }
    }

    /// Returns the Pod of a Job.
    pub(crate) fn of_job(namespace: &str, name: &str, mut pod: Value) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned(), pod: pod["spec"].take() }
    }

    fn container(&self) -> &Value {
        &self.pod["containers"][0]
    }

    /// Returns the arguments of the manager.
    pub(crate) fn args(&self) -> Vec<String> {
        let args = self.container()["args"].as_array().unwrap().iter();
        args.map(|arg| arg.as_str().unwrap().to_owned()).collect()
    }

    /// Returns the user name of the ServiceAccount.
    fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.account())
    }

    fn account(&self) -> &str {
        self.pod["serviceAccountName"].as_str().unwrap()
    }

    /// Starts the manager with the arguments, ServiceAccount, and environment of a Pod, and waits
    /// until the probes of the Deployment succeed. Only the addresses differ, because several
    /// managers run on this machine.
    pub(crate) async fn run(&self, stage: &TestEnv, webhooks: Webhooks) -> Manager {
        let [probes, metrics] = [reserve_port(), reserve_port()];
        let addresses = [
            ("ENSEMBLE_HEALTH_PROBE_BIND_ADDRESS", format!("127.0.0.1:{probes}")),
            ("ENSEMBLE_METRICS_BIND_ADDRESS", format!("127.0.0.1:{metrics}")),
            ("ENSEMBLE_WEBHOOK_BIND_ADDRESS", webhooks.address()),
            ("ENSEMBLE_WEBHOOK_HOST", "127.0.0.1".to_owned()),
        ];
        let companion = self.launch(stage, &addresses).await;
        let manager = Manager::new(companion, probes);
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let request = &self.container()[probe]["httpGet"];
            assert_eq!(request["port"], "probes", "{probe}");
            manager.until_status(request["path"].as_str().unwrap(), 200).await;
        }
        manager
    }

    /// Starts the program with the arguments, ServiceAccount, and environment of a Pod, and with
    /// additional environment variables.
    pub(crate) async fn launch(&self, stage: &TestEnv, extra_env: &[(&str, String)]) -> Companion {
        let account =
            stage.cluster.service_account_kubeconfig(&self.namespace, self.account()).await.unwrap();
        let mut env = vec![("KUBECONFIG".to_owned(), account.display().to_string())];
        env.extend(extra_env.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        env.extend(self.container()["env"].as_array().unwrap().iter().map(|variable| self.value(variable)));
        stage.cluster.companion(&self.name, program(), &self.args(), &env).unwrap()
    }

    /// Resolves an environment variable as the kubelet does.
    fn value(&self, variable: &Value) -> (String, String) {
        let path = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str();
        let value = match (path, variable["value"].as_str()) {
            (Some("metadata.name"), _) => format!("{}-0", self.name),
            (Some("metadata.namespace"), _) => self.namespace.clone(),
            (None, Some(value)) => value.to_owned(),
            _ => panic!("unsupported variable {variable}"),
        };
        (variable["name"].as_str().unwrap().to_owned(), value)
    }

    /// Asserts that the API server rejected no request as forbidden, except requests that later
    /// succeeded. For some seconds after a kind is created, the API server rejects owner references
    /// to it that block deletion.
    pub(crate) fn assert_no_forbidden_requests(&self, stage: &TestEnv) {
        let requests = stage.cluster.audit().unwrap().by_user(&self.user()).entries;
        assert!(!requests.is_empty(), "{} has sent no request", self.user());
        let was_allowed_later = |forbidden: &Entry| {
            let is_same = |other: &&Entry| {
                (&forbidden.verb, &forbidden.request_uri, &forbidden.name)
                    == (&other.verb, &other.request_uri, &other.name)
            };
            requests.iter().filter(is_same).any(|other| other.code < 400 && other.time > forbidden.time)
        };
        let mut forbidden = requests.iter().filter(|entry| entry.code == 403);
        assert_eq!(forbidden.find(|entry| !was_allowed_later(entry)), None);
    }
}
