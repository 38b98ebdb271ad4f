//! `fence` and `unfence`: members whose PostgreSQL stops.

use ::postgres::{self as api, FENCE, PostgresCluster};
use anyhow::{Context, Result, ensure};

use super::{
    progress::Progress,
    target::{Target, check_member, check_not_paused, members, status_of},
};
use crate::{
    cluster::Cluster,
    flags::postgres::{Fence, Unfence},
    output::ExitStatus,
};

pub(super) async fn fence(cluster: &Cluster, flags: &Fence) -> Result<ExitStatus> {
    let target = Target::new(cluster, &flags.cluster);
    target
        .annotate(FENCE, |current| {
            check(current, &flags.members).with_context(|| format!("cannot fence {}", target.describe()))?;
            let fence = if flags.all { api::Fence::all() } else { api::fence(current).with(&flags.members) };
            Ok(Some(fence.to_string()))
        })
        .await?;
    target
        .follow(flags.waiting, |current| {
            let chosen = if flags.all { members(&status_of(current)) } else { flags.members.clone() };
            progress(current, &chosen, false)
        })
        .await
}

pub(super) async fn unfence(cluster: &Cluster, flags: &Unfence) -> Result<ExitStatus> {
    let target = Target::new(cluster, &flags.cluster);
    let before = target
        .annotate(FENCE, |current| {
            check(current, &flags.members)
                .with_context(|| format!("cannot unfence {}", target.describe()))?;
            Ok(remaining(current, &flags.members))
        })
        .await?;
    let mut chosen = flags.members.clone();
    if chosen.is_empty() {
        let fence = api::fence(&before);
        chosen = members(&status_of(&before)).into_iter().filter(|member| fence.contains(member)).collect();
    }
    target.follow(flags.waiting, |current| progress(current, &chosen, true)).await
}

fn check(cluster: &PostgresCluster, chosen: &[String]) -> Result<()> {
    check_not_paused(cluster)?;
    let status = status_of(cluster);
    ensure!(!status.instances.is_empty(), "it has no members yet");
    chosen.iter().try_for_each(|member| check_member(&status, member))
}

/// Returns the annotation after these members are unfenced: all if none is given.
fn remaining(cluster: &PostgresCluster, unfenced: &[String]) -> Option<String> {
    let remaining = api::fence(cluster).without(unfenced, &members(&status_of(cluster)));
    (!unfenced.is_empty() && !remaining.is_empty()).then(|| remaining.to_string())
}

/// A member is fenced when its Pod is not ready, because PostgreSQL does not answer.
fn progress(cluster: &PostgresCluster, chosen: &[String], should_run: bool) -> Progress {
    let status = status_of(cluster);
    let missing = status
        .instances
        .iter()
        .filter(|instance| chosen.contains(&instance.name) && instance.ready != should_run)
        .map(|instance| instance.name.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    match (missing.as_str(), should_run) {
        ("", true) => Progress::Done("PostgreSQL runs again on all of these members".to_owned()),
        ("", false) => {
            Progress::Done(format!("{} fenced, and PostgreSQL does not answer there", chosen.join(", ")))
        }
        (missing, true) => Progress::Waiting(format!("{missing} is not ready")),
        (missing, false) => Progress::Waiting(format!("PostgreSQL still runs on {missing}")),
    }
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;

    use super::*;
    use crate::postgres::testing::available;

    fn fenced(annotation: &str) -> PostgresCluster {
        let mut cluster = available(&["db-1", "db-2", "db-3"]);
        cluster.annotations_mut().insert(FENCE.to_owned(), annotation.to_owned());
        cluster
    }

    #[test]
    fn members_are_unfenced_one_by_one_or_together() {
        let after = |annotation, unfenced: &[&str]| {
            let unfenced: Vec<_> = unfenced.iter().map(|&name| name.to_owned()).collect();
            remaining(&fenced(annotation), &unfenced)
        };
        assert_eq!(after("*", &["db-2"]).as_deref(), Some("db-1,db-3"));
        assert_eq!(after("db-1", &["db-1"]), None);
        assert_eq!(after("*", &[]), None);
    }

    #[test]
    fn names_must_be_members() {
        let error = check(&fenced(""), &["db-9".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, "db-9 is no member; the members are db-1, db-2, db-3");
        assert!(check(&fenced(""), &["db-3".to_owned()]).is_ok());
    }

    #[test]
    fn members_are_fenced_when_they_are_not_ready() {
        let mut cluster = fenced("db-2");
        let chosen = ["db-2".to_owned()];
        assert!(matches!(progress(&cluster, &chosen, false), Progress::Waiting(_)));
        assert!(matches!(progress(&cluster, &chosen, true), Progress::Done(_)));
        cluster.status.as_mut().unwrap().instances[1].ready = false;
        assert!(matches!(progress(&cluster, &chosen, false), Progress::Done(_)));
        assert!(matches!(progress(&cluster, &chosen, true), Progress::Waiting(_)));
    }
}
