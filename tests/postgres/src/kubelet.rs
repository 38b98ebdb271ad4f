//! The kubelet of this machine: each Pod is the instance manager with a real PostgreSQL.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    fs,
    net::{IpAddr, Ipv4Addr},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use cluster::TestNamespace;
use harness::Harness;
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Pod, Secret},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use operator_core::error::is_not_found;
use postgres::{CLUSTER_LABEL, PostgresClusterController};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    api_proxy::ApiProxy,
    http,
    member::{LEASE_SECONDS, Member, Place, copy_program, give_to_postgres},
    programs,
};

/// How long a condition may take to hold.
const PATIENCE: Duration = Duration::from_mins(2);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// Number of namespaces so far, for the addresses of their Pods.
static NAMESPACES: AtomicU8 = AtomicU8::new(1);

/// Runs the Pods of one namespace.
pub struct Kubelet {
    /// The members that have had a Pod, in the order of their serial numbers.
    pub members: Vec<Member>,
    /// The controller.
    pub harness: Arc<Harness>,
    /// The namespace.
    pub namespace: TestNamespace,
    /// Sizes of the volumes of new members, in MiB. Others have the file system of the tests.
    pub volumes: BTreeMap<String, u64>,
    /// Duration of the Leases, which is short in tests.
    pub lease_seconds: u64,
    /// Whether Pods run the major version of their image. Otherwise, all run the same.
    pub obeys_images: bool,
    /// A client of the API server with all rights.
    pub client: Client,
    /// The instance manager.
    program: PathBuf,
    folder: TempDir,
    server: String,
    network: u8,
}

impl Kubelet {
    /// Creates a namespace, in which the restricted Pod Security Standard is enforced.
    ///
    /// # Errors
    /// Returns an error if the controller or its cluster cannot be started.
    pub async fn new() -> Result<Self> {
        Self::under(harness::controller::<PostgresClusterController>().await?).await
    }

    /// Creates such a namespace on the cluster of a controller, with the instance manager that cargo has
    /// built.
    ///
    /// # Errors
    /// Returns an error if the instance manager is missing, or the API server does not answer.
    pub async fn under(harness: Arc<Harness>) -> Result<Self> {
        Self::with(harness, program()?).await
    }

