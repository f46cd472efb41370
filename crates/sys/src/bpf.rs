// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls of bpf(2) that libbpf-rs lacks, or offers only for objects that it has loaded itself. Errors carry the kernel's
//! number.

use std::ffi::{c_int, c_void, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use libbpf_rs::{MapCore, MapHandle, MapType, Program};
use libbpf_sys as bpf;

/// The position in a batch read of a map: as long as the longest key, or the number of a bucket.
pub type Position = [u8; 64];

/// Attaches a program to an interface. `attach_type`: `BPF_XDP`, `BPF_TCX_INGRESS` or another type for interfaces.
pub fn attach(
    program: BorrowedFd<'_>,
    ifindex: u32,
    attach_type: bpf::bpf_attach_type,
    flags: u32,
) -> io::Result<OwnedFd> {
    let options = bpf::bpf_link_create_opts {
        sz: size_of::<bpf::bpf_link_create_opts>() as _,
        flags,
        ..Default::default()
    };
    let (program, ifindex) = (program.as_raw_fd(), ifindex as c_int);
    // SAFETY: the options say their size, have no pointers, and outlive the call.
    let fd = unsafe { bpf::bpf_link_create(program, ifindex, attach_type, &raw const options) };
    done(fd)?;
    // SAFETY: the kernel has made the descriptor for this call, so no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Replaces the program of a link.
pub fn update(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: it takes no options for a null pointer, and no other pointer is passed.
    done(unsafe { bpf::bpf_link_update(link.as_raw_fd(), program.as_raw_fd(), ptr::null()) })
}

/// The most programs that the kernel allows at one hook (BPF_MPROG_MAX).
const MOST_PROGRAMS: usize = 64;

/// The numbers of the programs at a tcx hook of an interface, in the order in which packets meet them. Fails if the kernel has
/// no tcx.
pub fn attached(ifindex: u32, attach_type: bpf::bpf_attach_type) -> io::Result<Vec<u32>> {
    let mut numbers = vec![0; MOST_PROGRAMS];
    let mut options = bpf::bpf_prog_query_opts {
        sz: size_of::<bpf::bpf_prog_query_opts>() as _,
        prog_ids: numbers.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.count = MOST_PROGRAMS as u32;
    // SAFETY: the options say their size; `prog_ids` has room for `count` numbers, the other pointers are null, and all of it
    // outlives the call.
    done(unsafe { bpf::bpf_prog_query_opts(ifindex as c_int, attach_type, &raw mut options) })?;
    // SAFETY: both names of the union are of one number, which was written above.
    let count = unsafe { options.__bindgen_anon_1.count };
    numbers.truncate(count as usize);
    Ok(numbers)
}

/// The XDP programs of an interface, whatever process attached them.
pub fn xdp_query(ifindex: u32) -> io::Result<bpf::bpf_xdp_query_opts> {
    let mut found = bpf::bpf_xdp_query_opts {
        sz: size_of::<bpf::bpf_xdp_query_opts>() as _,
        ..Default::default()
    };
    // The function of libbpf-rs needs a program object for this.
    // SAFETY: `found` says its size, and outlives the call; the kernel writes integers.
    match unsafe { bpf::bpf_xdp_query(ifindex as i32, 0, &mut found) } {
        0 => Ok(found),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// The name of a program, of which the kernel keeps 15 bytes. The programs of other processes can be read only with
/// CAP_SYS_ADMIN.
pub fn program_name(number: u32) -> io::Result<String> {
    let program = Program::fd_from_id(number).map_err(io::Error::other)?;
    let info = program_info(program.as_fd(), &mut [])?;
    // Signed on some architectures, unsigned on others.
    let bytes = info.name.iter().map(|byte| byte.to_ne_bytes()[0]);
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Pins an object under a path in bpffs.
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: the path is a C string that outlives the call.
    done(unsafe { bpf::bpf_obj_pin(object.as_raw_fd(), path.as_ptr()) })
}

/// Opens the object that is pinned at a path. (libbpf-rs opens links too, and prints an error if there is none.)
pub fn pinned(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    // SAFETY: the path is a C string that outlives the call.
    let fd = unsafe { bpf::bpf_obj_get(path.as_ptr()) };
    done(fd)?;
    // SAFETY: the kernel has made the descriptor for this call, so no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

/// The kernel's information about a program. The numbers of its maps are written to `maps`, as many as fit.
pub fn program_info(program: BorrowedFd<'_>, maps: &mut [u32]) -> io::Result<bpf::bpf_prog_info> {
    let mut info = bpf::bpf_prog_info {
        nr_map_ids: maps.len() as u32,
        map_ids: maps.as_mut_ptr() as u64,
        ..Default::default()
    };
    let mut len = size_of_val(&info) as u32;
    let program = program.as_raw_fd();
    // SAFETY: the kernel writes at most `len` bytes to `info`, and at most `nr_map_ids` numbers to `maps`; the other places that
    // `info` could lead to have no length.
    done(unsafe { bpf::bpf_prog_get_info_by_fd(program, &raw mut info, &raw mut len) })?;
    Ok(info)
}

/// One call of BPF_PROG_TEST_RUN.
#[derive(Debug, Default)]
pub struct TestRun<'a> {
    /// The frame.
    pub data_in: &'a [u8],
    /// Buffer for the resulting frame.
    pub data_out: &'a mut [u8],
    /// The context in the kernel's format for this type of program; empty for none.
    pub context: &'a [u8],
    /// The number of runs; unsigned, as in the kernel.
    pub repeat: u32,
    /// `BPF_F_TEST_XDP_LIVE_FRAMES`.
    pub flags: u32,
    /// The batch size for live frames.
    pub batch_size: u32,
}

impl TestRun<'_> {
    /// Runs the program. Returns its return code, and the length of the frame in `data_out`, bytes.
    pub fn run(self, program: BorrowedFd<'_>) -> io::Result<(u32, usize)> {
        // The kernel demands a null pointer for an empty buffer.
        let data_out = match &mut *self.data_out {
            [] => ptr::null_mut(),
            bytes => bytes.as_mut_ptr(),
        };
        let mut options = bpf::bpf_test_run_opts {
            sz: size_of::<bpf::bpf_test_run_opts>() as _,
            data_in: address(self.data_in),
            data_size_in: self.data_in.len() as u32,
            data_out: data_out.cast(),
            data_size_out: self.data_out.len() as u32,
            ctx_in: address(self.context),
            ctx_size_in: self.context.len() as u32,
            repeat: self.repeat as i32,
            flags: self.flags,
            batch_size: self.batch_size,
            ..Default::default()
        };
        // SAFETY: each pointer is null, or valid for the length next to it until the call returns.
        done(unsafe { bpf::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) })?;
        Ok((options.retval, options.data_size_out as usize))
    }
}

fn address(bytes: &[u8]) -> *const c_void {
    match bytes {
        [] => ptr::null(),
        _ => bytes.as_ptr().cast(),
    }
}

/// Reads a batch of entries, from `after` or from the beginning, as many as fit: consecutive keys and consecutive values.
/// Returns the number of entries and the position for the next batch, `None` after the last one. Fails with ENOSPC if a bucket
/// has more entries than fit.
pub fn read(
    map: &MapHandle,
    after: Option<&mut Position>,
    keys: &mut [u8],
    values: &mut [u8],
) -> io::Result<(usize, Option<Position>)> {
    let room = (keys.len() / map.key_size() as usize).min(values.len() / value_len(map)?);
    let mut count = room as u32;
    let mut next = [0; size_of::<Position>()];
    let after = after.map_or(ptr::null_mut(), |after| after.as_mut_ptr());
    assert!(map.key_size() as usize <= next.len());
    // SAFETY: `keys` and `values` have room for `count` entries, a position is as long as what the kernel reads and writes of
    // it, and all of them outlive the call. Any bytes are valid in them.
    let error = unsafe {
        bpf::bpf_map_lookup_batch(
            map.as_fd().as_raw_fd(),
            after.cast(),
            next.as_mut_ptr().cast(),
            keys.as_mut_ptr().cast(),
            values.as_mut_ptr().cast(),
            &raw mut count,
            ptr::null(),
        )
    };
    match -error {
        0 => Ok((count as usize, Some(next))),
        libc::ENOENT => Ok((count as usize, None)),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// The bytes that the kernel returns for a value; with a per-CPU map, the values of all CPUs.
fn value_len(map: &MapHandle) -> io::Result<usize> {
    let len = map.value_size() as usize;
    let is_per_cpu = matches!(
        map.map_type(),
        MapType::PercpuHash | MapType::PercpuArray | MapType::LruPercpuHash
    );
    if !is_per_cpu {
        return Ok(len);
    }
    let cpus = libbpf_rs::num_possible_cpus().map_err(io::Error::other)?;
    Ok(len.next_multiple_of(8) * cpus)
}

/// Deletes entries by their consecutive keys, up to the first key that is missing. Returns the number of deleted entries, which
/// is smaller than the number of keys if one was missing.
pub fn delete(map: &MapHandle, keys: &[u8]) -> io::Result<usize> {
    let mut count = (keys.len() / map.key_size() as usize) as u32;
    let map = map.as_fd().as_raw_fd();
    // SAFETY: there are `count` keys, which the kernel reads; it writes nothing but `count`.
    let error = unsafe {
        bpf::bpf_map_delete_batch(map, keys.as_ptr().cast(), &raw mut count, ptr::null())
    };
    match -error {
        0 | libc::ENOENT => Ok(count as usize),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Turns a result of libbpf into an error: libbpf returns negative error numbers.
fn done(result: c_int) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}
