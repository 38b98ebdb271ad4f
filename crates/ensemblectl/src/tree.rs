//! `tree`: the objects that belong to an object, as a tree.

use anyhow::Result;

use crate::{
    children::{self, Node},
    cluster::Cluster,
    flags::Tree,
    kinds,
    output::{DIM, ExitStatus, SUCCESS, WARNING, paint, print, print_error},
};

/// Prints the tree of an object.
pub(crate) async fn run(cluster: &Cluster, flags: &Tree) -> Result<ExitStatus> {
    let (kind, name) = kinds::find_object(&flags.object.kind, flags.object.name.as_deref())?;
    let object = kind.get(cluster, &name).await?;
    let tree = children::find(&cluster.client, &kind, object).await?;
    print(flags.output.output, &tree.root, || text(&tree.root))?;
    for error in &tree.errors {
        print_error(&format!("not shown: {error}\n"));
    }
    Ok(if tree.errors.is_empty() { ExitStatus::Success } else { ExitStatus::Unknown })
}

/// Formats the tree.
pub(crate) fn text(root: &Node) -> String {
    text_within(root, None)
}

/// Formats the tree. Omits the namespace of objects in `namespace`.
pub(crate) fn text_within(root: &Node, namespace: Option<&str>) -> String {
    let mut text = line(root, namespace);
    branches(root, "", &mut text);
    text
}

fn branches(node: &Node, indent: &str, text: &mut String) {
    let last = node.children.len().saturating_sub(1);
    for (index, child) in node.children.iter().enumerate() {
        let (branch, below) = if index == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        text.push_str(&paint(DIM, &format!("{indent}{branch}")));
        // Objects below a Namespace are printed without their namespace.
        let above =
            if node.kind == "Namespace" { Some(node.name.as_str()) } else { node.namespace.as_deref() };
        text.push_str(&line(child, above));
        branches(child, &format!("{indent}{below}"), text);
    }
}

/// Formats one object. Its namespace is printed only if it differs from `above`.
fn line(node: &Node, above: Option<&str>) -> String {
    let key = match node.namespace.as_deref() {
        Some(namespace) if Some(namespace) != above => format!("{namespace}/{}", node.name),
        _ => node.name.clone(),
    };
    let style = if ["Ready", "Active", "Running"].contains(&node.state.as_str()) { SUCCESS } else { WARNING };
    let state =
        if node.state.is_empty() { String::new() } else { format!("  {}", paint(style, &node.state)) };
    format!("{} {key}{state}\n", node.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::plain;

    fn node(kind: &str, namespace: Option<&str>, name: &str, state: &str, children: Vec<Node>) -> Node {
        Node {
            kind: kind.into(),
            namespace: namespace.map(Into::into),
            name: name.into(),
            state: state.into(),
            children,
        }
    }

    #[test]
    fn formats_tree_as_text_and_json() {
        let quota = node("ResourceQuota", Some("blue"), "default-quota", "", Vec::new());
        let binding = node("RoleBinding", Some("blue"), "team", "", Vec::new());
        let namespace = node("Namespace", None, "blue", "Active", vec![quota, binding]);
        let pods = ["a", "b"].map(|name| node("Pod", Some("teams"), name, "Running", Vec::new()));
        let mut children = vec![namespace];
        children.extend(pods);
        let root = node("NamespacePlus", Some("teams"), "blue", "not Ready: Denied", children);
        insta::assert_snapshot!(plain(&text(&root)));
        insta::assert_snapshot!(serde_json::to_string_pretty(&root).unwrap());
    }
}
