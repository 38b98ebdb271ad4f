//! Requests and results of TokenReview and SubjectAccessReview.

use k8s_openapi::api::{
    authentication::v1::{TokenReviewStatus, UserInfo},
    authorization::v1::{
        NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
    },
};

/// Returns the user of a token, only if the API server authenticates it. The absence
/// of an error proves nothing (CVE-2023-48312).
pub(super) fn user(status: Option<TokenReviewStatus>) -> Option<UserInfo> {
    let status = status?;
    let is_authentic =
        status.authenticated == Some(true) && status.error.is_none_or(|error| error.is_empty());
    let is_named = |user: &UserInfo| user.username.as_ref().is_some_and(|name| !name.is_empty());
    status.user.filter(|user| is_authentic && is_named(user))
}

/// Creates the review that asks whether a user is allowed to do this.
pub(super) fn access_review(user: UserInfo, path: &str, verb: &str) -> SubjectAccessReview {
    let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) };
    let spec = SubjectAccessReviewSpec {
        user: user.username,
        groups: user.groups,
        uid: user.uid,
        extra: user.extra,
        non_resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}

/// Returns whether the API server allows it.
pub(super) fn is_allowed(status: Option<SubjectAccessReviewStatus>) -> bool {
    status.is_some_and(|status| status.allowed && status.denied != Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prometheus() -> UserInfo {
        UserInfo { username: Some("prometheus".to_owned()), ..UserInfo::default() }
    }

    fn authentic() -> TokenReviewStatus {
        TokenReviewStatus {
            authenticated: Some(true),
            user: Some(prometheus()),
            ..TokenReviewStatus::default()
        }
    }

    #[test]
    fn cve_2023_48312_rejects_token_that_is_not_authenticated() {
        assert_eq!(user(Some(authentic())), Some(prometheus()));
        let empty = Some(String::new());
        for status in [
            TokenReviewStatus { authenticated: Some(false), error: empty.clone(), ..authentic() },
            TokenReviewStatus { authenticated: Some(false), error: None, ..authentic() },
            TokenReviewStatus { authenticated: None, error: empty, ..authentic() },
            TokenReviewStatus { error: Some("expired".to_owned()), ..authentic() },
            TokenReviewStatus { user: None, ..authentic() },
            TokenReviewStatus { user: Some(UserInfo::default()), ..authentic() },
            TokenReviewStatus::default(),
        ] {
            assert_eq!(user(Some(status.clone())), None, "{status:?}");
        }
        assert_eq!(user(None), None);
    }

    #[test]
    fn denied_overrides_allowed() {
        let status = |allowed, denied| {
            Some(SubjectAccessReviewStatus { allowed, denied, ..SubjectAccessReviewStatus::default() })
        };
        assert!(is_allowed(status(true, None)));
        assert!(is_allowed(status(true, Some(false))));
        assert!(!is_allowed(status(true, Some(true))));
        assert!(!is_allowed(status(false, None)));
        assert!(!is_allowed(None));
    }

    #[test]
    fn access_review_contains_groups_and_extra() {
        let info = UserInfo {
            groups: Some(vec!["system:masters".to_owned()]),
            extra: Some([("scopes".to_owned(), vec!["a".to_owned()])].into()),
            uid: Some("1".to_owned()),
            ..prometheus()
        };
        let SubjectAccessReviewSpec { user, groups, uid, extra, non_resource_attributes, .. } =
            access_review(info.clone(), "/metrics", "get").spec;
        assert_eq!((user, groups, uid, extra), (info.username, info.groups, info.uid, info.extra));
        let NonResourceAttributes { path, verb } = non_resource_attributes.unwrap();
        assert_eq!((path.as_deref(), verb.as_deref()), (Some("/metrics"), Some("get")));
    }
}
