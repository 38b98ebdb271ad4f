//! Certificates that are renewed while the members run.

use std::fs;

use anyhow::Context;
use postgres_processes::{Database, Member};

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
