//! Check of the API server's version.

use k8s_openapi::apimachinery::pkg::version::Info;
use manager::OLDEST_KUBERNETES;

use super::Finding;

/// Checks the version of the API server. The connection was established before.
pub(super) fn finding(url: &str, version: &Info) -> Finding {
    let what = "API server";
    let git_version = &version.git_version;
    match (version.major.as_str(), minor(&version.minor)) {
        ("1", Some(minor)) if minor < OLDEST_KUBERNETES => Finding::error(
            what,
            format!("{url} has the unsupported version {git_version}"),
            format!("upgrade Kubernetes to 1.{OLDEST_KUBERNETES} or newer"),
        ),
        _ => Finding::ok(what, format!("{url} is reachable, {git_version}")),
    }
}

/// Parses the minor version. Some distributions append a `+`.
pub(super) fn minor(text: &str) -> Option<u32> {
    text.trim_end_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::State;

    #[test]
    fn rejects_only_unsupported_versions() {
        let state = |minor: &str| {
            let version = Info {
                major: "1".into(),
                minor: minor.into(),
                git_version: format!("v1.{minor}.0"),
                ..Info::default()
            };
            finding("https://127.0.0.1:6443", &version).state
        };
        assert_eq!(state("32"), State::Error);
        assert_eq!(state("32+"), State::Error);
        assert_eq!(state("33"), State::Ok);
        assert_eq!(state("36+"), State::Ok);
        assert_eq!(state("unknown"), State::Ok);
    }
}
