// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What has happened at a node, beside what its tables count.

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Entries and messages of strangers, other clusters and other versions.
    pub strangers: u64,
    /// Writes that the engine refused because another node was faster.
    pub refused_writes: u64,
    /// How often the connection to the engine was lost.
    pub losses: u64,
    /// How often the engine had lost its data.
    pub resets: u64,
    /// Leases of this node that ended before they were renewed.
    pub lapses: u64,
}
