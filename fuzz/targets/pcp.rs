// SPDX-License-Identifier: Apache-2.0 OR MIT
//! [`diolkos_fuzz::pcp`] under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diolkos_fuzz::pcp::run(data));
