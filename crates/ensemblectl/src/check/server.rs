//! The API server.

use k8s_openapi::apimachinery::pkg::version::Info;
use manager::OLDEST_KUBERNETES;

use super::Finding;

/// It has answered, or nobody would ask; what is left is its version.
pub(super) fn finding(url: &str, version: &Info) -> Finding {
    let what = "API server";
    let known = &version.git_version;
    match (version.major.as_str(), minor(&version.minor)) {
        ("1", Some(minor)) if minor < OLDEST_KUBERNETES => Finding::error(
            what,
            format!("{url} is {known}, and too old"),
            format!(
                "upgrade Kubernetes to 1.{OLDEST_KUBERNETES} or newer: admission policies are served since then"
            ),
        ),
        _ => Finding::ok(what, format!("{url} answers, {known}")),
    }
}

/// Some distributions write a `+` behind it.
fn minor(text: &str) -> Option<u32> {
    text.trim_end_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::State;

    #[test]
    fn only_what_is_too_old_is_refused() {
        let state = |minor: &str| {
            let version = Info {
                major: "1".into(),
                minor: minor.into(),
                git_version: format!("v1.{minor}.0"),
                ..Info::default()
            };
            finding("https://here", &version).state
        };
        assert_eq!(state("29"), State::Error);
        assert_eq!(state("29+"), State::Error);
        assert_eq!(state("30"), State::Ok);
        assert_eq!(state("36+"), State::Ok);
        assert_eq!(state("what"), State::Ok);
    }
}
