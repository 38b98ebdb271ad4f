//! The examples of the pages about Tenants.

use std::fs;

use super::shared_env;
use crate::support::{NAMESPACE, example};

/// An example on a page, by a text in it, and the kind of the object that it is a part of.
const EXAMPLES: [(&str, &str, &str); 5] = [
    ("administrators", "namespaceOptions:", "Tenant"),
    ("administrators", "containerRegistries:", "Tenant"),
    ("administrators", "nodeMetadata:", "CapsuleConfiguration"),
    ("proxy", "proxySettings:", "Tenant"),
    ("replication", "kind: TenantResource", "TenantResource"),
];

/// The API server and the webhooks accept each example, and know all of its fields.
#[tokio::test]
async fn examples_of_the_pages_are_accepted() {
    let env = shared_env().await;
    let folder = tempfile::tempdir().unwrap();
    for (page, text, kind) in EXAMPLES {
        let example = example(&format!("docs/tenants/{page}.md"), text);
        let name = if kind == "CapsuleConfiguration" { "default" } else { "examples" };
        let head =
            format!("apiVersion: capsule.clastix.io/v1beta2\nkind: {kind}\nmetadata: {{ name: {name} }}\n");
        let manifest = if example.starts_with("apiVersion:") {
            // The namespace of the page does not exist here.
            example.replace("oil-development", NAMESPACE)
        } else if example.starts_with("spec:") {
            head + &example
        } else {
            head + "spec:\n  " + &example.replace('\n', "\n  ")
        };
        let file = folder.path().join("example.yaml");
        fs::write(&file, &manifest).unwrap();
        let file = file.display().to_string();
        let apply = [
            "apply",
            "--server-side",
            "--force-conflicts",
            "--dry-run=server",
            "--validate=strict",
            "-f",
            &file,
        ];
        env.kubectl(&apply).await.unwrap_or_else(|error| panic!("{page}.md: {error:#}\n{manifest}"));
    }
}
