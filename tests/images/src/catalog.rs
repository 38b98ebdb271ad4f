//! Descriptions of the images that tests need.
//!
//! The names are those of the public images that they replace. Their programs are Debian's, or
//! built from pinned sources.

use anyhow::Result;

use crate::{Config, Content, Image};

/// User and group of PostgreSQL, as in the official image.
const POSTGRES: u64 = 999;
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Users of all images with an operating system, as Debian and the official images have them.
const USERS: [(&str, u64, &str); 5] = [
    ("root", 0, "/root"),
    ("www-data", 33, "/var/www"),
    ("postgres", POSTGRES, "/var/lib/postgresql"),
    ("memcache", 11211, "/"),
    ("nobody", 65534, "/"),
];
const NGINX_CONF: &str = include_str!("../programs/nginx.conf");
const PAUSE_C: &str = include_str!("../programs/pause.c");

/// Returns all images of the catalog.
///
/// # Errors
/// Returns an error if a name in the catalog is not valid.
pub fn all() -> Result<Vec<Image>> {
    [pause, busybox, memcached, memcached_exporter, nginx, postgres, client]
        .into_iter()
        .map(|image| image())
        .collect()
}

/// Returns the image whose containers hold the namespaces of Pods.
///
/// # Errors
/// As [`all`].
pub fn pause() -> Result<Image> {
    let config = Config { entrypoint: words(&["/pause"]), ..Config::default() };
    let image = Image::new("pause").file("/pause", 0o755, Content::C(PAUSE_C)).config(config);
    image.served_as("registry.k8s.io/pause:*")?.served_as("docker.io/library/pause:*")
}

/// Returns an image with busybox. It is also served as the default image of PodSets, which only
/// sleep.
///
/// # Errors
/// As [`all`].
pub fn busybox() -> Result<Image> {
    let image = debian("busybox").config(Config { cmd: words(&["sh"]), ..config() });
    image.served_as("docker.io/library/busybox:*")?.served_as("quay.io/amacdona/strauss:*")
}

/// Returns an image with memcached.
///
/// # Errors
/// As [`all`].
pub fn memcached() -> Result<Image> {
    let config = Config {
        user: "memcache".to_owned(),
        cmd: words(&["memcached"]),
        exposed_ports: vec![11211],
        ..config()
    };
    debian("memcached").packages(&["memcached"]).config(config).served_as("docker.io/library/memcached:*")
}

/// Returns an image with Prometheus' exporter for memcached.
///
/// # Errors
/// As [`all`].
pub fn memcached_exporter() -> Result<Image> {
    let program = Content::Go(&go_tools::MEMCACHED_EXPORTER);
    let config = Config {
        user: "65534".to_owned(),
        entrypoint: words(&["/bin/memcached_exporter"]),
        exposed_ports: vec![9150],
        ..Config::default()
    };
    let image = Image::new("memcached-exporter").file("/bin/memcached_exporter", 0o755, program);
    let image = image.config(config).served_as("docker.io/prom/memcached-exporter:*")?;
    image.served_as("quay.io/prometheus/memcached-exporter:*")
}

/// Returns an image with nginx, which serves `/usr/share/nginx/html` on port 80.
///
/// # Errors
/// As [`all`].
pub fn nginx() -> Result<Image> {
    let config = Config { cmd: words(&["nginx", "-g", "daemon off;"]), exposed_ports: vec![80], ..config() };
    let image = debian("nginx").packages(&["nginx"]).without_packages(&["iproute2"]);
    let image = image.file("/etc/nginx/nginx.conf", 0o644, Content::Text(NGINX_CONF.to_owned()));
    image.config(config).served_as("docker.io/library/nginx:*")
}

/// Returns an image with PostgreSQL, in the version of this machine's Debian release.
///
/// It has the programs and the user of the official image, but not its entrypoint.
///
/// # Errors
/// As [`all`].
pub fn postgres() -> Result<Image> {
    let mut config = Config {
        user: "postgres".to_owned(),
        cmd: words(&["postgres"]),
        exposed_ports: vec![5432],
        ..config()
    };
    config.env.insert("LANG".to_owned(), "C.UTF-8".to_owned());
    config.env.insert("PGDATA".to_owned(), "/var/lib/postgresql/data".to_owned());
    let image = debian("postgres").packages(&["postgresql", "libc-bin", "bash"]);
    // Without the library for JIT compilation, PostgreSQL runs without it. LLVM is the largest part.
    let image = image
        .without_packages(&["locales", "postgresql-client-common", "postgresql-common"])
        .without_packages(&["libllvm14", "libllvm16", "libllvm17", "libllvm19"])
        .without_paths(&["/usr/lib/postgresql/*/lib/bitcode", "/usr/lib/postgresql/*/lib/llvmjit.so"]);
    let image = image
        .program_links("/usr/lib/postgresql/*/bin")
        .directory("/var/lib/postgresql", 0o755, POSTGRES)
        .directory("/var/lib/postgresql/data", 0o1777, POSTGRES)
        .directory("/run/postgresql", 0o3777, POSTGRES);
    image.config(config).served_as("docker.io/library/postgres:*")
}

/// Returns an image with clients for tests: curl, nc, drill for DNS, ps, and those of memcached.
///
/// # Errors
/// As [`all`].
pub fn client() -> Result<Image> {
    let packages = ["curl", "ldnsutils", "libmemcached-tools", "netcat-openbsd", "procps"];
    // Debian makes this link in a script, and busybox has another nc.
    let image = debian("client").packages(&packages).symlink("/bin/nc", "/bin/nc.openbsd");
    image.config(Config { cmd: words(&["sh"]), ..config() }).served_as("localhost/client:*")
}

/// Returns an image with a shell, users, and the directories that programs expect.
fn debian(name: &'static str) -> Image {
    let passwd = USERS.map(|(user, id, home)| format!("{user}:x:{id}:{id}:{user}:{home}:/bin/sh\n"));
    let group = USERS.map(|(user, id, _)| format!("{user}:x:{id}:\n"));
    Image::new(name)
        .busybox()
        .file("/etc/passwd", 0o644, Content::Text(passwd.concat()))
        .file("/etc/group", 0o644, Content::Text(group.concat()))
        .file("/etc/nsswitch.conf", 0o644, Content::Text("hosts: files dns\n".to_owned()))
        .directory("/tmp", 0o1777, 0)
        .directory("/root", 0o700, 0)
        .directory("/run", 0o755, 0)
        .symlink("/var/run", "/run")
}

fn config() -> Config {
    Config { env: [("PATH".to_owned(), PATH.to_owned())].into(), ..Config::default() }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn page_lists_every_name() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations/local-clusters.md");
        let page = fs::read_to_string(page).unwrap();
        for name in all().unwrap().iter().flat_map(|image| &image.served_as) {
            assert!(
                page.contains(&format!("`{name}`")),
                "{name} is not in docs/operations/local-clusters.md"
            );
        }
    }
}
