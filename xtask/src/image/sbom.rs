//! SBOM in the CycloneDX format: every crate that is linked into a program of the image.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::packages::{Crate, MANAGER, Packages, Role};

/// Returns the SBOM. Its subject is the manager; other programs are among the components.
pub(super) fn sbom(programs: &[Packages]) -> Value {
    let of = |role| {
        let crates = programs.iter().flat_map(|packages| &packages.crates);
        crates.filter(move |package| package.role == role)
    };
    let (subject, others): (Vec<_>, Vec<_>) =
        of(Role::Program).partition(|program| program.name == MANAGER.package);
    // A crate that several programs link is listed once.
    let linked: BTreeMap<_, _> =
        of(Role::Linked).map(|package| ((&package.name, &package.version), package)).collect();
    let others = others.into_iter().map(|program| component("application", program));
    let components = others.chain(linked.into_values().map(|package| component("library", package)));
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": subject.first().map(|program| component("application", program)) },
        "components": components.collect::<Vec<_>>(),
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
        let sbom = sbom(&[example(), example()]);
        let names: Vec<_> =
            sbom["components"].as_array().unwrap().iter().map(|component| &component["name"]).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(sbom["components"][0]["purl"], "pkg:cargo/a@1.0.0");
        assert_eq!(sbom["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(sbom["metadata"]["component"]["name"], "manager");
    }
}
