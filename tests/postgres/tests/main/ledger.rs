//! Rows that were acknowledged.

use std::time::Duration;

use anyhow::{Context, Result};
use postgres_processes::Member;
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};

/// How long a statement may take.
const STATEMENT: Duration = Duration::from_secs(3);

/// Connects to a member as the writer.
pub(crate) async fn connect(member: &Member) -> Result<Client> {
    let mut config = tokio_postgres::Config::new();
    config.host(member.address.to_string()).user("writer").password("secret").dbname("postgres");
    let (client, connection) = timeout(STATEMENT, config.connect(NoTls)).await??;
    tokio::spawn(connection);
    Ok(client)
}

/// A writer, and the numbers that it saw acknowledged.
#[derive(Default)]
pub(crate) struct Ledger {
    next: i64,
    acknowledged: Vec<i64>,
}

impl Ledger {
    /// Creates the table and its writer.
    pub(crate) fn create(member: &Member) -> Result<Self> {
        member.sql("CREATE ROLE writer LOGIN PASSWORD 'secret'")?;
        member.sql("CREATE TABLE ledger (number bigint PRIMARY KEY)")?;
        member.sql("ALTER TABLE ledger OWNER TO writer")?;
        Ok(Self::default())
    }

    /// Writes a row. Returns whether it was acknowledged.
    pub(crate) async fn write(&mut self, client: &Client) -> bool {
        self.next += 1;
        let written =
            timeout(STATEMENT, client.execute("INSERT INTO ledger VALUES ($1)", &[&self.next])).await;
        let is_acknowledged = matches!(written, Ok(Ok(1)));
        if is_acknowledged {
            self.acknowledged.push(self.next);
        }
        is_acknowledged
    }

    /// Returns the number of acknowledged rows, and those of them that a member lacks.
    pub(crate) async fn check(&self, member: &Member) -> Result<(usize, Vec<i64>)> {
        let client = connect(member).await?;
        let rows = client.query("SELECT number FROM ledger", &[]).await.context("cannot read the ledger")?;
        let present: std::collections::HashSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        let lost = self.acknowledged.iter().filter(|number| !present.contains(number)).copied().collect();
        Ok((self.acknowledged.len(), lost))
    }
}
