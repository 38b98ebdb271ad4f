//! Runs versitygw with a temporary folder as its storage.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::OnceLock,
    thread::sleep,
    time::{Duration, Instant},
};

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
    port: u16,
    folder: PathBuf,
}

impl Server {
    /// Returns the server that the tests of this process share.
    pub(crate) fn shared() -> &'static Self {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(|| Self::start(&[]))
    }

    /// Starts a server with further arguments. Another program can take the port between its choice
    /// and its use, so a few are tried.
    pub(crate) fn start(args: &[&str]) -> Self {
        let attempts = (0..5).find_map(|_| Self::start_on(free_port(), args));
        attempts.expect("versitygw should find a free port")
    }

    fn start_on(port: u16, args: &[&str]) -> Option<Self> {
        let folder = TempDir::with_prefix("ensemble-versitygw-").unwrap().keep();
        fs::create_dir_all(folder.join("storage").join(BUCKET)).unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", REAPER, "reaper"]).arg(&folder).arg(go_tools::VERSITYGW.locate().unwrap());
        command.args(["--port", &format!("127.0.0.1:{port}"), "--keep-alive"]).args(args);
        command.arg("posix").arg(folder.join("storage"));
        command.env("ROOT_ACCESS_KEY_ID", KEY_ID).env("ROOT_SECRET_ACCESS_KEY", SECRET);
        let reaper = command.stdin(Stdio::piped()).process_group(0).spawn().unwrap();
        let server = Self { reaper, port, folder };
        server.wait_until_started().then_some(server)
    }

    /// Waits until the server has started. Returns false if its port is in use.
    fn wait_until_started(&self) -> bool {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let is_open = TcpStream::connect(("127.0.0.1", self.port)).is_ok();
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            if log.contains("address already in use") {
                return false;
            }
            if is_open && log.contains("service listening on") {
                return true;
            }
            assert!(Instant::now() < deadline, "versitygw does not start:\n{log}");
            sleep(Duration::from_millis(20));
        }
    }

    /// Returns the address of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// Returns the file in which the server stores an object.
    pub(crate) fn file(&self, key: &str) -> PathBuf {
        self.folder.join("storage").join(BUCKET).join(key)
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
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
