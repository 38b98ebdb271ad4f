//! Every value that a field has, also those that a poll misses.

use std::process::Stdio;

use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout},
};

use crate::support::Kubectl;

/// The values of a field since the watch began.
pub(crate) struct History {
    watch: Child,
    lines: Lines<BufReader<ChildStdout>>,
    first: String,
}

impl Kubectl {
    /// Watches a field, given as a JSONPath template. Returns once the first value arrives.
    pub(crate) async fn history(&self, object: &str, template: &str) -> History {
        let output = format!("jsonpath={template}{{\"\\n\"}}");
        let mut watch = self
            .command()
            .args(["get", object, "--watch", "-o", &output])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        let first = lines.next_line().await.unwrap().unwrap();
        History { watch, lines, first }
    }
}

impl History {
    /// Ends the watch, and returns the values in their order.
    pub(crate) async fn values(mut self) -> Vec<String> {
        self.watch.start_kill().unwrap();
        let mut values = vec![self.first];
        while let Some(value) = self.lines.next_line().await.unwrap() {
            values.push(value);
        }
        values
    }
}
