//! `logs`: the logs of the members, in the order of time.

use std::{
    io::{self, ErrorKind},
    time::Duration,
};

use anyhow::{Context, Result};
use futures::{AsyncBufReadExt, StreamExt, future::try_join_all};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::LogParams};
use operator_core::error::{chain, is_not_found};

use super::target::{Target, check_member, members, status_of};
use crate::{
    cluster::Cluster,
    flags::postgres::Logs,
    output::{BOLD, ExitStatus, paint, print_error, try_print},
};

/// Container of PostgreSQL.
const CONTAINER: &str = "postgres";
/// Lines of each member unless `--tail` says otherwise. They are sorted in memory.
const TAIL: i64 = 1000;
/// Pause before the log of a member that has ended is requested again.
const PAUSE: Duration = Duration::from_secs(1);

/// A line of the log of a member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    time: Timestamp,
    member: String,
    text: String,
}

impl Line {
    /// Parses a line that begins with a time, as the API server sends it.
    fn parse(member: &str, line: &str) -> Option<Self> {
        let (time, text) = line.split_once(' ').unwrap_or((line, ""));
        Some(Self { time: time.parse().ok()?, member: member.to_owned(), text: text.to_owned() })
    }

    /// Prints the line. Returns an error if nobody reads any more.
    fn print(&self) -> io::Result<()> {
        try_print(&format!("{} {}\n", paint(BOLD, &format!("[{}]", self.member)), self.text))
    }
}

pub(super) async fn run(cluster: &Cluster, flags: &Logs) -> Result<ExitStatus> {
    match print_all(cluster, flags).await {
        // As with kubectl, `head` ends the command.
        Err(error) if is_closed(&error) => Ok(ExitStatus::Success),
        printed => printed.map(|()| ExitStatus::Success),
    }
}

fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

async fn print_all(cluster: &Cluster, flags: &Logs) -> Result<()> {
    let target = Target::new(cluster, &flags.cluster);
    let status = status_of(&target.get().await?);
    let members = match &flags.member {
        Some(member) => {
            check_member(&status, member)
                .with_context(|| format!("cannot read logs of {}", target.describe()))?;
            vec![member.clone()]
        }
        None => members(&status),
    };
    let api = Api::<Pod>::namespaced(cluster.client.clone(), cluster.namespace());
    let recent = try_join_all(members.iter().map(|member| recent(&api, member, flags))).await?;
    let mut recent: Vec<_> = recent.into_iter().flatten().collect();
    recent.sort();
    recent.iter().try_for_each(Line::print).map_err(anyhow::Error::new)?;
    if flags.follow {
        let last = |member: &String| {
            let lines = recent.iter().filter(|line| line.member == *member);
            lines.map(|line| line.time).max().unwrap_or_else(|| cluster.now())
        };
        try_join_all(members.iter().map(|member| follow(&api, member, last(member)))).await?;
    }
    Ok(())
}

/// Returns the last lines of a member. A member without a Pod has none.
async fn recent(api: &Api<Pod>, member: &str, flags: &Logs) -> Result<Vec<Line>> {
    let params = LogParams {
        container: Some(CONTAINER.to_owned()),
        timestamps: true,
        tail_lines: Some(flags.tail.unwrap_or(TAIL)),
        since_seconds: flags.since.map(|since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX).max(1)),
        ..LogParams::default()
    };
    match api.logs(member, &params).await {
        Ok(log) => Ok(log.lines().filter_map(|line| Line::parse(member, line)).collect()),
        Err(error) if is_not_found(&error) => {
            print_error(&format!("{member} has no Pod\n"));
            Ok(Vec::new())
        }
        Err(error) => Err(error).with_context(|| format!("cannot read the log of the Pod {member}")),
    }
}

/// Prints new lines of a member, also after its container or its Pod was replaced. Ends only if
/// nobody reads any more.
async fn follow(api: &Api<Pod>, member: &str, mut last: Timestamp) -> Result<()> {
    let mut complaint = String::new();
    loop {
        match follow_once(api, member, &mut last).await {
            // The log ends with the container, and without lines for a while.
            Ok(()) => complaint.clear(),
            Err(error) if is_closed(&error) => return Err(error),
            Err(error) => {
                let message = chain(error.as_ref());
                if message != complaint {
                    print_error(&format!("[{member}] waiting for its log: {message}\n"));
                    complaint = message;
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn follow_once(api: &Api<Pod>, member: &str, last: &mut Timestamp) -> Result<()> {
    let params = LogParams {
        container: Some(CONTAINER.to_owned()),
        timestamps: true,
        follow: true,
        since_time: Some(*last),
        ..LogParams::default()
    };
    let mut lines = api.log_stream(member, &params).await?.lines();
    while let Some(Ok(line)) = lines.next().await {
        // The API server counts whole seconds, so it sends some lines again.
        let new = Line::parse(member, &line).filter(|line| line.time > *last);
        if let Some(line) = new {
            *last = line.time;
            line.print()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted_by_time() {
        let line = |member, text| Line::parse(member, text).unwrap();
        let mut lines = [
            line("db-2", "2026-01-01T00:00:02.5Z second"),
            line("db-1", "2026-01-01T00:00:01Z first line"),
            line("db-1", "2026-01-01T00:00:03Z"),
        ];
        lines.sort();
        let texts = lines.each_ref().map(|line| line.text.as_str());
        assert_eq!(texts, ["first line", "second", ""]);
        assert_eq!(Line::parse("db-1", "no time"), None);
    }
}
