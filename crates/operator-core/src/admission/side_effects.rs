//! Side effects of webhooks.

/// Side effects of a webhook, as its configuration declares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SideEffects {
    /// A review writes nothing.
    None,
    /// A review can write, except in a dry run.
    NoneOnDryRun,
}
