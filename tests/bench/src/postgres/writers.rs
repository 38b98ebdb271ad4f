//! Clients that write all the time.

use std::{collections::HashSet, net::IpAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use postgres_processes::Database;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_postgres::{Client, error::SqlState};

use super::{application::Application, ledger::Ledger};

/// Time between two rows, and between two attempts to write to a standby.
const PAUSE: Duration = Duration::from_millis(5);
/// Time between two attempts to connect.
const RECONNECT: Duration = Duration::from_millis(20);
/// How long a statement may take.
const STATEMENT: Duration = Duration::from_secs(3);

const TABLE: &str = "DROP TABLE IF EXISTS ledger; CREATE TABLE ledger (number bigint PRIMARY KEY)";
const INSERT: &str = "INSERT INTO ledger VALUES ($1)";

/// A client for each member. A standby refuses its rows until it is promoted, so the time until a row
/// is acknowledged does not contain the search for the primary. The clients stop when this is dropped.
pub(crate) struct Writers {
    /// The rows that were acknowledged.
    pub(crate) ledger: Arc<Ledger>,
    application: Arc<Application>,
    tasks: JoinSet<()>,
}

impl Writers {
    /// Creates an empty table, and starts to write.
    pub(crate) async fn start(database: &mut Database) -> Result<Self> {
        let application = Arc::new(Application::of(&database.kubelet).await?);
        let client = application.connect(database.primary()?.address).await?;
        client.batch_execute(TABLE).await.context("cannot create the table")?;
        let ledger = Arc::new(Ledger::default());
        let mut tasks = JoinSet::new();
        for member in &database.kubelet.members {
            let (name, address) = (member.name.clone(), member.address);
            tasks.spawn(write(name, address, application.clone(), ledger.clone()));
        }
        Ok(Self { ledger, application, tasks })
    }

    /// Stops to write, and returns the number of acknowledged rows that the primary lacks.
    pub(crate) async fn finish(&mut self, database: &mut Database) -> Result<usize> {
        // A row that is acknowledged after the rows were read would count as lost.
        self.tasks.shutdown().await;
        let client = self.application.connect(database.primary()?.address).await?;
        let rows = client.query("SELECT number FROM ledger", &[]).await.context("cannot read the table")?;
        let present: HashSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        Ok(self.ledger.missing(&present))
    }
}

/// Writes to a member as long as the task runs.
async fn write(member: String, address: IpAddr, application: Arc<Application>, ledger: Arc<Ledger>) {
    loop {
        if let Ok(client) = application.connect(address).await {
            // Whatever has failed: connect again.
            let _ = write_by(&client, &member, &ledger).await;
        }
        sleep(RECONNECT).await;
    }
}

/// Writes by a connection until it fails.
async fn write_by(client: &Client, member: &str, ledger: &Ledger) -> Result<()> {
    let insert = client.prepare(INSERT).await?;
    loop {
        let number = ledger.next();
        match timeout(STATEMENT, client.execute(&insert, &[&number])).await? {
            Ok(_) => ledger.acknowledged(number, member),
            Err(error) if error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => {}
            Err(error) => return Err(error.into()),
        }
        sleep(PAUSE).await;
    }
}
