// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Removes many entries of a hash map with few system calls. What a caller gives has left the map when this returns,
//! whatever the kernel says in between: a port whose session is still there must not become another node's.

use std::io;

use libbpf_rs::{ErrorKind, MapCore, MapHandle};

use diolkos_sys::bpf::delete;

/// Deletes the entries with these concatenated keys, as far as they exist. An error is about some of them, not about those
/// after them.
pub fn delete_all(map: &MapHandle, keys: &[u8]) -> io::Result<()> {
    let one = |key: &[u8]| match map.delete(key) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io::Error::other(error)),
        _ => Ok(()),
    };
    delete_with(keys, map.key_size() as usize, |keys| delete(map, keys), one)
}

/// `together` deletes entries up to the first key that is missing, and returns their number; `one` deletes an entry, if it
/// exists. Once `together` has failed, which it may do in the middle, the rest leaves one by one. Returns the first error
/// of `one`, after all keys.
fn delete_with(
    keys: &[u8],
    len: usize,
    mut together: impl FnMut(&[u8]) -> io::Result<usize>,
    mut one: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut left = keys;
    while !left.is_empty() {
        let Ok(done) = together(left) else {
            // Each is tried, whatever became of the others.
            let mut all = Ok(());
            for key in left.chunks(len) {
                all = one(key).and(all);
            }
            return all;
        };
        // The key after the deleted ones does not exist.
        left = left.get((done + 1) * len..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    const LEN: usize = 2;

    /// A map of keys, of which the kernel refuses some calls.
    struct Refusing {
        keys: RefCell<BTreeSet<Vec<u8>>>,
        /// The removal of this key together with others fails, after those before it.
        busy: Option<Vec<u8>>,
        /// This key cannot be removed at all.
        stuck: Option<Vec<u8>>,
        calls: RefCell<usize>,
    }

    impl Refusing {
        fn of(keys: &[u8]) -> Refusing {
            Refusing {
                keys: RefCell::new(keys.iter().map(|key| vec![*key, 0]).collect()),
                busy: None,
                stuck: None,
                calls: RefCell::new(0),
            }
        }

        fn delete(&self, keys: &[u8]) -> io::Result<()> {
            let keys: Vec<u8> = keys.iter().flat_map(|key| [*key, 0]).collect();
            let is = |key: &[u8], what: &Option<Vec<u8>>| what.as_deref() == Some(key);
            let refused = || Err(io::ErrorKind::ResourceBusy.into());
            let together = |keys: &[u8]| {
                *self.calls.borrow_mut() += 1;
                for (done, key) in keys.chunks(LEN).enumerate() {
                    if is(key, &self.busy) || is(key, &self.stuck) {
                        return refused();
                    }
                    if !self.keys.borrow_mut().remove(key) {
                        return Ok(done);
                    }
                }
                Ok(keys.len() / LEN)
            };
            let one = |key: &[u8]| {
                *self.calls.borrow_mut() += 1;
                if is(key, &self.stuck) {
                    return refused().map(|_: usize| ());
                }
                self.keys.borrow_mut().remove(key);
                Ok(())
            };
            delete_with(&keys, LEN, together, one)
        }

        fn left(&self) -> Vec<u8> {
            self.keys.borrow().iter().map(|key| key[0]).collect()
        }
    }

    #[test]
    fn what_is_there_leaves_with_one_call() {
        let map = Refusing::of(&[1, 2, 3, 4]);
        map.delete(&[1, 3, 4]).expect("it is removed");
        assert_eq!((map.left(), *map.calls.borrow()), (vec![2], 1));
        map.delete(&[]).expect("nothing is removed");
        assert_eq!((map.left(), *map.calls.borrow()), (vec![2], 1));
    }

    #[test]
    fn a_missing_key_keeps_no_other_there() {
        for missing in 1..=5 {
            let there: Vec<u8> = (1..=5).filter(|key| *key != missing).collect();
            let map = Refusing::of(&there);
            map.delete(&[1, 2, 3, 4, 5]).expect("they are removed");
            assert_eq!(map.left(), [] as [u8; 0], "{missing}");
        }
        let map = Refusing::of(&[]);
        map.delete(&[1, 2, 3]).expect("there is nothing");
    }

    #[test]
    fn a_batch_that_fails_in_the_middle_is_finished_one_by_one() {
        for busy in 1..=5 {
            let mut map = Refusing::of(&[1, 2, 3, 5, 9]);
            map.busy = Some(vec![busy, 0]);
            map.delete(&[1, 2, 3, 4, 5]).expect("they are removed");
            assert_eq!(map.left(), [9], "{busy}");
        }
    }

    #[test]
    fn an_entry_that_stays_is_told_and_keeps_no_other_there() {
        let mut map = Refusing::of(&[1, 2, 3, 4]);
        map.stuck = Some(vec![2, 0]);
        let error = map.delete(&[1, 2, 3, 4]).expect_err("one stays");
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(map.left(), [2]);
    }
}
