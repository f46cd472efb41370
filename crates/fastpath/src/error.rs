// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why the fast path could not be started.

use std::io;

use diolkos_sys::kernel;

/// Why the fast path could not be started. Nothing is attached then.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum FastPathError {
    /// CAP_BPF or CAP_NET_ADMIN is missing, or the kernel has no BPF.
    #[error(
        "the kernel refuses BPF programs ({0}): run as root or with CAP_BPF and CAP_NET_ADMIN, \
         and without a seccomp filter that refuses bpf(2)"
    )]
    Refused(#[source] io::Error),
    /// The programs do not load on this kernel.
    #[error("the BPF programs do not load on Linux {}: {what}", kernel::release())]
    Load {
        /// The reason in one line.
        what: String,
        /// The messages of libbpf and the verifier, many lines.
        log: String,
        /// The error of libbpf.
        source: libbpf_rs::Error,
    },
    /// A map cannot be read, filled or shared.
    #[error(
        "the BPF programs do not load on Linux {}: {what}: {source}",
        kernel::release()
    )]
    Map {
        /// What the map is for.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The read-only data of an object does not match its source: an error in this program.
    #[error(
        "the BPF programs do not load on Linux {}: the object has no read-only data",
        kernel::release()
    )]
    NoData,
    /// The process has too many open files; each map, program and link needs one.
    #[error("too many files are open")]
    Files,
    /// The driver of an interface does not run the program.
    #[error("packets cannot be translated in the driver (XDP): {0}")]
    Driver(#[source] io::Error),
    /// The programs load but cannot be attached.
    #[error("the BPF program {program} cannot be attached: {source}")]
    Attach {
        /// Name of the program.
        program: &'static str,
        /// The error from the kernel.
        source: io::Error,
    },
}

impl FastPathError {
    /// The error of a descriptor that could not be duplicated, or a map that could not be used.
    pub(crate) fn map(what: &'static str, source: io::Error) -> FastPathError {
        match is_of_files(&source) {
            true => FastPathError::Files,
            false => FastPathError::Map { what, source },
        }
    }

    /// Returns true if the limit on open files was the cause. Files may be closed and the limit raised, so a retry may
    /// succeed.
    pub fn lacks_files(&self) -> bool {
        match self {
            FastPathError::Files => true,
            FastPathError::Attach { source, .. } => is_of_files(source),
            _ => false,
        }
    }
}

fn is_of_files(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMFILE)
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn each_has_its_sentence_its_source_and_may_lack_files() {
        use FastPathError as E;
        let os = io::Error::from_raw_os_error;
        let linux = format!(
            "the BPF programs do not load on Linux {}: ",
            kernel::release()
        );
        let load = E::Load {
            what: "the verifier refuses it".to_owned(),
            log: "many lines".to_owned(),
            source: libbpf_rs::Error::from_raw_os_error(libc::EACCES),
        };
        let attach = |number| E::Attach {
            program: "nat64_egress",
            source: os(number),
        };
        let cases = [
            (E::Refused(os(libc::EPERM)), true, false, "the kernel refuses BPF programs (Operation not permitted (os error \
              1)): run as root or with CAP_BPF and CAP_NET_ADMIN, and without a seccomp filter that refuses bpf(2)".to_owned()),
            (load, true, false, format!("{linux}the verifier refuses it")),
            (E::map("share the homes", os(libc::ENOMEM)), true, false,
             format!("{linux}share the homes: Cannot allocate memory (os error 12)")),
            (E::map("share the homes", os(libc::EMFILE)), false, true, "too many files are open".to_owned()),
            (E::NoData, false, false, format!("{linux}the object has no read-only data")),
            (E::Driver(os(libc::EOPNOTSUPP)), true, false, "packets cannot be translated in the driver (XDP): Operation not \
              supported (os error 95)".to_owned()),
            (attach(libc::EBUSY), true, false, "the BPF program nat64_egress cannot be attached: Device or resource busy \
              (os error 16)".to_owned()),
            (attach(libc::EMFILE), true, true, "the BPF program nat64_egress cannot be attached: Too many open files (os \
              error 24)".to_owned()),
        ];
        for (error, has_source, lacks_files, sentence) in cases {
            assert_eq!(error.to_string(), sentence);
            assert_eq!(error.source().is_some(), has_source, "{error}");
            assert_eq!(error.lacks_files(), lacks_files, "{error}");
        }
    }
}
