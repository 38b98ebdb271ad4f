//! Builds the control plane's programs from pinned Go modules, once per machine and version.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::fs::{FlockOperation, flock, statvfs};

use crate::go_error;
use crate::lifeline::Lifeline;
use crate::progress::Progress;
use crate::state::private_dir;
use crate::versions::Versions;

/// What the compiler's cache, the linked programs and the downloaded sources take at their highest, with some air.
pub(crate) const NEEDED_BYTES: u64 = 6 << 30;
const REPORT_EVERY: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(100);

/// Runs the Go tool.
#[derive(Debug)]
pub(crate) struct Builder {
    go: OsString,
    versions: Versions,
    modules: PathBuf,
    needed_bytes: u64,
}

/// One program: the module that pins it, its package, the name it gets.
struct Target {
    module: &'static str,
    package: &'static str,
    name: &'static str,
}

const fn target(module: &'static str, package: &'static str, name: &'static str) -> Target {
    Target { module, package, name }
}

/// Small ones first: a broken network or Go shows itself early.
const TARGETS: [Target; 6] = [
    target("etcd", "go.etcd.io/etcd/server/v3", "etcd"),
    target("kwok", "sigs.k8s.io/kwok/cmd/kwok", "kwok"),
    target("kubernetes", "k8s.io/kubernetes/cmd/kubectl", "kubectl"),
    target("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", "kube-scheduler"),
    target("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver"),
    target("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", "kube-controller-manager"),
];

impl Builder {
    pub(crate) fn new(go: OsString, versions: Versions) -> Self {
        let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("modules");
        Self { go, versions, modules, needed_bytes: NEEDED_BYTES }
    }

    /// Builds everything into `home/bin`, which appears at once and complete or not at all. A process that builds the same is waited for, and
    /// its result taken. Nothing half-built stays, even if this process is killed.
    pub(crate) fn build(&self, home: &Path, progress: &Progress) -> Result<()> {
        let cache = home.parent().context("the cache directory has no parent")?;
        private_dir(cache)?;
        let lock = wait_for_lock(&beside(home, "lock"), progress)?;
        if TARGETS.iter().all(|target| home.join("bin").join(target.name).is_file()) {
            return Ok(());
        }
        self.check_go()?;
        self.check_space(cache)?;
        let work = beside(home, "building");
        discard(&work)?;
        for dir in ["tmp", "out/bin"] {
            private_dir(&work.join(dir))?;
        }
        let lifeline = Lifeline::new(&work, &lock)?;
        progress.say(format!(
            "building Kubernetes {}, etcd {} and kwok {}, once; this takes about ten minutes on two cores",
            self.versions.kubernetes, self.versions.etcd, self.versions.kwok
        ));
        for (index, target) in TARGETS.iter().enumerate() {
            self.compile(
                target,
                &format!("{} ({} of {})", target.name, index + 1, TARGETS.len()),
                &work,
                &lifeline,
                progress,
            )?;
        }
        discard(home)?;
        fs::rename(work.join("out"), home)
            .with_context(|| format!("move the built programs to {}", home.display()))
    }

    /// # Errors
    /// Without a Go tool that is new enough: says the ways out.
    fn check_go(&self) -> Result<()> {
        let answer = Command::new(&self.go).args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local").output();
        let version = answer
            .ok()
            .filter(|output| output.status.success())
            .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        match version {
            Some(version) if go_error::is_new_enough(&version) => Ok(()),
            Some(version) => bail!("{version} is too old to build the control plane: {}", go_error::WAYS_OUT),
            None => bail!("there is no Go tool to build the control plane with: {}", go_error::WAYS_OUT),
        }
    }

    /// Fails before minutes of work rather than after.
    fn check_space(&self, cache: &Path) -> Result<()> {
        let free = statvfs(cache)
            .map(|space| space.f_bavail.saturating_mul(space.f_frsize))
            .with_context(|| format!("see how much space {} has", cache.display()))?;
        if free < self.needed_bytes {
            bail!("{}", go_error::too_little_space(cache, free, self.needed_bytes));
        }
        Ok(())
    }

