//! What the API server said, for a short while. Tokens are not kept, only what cannot be turned back into one.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use axum::http::Method;
use ring::digest::{Context, SHA256};

use super::Verdict;

/// How long somebody who may pass is believed to. A right that is taken away ends after this.
const ALLOWED: Duration = Duration::from_mins(1);
/// How long somebody who may not pass has to wait for a right that was given.
const REFUSED: Duration = Duration::from_secs(10);
/// How many answers of each sort are kept.
const MOST: usize = 512;

/// What is asked about a request.
pub(super) struct Question<'r> {
    pub(super) token: &'r str,
    pub(super) path: &'r str,
    pub(super) method: &'r Method,
}

/// Stands for a question. The token cannot be read from it.
pub(super) type Key = [u8; 32];

impl Question<'_> {
    /// The method as RBAC names it for paths.
    pub(super) fn verb(&self) -> String {
        self.method.as_str().to_ascii_lowercase()
    }

    pub(super) fn key(&self) -> Key {
        let mut context = Context::new(&SHA256);
        for part in [self.method.as_str(), self.path, self.token] {
            context.update(part.as_bytes());
            // In none of them, so that no two questions read the same.
            context.update(b"\0");
        }
        let mut key = Key::default();
        key.iter_mut().zip(context.finish().as_ref()).for_each(|(to, from)| *to = *from);
        key
    }
}

/// Answers, those to people who may pass apart: strangers with many tokens do not drive them out.
#[derive(Default)]
pub(super) struct Answers {
    allowed: HashMap<Key, Kept>,
    refused: HashMap<Key, Kept>,
}

struct Kept {
    verdict: Verdict,
    until: Instant,
}

impl Answers {
    pub(super) fn get(&self, key: &Key, now: Instant) -> Option<Verdict> {
        let kept = self.allowed.get(key).or_else(|| self.refused.get(key))?;
        (now < kept.until).then(|| kept.verdict.clone())
    }

    pub(super) fn keep(&mut self, key: Key, verdict: Verdict, now: Instant) {
        self.allowed.remove(&key);
        self.refused.remove(&key);
        let (answers, time) = match verdict {
            Verdict::Allowed => (&mut self.allowed, ALLOWED),
            _ => (&mut self.refused, REFUSED),
        };
        make_room(answers, now);
        answers.insert(key, Kept { verdict, until: now + time });
    }
}

/// Forgets what is over, and if that is not enough, what would be over first.
fn make_room(answers: &mut HashMap<Key, Kept>, now: Instant) {
    if answers.len() < MOST {
        return;
    }
    answers.retain(|_, kept| now < kept.until);
    let first = answers.iter().min_by_key(|(_, kept)| kept.until).map(|(key, _)| *key);
    if let Some(first) = first.filter(|_| answers.len() >= MOST) {
        answers.remove(&first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(token: &str) -> Key {
        Question { token, path: "/metrics", method: &Method::GET }.key()
    }

    #[test]
    fn an_answer_is_believed_for_its_time_and_no_longer() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        answers.keep(key("good"), Verdict::Allowed, now);
        answers.keep(key("bad"), Verdict::Unknown, now);
        assert_eq!(answers.get(&key("good"), now + ALLOWED.mul_f64(0.99)), Some(Verdict::Allowed));
        assert_eq!(answers.get(&key("good"), now + ALLOWED), None);
        assert_eq!(answers.get(&key("bad"), now + REFUSED.mul_f64(0.99)), Some(Verdict::Unknown));
        assert_eq!(answers.get(&key("bad"), now + REFUSED), None);
    }

    #[test]
    fn an_answer_is_about_one_token_path_and_method() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        answers.keep(key("token"), Verdict::Allowed, now);
        for (token, path, method) in [
            ("token", "/debug/log-level", Method::GET),
            ("token", "/metrics", Method::PUT),
            ("another", "/metrics", Method::GET),
            ("etricstoken", "/m", Method::GET),
        ] {
            let other = Question { token, path, method: &method }.key();
            assert_eq!(answers.get(&other, now), None, "{method} {path} {token}");
        }
    }

    #[test]
    fn the_newer_answer_counts() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        answers.keep(key("a"), Verdict::Unknown, now);
        answers.keep(key("a"), Verdict::Allowed, now);
        assert_eq!(answers.get(&key("a"), now), Some(Verdict::Allowed));
        answers.keep(key("a"), Verdict::Unknown, now);
        assert_eq!(answers.get(&key("a"), now), Some(Verdict::Unknown));
    }

    #[test]
    fn strangers_with_many_tokens_neither_fill_the_memory_nor_drive_others_out() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        answers.keep(key("good"), Verdict::Allowed, now);
        for number in 0..10 * MOST {
            answers.keep(key(&number.to_string()), Verdict::Unknown, now);
        }
        assert_eq!(answers.refused.len(), MOST);
        assert_eq!(answers.get(&key("good"), now), Some(Verdict::Allowed));
        let newest = key(&(10 * MOST - 1).to_string());
        assert_eq!(answers.get(&newest, now), Some(Verdict::Unknown));
    }
}
