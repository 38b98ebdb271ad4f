//! Starts an instance.

use std::{env, fs, net::SocketAddr, os::unix::fs::PermissionsExt, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use kube::{Api, Client, Config};
use postgres_model::{
    in_force::InForce,
    metrics,
    report::InstanceReport,
    status_api::{PORT, PROBE_PORT},
};
use rustix::process::{Pid, getpid, getuid};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    archive::{Archiving, client},
    cluster::{self, Cluster, MemberCluster},
    configuration::Static,
    declared::{self, Declared},
    disk::Disk,
    election::{Election, timing},
    fence::Fence,
    instance::{Instance, Retry},
    metrics::{Metrics, Observations},
    parameters::AcceptedParameters,
    probe::Probe,
    processes::Processes,
    programs::Programs,
    roles::{self, Roles},
    server::PostgresServer,
    settings::{Command, Run, Settings},
    slots::{self, Slots},
    status_api::{self, Health, Limits, StatusApi, StatusHandle},
    upgrade::{self, Previous, UpgradeAttempts},
    volume::{Volume, VolumeError},
    wal_commands::WalCommands,
};

/// Time between two attempts to lock the volume.
const LOCK: Duration = Duration::from_secs(1);
/// Name of this program.
const PROGRAM: &str = "ensemble-instance";

impl Settings {
    /// Performs the command.
    ///
    /// # Errors
    /// Returns an error if an instance cannot start. One that has started goes on by itself.
    pub async fn perform(self) -> Result<()> {
        match self.command {
            Command::Install { folder } => install(&folder),
            Command::CopyPrograms { folder } => upgrade::copy_programs(&folder),
            Command::WalArchive { socket, name } => client::archive(&socket, &name).await,
            Command::WalRestore { socket, name, destination } => {
                client::restore(&socket, &name, &destination).await
            }
            Command::Run(settings) => run(*settings).await,
        }
    }
}

/// Copies this program, which is then executable for all users.
fn install(folder: &Path) -> Result<()> {
    let program = env::current_exe().context("cannot find this program")?;
    let copy = folder.join(PROGRAM);
    fs::copy(&program, &copy)
        .with_context(|| format!("cannot copy {} to {}", program.display(), copy.display()))?;
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", copy.display()))
}

async fn run(settings: Run) -> Result<()> {
    ensure!(
        getpid() == Pid::INIT,
        "ensemble-instance must be the first process of a container: it ends all other processes when the Lease \
         expires"
    );
    let terminate = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    let processes = Processes::new().context("cannot handle SIGCHLD")?;
    let health = Arc::new(Health::new());
    let fence_health = health.clone();
    let fence = Fence::start(move || fence_health.fence_ticked()).context("cannot start the fence")?;
    let status = StatusHandle::new(InstanceReport::starting(
        settings.member.clone(),
        settings.pod_uid.clone(),
        env!("CARGO_PKG_VERSION"),
    ));
    let stop = serve(&settings, &status, &health).await?;
    let observations = serve_metrics(&settings, &status, &fence, &stop).await?;
    let client = client().await?;
    let clusters = cluster::watch(client.clone(), &settings.namespace, &settings.cluster);
    let mut start = Start { settings: &settings, health: &health, terminate, clusters };
    let Some(cluster) = start.cluster().await else { return Ok(()) };
    let Some(volume) = start.volume(&cluster).await? else { return Ok(()) };
    let programs = Programs::new(settings.programs.clone(), processes.clone());
    let fixed = fixed(&settings, programs.major_version().await?)?;
    let previous = Previous::find(settings.previous_programs.clone(), &processes).await?;
    let upgrade_attempts = UpgradeAttempts::read(volume.root(), &settings.pod_uid)?;
    let timing = timing(Duration::from_secs(settings.lease_seconds))?;
    let identity = format!("{}_{}", settings.member, settings.pod_uid);
    let leases = Api::namespaced(client, &settings.namespace);
    let until = fence.clone();
    let set_until = move |moment| until.set_until(moment);
    let election =
        Election::start(leases, &settings.namespace, &settings.cluster, identity, timing, set_until);
    let parameters = AcceptedParameters::read(volume.root())?;
    let (secrets, source_secrets) = (settings.archive_secrets.clone(), settings.recovery_secrets.clone());
    let archiving = Archiving::start(&volume.data(), &settings.sockets, secrets, source_secrets)
        .with_context(|| format!("cannot listen in {}", settings.sockets.display()))?;
    let instance = Instance {
        archive_changes: archiving.changes(),
        backup_requests: status.backup_requests(),
        switch_requests: status.switch_requests(),
        backup: None,
        archiving,
        member: settings.member.clone(),
        cluster_uid: settings.cluster_uid.clone(),
        pod_uid: settings.pod_uid.clone(),
        socket: settings.sockets.clone(),
        disk: Disk::new(volume.root()),
        server: PostgresServer::new(programs, fixed, processes, fence.clone()),
        volume,
        fence,
        election,
        clusters: start.clusters,
        seals: status.seal_requests(),
        status,
        health: health.clone(),
        observations,
        probe: Probe::start(settings.sockets.clone()),
        task: None,
        control: None,
        end: None,
        parameters,
        roles: Roles::start(roles::Task::new(
            settings.sockets.clone(),
            settings.application_password.clone(),
        )),
        declared: Declared::start(declared::Task::new(
            settings.sockets.clone(),
            settings.role_passwords.clone(),
        )),
        slots: Slots::start(slots::Task::new(settings.sockets.clone())),
        recovery: Arc::default(),
        previous,
        upgrade_attempts,
        analysis: None,
        in_force: (None, InForce::default()),
        retry: Retry::default(),
        sealed_at: Duration::ZERO,
        last_error: None,
        last_problem: None,
    };
    info!(member = settings.member, "the instance runs");
    instance.run(start.terminate).await;
    stop.cancel();
    Ok(())
}

