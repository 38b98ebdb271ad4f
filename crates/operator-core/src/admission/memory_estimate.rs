//! Estimate of the memory that JSON needs once it is parsed.
//!
//! The length of a body says little about the memory: `{},` has three bytes, and takes hundreds as
//! one item of a list of structs. One pass over the bytes counts what will be allocated, without
//! any allocation, so that a body can be rejected before it is parsed.

/// Maximum nesting. Kubernetes' own objects are far below; the parser's limit is 128.
const MAX_DEPTH: usize = 100;

/// Bytes of one object: a struct in a list, twice, because lists grow by doubling; or the first
/// node of a map, which has room for eleven members.
const OBJECT: usize = 640;
/// Bytes of one member of an object: key and value in a map, with the allocation of the key.
const MEMBER: usize = 160;
/// Bytes of any other item of a list.
const ITEM: usize = 64;
/// Number of copies of a text: parsed, cloned, and written into a response.
const TEXT: usize = 3;
/// Factor of the longest text: a message can quote it with escapes.
const QUOTED: usize = 16;

/// Counts of the values in a JSON text, to estimate its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// Objects that are items of lists or have members.
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

/// The JSON is nested too deeply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is nested more than {MAX_DEPTH} levels deep")]
pub struct TooDeep;

impl MemoryEstimate {
    /// Counts the values of a JSON text. Counts invalid JSON too: the parser rejects it later.
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
                    counter.counts.text += length;
                    counter.counts.longest = counter.counts.longest.max(length);
                }
                b'{' | b'[' => {
                    let is_counted = counter.value(*byte == b'{');
                    counter.enter(*byte == b'[', is_counted)?;
                }
                b'}' | b']' => counter.leave(),
                b',' => counter.expects_item = true,
                b':' => counter.member(),
                b' ' | b'\t' | b'\n' | b'\r' => {}
                _ => {
                    counter.value(false);
                }
            }
        }
        Ok(counter.counts)
    }

    /// Returns the estimated bytes of `copies` parsed copies. Rather too high than too low.
    pub fn bytes(&self, copies: usize) -> usize {
        let once = self.objects * OBJECT + self.members * MEMBER + self.items * ITEM + self.text * TEXT;
        once * copies + self.longest * QUOTED
    }
}

#[derive(Default)]
struct Counter {
    counts: MemoryEstimate,
    /// Whether each open container is a list. The innermost is the lowest bit.
    lists: u128,
    /// Whether each open container is a list or was counted as an object. The innermost is the
    /// lowest bit.
    counted: u128,
    depth: usize,
    /// Whether the next value starts an item: it follows a bracket or a comma.
    expects_item: bool,
}

impl Counter {
    /// Counts a value at its first byte. Returns whether it was counted; later bytes are not.
    fn value(&mut self, is_object: bool) -> bool {
        let is_item = std::mem::take(&mut self.expects_item) && self.lists & 1 == 1;
        match (is_item, is_object) {
            (true, true) => self.counts.objects += 1,
            (true, false) => self.counts.items += 1,
            (false, _) => {}
        }
        is_item
    }

    fn member(&mut self) {
        self.counts.members += 1;
        if self.counted & 1 == 0 {
            self.counted |= 1;
            self.counts.objects += 1;
        }
    }

    fn enter(&mut self, is_list: bool, is_counted: bool) -> Result<(), TooDeep> {
        if self.depth >= MAX_DEPTH {
            return Err(TooDeep);
        }
        self.depth += 1;
        self.lists = self.lists << 1 | u128::from(is_list);
        self.counted = self.counted << 1 | u128::from(is_list || is_counted);
        self.expects_item = true;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.lists >>= 1;
        self.counted >>= 1;
        self.expects_item = false;
    }
}

/// Skips a string. Returns its length as written.
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

    fn of(json: &str) -> MemoryEstimate {
        MemoryEstimate::of(json.as_bytes()).unwrap()
    }

    #[test]
    fn counts_objects_members_items_and_text() {
        let found = of(r#"{"a": [{}, {"b": -1.5e3}, [0, true], "x\\]"], "long": "yy \" yy", "c": []}"#);
        let expected = MemoryEstimate { objects: 3, members: 4, items: 4, text: 19, longest: 8 };
        assert_eq!(found, expected);
    }

    #[test]
    fn short_values_count_with_their_overhead() {
        assert!(of(&format!("[{}{{}}]", "{},".repeat(10_000))).bytes(1) > 10_000 * OBJECT);
        assert!(of(&format!("[{}0]", "0,".repeat(10_000))).bytes(1) > 10_000 * ITEM);
        assert!(of(&format!("{{{}\"\":0}}", "\"\":0,".repeat(10_000))).bytes(1) > 10_000 * MEMBER);
    }

    #[test]
    fn rejects_deep_nesting() {
        assert!(MemoryEstimate::of("[".repeat(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(MemoryEstimate::of("[{\"a\":".repeat(MAX_DEPTH).as_bytes()), Err(TooDeep));
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

    /// Returns objects in lists or with members, members, and other items of lists.
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
        fn counts_equal_those_of_the_parser(value in value()) {
            for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
                let found = of(&text);
                prop_assert_eq!([found.objects, found.members, found.items], count(&value));
            }
        }

        #[test]
        fn accepts_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(MemoryEstimate::of(&bytes).is_ok_and(|found| found.text <= 200));
        }
    }
}
