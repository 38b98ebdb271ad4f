//! A database outside the cluster that is moved to a PostgresCluster, with the commands of the page about it.

use anyhow::Result;
use postgres_processes::{Database, Member, program_folder, run_as_postgres};
use serde_json::json;

use crate::{application, plain_server::PlainServer};

/// The page.
const PAGE: &str = include_str!("../../../../docs/operations/postgres-import.md");
/// What the former database contains.
const TABLES: &str = "
CREATE EXTENSION pg_trgm;
CREATE TABLE customers (id bigserial PRIMARY KEY, name text NOT NULL);
CREATE INDEX by_name ON customers USING gin (name gin_trgm_ops);
CREATE TABLE orders (number bigserial PRIMARY KEY, customer bigint REFERENCES customers);
CREATE VIEW open_orders AS SELECT number FROM orders;
INSERT INTO customers (name) SELECT 'customer ' || id FROM generate_series(1, 1000) AS id;
INSERT INTO orders (customer) SELECT 1 + random() * 999 FROM generate_series(1, 1000);
";

/// Returns the commands of a section of the page.
fn commands(section: &str) -> Vec<String> {
    let sections = PAGE.split("\n## ").find(|text| text.starts_with(section));
    let blocks = sections.unwrap().split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(str::to_owned).collect()
}

/// Starts the former database.
fn former() -> PlainServer {
    let former = PlainServer::start("shop").unwrap();
    former.sql("shop", TABLES).unwrap();
    former
}

/// Runs a command of the page, and returns what it printed.
fn follow(former: &PlainServer, command: &str, new: &str, primary: &Member) -> Result<String> {
    let script = format!(
        "set -o errexit -o nounset -o pipefail\n\
         export PATH={}:$PATH OLD='{}' NEW='{new}'\n\
         superuser() {{ psql --host={} --username=postgres --dbname=app --no-psqlrc \"$@\"; }}\n{command}",
        program_folder()?.display(),
        former.uri("shop"),
        primary.folder().join("sockets").display()
    );
    Ok(run_as_postgres(&former.work(), "bash", &["-c", &script])?.trim().to_owned())
}

/// Creates a PostgresCluster as the page says.
async fn database(size: u8) -> Database {
    let databases = json!([{"name": "app", "extensions": [{"name": "pg_trgm"}]}]);
    let mut database = Database::with(json!({"size": size, "databases": databases})).await.unwrap();
    database.until_complete().await.unwrap();
    database
}

/// Returns the URI of the Secret, with the address of the primary as its host.
async fn uri(database: &mut Database) -> String {
    let uri = application::secret(&database.kubelet).await.unwrap().remove("uri").unwrap();
    let (before, rest) = uri.split_once('@').unwrap();
    let (_, after) = rest.split_once(':').unwrap();
    format!("{before}@{}:{after}", database.primary().unwrap().address)
}

/// Checks that the application finds all objects and these orders, and that its next order has this number.
async fn check(database: &mut Database, orders: i64) {
    let uri = uri(database).await;
    let client = application::connect(database.primary().unwrap(), &uri).await.unwrap();
    let count = async |query: &str| client.query_one(query, &[]).await.unwrap().get::<_, i64>(0);
    assert_eq!(count("SELECT count(*) FROM customers WHERE name % 'customer 1000'").await, 1000);
    assert_eq!(
        (count("SELECT count(*) FROM open_orders").await, count("SELECT max(number) FROM orders").await),
        (orders, orders)
    );
    let owner = "SELECT count(*) FROM pg_class WHERE relname IN ('customers', 'orders', 'by_name', 'open_orders') \
                 AND relowner = 'app'::regrole";
    assert_eq!(count(owner).await, 4);
    assert_eq!(count("INSERT INTO orders (customer) VALUES (1) RETURNING number").await, orders + 1);
    assert!(
        client.batch_execute("INSERT INTO orders (customer) VALUES (-1)").await.is_err(),
        "no such customer"
    );
}

#[tokio::test]
async fn database_is_copied_while_its_application_is_stopped() {
    let (former, mut database) = (former(), database(1).await);
    let new = uri(&mut database).await;
    let extensions = follow(&former, &commands("Prepare")[0], &new, database.primary().unwrap()).unwrap();
    assert_eq!(extensions.lines().collect::<Vec<_>>(), ["plpgsql", "pg_trgm"]);
    for section in ["Copy while the application is stopped", "Afterwards"] {
        for command in commands(section) {
            follow(&former, &command, &new, database.primary().unwrap()).unwrap();
        }
    }
    check(&mut database, 1000).await;
}

/// Waits until a command of the page prints something.
async fn until_printed(former: &PlainServer, database: &mut Database, command: &str, expected: &str) {
    let primary = database.status.primary.current.clone();
    let check = async |members: &[Member]| {
        let Some(primary) = members.iter().find(|member| member.name == primary) else {
            return Ok(Err(String::new()));
        };
        let printed = follow(former, command, "", primary)?;
        Ok(if printed == expected { Ok(()) } else { Err(printed) })
    };
    database.kubelet.until(&format!("{command} to print {expected}"), check).await.unwrap();
}

#[tokio::test]
async fn database_is_copied_while_its_application_works_and_the_primary_fails() {
    let (former, mut database) = (former(), database(3).await);
    let [tables, publication, subscription, copied, sent, sequences] =
        commands("Copy while the application works").try_into().unwrap();
    let writer = former.connect("shop").await.unwrap();
    let mut orders = 1000;
    let mut write = async || {
        writer.execute("INSERT INTO orders (customer) VALUES (1)", &[]).await.unwrap();
        orders += 1;
        orders
    };
    let new = uri(&mut database).await;
    for command in [&tables, &publication, &subscription] {
        follow(&former, command, &new, database.primary().unwrap()).unwrap();
        write().await;
    }
    until_printed(&former, &mut database, &copied, "0").await;
    for _ in 0..100 {
        write().await;
    }
    database.primary().unwrap().kill().unwrap();
    for _ in 0..100 {
        write().await;
    }
    database.until_failed_over().await.unwrap();
    let orders = write().await;
    until_printed(&former, &mut database, &sent, "t").await;
    let new = uri(&mut database).await;
    follow(&former, &sequences, &new, database.primary().unwrap()).unwrap();
    check(&mut database, orders).await;
}

/// The commands of the page run in the order in which the tests use them.
#[test]
fn page_has_the_commands_that_are_tested() {
    let counts = [
        "Prepare",
        "Copy while the application is stopped",
        "Copy while the application works",
        "Afterwards",
    ]
    .map(|section| commands(section).len());
    assert_eq!(counts, [1, 1, 6, 1]);
    assert_eq!(PAGE.matches("```sh").count(), 9, "all are tested");
}
