//! PostgreSQL without an instance manager.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use anyhow::Result;
use postgres_processes::{give_to_postgres, program_folder, run_as_postgres};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

/// A server on this machine. It stops when this is dropped.
pub(crate) struct PlainServer {
    folder: TempDir,
    port: u16,
}

impl PlainServer {
    /// Starts a server with a database of this name.
    pub(crate) fn start(database: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("plain-").tempdir()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let port = cluster::reserve_address()?.port();
        let server = Self { folder, port };
        for name in ["server", "work"] {
            fs::create_dir(server.folder.path().join(name))?;
        }
        give_to_postgres(server.folder.path())?;
        let data = server.data();
        server.run(
            "initdb",
            &["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "-D", &data],
        )?;
        let settings = format!(
            "-c port={port} -c listen_addresses=127.0.0.1 -c wal_level=logical -c unix_socket_directories={}",
            server.folder.path().join("server").display()
        );
        server.run("pg_ctl", &["-D", &data, "-w", "-o", &settings, "start"])?;
        server.sql("postgres", &format!("CREATE DATABASE {database}"))?;
        Ok(server)
    }

    fn data(&self) -> String {
        self.folder.path().join("server/data").display().to_string()
    }

    /// Returns the URI of a database.
    pub(crate) fn uri(&self, database: &str) -> String {
        format!("postgresql://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs a program of PostgreSQL, and returns what it printed.
    pub(crate) fn run(&self, program: &str, args: &[&str]) -> Result<String> {
        let program = program_folder()?.join(program).display().to_string();
        run_as_postgres(&self.work(), &program, args)
    }

    /// Runs statements, each in a transaction of its own.
    pub(crate) fn sql(&self, database: &str, statements: &str) -> Result<()> {
        self.run("psql", &["--no-psqlrc", "--command", statements, &self.uri(database)]).map(drop)
    }

    /// Returns a folder for what programs print. That of the server changes while it runs.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Connects to a database.
    pub(crate) async fn connect(&self, database: &str) -> Result<Client> {
        let (client, connection) = tokio_postgres::connect(&self.uri(database), NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }
}

impl Drop for PlainServer {
    fn drop(&mut self) {
        // It may have ended. The data are not needed any more.
        let _ = self.run("pg_ctl", &["-D", &self.data(), "-m", "immediate", "stop"]);
    }
}