    fn compile(
        &self,
        target: &Target,
        title: &str,
        work: &Path,
        lifeline: &Lifeline,
        progress: &Progress,
    ) -> Result<()> {
        progress.say(format!("building {title}"));
        let log_path = work.join(format!("{}.log", target.name));
        let log = File::create(&log_path).with_context(|| format!("create {}", log_path.display()))?;
        let program = PathBuf::from(&self.go);
        let child = lifeline.spawn(&program, &self.arguments(target, work), &environment(work), &log)?;
        let pid = child.id();
        let good = wait(child, title, progress)?;
        lifeline.forget(pid)?;
        if !good {
            let output = fs::read(&log_path).unwrap_or_default();
            bail!(
                "{}",
                go_error::explain(target.name, &String::from_utf8_lossy(&output), work, self.needed_bytes)
            );
        }
        Ok(())
    }

    fn arguments(&self, target: &Target, work: &Path) -> Vec<String> {
        let mut arguments: Vec<String> = ["build", "-C"].map(str::to_owned).into();
        arguments.push(self.modules.join(target.module).display().to_string());
        arguments.extend(["-mod=readonly", "-trimpath", "-o"].map(str::to_owned));
        arguments.push(work.join("out/bin").join(target.name).display().to_string());
        arguments.extend(["-ldflags".to_owned(), self.linker_flags(target), target.package.to_owned()]);
        arguments
    }

    /// Kubernetes takes the version that it reports from the linker; etcd and kwok know theirs.
    fn linker_flags(&self, target: &Target) -> String {
        let mut flags = vec!["-s -w".to_owned()];
        if target.module == "kubernetes" {
            let (major, minor) = self.versions.kubernetes_minor();
            for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
                let version = self.versions.kubernetes.as_str();
                for (variable, value) in [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor)] {
                    flags.push(format!("-X {package}.{variable}={value}"));
                }
            }
        }
        flags.join(" ")
    }
}

/// Takes care that the caller's own Go settings neither break the build nor end up with its leftovers.
fn environment(work: &Path) -> Vec<(String, String)> {
    let tmp = work.join("tmp").display().to_string();
    let cache = work.join("cache").display().to_string();
    [
        ("CGO_ENABLED", "0"),
        ("GOTOOLCHAIN", "local"),
        ("GOFLAGS", ""),
        ("GOWORK", "off"),
        ("GOOS", ""),
        ("GOARCH", ""),
        ("GOTMPDIR", tmp.as_str()),
        ("GOCACHE", cache.as_str()),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

fn wait(mut child: Child, title: &str, progress: &Progress) -> Result<bool> {
    let start = Instant::now();
    let mut report = REPORT_EVERY;
    loop {
        if let Some(status) = child.try_wait().context("wait for the Go tool")? {
            return Ok(status.success());
        }
        if start.elapsed() >= report {
            progress.say(format!("building {title}: {} s", start.elapsed().as_secs()));
            report += REPORT_EVERY;
        }
        std::thread::sleep(POLL);
    }
}

fn wait_for_lock(path: &Path, progress: &Progress) -> Result<File> {
    let lock = File::options()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("open {}", path.display()))?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        progress.say("another command is building the control plane's programs; waiting for it");
        flock(&lock, FlockOperation::LockExclusive).with_context(|| format!("lock {}", path.display()))?;
    }
    Ok(lock)
}

/// `a.b` and `c` give `a.b.c`, unlike `Path::with_extension`.
fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

