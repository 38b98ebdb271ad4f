//! A Deployment of the manager or a Job, and a process that runs as one of its pods would.

use cluster::{Companion, audit::Entry};
use serde_json::Value;

use crate::support::{Manager, TestEnv, Webhooks, free_port, program};

/// Time for the pods of a Deployment to be ready, for kubectl.
const PATIENCE: &str = "--timeout=60s";

/// A Deployment, or a pod of a Job, as the API server has it.
pub(crate) struct Deployed {
    namespace: String,
    name: String,
    pod: Value,
}

impl Deployed {
    /// Reads a Deployment, and holds its pods to being admitted, scheduled and ready.
    pub(crate) async fn read(stage: &TestEnv, namespace: &str, name: &str) -> Self {
        let (deployment, within) = (format!("deployment/{name}"), format!("--namespace={namespace}"));
        let enforced = stage.read(&["get", "namespace", namespace]).await;
        let labels = &enforced["metadata"]["labels"];
        assert_eq!(labels["pod-security.kubernetes.io/enforce"], "restricted", "else it says nothing");
        stage.kubectl(&["rollout", "status", &deployment, &within, PATIENCE]).await.unwrap();
        let mut read = stage.read(&["get", &deployment, &within]).await;
        let pod = read["spec"]["template"]["spec"].take();
        Self { namespace: namespace.to_owned(), name: name.to_owned(), pod }
    }

    /// A pod of a Job in a namespace, as the API server has it.
    pub(crate) fn of_job(namespace: &str, name: &str, mut pod: Value) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned(), pod: pod["spec"].take() }
    }

    fn container(&self) -> &Value {
        &self.pod["containers"][0]
    }

    /// The arguments of the manager.
    pub(crate) fn args(&self) -> Vec<String> {
        let args = self.container()["args"].as_array().unwrap().iter();
        args.map(|arg| arg.as_str().unwrap().to_owned()).collect()
    }

    /// As whom the API server knows the pods.
    fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.account())
    }

    fn account(&self) -> &str {
        self.pod["serviceAccountName"].as_str().unwrap()
    }

    /// Starts the manager with the arguments, the ServiceAccount and the environment of a pod, and waits until the probes
    /// of the Deployment succeed. Only the addresses are others: many managers run on one machine here.
    pub(crate) async fn run(&self, stage: &TestEnv, webhooks: Webhooks) -> Manager {
        let [probes, metrics] = [free_port(), free_port()];
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

    /// Starts the program with the arguments, the ServiceAccount and the environment of a pod, and more of the latter.
    pub(crate) async fn launch(&self, stage: &TestEnv, more: &[(&str, String)]) -> Companion {
        let account =
            stage.cluster.service_account_kubeconfig(&self.namespace, self.account()).await.unwrap();
        let mut env = vec![("KUBECONFIG".to_owned(), account.display().to_string())];
        env.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        env.extend(self.container()["env"].as_array().unwrap().iter().map(|variable| self.value(variable)));
        stage.cluster.companion(&self.name, program(), &self.args(), &env).unwrap()
    }

    /// What the kubelet would put into a variable of the environment.
    fn value(&self, variable: &Value) -> (String, String) {
        let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
            Some("metadata.name") => format!("{}-0", self.name),
            Some("metadata.namespace") => self.namespace.clone(),
            other => panic!("{other:?} is nothing that the manager has asked for so far"),
        };
        (variable["name"].as_str().unwrap().to_owned(), value)
    }

    /// Holds the manager to asking for nothing that it may not. What was allowed when it asked again is no such thing: for
    /// some seconds the API server does not know a new kind well enough to let children block the deletion of their owner.
    pub(crate) fn assert_no_forbidden_requests(&self, stage: &TestEnv) {
        let requests = stage.cluster.audit().unwrap().by_user(&self.user()).entries;
        assert!(!requests.is_empty(), "{} has asked for nothing", self.user());
        let was_allowed = |refused: &Entry| {
            let is_same = |other: &&Entry| {
                (&refused.verb, &refused.request_uri, &refused.name)
                    == (&other.verb, &other.request_uri, &other.name)
            };
            requests.iter().filter(is_same).any(|other| other.code < 400 && other.time > refused.time)
        };
        let mut refused = requests.iter().filter(|entry| entry.code == 403);
        assert_eq!(refused.find(|entry| !was_allowed(entry)), None);
    }
}