    /// Creates such a namespace on the cluster of a controller. `program` is the instance manager.
    ///
    /// # Errors
    /// Returns an error if the API server refuses it, or does not answer.
    pub async fn with(harness: Arc<Harness>, program: PathBuf) -> Result<Self> {
        let restricted = [("pod-security.kubernetes.io/enforce", "restricted")];
        let namespace = harness.cluster.labelled_namespace("postgres", &restricted).await?;
        let client = harness.cluster.client().await?;
        let folder = tempfile::Builder::new().prefix("postgres-").tempdir()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        // The user of PostgreSQL may not be able to read the original. One copy suffices for all members.
        let copy = folder.path().join("ensemble-instance");
        copy_program(&program, &copy)?;
        let config = harness.cluster.config().await?;
        let server = config.cluster_url.authority().context("the API server has no address")?.to_string();
        let network = NAMESPACES.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            members: Vec::new(),
            harness,
            namespace,
            volumes: BTreeMap::new(),
            lease_seconds: LEASE_SECONDS,
            obeys_images: false,
            client,
            program: copy,
            folder,
            server,
            network,
        })
    }

    /// Returns a node selector that keeps Pods from the simulated nodes, so that this kubelet runs
    /// them.
    pub fn node_selector() -> Value {
        json!({"processes": "true"})
    }

    /// Returns a member by its name.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub fn member(&mut self, name: &str) -> Result<&mut Member> {
        let found = self.members.iter_mut().find(|member| member.name == name);
        found.with_context(|| format!("there is no member {name}"))
    }

    /// Works once: runs the Pods that are new, ends those that are gone, and reports which of them
    /// are ready.
    ///
    /// # Errors
    /// Returns an error if the API server refuses a write, or a process cannot be started.
    pub async fn look(&mut self) -> Result<()> {
        let pods = self.api::<Pod>().list(&ListParams::default()).await?.items;
        let pods: BTreeMap<String, Pod> = pods.into_iter().map(|pod| (pod.name_any(), pod)).collect();
        self.end_pods(&pods).await?;
        for (name, pod) in &pods {
            self.run_pod(name, pod).await?;
        }
        Ok(())
    }

    /// Works until `check` returns a value.
    ///
    /// # Errors
    /// Returns an error with what `check` returned last, and the logs, if that takes too long.
    pub async fn until<T, E: Debug>(
        &mut self,
        what: &str,
        mut check: impl AsyncFnMut(&[Member]) -> Result<Result<T, E>>,
    ) -> Result<T> {
        let end = Instant::now() + PATIENCE;
        loop {
            self.look().await?;
            match check(&self.members).await? {
                Ok(value) => return Ok(value),
                Err(last) => {
                    ensure!(Instant::now() < end, "waited for {what}: {last:#?}\n{}", self.logs());
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Ends the processes of Pods that no longer exist.
    async fn end_pods(&mut self, pods: &BTreeMap<String, Pod>) -> Result<()> {
        for member in &mut self.members {
            let uid = pods.get(&member.name).and_then(ResourceExt::uid);
            if member.pod_uid.is_some() && member.pod_uid != uid {
                member.pod_uid = None;
                member.end().await?;
            }
        }
        Ok(())
    }

    async fn run_pod(&mut self, name: &str, pod: &Pod) -> Result<()> {
        let is_new = self.members.iter().all(|member| member.name != name || member.pod_uid.is_none());
        if is_new {
            // The controller ends a Pod whose PostgresCluster is deleted before it runs.
            let Some(place) = self.place(name, pod).await? else { return Ok(()) };
            self.start(place, pod)?;
        }
        let member = self.member(name)?;
        let is_ready = http::is_ready(member.address).await;
        if is_new || is_ready != member.is_ready {
            member.is_ready = is_ready;
            let address = member.address;
            self.report(name, address, is_ready).await?;
        }
        Ok(())
    }

    /// Starts a Pod, on the volume of its member if there is one.
    fn start(&mut self, place: Place, pod: &Pod) -> Result<()> {
        let name = place.name.clone();
        if let Ok(member) = self.member(&name) {
            member.move_to(place)?;
        } else {
            self.members.push(Member::new(place, &self.program)?);
            self.members.sort_by_key(|member| member.serial);
        }
        let member = self.member(&name)?;
        member.pod_uid = pod.uid();
        member.start()
    }

    /// Writes the status of a Pod.
    async fn report(&self, pod: &str, address: IpAddr, is_ready: bool) -> Result<()> {
        let ready = if is_ready { "True" } else { "False" };
        let now = jiff::Timestamp::now().to_string();
        let patch = Patch::Merge(json!({"status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": now}],
        }}));
        match self.api::<Pod>().patch_status(pod, &PatchParams::default(), &patch).await {
            // The Pod was deleted meanwhile.
            Err(error) if is_not_found(&error) => Ok(()),
            result => Ok(result.map(drop)?),
        }
    }

    /// Writes the Secrets that a Pod mounts, as they are now. Returns whether all of them exist.
    ///
    /// # Errors
    /// Returns an error if a Secret cannot be read, or a file cannot be written.
    pub async fn mount(&self, name: &str, pod: &Pod) -> Result<bool> {
        for (volume, secret, is_optional) in secrets(pod) {
            let secret = self.api::<Secret>().get_opt(&secret).await?;
            if secret.is_none() && !is_optional {
                return Ok(false);
            }
            let folder = self.folder.path().join(name).join("certificates").join(volume);
            fs::create_dir_all(&folder)?;
            for (file, content) in secret.and_then(|secret| secret.data).unwrap_or_default() {
                write_file(&folder.join(file), &content.0, 0o600)?;
            }
            give_to_postgres(&folder)?;
        }
        self.mount_archive(name, pod).await?;
        self.mount_config_maps(name, pod).await?;
        Ok(true)
    }

    /// Writes what all Pods mount, as it is now. The kubelet of a node does that within a minute.
    ///
    /// # Errors
    /// Returns an error if a Secret is missing or cannot be read, or a file cannot be written.
    pub async fn remount(&self) -> Result<()> {
        for pod in self.api::<Pod>().list(&ListParams::default()).await? {
            let name = pod.name_any();
            ensure!(self.mount(&name, &pod).await?, "a Secret of {name} is missing");
        }
        Ok(())
    }

    /// Writes the files of the projected volumes of a Pod, as they are now. A Secret that is missing has
    /// no file.
    ///
    /// # Errors
    /// Returns an error if a Secret cannot be read, or a file cannot be written.
    pub async fn mount_archive(&self, name: &str, pod: &Pod) -> Result<()> {
        for (volume, secret, key, file) in archive_secrets(pod) {
            let folder = self.folder.path().join(name).join(volume);
            let secret = self.api::<Secret>().get_opt(&secret).await?;
            let content = secret.and_then(|secret| secret.data?.remove(&key));
            fs::create_dir_all(&folder)?;
            let path = folder.join(file);
            match content {
                Some(content) => write_file(&path, &content.0, 0o644)?,
                None if path.exists() => fs::remove_file(&path)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Writes the files of the ConfigMaps that a Pod mounts, as they are now. One that is missing has none.
    async fn mount_config_maps(&self, name: &str, pod: &Pod) -> Result<()> {
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            let Some(source) = &volume.config_map else { continue };
            let folder = self.folder.path().join(name).join(&volume.name);
            if folder.exists() {
                fs::remove_dir_all(&folder)?;
            }
            fs::create_dir_all(&folder)?;
            let map = self.api::<ConfigMap>().get_opt(&source.name).await?;
            for (file, content) in map.and_then(|map| map.data).unwrap_or_default() {
                write_file(&folder.join(file), content.as_bytes(), 0o644)?;
            }
            give_to_postgres(&folder)?;
        }
        Ok(())
    }

    /// Returns a kubeconfig with a token of a ServiceAccount, or `None` while there is no such account.
    async fn kubeconfig(&self, account: &str) -> Result<Option<String>> {
        match self.harness.cluster.service_account_kubeconfig(&self.namespace, account).await {
            Ok(path) => Ok(Some(fs::read_to_string(path)?)),
            Err(error) if error.downcast_ref().is_some_and(is_not_found) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Prepares what a Pod mounts. Returns `None` while a Secret or the ServiceAccount is missing, as they are
    /// after the PostgresCluster was deleted.
    async fn place(&self, name: &str, pod: &Pod) -> Result<Option<Place>> {
        let folder = self.folder.path().join(name);
        if !self.mount(name, pod).await? {
            return Ok(None);
        }
        let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
        let account = account.context("the Pod has no ServiceAccount")?;
        let Some(kubeconfig) = self.kubeconfig(&account).await? else { return Ok(None) };
        let api = ApiProxy::start(self.server.clone())?;
        let through_proxy = kubeconfig.replace(&self.server, &api.address().to_string());
        ensure!(through_proxy != kubeconfig, "the kubeconfig does not name {}", self.server);
        fs::write(folder.join("kubeconfig"), through_proxy)?;
        let cluster = pod.labels().get(CLUSTER_LABEL).context("the Pod belongs to no PostgresCluster")?;
        let serial = name.rsplit_once('-').and_then(|(_, serial)| serial.parse().ok());
        let serial = serial.with_context(|| format!("{name} is no member"))?;
        let known = self.members.iter().find(|member| member.name == name).map(|member| member.address);
        let (programs, previous) = self.programs(pod, &folder)?;
        Ok(Some(Place {
            name: name.to_owned(),
            programs,
            previous,
            serial,
            address: known.map_or_else(|| self.next_address(), Ok)?,
            api,
            folder,
            cluster: cluster.clone(),
            cluster_uid: variable(pod, "CLUSTER_UID").context("the Pod names no cluster")?,
            lease_seconds: variable(pod, "LEASE_SECONDS").context("the Pod has no Lease")?,
            namespace: self.namespace.to_string(),
            volume: self.volumes.get(name).copied(),
        }))
    }

    /// Returns the folders with the programs of the container, and with those that an init container copies.
    fn programs(&self, pod: &Pod, folder: &Path) -> Result<(PathBuf, Option<PathBuf>)> {
        if !self.obeys_images {
            return Ok((programs::folder()?, None));
        }
        let spec = pod.spec.as_ref().context("the Pod has no spec")?;
        let image = spec.containers.first().and_then(|container| container.image.as_deref());
        let inits = spec.init_containers.iter().flatten();
        let copied =
            inits.filter(|container| container.name == "previous").find_map(|it| it.image.as_deref());
        let programs = programs::folder_of(major_of(image.context("the container has no image")?)?)?;
        let previous = copied.map(|image| self.copy_programs(image, folder)).transpose()?;
        Ok((programs, previous))
    }

    /// Copies the programs of an image, as the init container does.
    fn copy_programs(&self, image: &str, folder: &Path) -> Result<PathBuf> {
        let (programs, copies) = (programs::folder_of(major_of(image)?)?, folder.join("previous"));
        fs::create_dir_all(&copies)?;
        let mut copy = Command::new(&self.program);
        copy.arg("copy-programs").arg(&copies).env_clear();
        let output = copy.env("PATH", format!("{}:/usr/bin:/bin", programs.display())).output()?;
        ensure!(output.status.success(), "copy-programs: {}", String::from_utf8_lossy(&output.stderr));
        Ok(copies.join("bin"))
    }

    /// Returns an address that no Pod of this machine has.
    fn next_address(&self) -> Result<IpAddr> {
        // Tests that run at the same time, in several processes, use different networks.
        let process = u8::try_from(std::process::id() % 200)?;
        let host = u8::try_from(self.members.len() + 1)?;
        Ok(Ipv4Addr::new(127, 20 + process, self.network, host).into())
    }

    /// Returns the API for a kind in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Returns the logs of all members.
    pub fn logs(&self) -> String {
        let log = |member: &Member| {
            let text = member.log();
            let lines: Vec<_> = text.lines().collect();
            let last = lines.get(lines.len().saturating_sub(60)..).unwrap_or_default().join("\n");
            format!("--- {}\n{last}\n", member.name)
        };
        self.members.iter().map(log).collect()
    }
}

fn write_file(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    fs::write(path, content)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

/// Returns the major version of an image, such as `postgres:18.6`.
fn major_of(image: &str) -> Result<u16> {
    let major = image.rsplit_once(':').and_then(|(_, version)| version.split('.').next()?.parse().ok());
    major.with_context(|| format!("the image {image} has no major version"))
}

/// Returns the projected volumes of a Pod with their Secrets, and the keys and files of these.
fn archive_secrets(pod: &Pod) -> Vec<(String, String, String, String)> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let sources = volumes.flat_map(|volume| {
        let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        sources.map(move |source| (&volume.name, source))
    });
    let secrets = sources.filter_map(|(volume, source)| Some((volume, source.secret.as_ref()?)));
    secrets
        .flat_map(|(volume, secret)| {
            let items = secret.items.iter().flatten();
            items.map(move |item| (volume.clone(), secret.name.clone(), item.key.clone(), item.path.clone()))
        })
        .collect()
}

/// Returns the volumes of a Pod with a Secret, the names of the Secrets, and whether they may be missing.
fn secrets(pod: &Pod) -> Vec<(String, String, bool)> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let secrets = volumes.filter_map(|volume| Some((volume.name.clone(), volume.secret.as_ref()?)));
    secrets
        .filter_map(|(volume, secret)| {
            Some((volume, secret.secret_name.clone()?, secret.optional.unwrap_or_default()))
        })
        .collect()
}

/// Returns the value of an environment variable of the container.
fn variable(pod: &Pod, name: &str) -> Option<String> {
    let containers = &pod.spec.as_ref()?.containers;
    let variables = containers.iter().flat_map(|container| container.env.iter().flatten());
    variables.into_iter().find(|variable| variable.name == name)?.value.clone()
}

/// Returns the instance manager, which cargo builds beside the test.
fn program() -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let folder = test.ancestors().nth(2).context("the test is not in a target folder")?;
    let program = folder.join("ensemble-instance");
    ensure!(
        Path::exists(&program),
        "{} is missing: run `cargo build -p postgres-instance`",
        program.display()
    );
    Ok(program)
}
