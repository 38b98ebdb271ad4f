//! A database: a PostgresCluster with its members, and an operator that performs the real decisions
//! about failovers.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU8, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use cluster::{Cluster, TestNamespace};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, CustomResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use lease::{record, unused};
use postgres::PostgresCluster;
use postgres_model::{
    failover::{FailoverState, MemberView, Reign, Step, View, decide},
    report::InstanceReport,
    sync::SyncConfiguration,
    timeline::TimelineId,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    api_proxy::ApiProxy,
    identities::Identities,
    member::{LEASE_SECONDS, Member, Place},
    status_client::StatusClient,
};

/// Name of the PostgresCluster.
const NAME: &str = "db";
/// How long a condition may take to hold.
const PATIENCE: Duration = Duration::from_mins(2);
/// Number of databases so far, for their addresses.
static DATABASES: AtomicU8 = AtomicU8::new(1);

/// A database whose members are processes of this machine.
pub struct Database {
    /// The members, in the order of their serial numbers.
    pub members: Vec<Member>,
    /// What was decided.
    pub state: FailoverState,
    folder: TempDir,
    namespace: TestNamespace,
    api: Api<PostgresCluster>,
    leases: Api<Lease>,
    server: String,
    kubeconfig: String,
    identities: Identities,
    status: StatusClient,
    network: u8,
    timelines: Vec<Value>,
    system_id: Option<String>,
    stored: Instant,
    /// The Lease as it was seen last, and since when.
    lease: (String, Instant),
}

impl Database {
    /// Creates a PostgresCluster with this number of members, which do not run yet.
    ///
    /// # Errors
    /// Returns an error if the cluster refuses an object, or a file cannot be written.
    pub async fn new(cluster: &Cluster, size: u8) -> Result<Self> {
        cluster.install_crds(&[PostgresCluster::crd()]).await?;
        let namespace = cluster.namespace("postgres").await?;
        let client = cluster.client().await?;
        let folder = tempfile::Builder::new().prefix("postgres-").tempdir()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let identities = Identities::new()?;
        let operator = folder.path().join("operator");
        identities.write_client(&operator, "ensemble-operator")?;
        let config = cluster.config().await?;
        let server = config.cluster_url.authority().context("the API server has no address")?.to_string();
        let api = Api::namespaced(client.clone(), &namespace);
        create(&api, size).await?;
        let leases = create_lease(&client, &namespace).await?;
        let mut database = Self {
            members: Vec::new(),
            state: first_state(size),
            status: StatusClient::new(&operator)?,
            kubeconfig: fs::read_to_string(cluster.kubeconfig())?,
            network: DATABASES.fetch_add(1, Ordering::Relaxed),
            timelines: vec![json!({"number": 1, "member": member_name(1), "epoch": 1})],
            system_id: None,
            stored: Instant::now(),
            lease: (String::new(), Instant::now()),
            folder,
            namespace,
            api,
            leases,
            server,
            identities,
        };
        for serial in 1..=size {
            database.add_member(serial).await?;
        }
        database.store().await?;
        Ok(database)
    }

    async fn add_member(&mut self, serial: u8) -> Result<()> {
        let name = member_name(serial);
        let folder = self.folder.path().join(&name);
        let certificates = folder.join("certificates");
        self.identities.write_serving(&certificates.join("server"), &self.host(&name))?;
        self.identities.write_client(&certificates.join("replication"), "streaming_replica")?;
        let api = ApiProxy::start(self.server.clone()).await?;
        let kubeconfig = self.kubeconfig.replace(&self.server, &api.address().to_string());
        ensure!(kubeconfig != self.kubeconfig, "the kubeconfig does not name {}", self.server);
        fs::write(folder.join("kubeconfig"), kubeconfig)?;
        let place = Place {
            address: self.address(serial),
            cluster: NAME,
            namespace: &self.namespace,
            name,
            api,
            folder,
        };
        self.members.push(Member::new(place, &program()?)?);
        Ok(())
    }

    fn host(&self, member: &str) -> String {
        format!("{member}.{NAME}-pods.{}.svc", &*self.namespace)
    }

