//! `diolkos`: translation between IPv4 and IPv6 on Linux.
fn main() {}
