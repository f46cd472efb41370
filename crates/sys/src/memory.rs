// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that is not needed any more.

/// Gives what is free back to the kernel, after something large has gone. The allocator would keep it for later.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointers, and may be called at any time by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