    fn address(&self, serial: u8) -> IpAddr {
        // Tests that run at the same time, in several processes, use different networks.
        let process = u8::try_from(std::process::id() % 200).unwrap_or(0);
        Ipv4Addr::new(127, 20 + process, self.network, serial).into()
    }

    /// Returns a member by its name.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub fn member(&mut self, name: &str) -> Result<&mut Member> {
        let found = self.members.iter_mut().find(|member| member.name == name);
        found.with_context(|| format!("there is no member {name}"))
    }

    /// Returns the confirmed primary.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub fn primary(&mut self) -> Result<&mut Member> {
        let name = self.state.current.clone().context("there is no primary")?;
        self.member(&name)
    }

    /// Returns the report of a member, if it answers.
    pub async fn report(&self, member: &Member) -> Option<InstanceReport> {
        self.status.report(member.address, &self.host(&member.name)).await.ok()
    }

    /// Performs one step of the operator.
    ///
    /// # Errors
    /// Returns an error if the API server refuses a write.
    pub async fn operate(&mut self) -> Result<Vec<Option<InstanceReport>>> {
        let mut reports = Vec::new();
        for member in &self.members {
            reports.push(self.report(member).await);
        }
        self.note_system(&reports).await?;
        let mut views = Vec::new();
        for (member, report) in self.members.iter_mut().zip(&reports) {
            let serial = views.len() as u64 + 1;
            let (name, is_gone) = (member.name.clone(), !member.runs());
            views.push(MemberView { name, serial, is_gone, on_cordoned_node: false, report: report.clone() });
        }
        let lease_is_free = self.lease_is_free().await?;
        let view = View {
            state: &self.state,
            members: &views,
            lease_is_free,
            since_change: self.stored.elapsed(),
            lease: Duration::from_secs(LEASE_SECONDS),
            max_lag: 0,
            last_position: None,
        };
        let size = views.len();
        match decide(view, |primary| configuration(primary, size)) {
            Step::Store(state) => {
                let is_confirmed = state.current.is_some() && self.state.current.is_none();
                self.state = state;
                self.stored = Instant::now();
                if is_confirmed {
                    self.note_timeline(&reports);
                }
                self.store().await?;
            }
            Step::Seal(names) => {
                for name in names {
                    let address = self.member(&name)?.address;
                    // It may not answer, and is asked again then.
                    let _ = self.status.seal(address, &self.host(&name), self.state.epoch).await;
                }
            }
            Step::None | Step::NoQuorum(_) | Step::TooFarBehind(_) => {}
        }
        Ok(reports)
    }

    /// Operates until a condition on the reports holds.
    ///
    /// # Errors
    /// Returns an error with the last reports if that takes too long.
    pub async fn until(
        &mut self,
        what: &str,
        condition: impl Fn(&Self, &[Option<InstanceReport>]) -> bool,
    ) -> Result<Vec<Option<InstanceReport>>> {
        let end = Instant::now() + PATIENCE;
        loop {
            let reports = self.operate().await?;
            if condition(self, &reports) {
                return Ok(reports);
            }
            ensure!(Instant::now() < end, "not {what}: {reports:#?} {:#?}\n{}", self.state, self.logs());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Operates until the primary is confirmed, and all others stream from it.
    ///
    /// # Errors
    /// Returns an error if that takes too long.
    pub async fn until_complete(&mut self) -> Result<()> {
        self.until("complete", |database, reports| {
            let primary = reports.iter().flatten().find(|report| {
                Some(&report.member) == database.state.current.as_ref()
                    && report.timeline == Some(database.state.timeline)
            });
            primary.is_some_and(|primary| primary.standbys.len() + 1 == database.members.len())
        })
        .await
        .map(drop)
    }

    /// Returns the logs of all members.
    pub fn logs(&self) -> String {
        let log = |member: &Member| {
            let text = fs::read_to_string(member.folder().join("log")).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            let last = lines.get(lines.len().saturating_sub(60)..).unwrap_or_default().join("\n");
            format!("--- {}\n{last}\n", member.name)
        };
        self.members.iter().map(log).collect()
    }

    async fn lease_is_free(&mut self) -> Result<bool> {
        let record = record(&self.leases.get(NAME).await?);
        if record.version != self.lease.0 {
            self.lease = (record.version.clone(), Instant::now());
        }
        Ok(record.free || self.lease.1.elapsed() > Duration::from_secs(LEASE_SECONDS))
    }

    async fn note_system(&mut self, reports: &[Option<InstanceReport>]) -> Result<()> {
        if self.system_id.is_none() {
            let system = reports.iter().flatten().find_map(|report| report.system_identifier);
            self.system_id = system.map(|system| system.to_string());
            if self.system_id.is_some() {
                self.store().await?;
            }
        }
        Ok(())
    }

    fn note_timeline(&mut self, reports: &[Option<InstanceReport>]) {
        let current = self.state.current.clone().unwrap_or_default();
        let report = reports.iter().flatten().find(|report| report.member == current);
        let history = report.and_then(|report| report.history.clone()).unwrap_or_default();
        let forks = history.lines().filter_map(|line| line.split_once('\t')).map(|(_, lsn)| lsn);
        let numbers = history.lines().filter_map(|line| line.split_once('\t')?.0.parse::<u32>().ok());
        let numbers = numbers.chain([self.state.timeline.get()]);
        let forks = std::iter::once(None).chain(forks.map(Some));
        self.timelines =
            numbers.zip(forks).map(|(number, lsn)| json!({"number": number, "forkLSN": lsn})).collect();
    }

    async fn store(&self) -> Result<()> {
        let instances = self.members.iter().enumerate().map(|(index, member)| {
            json!({
                "name": member.name, "serial": index + 1, "volumeUID": format!("volume of {}", member.name),
                "address": member.address,
            })
        });
        let instances: Vec<_> = instances.collect();
        let primary = self.state.target.as_deref();
        let sync = primary
            .filter(|_| self.members.len() > 1)
            .map(|primary| configuration(primary, self.members.len()));
        let sync = sync.unwrap_or_default();
        let status = json!({"status": {
            "instances": instances,
            "primary": {
                "current": self.state.current.as_deref().unwrap_or_default(),
                "target": self.state.target.as_deref().unwrap_or_default(),
                "epoch": self.state.epoch,
            },
            "timelineClaimed": self.state.timeline,
            "timelines": self.timelines,
            "systemID": self.system_id,
            "bootstrap": {"volumeUID": format!("volume of {}", member_name(1)), "done": self.system_id.is_some()},
            "sync": {"number": sync.number(), "members": sync.members()},
        }});
        let patch = Patch::Merge(status);
        self.api
            .patch_status(NAME, &PatchParams::default(), &patch)
            .await
            .context("cannot store the status")?;
        Ok(())
    }
}

fn member_name(serial: u8) -> String {
    format!("{NAME}-{serial}")
}

/// Returns the configuration of a primary: a commit waits for one of the others.
fn configuration(primary: &str, size: usize) -> SyncConfiguration {
    let names = (1..=size).map(|serial| format!("{NAME}-{serial}"));
    let others: Vec<_> = names.filter(|name| name != primary).collect();
    SyncConfiguration::new(1.min(others.len()), others).unwrap_or_default()
}

fn first_state(size: u8) -> FailoverState {
    let primary = member_name(1);
    FailoverState {
        epoch: 1,
        target: Some(primary.clone()),
        current: None,
        timeline: TimelineId::FIRST,
        reigns: vec![Reign { configuration: configuration(&primary, size.into()), primary }],
    }
}

async fn create(api: &Api<PostgresCluster>, size: u8) -> Result<()> {
    let cluster = serde_json::from_value(json!({
        "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresCluster",
        "metadata": {"name": NAME}, "spec": {"size": size},
    }))?;
    api.create(&PostParams::default(), &cluster).await.context("cannot create the PostgresCluster")?;
    Ok(())
}

async fn create_lease(client: &Client, namespace: &str) -> Result<Api<Lease>> {
    let leases = Api::namespaced(client.clone(), namespace);
    let lease = unused(NAME, namespace, std::collections::BTreeMap::new());
    leases.create(&PostParams::default(), &lease).await.context("cannot create the Lease")?;
    Ok(leases)
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
