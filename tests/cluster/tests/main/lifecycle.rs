//! Starts and stops clusters and their components.

use std::net::TcpListener;

use cluster::{Cluster, Component, Options, Record};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};

use crate::PATIENCE;

fn assert_removed(record: &Record) {
    assert!(!record.dir.exists(), "{}", record.dir.display());
    for (component, pid) in &record.pids {
        assert!(!cluster::state::is_alive(*pid), "{component}");
    }
    for port in
        [record.ports.etcd, record.ports.api_server, record.ports.controller_manager, record.ports.scheduler]
    {
        assert!(TcpListener::bind(("127.0.0.1", port)).is_ok(), "port {port} is still in use");
    }
}

#[tokio::test]
async fn stop_leaves_no_processes_or_files() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let record = cluster.record().clone();
    println!("usable after {} ms", record.start_milliseconds);
    cluster.ready(PATIENCE).await.unwrap();
    assert_eq!(record.pids.len(), 5);
    cluster.stop().unwrap();
    assert_removed(&record);
}

#[tokio::test]
async fn drop_leaves_no_processes_or_files() {
    let cluster = Cluster::start(Options { nodes: 0, scheduler: false, ..Options::default() }).await.unwrap();
    let record = cluster.record().clone();
    assert!(!record.pids.contains_key(&Component::KubeScheduler));
    drop(cluster);
    assert_removed(&record);
}

#[tokio::test]
async fn failed_start_reports_component_log_and_leaves_no_files() {
    let name = "does-not-start".to_owned();
    let options = Options {
        name: Some(name.clone()),
        api_server_args: vec!["--no-such-flag".to_owned()],
        ..Options::default()
    };
    let error = format!("{:#}", Cluster::start(options).await.unwrap_err());
    assert!(
        error.contains("kube-apiserver exited") && error.contains("unknown flag: --no-such-flag"),
        "{error}"
    );
    let root = cluster::state::StateRoot::from_env().unwrap();
    assert!(!root.dir(&name).exists());
}

#[tokio::test]
async fn clusters_are_isolated_from_each_other() {
    let options = Options { nodes: 0, scheduler: false, ..Options::default() };
    let (one, other) = tokio::try_join!(Cluster::start(options.clone()), Cluster::start(options)).unwrap();
    let namespace = one.namespace("only-here").await.unwrap();
    let elsewhere = Api::<Namespace>::all(other.client().await.unwrap());
    assert!(elsewhere.get_opt(namespace.name()).await.unwrap().is_none());
    let error = Cluster::start(Options { name: Some(one.record().name.clone()), ..Options::default() })
        .await
        .unwrap_err();
    assert!(error.to_string().contains("runs already"), "{error}");
}

#[tokio::test]
async fn restarted_api_server_keeps_port_and_data() {
    let cluster = Cluster::start(Options { nodes: 0, scheduler: false, ..Options::default() }).await.unwrap();
    let api = Api::<ConfigMap>::namespaced(cluster.client().await.unwrap(), "default");
    let mut config_map = ConfigMap::default();
    config_map.metadata.name = Some("data".to_owned());
    let written = api.create(&PostParams::default(), &config_map).await.unwrap();
    cluster.kill_component(Component::KubeApiserver).unwrap();
    assert!(cluster.kill_component(Component::KubeApiserver).is_err(), "it does not run");
    cluster.start_component(Component::KubeApiserver).unwrap();
    cluster.ready(PATIENCE).await.unwrap();
    assert_eq!(api.get("data").await.unwrap().uid(), written.uid());
    cluster.stop_component(Component::Kwok).unwrap();
    cluster.ensure_running().unwrap();
}
