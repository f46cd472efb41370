// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides what happens next: by a search through all possibilities, or by chance.

/// Makes decisions.
pub enum Guide {
    /// One path of a tree, and the number of branches at each of its forks.
    Search { path: Vec<[u32; 2]>, at: usize },
    /// Chance.
    Random(fastrand::Rng),
}

impl Guide {
    /// Returns the first path of a search.
    pub fn search() -> Guide {
        Guide::Search {
            path: Vec::new(),
            at: 0,
        }
    }

    /// Chooses one of so many branches.
    pub fn choose(&mut self, branches: u32) -> u32 {
        match self {
            Guide::Random(chance) => chance.u32(..branches),
            Guide::Search { path, at } => {
                if *at == path.len() {
                    path.push([0, branches]);
                }
                let [taken, there] = path[*at];
                assert_eq!(there, branches, "the same decisions lead to the same forks");
                *at += 1;
                taken
            }
        }
    }

    /// Advances to the next path. Returns false if there is none.
    pub fn advance(&mut self) -> bool {
        let Guide::Search { path, at } = self else {
            return false;
        };
        *at = 0;
        while let Some([taken, branches]) = path.pop() {
            if taken + 1 < branches {
                path.push([taken + 1, branches]);
                return true;
            }
        }
        false
    }
}
