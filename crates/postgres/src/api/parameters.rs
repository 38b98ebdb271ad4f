//! Rules for `spec.parameters`, in the Common Expression Language (CEL).

use postgres_model::parameters::{NEVER_LOWERED, RESERVED, RESERVED_PREFIXES};

/// Names are compared without case by PostgreSQL, and with it here.
pub(super) const NAMES: &str =
    "self.all(name, name.matches('^[a-z_][a-z0-9_]{0,62}([.][a-z_][a-z0-9_]{0,62})?$'))";
pub(super) const VALUES: &str = "self.all(name, !self[name].matches('[[:cntrl:]]'))";
pub(super) const WAL_LEVEL: &str = "!('wal_level' in self) || self['wal_level'] in ['replica', 'logical']";
pub(super) const SYNCHRONOUS_COMMIT: &str =
    "!('synchronous_commit' in self) || self['synchronous_commit'] in ['on', 'remote_apply']";

/// Returns the rule against parameters that the instance manager sets.
pub(super) fn not_reserved() -> String {
    let quoted = |names: &[&str]| names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let prefixes: Vec<_> = RESERVED_PREFIXES.iter().map(|it| format!("!name.startsWith('{it}')")).collect();
    format!("self.all(name, !(name in [{}]) && {})", quoted(&RESERVED), prefixes.join(" && "))
}

/// Returns the rule against values below the defaults of parameters that are never lowered.
pub(super) fn not_low() -> String {
    let rule = |(name, default): &(&str, u32)| {
        format!(
            "(!('{name}' in self) || (self['{name}'].matches('^[0-9]{{1,9}}$') && int(self['{name}']) >= {default}))"
        )
    };
    NEVER_LOWERED.iter().map(rule).collect::<Vec<_>>().join(" && ")
}

/// Returns the rule of the whole object that these values are not lowered. The rule of the map would
/// not see that the map is removed.
pub(super) fn never_lowered() -> String {
    let rule = |(name, default): &(&str, u32)| {
        let value = |object: &str| {
            let is_set = format!("has({object}.spec.parameters) && '{name}' in {object}.spec.parameters");
            format!("({is_set} ? int({object}.spec.parameters['{name}']) : {default})")
        };
        format!("{} >= {}", value("self"), value("oldSelf"))
    };
    NEVER_LOWERED.iter().map(rule).collect::<Vec<_>>().join(" && ")
}
