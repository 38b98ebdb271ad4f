//! The bill of materials: every crate that is linked into the manager, in CycloneDX. Pure.

use serde_json::{Value, json};

use super::packages::{Packages, Part, Role};

/// The bill.
pub(super) fn bill(packages: &Packages) -> Value {
    let of = |role| packages.parts.iter().filter(move |part| part.role == role);
    let program = of(Role::Program).next().map(|program| component("application", program));
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": program },
        "components": of(Role::Linked).map(|part| component("library", part)).collect::<Vec<_>>(),
    })
}

fn component(kind: &str, part: &Part) -> Value {
    let Part { name, version, license, .. } = part;
    let address = format!("pkg:cargo/{name}@{version}");
    // The older way of saying "or" is a stroke.
    let licenses: Vec<_> =
        license.iter().map(|license| json!({ "expression": license.replace('/', " OR ") })).collect();
    json!({
        "type": kind, "name": name, "version": version, "bom-ref": address, "purl": address, "licenses": licenses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::packages::tests::example;

    #[test]
    fn the_bill_lists_what_is_linked_and_nothing_else() {
        let bill = bill(&example());
        let names: Vec<_> = bill["components"].as_array().unwrap().iter().map(|part| &part["name"]).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(bill["components"][0]["purl"], "pkg:cargo/a@1.0.0");
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["metadata"]["component"]["name"], "manager");
    }
}
