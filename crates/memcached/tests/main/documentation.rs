//! The controller's page documents every condition and reason.

#[test]
fn page_documents_every_condition_and_reason() {
    let page = include_str!("../../../../docs/controllers/memcached.md");
    let words = include_str!("../../src/reasons.rs");
    let quoted: Vec<_> = words.lines().filter_map(|line| line.split('"').nth(1)).collect();
    assert!(quoted.len() > 10, "{quoted:?}");
    let is_on_it =
        |word: &str| page.split(|letter: char| !letter.is_alphanumeric()).any(|found| found == word);
    let missing: Vec<_> = quoted.into_iter().filter(|word| !is_on_it(word)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}
