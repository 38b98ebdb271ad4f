//! Builds the control plane's programs from pinned Go modules, once per machine and version.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use go_tools::{discard, lock, with_suffix};
use rustix::fs::statvfs;

use crate::go_error;
use crate::kubernetes_module;
use crate::lifeline::Lifeline;
use crate::private_dir::private_dir;
use crate::progress::Progress;
use crate::release::{RELEASES, Release};
use crate::versions::{self, Versions, cache_key};

/// Peak disk usage of the compiler's cache, the linked programs, and the downloaded sources,
/// rounded up.
pub(crate) const NEEDED_BYTES: u64 = 6 << 30;
const REPORT_EVERY: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(100);

/// Builds the programs with the Go tool.
#[derive(Debug)]
pub(crate) struct Builder {
    go: OsString,
    release: Release,
    modules: PathBuf,
    needed_bytes: u64,
}

/// A program: the module that pins its version, its package, and its file name.
struct Target {
    module: &'static str,
    package: &'static str,
    name: &'static str,
}

const fn target(module: &'static str, package: &'static str, name: &'static str) -> Target {
    Target { module, package, name }
}

const KUBERNETES: &str = "kubernetes";

/// Small programs come first, so that a network or Go error shows early.
const TARGETS: [Target; 8] = [
    target("etcd", "go.etcd.io/etcd/server/v3", "etcd"),
    target("kwok", "sigs.k8s.io/kwok/cmd/kwok", "kwok"),
    target(KUBERNETES, "k8s.io/kubernetes/cmd/kubectl", "kubectl"),
    target(KUBERNETES, "k8s.io/kubernetes/cmd/kube-scheduler", "kube-scheduler"),
    target(KUBERNETES, "k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver"),
    target(KUBERNETES, "k8s.io/kubernetes/cmd/kube-controller-manager", "kube-controller-manager"),
    target(KUBERNETES, "k8s.io/kubernetes/cmd/kubelet", "kubelet"),
    target(KUBERNETES, "k8s.io/kubernetes/cmd/kube-proxy", "kube-proxy"),
];

impl Builder {
    pub(crate) fn new(go: OsString, release: Release) -> Self {
        let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("modules");
        Self { go, release, modules, needed_bytes: NEEDED_BYTES }
    }

