//! SBOM in the CycloneDX format: every crate that is linked into the manager.

use serde_json::{Value, json};

use super::packages::{Crate, Packages, Role};

/// Returns the SBOM.
pub(super) fn sbom(packages: &Packages) -> Value {
    let of = |role| packages.crates.iter().filter(move |package| package.role == role);
    let program = of(Role::Program).next().map(|program| component("application", program));
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": program },
        "components": of(Role::Linked).map(|package| component("library", package)).collect::<Vec<_>>(),
    })
}

fn component(kind: &str, package: &Crate) -> Value {
    let Crate { name, version, license, .. } = package;
    let purl = format!("pkg:cargo/{name}@{version}");
    // Older manifests separate alternative licenses with a slash.
    let licenses: Vec<_> =
        license.iter().map(|license| json!({ "expression": license.replace('/', " OR ") })).collect();
    json!({
        "type": kind, "name": name, "version": version, "bom-ref": purl, "purl": purl, "licenses": licenses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::packages::tests::example;

    #[test]
    fn sbom_lists_linked_crates_only() {
        let sbom = sbom(&example());
        let names: Vec<_> =
            sbom["components"].as_array().unwrap().iter().map(|component| &component["name"]).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(sbom["components"][0]["purl"], "pkg:cargo/a@1.0.0");
        assert_eq!(sbom["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(sbom["metadata"]["component"]["name"], "manager");
    }
}
