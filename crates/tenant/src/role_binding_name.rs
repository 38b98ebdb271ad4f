//! Names of RoleBindings. Other programs compute the same names.

use k8s_openapi::api::rbac::v1::Subject;

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// Returns the hash of a role and its subjects, in their order: 64-bit FNV-1a in lower-case
/// hexadecimal digits without leading zeros.
///
/// The input is the name of the role, then the API group, kind, namespace, and name of each
/// subject, as given and without the defaults of the API server. Each field is preceded by its
/// length in eight little-endian bytes. Compatible with Capsule 0.14 (`RoleBindingHashFunc`).
pub fn role_binding_hash(cluster_role: &str, subjects: &[Subject]) -> String {
    let subjects = subjects.iter().flat_map(|subject| {
        let group = subject.api_group.as_deref().unwrap_or_default();
        let namespace = subject.namespace.as_deref().unwrap_or_default();
        [group, &subject.kind, namespace, &subject.name]
    });
    let hash = std::iter::once(cluster_role).chain(subjects).fold(OFFSET, hash_field);
    format!("{hash:x}")
}

/// Returns the name of the RoleBinding with this hash.
pub fn role_binding_name(hash: &str) -> String {
    format!("capsule:managed:{hash}")
}

fn hash_field(hash: u64, text: &str) -> u64 {
    let length = (text.len() as u64).to_le_bytes();
    let bytes = length.iter().chain(text.as_bytes());
    bytes.fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(group: &str, kind: &str, namespace: &str, name: &str) -> Subject {
        Subject {
            api_group: (!group.is_empty()).then(|| group.to_owned()),
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        }
    }

    fn user_or_group(kind: &str, name: &str) -> Subject {
        subject("rbac.authorization.k8s.io", kind, "", name)
    }

    /// The expected values are the output of a program that uses Go's `hash/fnv`.
    #[test]
    fn hash_equals_that_of_go() {
        assert_eq!(role_binding_hash("", &[]), "a8c7f832281a39c5");
        assert_eq!(role_binding_hash("admin", &[user_or_group("User", "alice")]), "f93a4d3523f699fb");
        assert_eq!(
            role_binding_hash("capsule-namespace-deleter", &[user_or_group("User", "alice")]),
            "286b623af2586c63"
        );
        let account = subject("", "ServiceAccount", "default", "deployer");
        assert_eq!(role_binding_hash("admin", &[account]), "50aa5f538f466c79");
        let several = [user_or_group("Group", "devs"), user_or_group("User", "bøb")];
        assert_eq!(role_binding_hash("view", &several), "4c555955dd5958fe");
    }

    #[test]
    fn hash_has_no_leading_zeros() {
        assert_eq!(role_binding_hash("admin", &[user_or_group("User", "user-0")]), "ee3799b99f2d798");
    }

    #[test]
    fn name_has_the_prefix_of_managed_bindings() {
        assert_eq!(role_binding_name("1f"), "capsule:managed:1f");
    }
}
