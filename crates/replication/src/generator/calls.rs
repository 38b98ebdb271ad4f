//! Rejects unknown functions when a template is compiled. `gotmpl` reports them only when they are
//! called.

use gotmpl::{
    Template,
    parse::{BranchNode, Expr, ListNode, Node, PipeNode},
};

use super::{functions, guard::BODY};

/// Functions of Go's templates.
const BUILTIN: [&str; 19] = [
    "and", "call", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt", "ne", "not", "or", "print",
    "printf", "println", "slice", "urlquery",
];

/// Checks every function that a template calls.
///
/// # Errors
/// Returns a message that names an unknown function.
pub(super) fn check(template: &Template) -> Result<(), String> {
    let names = template.templates();
    let bodies = names.into_iter().filter(|name| *name != BODY).chain([BODY]);
    bodies.filter_map(|name| template.lookup(name)).try_for_each(list)
}

/// Returns whether the body of a template ends with this text, outside of all blocks.
pub(super) fn ends_with(template: &Template, text: &str) -> bool {
    let last = template.lookup(BODY).and_then(|body| body.nodes.last());
    matches!(last, Some(Node::Text(node)) if node.text.ends_with(text))
}

fn list(list: &ListNode) -> Result<(), String> {
    list.nodes.iter().try_for_each(node)
}

fn node(node: &Node) -> Result<(), String> {
    match node {
        Node::List(nodes) => list(nodes),
        Node::Action(action) => pipe(&action.pipe),
        Node::If(one) | Node::Range(one) | Node::With(one) => branch(one),
        Node::Template(template) => template.pipe.as_ref().map_or(Ok(()), pipe),
        Node::Define(define) => list(&define.body),
        Node::Text(_) | Node::Break(_) | Node::Continue(_) => Ok(()),
    }
}

fn branch(branch: &BranchNode) -> Result<(), String> {
    pipe(&branch.pipe)?;
    list(&branch.body)?;
    branch.else_body.as_ref().map_or(Ok(()), list)
}

fn pipe(pipe: &PipeNode) -> Result<(), String> {
    pipe.commands.iter().flat_map(|command| &command.args).try_for_each(expression)
}

fn expression(one: &Expr) -> Result<(), String> {
    match one {
        Expr::Identifier(pos, name) if !is_known(name) => {
            Err(format!("line {}: the function {name} is unknown or not allowed", pos.line))
        }
        Expr::Pipe(_, inner) => pipe(inner),
        Expr::Chain(_, inner, _) => expression(inner),
        _ => Ok(()),
    }
}

fn is_known(name: &str) -> bool {
    BUILTIN.contains(&name) || functions::all().contains_key(name)
}
