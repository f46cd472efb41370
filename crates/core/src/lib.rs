//! What translation between IPv6 and IPv4 means: no input or output, no clock, no randomness.
#![forbid(unsafe_code)]