    /// Builds all programs into `home/bin`. The directory appears atomically when the build is
    /// complete. If another process builds the same versions, waits for it and uses its result.
    /// Removes partial results, even if this process is killed.
    pub(crate) fn build(&self, home: &Path, progress: &Progress) -> Result<()> {
        let cache = home.parent().context("the cache directory has no parent")?;
        private_dir(cache)?;
        let lock = lock(&with_suffix(home, "lock"), || {
            progress.report("another command is building the control plane's programs; waiting for it");
        })?;
        if TARGETS.iter().all(|target| home.join("bin").join(target.name).is_file()) {
            return Ok(());
        }
        self.check_go()?;
        self.check_space(cache)?;
        let work = with_suffix(home, "building");
        discard(&work)?;
        for dir in ["tmp", "out/bin"] {
            private_dir(&work.join(dir))?;
        }
        let lifeline = Lifeline::new(&work, &lock)?;
        let Versions { kubernetes, etcd, kwok } = Versions::of(self.release)?;
        progress.report(format!(
            "building Kubernetes {kubernetes}, etcd {etcd} and kwok {kwok}, once; this takes about ten minutes on two cores",
        ));
        for (index, target) in TARGETS.iter().enumerate() {
            if self.reuse(target, cache, &work)? {
                continue;
            }
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

    /// Checks the version of the Go tool.
    ///
    /// # Errors
    /// Returns an error with the possible remedies if Go is missing or too old.
    fn check_go(&self) -> Result<()> {
        let answer = Command::new(&self.go).args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local").output();
        let version = match answer {
            Ok(output) if output.status.success() => {
                String::from_utf8_lossy(&output.stdout).trim().to_owned()
            }
            Ok(output) => bail!(
                "cannot build the control plane without Go: `go env GOVERSION` ended with {}: {}",
                output.status,
                go_error::REMEDIES
            ),
            Err(error) => {
                bail!("cannot build the control plane without Go: {error}: {}", go_error::REMEDIES)
            }
        };
        if !go_error::is_new_enough(&version) {
            bail!("cannot build the control plane with {version}: {}", go_error::REMEDIES);
        }
        Ok(())
    }

    /// Checks the free disk space before the build.
    fn check_space(&self, cache: &Path) -> Result<()> {
        let free = statvfs(cache)
            .map(|space| space.f_bavail.saturating_mul(space.f_frsize))
            .with_context(|| format!("read the free space of {}", cache.display()))?;
        if free < self.needed_bytes {
            bail!("{}", go_error::too_little_space(cache, free, self.needed_bytes));
        }
        Ok(())
    }

    /// Links a program that another release of Kubernetes has too. Returns whether there is one.
    fn reuse(&self, target: &Target, cache: &Path, work: &Path) -> Result<bool> {
        if target.module == KUBERNETES {
            return Ok(false);
        }
        let program = work.join("out/bin").join(target.name);
        for other in RELEASES.into_iter().filter(|other| *other != self.release) {
            let built = cache.join(cache_key(other)?).join("bin").join(target.name);
            if fs::hard_link(built, &program).is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn compile(
        &self,
        target: &Target,
        title: &str,
        work: &Path,
        lifeline: &Lifeline,
        progress: &Progress,
    ) -> Result<()> {
        progress.report(format!("building {title}"));
        let log_path = work.join(format!("{}.log", target.name));
        let log = File::create(&log_path).with_context(|| format!("create {}", log_path.display()))?;
        let program = PathBuf::from(&self.go);
        let child = lifeline.spawn(&program, &self.arguments(target, work)?, &environment(work), &log)?;
        let pid = child.id();
        let succeeded = wait(child, title, progress)?;
        lifeline.forget(pid)?;
        if !succeeded {
            let output = fs::read(&log_path).unwrap_or_default();
            bail!(
                "{}",
                go_error::explain(target.name, &String::from_utf8_lossy(&output), work, self.needed_bytes)
            );
        }
        Ok(())
    }

    fn arguments(&self, target: &Target, work: &Path) -> Result<Vec<String>> {
        let committed = target.module != KUBERNETES || self.release.is_pinned();
        let (module, mode) = if committed {
            (self.modules.join(target.module), "-mod=readonly")
        } else {
            let [pinned_go_mod, _] = versions::KUBERNETES;
            (kubernetes_module::write(self.release, pinned_go_mod, work)?, "-mod=mod")
        };
        let program = work.join("out/bin").join(target.name);
        let mut arguments: Vec<_> = ["build", "-C"].map(str::to_owned).into();
        arguments.push(module.display().to_string());
        arguments.extend([mode, "-trimpath", "-o"].map(str::to_owned));
        arguments.push(program.display().to_string());
        arguments.extend(["-ldflags".to_owned(), self.linker_flags(target), target.package.to_owned()]);
        Ok(arguments)
    }

    /// Sets Kubernetes' version through linker flags. etcd and kwok contain their version.
    fn linker_flags(&self, target: &Target) -> String {
        let mut flags = vec!["-s -w".to_owned()];
        if target.module == KUBERNETES {
            let (version, minor) = (self.release.version(), self.release.minor().to_string());
            for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
                for (variable, value) in
                    [("gitVersion", version.as_str()), ("gitMajor", "1"), ("gitMinor", &minor)]
                {
                    flags.push(format!("-X {package}.{variable}={value}"));
                }
            }
        }
        flags.join(" ")
    }
}

/// Isolates the build from the caller's Go settings and keeps its temporary files in `work`. Go's own build cache is
/// used: other programs share some libraries of Kubernetes.
fn environment(work: &Path) -> Vec<(String, String)> {
    let tmp = work.join("tmp").display().to_string();
    [
        ("CGO_ENABLED", "0"),
        ("GOTOOLCHAIN", "local"),
        ("GOFLAGS", ""),
        ("GOWORK", "off"),
        ("GOOS", ""),
        ("GOARCH", ""),
        ("GOTMPDIR", tmp.as_str()),
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
            progress.report(format!("building {title}: {} s", start.elapsed().as_secs()));
            report += REPORT_EVERY;
        }
        std::thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    const FAKE_GO_BUILD: &str =
        r#"for word; do [ "$last" = -o ] && echo "$CGO_ENABLED" > "$word"; last=$word; done"#;

    struct Fixture {
        dir: tempfile::TempDir,
        reported: Arc<Mutex<Vec<String>>>,
    }

    impl Fixture {
        fn new(build: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let go = dir.path().join("go");
            let script = format!(
                "#!/bin/sh\nif [ $1 = env ]; then echo go1.26.8; exit; fi\necho built >> {}/builds\n{build}\n",
                dir.path().display()
            );
            let source = dir.path().join("go.sh");
            fs::write(&source, script).unwrap();
            // A child of a concurrent test can inherit a file that this process writes, and nobody can
            // execute it until that child has closed it.
            let copied = Command::new("install").arg("--mode=755").args([&source, &go]).status().unwrap();
            assert!(copied.success());
            Self { dir, reported: Arc::default() }
        }

        fn home(&self) -> PathBuf {
            self.dir.path().join("cache/v1.2.3")
        }

        fn build(&self, needed_bytes: u64) -> Result<()> {
            self.build_with(self.dir.path().join("go").into(), needed_bytes)
        }

        fn build_with(&self, go: OsString, needed_bytes: u64) -> Result<()> {
            self.build_release(go, needed_bytes, Release::default(), &self.home())
        }

        fn build_release(
            &self,
            go: OsString,
            needed_bytes: u64,
            release: Release,
            home: &Path,
        ) -> Result<()> {
            let builder = Builder { needed_bytes, ..Builder::new(go, release) };
            let reported = Arc::clone(&self.reported);
            builder.build(home, &Progress::new(move |line| reported.lock().unwrap().push(line.to_owned())))
        }

        fn builds(&self) -> usize {
            fs::read_to_string(self.dir.path().join("builds")).unwrap_or_default().lines().count()
        }

        fn cached_files(&self) -> Vec<String> {
            let mut names: Vec<_> = fs::read_dir(self.dir.path().join("cache"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        }
    }

    #[test]
    fn builds_all_programs_and_removes_temporary_files() {
        let fixture = Fixture::new(FAKE_GO_BUILD);
        fixture.build(0).unwrap();
        assert_eq!(fixture.cached_files(), ["v1.2.3", "v1.2.3.lock"]);
        for target in &TARGETS {
            assert_eq!(
                fs::read_to_string(fixture.home().join("bin").join(target.name)).unwrap(),
                "0\n",
                "CGO_ENABLED"
            );
        }
        assert!(fixture.reported.lock().unwrap().iter().any(|line| line.contains("kube-apiserver (5 of 8)")));
    }

    #[test]
    fn concurrent_commands_build_once() {
        let fixture = Fixture::new(FAKE_GO_BUILD);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| fixture.build(0).unwrap());
            }
        });
        assert_eq!(fixture.builds(), TARGETS.len());
    }

    #[test]
    fn other_release_has_its_own_module_and_shares_other_programs() {
        let fixture = Fixture::new(&format!("echo \"$*\" >> $(dirname $0)/arguments\n{FAKE_GO_BUILD}"));
        let cache = fixture.dir.path().join("cache");
        for release in [Release::default(), "1.33".parse().unwrap()] {
            let home = cache.join(cache_key(release).unwrap());
            fixture.build_release(fixture.dir.path().join("go").into(), 0, release, &home).unwrap();
            assert!(TARGETS.iter().all(|target| home.join("bin").join(target.name).is_file()));
        }
        let arguments = fs::read_to_string(fixture.dir.path().join("arguments")).unwrap();
        let builds = |pattern: &str| arguments.lines().filter(|line| line.contains(pattern)).count();
        assert_eq!((builds("/bin/etcd "), builds("/bin/kwok ")), (1, 1), "{arguments}");
        assert_eq!((builds("/bin/kubectl "), builds("-mod=mod")), (2, 6), "{arguments}");
        assert_eq!(builds(".gitVersion=v1.33.13 "), 6, "{arguments}");
    }

    #[test]
    fn full_disk_error_has_remedy_and_removes_partial_build() {
        let fixture = Fixture::new("echo 'link: write out: no space left on device' >&2; exit 1");
        let error = fixture.build(0).unwrap_err().to_string();
        assert!(
            error.contains("etcd") && error.contains("no space left on device") && error.contains("free"),
            "{error}"
        );
        assert_eq!(fixture.cached_files(), ["v1.2.3.lock"]);
    }

    #[test]
    fn network_error_has_remedy_and_removes_partial_build() {
        let fixture =
            Fixture::new("echo 'go: x@v1: dial tcp 10.0.0.1:443: connect: connection refused' >&2; exit 1");
        let error = fixture.build(0).unwrap_err().to_string();
        assert!(error.contains("connection refused") && error.contains("GOPROXY"), "{error}");
        assert_eq!(fixture.cached_files(), ["v1.2.3.lock"]);
    }

    #[test]
    fn missing_go_error_lists_remedies() {
        let fixture = Fixture::new(FAKE_GO_BUILD);
        let error = fixture.build_with("/nonexistent/go".into(), 0).unwrap_err().to_string();
        for remedy in ["Go 1.26", "KUBEBUILDER_ASSETS", "KUBECONFIG"] {
            assert!(error.contains(remedy), "{error}");
        }
    }

    #[test]
    fn checks_disk_space_before_build() {
        let fixture = Fixture::new(FAKE_GO_BUILD);
        let error = fixture.build(u64::MAX).unwrap_err().to_string();
        assert!(error.contains("GiB"), "{error}");
        assert_eq!(fixture.builds(), 0);
    }

    #[test]
    fn replaces_incomplete_cache() {
        let fixture = Fixture::new(FAKE_GO_BUILD);
        fs::create_dir_all(fixture.home().join("bin")).unwrap();
        fs::write(fixture.home().join("bin/etcd"), "half").unwrap();
        fs::create_dir_all(with_suffix(&fixture.home(), "building")).unwrap();
        fixture.build(0).unwrap();
        assert_eq!(fs::read_to_string(fixture.home().join("bin/etcd")).unwrap(), "0\n");
    }
}
