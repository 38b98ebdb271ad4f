//! Runs versitygw with a temporary folder as its storage.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::OnceLock,
    thread::sleep,
    time::{Duration, Instant},
};

use cluster::reserve_address;
use tempfile::TempDir;

/// Name of the bucket, which is a folder of the storage.
pub(crate) const BUCKET: &str = "backups";
pub(crate) const KEY_ID: &str = "test-key-id";
pub(crate) const SECRET: &str = "test-secret-access-key";

/// Time in which the server starts.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Starts the server, and kills it and removes its folder when the standard input ends: with the test
/// program, even if that is killed.
const REAPER: &str = r#"trap '' HUP INT TERM
folder=$1; shift
"$@" >"$folder/log" 2>&1 &
read -r _
kill -KILL $!
wait 2>/dev/null
rm -rf -- "$folder""#;

/// A running versitygw. It is killed when this is dropped and when this process ends.
pub(crate) struct Server {
    reaper: Child,
    address: SocketAddr,
    folder: PathBuf,
}

impl Server {
    /// Returns the server that the tests of this process share.
    pub(crate) fn shared() -> &'static Self {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(|| Self::start(&[]))
    }

    /// Starts a server with further arguments.
    pub(crate) fn start(args: &[&str]) -> Self {
        let address = reserve_address().unwrap();
        let folder = TempDir::with_prefix("ensemble-versitygw-").unwrap().keep();
        fs::create_dir_all(folder.join("storage").join(BUCKET)).unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", REAPER, "reaper"]).arg(&folder).arg(go_tools::VERSITYGW.locate().unwrap());
        command.args(["--port", &address.to_string(), "--keep-alive"]).args(args);
        command.arg("posix").arg(folder.join("storage"));
        command.env("ROOT_ACCESS_KEY_ID", KEY_ID).env("ROOT_SECRET_ACCESS_KEY", SECRET);
        let reaper = command.stdin(Stdio::piped()).process_group(0).spawn().unwrap();
        let server = Self { reaper, address, folder };
        server.wait_until_started();
        server
    }

    fn wait_until_started(&self) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let is_open = TcpStream::connect(self.address).is_ok();
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            if is_open && log.contains("service listening on") {
                return;
            }
            assert!(Instant::now() < deadline, "versitygw does not start:\n{log}");
            sleep(Duration::from_millis(20));
        }
    }

    /// Returns the address of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the file in which the server stores an object.
    pub(crate) fn file(&self, key: &str) -> PathBuf {
        self.folder.join("storage").join(BUCKET).join(key)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.reaper.stdin.take());
        let _ = self.reaper.wait();
    }
}

#[test]
fn server_and_its_folder_end_with_their_owner() {
    let server = Server::start(&[]);
    let (address, folder) = (server.address(), server.folder.clone());
    assert!(TcpStream::connect(address).is_ok() && folder.exists());
    drop(server);
    assert!(TcpStream::connect(address).is_err() && !folder.exists());
}