fn discard(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::{Arc, Mutex};

    use super::*;

    const GOOD: &str = r#"for word; do [ "$last" = -o ] && echo "$CGO_ENABLED" > "$word"; last=$word; done"#;

    struct Bench {
        dir: tempfile::TempDir,
        said: Arc<Mutex<Vec<String>>>,
    }

    impl Bench {
        fn new(build: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let go = dir.path().join("go");
            let script = format!(
                "#!/bin/sh\nif [ $1 = env ]; then echo go1.26.8; exit; fi\necho built >> {}/builds\n{build}\n",
                dir.path().display()
            );
            fs::write(&go, script).unwrap();
            fs::set_permissions(&go, fs::Permissions::from_mode(0o755)).unwrap();
            Self { dir, said: Arc::default() }
        }

        fn home(&self) -> PathBuf {
            self.dir.path().join("cache/v1.2.3")
        }

        fn build(&self, needed_bytes: u64) -> Result<()> {
            self.build_with(self.dir.path().join("go").into(), needed_bytes)
        }

        fn build_with(&self, go: OsString, needed_bytes: u64) -> Result<()> {
            let builder = Builder { needed_bytes, ..Builder::new(go, Versions::pinned().unwrap()) };
            let said = Arc::clone(&self.said);
            builder
                .build(&self.home(), &Progress::new(move |line| said.lock().unwrap().push(line.to_owned())))
        }

        fn builds(&self) -> usize {
            fs::read_to_string(self.dir.path().join("builds")).unwrap_or_default().lines().count()
        }

        fn left(&self) -> Vec<String> {
            let mut names: Vec<_> = fs::read_dir(self.dir.path().join("cache"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        }
    }

    #[test]
    fn a_build_leaves_the_programs_and_nothing_else() {
        let bench = Bench::new(GOOD);
        bench.build(0).unwrap();
        assert_eq!(bench.left(), ["v1.2.3", "v1.2.3.lock"]);
        for target in &TARGETS {
            assert_eq!(
                fs::read_to_string(bench.home().join("bin").join(target.name)).unwrap(),
                "0\n",
                "CGO_ENABLED"
            );
        }
        assert!(bench.said.lock().unwrap().iter().any(|line| line.contains("kube-apiserver (5 of 6)")));
    }

    #[test]
    fn two_commands_at_once_build_once() {
        let bench = Bench::new(GOOD);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| bench.build(0).unwrap());
            }
        });
        assert_eq!(bench.builds(), TARGETS.len());
    }

    #[test]
    fn a_full_disk_is_named_with_what_to_do_and_nothing_half_built_stays() {
        let bench = Bench::new("echo 'link: write out: no space left on device' >&2; exit 1");
        let error = bench.build(0).unwrap_err().to_string();
        assert!(
            error.contains("etcd") && error.contains("no space left on device") && error.contains("free"),
            "{error}"
        );
        assert_eq!(bench.left(), ["v1.2.3.lock"]);
    }

    #[test]
    fn a_broken_network_is_named_with_what_to_do_and_nothing_half_built_stays() {
        let bench =
            Bench::new("echo 'go: x@v1: dial tcp 10.0.0.1:443: connect: connection refused' >&2; exit 1");
        let error = bench.build(0).unwrap_err().to_string();
        assert!(error.contains("connection refused") && error.contains("GOPROXY"), "{error}");
        assert_eq!(bench.left(), ["v1.2.3.lock"]);
    }

    #[test]
    fn without_go_the_ways_out_are_said() {
        let bench = Bench::new(GOOD);
        let error = bench.build_with("/nonexistent/go".into(), 0).unwrap_err().to_string();
        for way in ["Go 1.26", "KUBEBUILDER_ASSETS", "KUBECONFIG"] {
            assert!(error.contains(way), "{error}");
        }
    }

    #[test]
    fn too_little_space_is_seen_before_the_work() {
        let bench = Bench::new(GOOD);
        let error = bench.build(u64::MAX).unwrap_err().to_string();
        assert!(error.contains("GiB"), "{error}");
        assert_eq!(bench.builds(), 0);
    }

    #[test]
    fn a_half_made_cache_is_replaced() {
        let bench = Bench::new(GOOD);
        fs::create_dir_all(bench.home().join("bin")).unwrap();
        fs::write(bench.home().join("bin/etcd"), "half").unwrap();
        fs::create_dir_all(beside(&bench.home(), "building")).unwrap();
        bench.build(0).unwrap();
        assert_eq!(fs::read_to_string(bench.home().join("bin/etcd")).unwrap(), "0\n");
    }
}
