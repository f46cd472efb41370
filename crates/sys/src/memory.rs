// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Free memory of the process.

/// Returns free memory to the kernel, after a large allocation was freed. The allocator would keep it for later.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointers, and may be called at any time by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
