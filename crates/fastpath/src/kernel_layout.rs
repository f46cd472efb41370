// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the running kernel keeps what programs read in its memory, by its BTF.

use std::sync::OnceLock;

use libbpf_rs::btf::Btf;
use libbpf_rs::ProgramType;
use libbpf_sys::BPF_FUNC_probe_read_kernel;

use super::{gso, namespace};

/// Nothing of it, if the kernel has no BTF or does not let programs read its memory (lockdown, no CAP_PERFMON).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KernelLayout {
    pub(crate) gso: Option<gso::Layout>,
    pub(crate) namespace: Option<namespace::Layout>,
}

/// Of this kernel. To read its BTF takes some 20 ms.
pub(crate) fn kernel_layout() -> KernelLayout {
    static LAYOUT: OnceLock<KernelLayout> = OnceLock::new();
    *LAYOUT.get_or_init(|| {
        // The same for every type of program.
        let may_read = ProgramType::SchedCls.is_helper_supported(BPF_FUNC_probe_read_kernel);
        let may_read = may_read.unwrap_or(false);
        let kernel = may_read.then(|| Btf::from_vmlinux().ok()).flatten();
        kernel.map_or_else(KernelLayout::default, |kernel| KernelLayout {
            gso: gso::find(&kernel),
            namespace: namespace::find(&kernel),
        })
    })
}
