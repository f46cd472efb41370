// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages as TCP carries them (RFC 1035 section 4.2.2).

/// The message with its length in front; none is longer than 65535 bytes.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 2);
    out.extend_from_slice(&(message.len() as u16).to_be_bytes());
    out.extend_from_slice(message);
    out
}
