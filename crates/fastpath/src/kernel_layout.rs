// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds, from the BTF of the running kernel, the kernel data that programs read.

use std::sync::OnceLock;

use libbpf_rs::btf::Btf;
use libbpf_rs::ProgramType;
use libbpf_sys::BPF_FUNC_probe_read_kernel;

use super::{gso, namespace};

/// The layouts. None if the kernel has no BTF, or does not let programs read its memory (lockdown, no
/// CAP_PERFMON).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KernelLayout {
    pub(crate) gso: Option<gso::Layout>,
    pub(crate) namespace: Option<namespace::Layout>,
}

/// The layouts of this kernel. Reading its BTF takes about 20 ms.
pub(crate) fn kernel_layout() -> KernelLayout {
    static LAYOUT: OnceLock<KernelLayout> = OnceLock::new();
    *LAYOUT.get_or_init(|| {
        // The answer is the same for every program type.
        let may_read = ProgramType::SchedCls.is_helper_supported(BPF_FUNC_probe_read_kernel);
        let may_read = may_read.unwrap_or(false);
        let kernel = may_read.then(|| Btf::from_vmlinux().ok()).flatten();
        kernel.map_or_else(KernelLayout::default, |kernel| KernelLayout {
            gso: gso::find(&kernel),
            namespace: namespace::find(&kernel),
        })
    })
}
