//! How much memory JSON takes once it is parsed, told from its text.
//!
//! What a body takes has little to do with its length: `{},` is three bytes, and hundreds once it
//! is one item of a list of structs. One pass over the bytes, without any allocation, counts what
//! will be allocated, so that a body can be refused before it is parsed.

/// The deepest nesting. Kubernetes' own objects stay far below; the parser gives up at 128.
const DEEPEST: usize = 100;

/// Bytes that one object takes: a struct in a list, twice, for lists grow by doubling; or the first node of a map,
/// which has room for eleven members.
const OBJECT: usize = 640;
/// Bytes that one member of an object takes: key and value in a map, with the key's own allocation.
const MEMBER: usize = 160;
/// Bytes that any other item of a list takes.
const ITEM: usize = 64;
/// How often a text is there: parsed, copied, and written into an answer.
const TEXT: usize = 3;
/// How often the longest text alone may be there, escaped, when a message quotes it.
const QUOTED: usize = 16;

/// What a text in JSON holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Objects that are items of lists, or are not empty.
    pub objects: usize,
    /// Members of objects.
    pub members: usize,
    /// Items of lists that are no objects.
    pub items: usize,
    /// Bytes within strings.
    pub text: usize,
    /// Bytes of the longest string.
    pub longest: usize,
}

/// The nesting is deeper than any object of Kubernetes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is nested more than {DEEPEST} levels deep")]
pub struct TooDeep;

impl Footprint {
    /// Counts what a text in JSON holds. Anything that is no JSON is counted as well: the parser
    /// refuses it later.
    ///
    /// # Errors
    /// Returns an error if the nesting is too deep.
    pub fn of(json: &[u8]) -> Result<Self, TooDeep> {
        let mut counter = Counter::default();
        let mut rest = json.iter();
        while let Some(byte) = rest.next() {
            match byte {
                b'"' => {
                    let length = string(&mut rest);
                    counter.value(false);
                    counter.found.text += length;
                    counter.found.longest = counter.found.longest.max(length);
                }
                b'{' | b'[' => {
                    let is_counted = counter.value(*byte == b'{');
                    counter.enter(*byte == b'[', is_counted)?;
                }
                b'}' | b']' => counter.leave(),
                b',' => counter.expects = true,
                b':' => counter.member(),
                b' ' | b'\t' | b'\n' | b'\r' => {}
                _ => {
                    counter.value(false);
                }
            }
        }
        Ok(counter.found)
    }

    /// Estimates the bytes that it takes in memory when it is held so many times at once. The
    /// estimate is meant to be too high rather than too low.
    pub fn bytes(&self, copies: usize) -> usize {
        let once = self.objects * OBJECT + self.members * MEMBER + self.items * ITEM + self.text * TEXT;
        once * copies + self.longest * QUOTED
    }
}

#[derive(Default)]
struct Counter {
    found: Footprint,
    /// Whether each container around is a list, the innermost in the lowest bit.
    lists: u128,
    /// Whether each container around is counted as an object, or is none, the innermost in the lowest bit.
    counted: u128,
    depth: usize,
    /// Whether the next value is a new item: it follows a bracket or a comma.
    expects: bool,
}

impl Counter {
    /// A value begins, or goes on: only its first byte counts. Returns whether it was counted.
    fn value(&mut self, is_object: bool) -> bool {
        let is_item = std::mem::take(&mut self.expects) && self.lists & 1 == 1;
        match (is_item, is_object) {
            (true, true) => self.found.objects += 1,
            (true, false) => self.found.items += 1,
            (false, _) => {}
        }
        is_item
    }

    fn member(&mut self) {
        self.found.members += 1;
        if self.counted & 1 == 0 {
            self.counted |= 1;
            self.found.objects += 1;
        }
    }

    fn enter(&mut self, is_list: bool, is_counted: bool) -> Result<(), TooDeep> {
        if self.depth >= DEEPEST {
            return Err(TooDeep);
        }
        self.depth += 1;
        self.lists = self.lists << 1 | u128::from(is_list);
        self.counted = self.counted << 1 | u128::from(is_list || is_counted);
        self.expects = true;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.lists >>= 1;
        self.counted >>= 1;
        self.expects = false;
    }
}

/// Reads to the end of a string; returns its length as it is written.
fn string(rest: &mut std::slice::Iter<'_, u8>) -> usize {
    let before = rest.len();
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => return before - rest.len() - 1,
            b'\\' => drop(rest.next()),
            _ => {}
        }
    }
    before
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn of(json: &str) -> Footprint {
        Footprint::of(json.as_bytes()).unwrap()
    }

    #[test]
    fn what_will_be_allocated_is_counted() {
        let found = of(r#"{"a": [{}, {"b": -1.5e3}, [0, true], "x\\]"], "long": "yy \" yy", "c": []}"#);
        let expected = Footprint { objects: 3, members: 4, items: 4, text: 19, longest: 8 };
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_short_and_takes_much_is_seen() {
        assert!(of(&format!("[{}{{}}]", "{},".repeat(10_000))).bytes(1) > 10_000 * OBJECT);
        assert!(of(&format!("[{}0]", "0,".repeat(10_000))).bytes(1) > 10_000 * ITEM);
        assert!(of(&format!("{{{}\"\":0}}", "\"\":0,".repeat(10_000))).bytes(1) > 10_000 * MEMBER);
    }

    #[test]
    fn the_depth_is_bounded() {
        assert!(Footprint::of("[".repeat(DEEPEST).as_bytes()).is_ok());
        assert_eq!(Footprint::of("[{\"a\":".repeat(DEEPEST).as_bytes()), Err(TooDeep));
        assert_eq!(of(&"[]".repeat(1000)).objects, 0);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![any::<i32>().prop_map(Value::from), "[a-c\"\\\\,:{\\[]{0,4}".prop_map(Value::from)];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    /// Objects in lists or with members, members, and other items of lists.
    fn count(value: &Value) -> [usize; 3] {
        let (own, inner): (_, Vec<&Value>) = match value {
            Value::Object(fields) => {
                ([usize::from(!fields.is_empty()), fields.len(), 0], fields.values().collect())
            }
            Value::Array(items) => {
                let objects = items.iter().filter(|item| item.is_object()).count();
                let empty =
                    items.iter().filter(|item| item.as_object().is_some_and(serde_json::Map::is_empty));
                ([empty.count(), 0, items.len() - objects], items.iter().collect())
            }
            _ => ([0; 3], Vec::new()),
        };
        inner.into_iter().map(count).fold(own, |sum, one| std::array::from_fn(|at| sum[at] + one[at]))
    }

    proptest! {
        #[test]
        fn the_count_is_that_of_the_parser(value in value()) {
            for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
                let found = of(&text);
                prop_assert_eq!([found.objects, found.members, found.items], count(&value));
            }
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Footprint::of(&bytes).is_ok_and(|found| found.text <= 200));
        }
    }
}