/// What an instance waits for before it can decide anything.
struct Start<'a> {
    settings: &'a Run,
    health: &'a Health,
    terminate: Signal,
    clusters: watch::Receiver<Option<Cluster>>,
}

impl Start<'_> {
    /// Waits until the cluster has this member. Returns `None` if the Pod ends before.
    async fn cluster(&mut self) -> Option<MemberCluster> {
        self.health.set_unready("the PostgresCluster has not been read yet, or does not have this member");
        loop {
            self.health.main_loop_ticked();
            let cluster = self.clusters.borrow_and_update().clone();
            let Run { member, cluster_uid, .. } = self.settings;
            let member = cluster.and_then(|cluster| MemberCluster::new(&cluster, cluster_uid, member));
            if member.is_some() {
                return member;
            }
            tokio::select! {
                _ = self.clusters.changed() => {}
                () = sleep(LOCK) => {}
                _ = self.terminate.recv() => return None,
            }
        }
    }

    /// Waits for the volume. Returns `None` if the Pod ends before.
    async fn volume(&mut self, cluster: &MemberCluster) -> Result<Option<Volume>> {
        let mut is_logged = false;
        loop {
            self.health.main_loop_ticked();
            match Volume::open(&self.settings.volume, &cluster.creator, &cluster.uid) {
                Ok(volume) => return Ok(Some(volume)),
                Err(error @ VolumeError::Locked(_)) => {
                    if !std::mem::replace(&mut is_logged, true) {
                        warn!(%error, "waiting for the volume");
                    }
                    self.health.set_unready(error.to_string());
                }
                Err(error) => return Err(error.into()),
            }
            tokio::select! {
                () = sleep(LOCK) => {}
                _ = self.terminate.recv() => return Ok(None),
            }
        }
    }
}

async fn serve(settings: &Run, status: &StatusHandle, health: &Arc<Health>) -> Result<CancellationToken> {
    let config = status_api::Config {
        status: SocketAddr::new(settings.address, PORT),
        probes: SocketAddr::new(settings.address, PROBE_PORT),
        certificates: settings.certificates.join("server"),
        limits: Limits::default(),
    };
    let api = StatusApi::bind(config, status.clone(), health.clone()).await?;
    let stop = CancellationToken::new();
    tokio::spawn(api.serve(stop.clone()));
    Ok(stop)
}

async fn serve_metrics(
    settings: &Run,
    status: &StatusHandle,
    fence: &Fence,
    stop: &CancellationToken,
) -> Result<Arc<Observations>> {
    let address = SocketAddr::new(settings.address, metrics::PORT);
    let observations = Arc::<Observations>::default();
    let (status, fence) = (status.clone(), fence.clone());
    let metrics = Metrics::new(status, fence, observations.clone(), settings);
    tokio::spawn(metrics.bind(address).await?.serve(stop.clone()));
    Ok(observations)
}

async fn client() -> Result<Client> {
    let config = Config::infer().await.context("cannot find out how to reach the API server")?;
    Client::try_from(config).context("cannot create a client for the API server")
}

fn fixed(settings: &Run, major_version: u16) -> Result<Static> {
    Ok(Static {
        member: settings.member.clone(),
        address: settings.address,
        socket: settings.sockets.clone(),
        certificates: settings.certificates.clone(),
        user: user_name()?,
        memory: settings.memory_limit,
        wal: WalCommands::new(&env::current_exe().context("cannot find this program")?, &settings.sockets),
        major_version,
    })
}

/// Returns the name of the present user, which PostgreSQL compares with `pg_ident.conf`.
fn user_name() -> Result<String> {
    let uid = getuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
    let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let name =
        fields.filter(|user| user.get(2) == Some(&uid.as_str())).find_map(|user| user.first().copied());
    name.map(str::to_owned).with_context(|| {
        format!("the user {uid} has no name in /etc/passwd; run the container as the user of PostgreSQL in its image")
    })
}
