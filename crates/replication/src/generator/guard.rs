//! Rewrites a parsed template, so that every block checks the time, and values are printed as data.

use gotmpl::{
    Template, TemplateError, Value,
    parse::{ActionNode, BranchNode, CommandNode, Expr, ListNode, Node, PipeNode, Pos, SmolStr},
};

use super::limits;

/// Name of the parsed main template.
pub(super) const BODY: &str = "generator";
/// Name of the rewritten main template.
pub(super) const MAIN: &str = "\u{0}main";
/// Function that fails when the time is over. No template can name it.
const TICK: &str = "\u{0}tick";
/// Function that prints a value as data.
const DATA: &str = "\u{0}data";
/// Functions that format their result for YAML, so it is printed unchanged.
const FORMATTING: [&str; 9] =
    ["b64enc", "indent", "nindent", "quote", "sha256sum", "squote", "toJson", "toYaml", "urlquery"];

/// Returns the template with rewritten blocks. Its body has the name [`MAIN`].
pub(super) fn protect(template: Template) -> Template {
    let template = template.func(TICK, tick).func(DATA, data);
    let names: Vec<_> = template.templates().into_iter().map(str::to_owned).collect();
    let mut bodies: Vec<_> = names
        .iter()
        .filter(|name| *name != BODY)
        .filter_map(|name| Some((name.clone(), block(template.lookup(name)?))))
        .collect();
    let empty = || ListNode { pos: Pos::new(0, 1), nodes: Vec::new() };
    bodies.push((MAIN.to_owned(), template.lookup(BODY).map_or_else(empty, block)));
    bodies.into_iter().fold(template, |template, (name, body)| template.add_parse_tree(&name, body))
}

fn tick(_: &[Value]) -> Result<Value, TemplateError> {
    if limits::is_over() {
        return Err(TemplateError::Exec("the time is over".to_owned()));
    }
    Ok(Value::String("".into()))
}

/// Returns a text with line breaks as a JSON string, which is also a YAML string.
fn data(arguments: &[Value]) -> Result<Value, TemplateError> {
    match arguments.last() {
        Some(Value::String(text)) if text.contains(is_line_break) => {
            let quoted = serde_json::to_string(text.as_ref());
            let quoted = quoted.map_err(|error| TemplateError::Exec(error.to_string()))?;
            Ok(Value::String(quoted.into()))
        }
        other => Ok(other.cloned().unwrap_or(Value::Nil)),
    }
}

/// Returns whether YAML can end a line at this character.
fn is_line_break(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn block(list: &ListNode) -> ListNode {
    let tick = Node::Action(ActionNode {
        pos: list.pos,
        pipe: PipeNode {
            pos: list.pos,
            decl: Vec::new(),
            commands: vec![call(list.pos, TICK)],
            is_assign: false,
        },
    });
    let nodes = [tick].into_iter().chain(list.nodes.iter().map(node)).collect();
    ListNode { pos: list.pos, nodes }
}

fn node(node: &Node) -> Node {
    match node {
        Node::List(list) => Node::List(block(list)),
        Node::Action(action) if action.pipe.decl.is_empty() => Node::Action(print(action)),
        Node::If(branch) => Node::If(branches(branch)),
        Node::Range(branch) => Node::Range(branches(branch)),
        Node::With(branch) => Node::With(branches(branch)),
        other => other.clone(),
    }
}

fn branches(branch: &BranchNode) -> BranchNode {
    BranchNode {
        pos: branch.pos,
        pipe: branch.pipe.clone(),
        body: block(&branch.body),
        else_body: branch.else_body.as_ref().map(block),
    }
}

/// Prints the result of the action as data, unless its last function formats it.
fn print(action: &ActionNode) -> ActionNode {
    let mut pipe = action.pipe.clone();
    let last = pipe.commands.last().and_then(|command| command.args.first());
    let is_formatted = matches!(last, Some(Expr::Identifier(_, name)) if FORMATTING.contains(&name.as_str()));
    if !is_formatted {
        pipe.commands.push(call(action.pos, DATA));
    }
    ActionNode { pos: action.pos, pipe }
}

fn call(pos: Pos, function: &str) -> CommandNode {
    CommandNode { pos, args: vec![Expr::Identifier(pos, SmolStr::new(function))] }
}
