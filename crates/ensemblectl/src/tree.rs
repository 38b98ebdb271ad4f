//! `tree`: what belongs to an object, as a tree.

use anyhow::Result;

use crate::{
    children::{self, Node},
    connect::Cluster,
    flags::Tree,
    kinds,
    output::{DOUBTFUL, Ending, GOOD, QUIET, complain, paint, print},
};

/// Shows the tree.
pub(crate) async fn run(cluster: &Cluster, flags: &Tree) -> Result<Ending> {
    let (kind, name) = kinds::find_object(&flags.object.kind, flags.object.name.as_deref())?;
    let object = kind.get(cluster, &name).await?;
    let family = children::find(&cluster.client, &kind, object).await?;
    print(flags.output.output, &family.root, || text(&family.root))?;
    for hidden in &family.hidden {
        complain(&format!("not shown: {hidden}\n"));
    }
    Ok(if family.hidden.is_empty() { Ending::Fine } else { Ending::Unknown })
}

/// The tree as text.
pub(crate) fn text(root: &Node) -> String {
    text_within(root, None)
}

/// The tree as text, where it is known that the object is in this namespace.
pub(crate) fn text_within(root: &Node, namespace: Option<&str>) -> String {
    let mut text = line(root, namespace);
    branches(root, "", &mut text);
    text
}

fn branches(node: &Node, indent: &str, text: &mut String) {
    let last = node.children.len().saturating_sub(1);
    for (place, child) in node.children.iter().enumerate() {
        let (branch, beneath) = if place == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        text.push_str(&paint(QUIET, &format!("{indent}{branch}")));
        // What is in a Namespace need not say so.
        let above =
            if node.kind == "Namespace" { Some(node.name.as_str()) } else { node.namespace.as_deref() };
        text.push_str(&line(child, above));
        branches(child, &format!("{indent}{beneath}"), text);
    }
}

/// One object. Its namespace is told where it is another than that of the object above, or than that itself.
fn line(node: &Node, above: Option<&str>) -> String {
    let place = match node.namespace.as_deref() {
        Some(namespace) if Some(namespace) != above => format!("{namespace}/{}", node.name),
        _ => node.name.clone(),
    };
    let style = if ["Ready", "Active", "Running"].contains(&node.state.as_str()) { GOOD } else { DOUBTFUL };
    let state =
        if node.state.is_empty() { String::new() } else { format!("  {}", paint(style, &node.state)) };
    format!("{} {place}{state}\n", node.kind)
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
    fn a_tree_shows_what_belongs_to_what() {
        let quota = node("ResourceQuota", Some("blue"), "default-quota", "", Vec::new());
        let binding = node("RoleBinding", Some("blue"), "team", "", Vec::new());
        let namespace = node("Namespace", None, "blue", "Active", vec![quota, binding]);
        let pods = ["a", "b"].map(|name| node("Pod", Some("teams"), name, "Running", Vec::new()));
        let mut children = vec![namespace];
        children.extend(pods);
        let root = node("NamespacePlus", Some("teams"), "blue", "not Ready: Refused", children);
        insta::assert_snapshot!(plain(&text(&root)));
        insta::assert_snapshot!(serde_json::to_string_pretty(&root).unwrap());
    }
}
