//! Certificates that are renewed while the members run.

use std::fs;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::{ResourceExt, api::DeleteParams};
use postgres_processes::{Database, Member};

use crate::switchover::{check, pods, with_writes};

/// What PostgreSQL logs when it reads its configuration and its certificates again.
const RELOADED: &str = "received SIGHUP, reloading configuration files";

#[tokio::test]
async fn renewed_certificate_is_read_again() {
    let mut database = Database::new(1).await.unwrap();
    database.until_complete().await.unwrap();
    let member = database.primary().unwrap();
    let before = member.log().matches(RELOADED).count();
    let path = member.folder().join("certificates/server/tls.crt");
    let renewed = fs::read_to_string(&path).unwrap() + "\n";
    fs::write(&path, renewed).unwrap();
    let check = async |members: &[Member]| {
        let member = members.first().context("there is no member")?;
        let reloads = member.log().matches(RELOADED).count() - before;
        Ok(if reloads > 0 { Ok(()) } else { Err(reloads) })
    };
    database.kubelet.until("PostgreSQL to read the certificate again", check).await.unwrap();
}

/// The serial numbers of the certificates with which the standbys have logged in to the primary.
const SERIALS: &str = "\
SELECT string_agg(application_name || ' ' || client_serial, ',' ORDER BY application_name) \
FROM pg_stat_replication JOIN pg_stat_ssl USING (pid)";

/// Returns the serial number with which a standby has logged in.
fn serial(database: &mut Database, standby: &str) -> Result<String> {
    let serials = database.primary()?.query(SERIALS)?;
    let own = serials.split(',').find_map(|line| line.strip_prefix(standby)?.strip_prefix(' '));
    own.map(str::to_owned).with_context(|| format!("{standby} does not stream: {serials}"))
}

/// Deletes the certificates of the members, and waits until there are others. One standby starts again
/// meanwhile: the controller looks at the Secrets more often while a member is missing.
async fn renew(database: &mut Database, standby: usize) {
    let secrets = database.kubelet.api::<Secret>();
    let mut deleted = Vec::new();
    for name in ["db-server", "db-replication"] {
        deleted.push((name, secrets.get(name).await.unwrap().uid()));
        secrets.delete(name, &DeleteParams::default()).await.unwrap();
    }
    database.kubelet.members[standby].kill().unwrap();
    let check = async |_: &[Member]| {
        let mut missing = Vec::new();
        for (name, former) in &deleted {
            let present = secrets.get_opt(name).await?;
            if present.is_none_or(|present| present.uid() == *former) {
                missing.push(*name);
            }
        }
        Ok(if missing.is_empty() { Ok(()) } else { Err(missing) })
    };
    database.kubelet.until("new certificates", check).await.unwrap();
    database.kubelet.remount().await.unwrap();
    database.kubelet.members[standby].start().unwrap();
    database.until_complete().await.unwrap();
}

#[tokio::test]
async fn certificates_are_renewed_while_rows_are_written() {
    let (mut database, application) = with_writes().await.unwrap();
    let (before, former) =
        (pods(&database.kubelet.api()).await.unwrap(), serial(&mut database, "db-3").unwrap());
    renew(&mut database, 2).await;
    let renewed = serial(&mut database, "db-3").unwrap();
    assert_ne!(renewed, former, "db-3 logs in with its new certificate");
    // The other standby has both: its stream goes on with the former one.
    assert_eq!(serial(&mut database, "db-2").unwrap(), former);
    assert_eq!(pods(&database.kubelet.api()).await.unwrap(), before, "no Pod was replaced");
    assert_eq!(database.status.primary.epoch, 1, "nobody was promoted");
    check(&mut database, application, "new certificates").await.unwrap();
}
