//! `psql`: runs psql in the Pod of a member.

use std::{ffi::OsString, io::IsTerminal, os::unix::process::CommandExt, process::Command};

use ::postgres::PostgresCluster;
use anyhow::{Context, Result, ensure};

use super::target::{Target, check_member, status_of};
use crate::{
    cluster::Cluster,
    flags::{ConfigFlags, postgres::Psql},
    output::ExitStatus,
};

/// Folder of the socket of PostgreSQL in the Pod.
const SOCKET: &str = "/run/postgresql";

/// Replaces this process by kubectl, which has the terminal, and the user's way to log in.
pub(super) async fn run(cluster: &Cluster, flags: &Psql) -> Result<ExitStatus> {
    let target = Target::new(cluster, &flags.cluster);
    let current = target.get().await?;
    let member = member(&current, flags.member.as_deref())
        .with_context(|| format!("cannot connect to {}", target.describe()))?;
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let args = arguments(&cluster.config, cluster.namespace(), &current, &member, is_terminal, &flags.args);
    let error = Command::new("kubectl").args(args).exec();
    Err(error).context("cannot run kubectl, which must be in the PATH")
}

fn member(cluster: &PostgresCluster, chosen: Option<&str>) -> Result<String> {
    let status = status_of(cluster);
    if let Some(member) = chosen {
        check_member(&status, member)?;
        return Ok(member.to_owned());
    }
    let primary = status.primary.current;
    ensure!(!primary.is_empty(), "it has no primary at the moment; choose a member with --member");
    Ok(primary)
}

/// Returns the arguments of kubectl.
fn arguments(
    config: &ConfigFlags,
    namespace: &str,
    cluster: &PostgresCluster,
    member: &str,
    is_terminal: bool,
    args: &[String],
) -> Vec<OsString> {
    let mut all: Vec<OsString> = Vec::new();
    if let Some(file) = &config.kubeconfig {
        all.extend(["--kubeconfig".into(), file.into()]);
    }
    if let Some(context) = &config.context {
        all.extend(["--context".into(), context.into()]);
    }
    all.extend(["--namespace", namespace, "exec", "--stdin"].map(OsString::from));
    if is_terminal {
        all.push("--tty".into());
    }
    let database = &cluster.spec.bootstrap.initdb.database;
    all.extend([member, "--container", "postgres", "--", "psql"].map(OsString::from));
    all.extend(["--host", SOCKET, "--username", "postgres", "--dbname", database].map(OsString::from));
    all.extend(args.iter().map(OsString::from));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::testing::{available, cluster};

    #[test]
    fn psql_runs_on_the_primary_in_the_database_of_the_application() {
        let database = available(&["db-1", "db-2"]);
        let member = member(&database, None).unwrap();
        let config = ConfigFlags {
            kubeconfig: Some("/a b/config".into()),
            context: Some("prod".to_owned()),
            namespace: None,
            manager_namespace: None,
        };
        let args =
            arguments(&config, "shop", &database, &member, false, &["-c".to_owned(), "select 1".to_owned()]);
        let args: Vec<_> = args.iter().map(|arg| arg.to_str().unwrap()).collect();
        insta::assert_snapshot!(args.join("|"), @"--kubeconfig|/a b/config|--context|prod|--namespace|shop|exec|--stdin|db-1|--container|postgres|--|psql|--host|/run/postgresql|--username|postgres|--dbname|app|-c|select 1");
    }

    #[test]
    fn member_must_exist() {
        let database = available(&["db-1", "db-2"]);
        assert_eq!(member(&database, Some("db-2")).unwrap(), "db-2");
        assert!(member(&database, Some("db-3")).is_err());
        assert!(member(&cluster(), None).unwrap_err().to_string().contains("no primary"));
    }
}
