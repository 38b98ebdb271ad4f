//! The name of a RoleBinding, which other programs compute too.

use k8s_openapi::api::rbac::v1::Subject;

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// The hash of a role and its subjects, in their order: FNV-1a with 64 bits, in lower-case hexadecimal digits
/// without leading zeros.
///
/// It goes over the role's name and then the API group, kind, namespace and name of each subject, as they are
/// given and not as the API server defaults them. The length of each comes before it, in eight bytes, little
/// end first. This is part of the contract (Capsule 0.14, `RoleBindingHashFunc`).
pub fn role_binding_hash(cluster_role: &str, subjects: &[Subject]) -> String {
    let subjects = subjects.iter().flat_map(|subject| {
        let group = subject.api_group.as_deref().unwrap_or_default();
        let namespace = subject.namespace.as_deref().unwrap_or_default();
        [group, &subject.kind, namespace, &subject.name]
    });
    let hash = std::iter::once(cluster_role).chain(subjects).fold(OFFSET, field);
    format!("{hash:x}")
}

/// The name of the RoleBinding with that hash.
pub fn role_binding_name(hash: &str) -> String {
    format!("capsule:managed:{hash}")
}

fn field(hash: u64, text: &str) -> u64 {
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

    fn person(kind: &str, name: &str) -> Subject {
        subject("rbac.authorization.k8s.io", kind, "", name)
    }

    /// The expected values were printed by a program on Go's `hash/fnv`.
    #[test]
    fn it_is_bit_for_bit_what_other_programs_compute() {
        assert_eq!(role_binding_hash("", &[]), "a8c7f832281a39c5");
        assert_eq!(role_binding_hash("admin", &[person("User", "alice")]), "f93a4d3523f699fb");
        assert_eq!(
            role_binding_hash("capsule-namespace-deleter", &[person("User", "alice")]),
            "286b623af2586c63"
        );
        let program = subject("", "ServiceAccount", "default", "deployer");
        assert_eq!(role_binding_hash("admin", &[program]), "50aa5f538f466c79");
        let several = [person("Group", "devs"), person("User", "bøb")];
        assert_eq!(role_binding_hash("view", &several), "4c555955dd5958fe");
    }

    #[test]
    fn leading_zeros_are_left_out() {
        assert_eq!(role_binding_hash("admin", &[person("User", "user-0")]), "ee3799b99f2d798");
    }

    #[test]
    fn the_name_says_who_made_it() {
        assert_eq!(role_binding_name("1f"), "capsule:managed:1f");
    }
}
