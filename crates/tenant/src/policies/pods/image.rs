//! References to images.

/// Returns the registry of an image with its port: what is before the first slash. Returns `None`
/// without a slash.
///
/// As in Capsule, the first part always counts as the registry. `attacker/pause:3` is therefore not
/// an image of Docker Hub, but of a registry `attacker`.
pub(super) fn registry(image: &str) -> Option<&str> {
    image.split_once('/').map(|(registry, _)| registry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_is_before_the_first_slash() {
        for (image, expected) in [
            ("docker.io/library/nginx:1.27", Some("docker.io")),
            ("registry.example:5000/a/b@sha256:0123", Some("registry.example:5000")),
            ("[fd00::1]:5000/a", Some("[fd00::1]:5000")),
            ("attacker/pause:3", Some("attacker")),
            ("/a", Some("")),
            ("nginx", None),
            ("nginx:1.27", None),
            ("nginx@sha256:0123", None),
            ("", None),
        ] {
            assert_eq!(registry(image), expected, "{image}");
        }
    }
}
