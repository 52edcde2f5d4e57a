//! The end of a command, or of a process that it started, without enough memory: one line and an exit code, instead of an abort.
//!
//! In a process of somebody else, which uses the library, Rust aborts as usual.
#![allow(unsafe_code)] // only a global allocator gets to know, and it must not unwind

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

/// Exit code of `pulsarscope` without enough memory; the processes that it starts end with it, too.
const EXIT_CODE: c_int = 6;

const STANDARD_ERROR: c_int = 2;

const LINE: &[u8] = b"pulsarscope: there is not enough memory; the output is not complete (that of -o still ends in .partial)\n";

#[cfg(windows)]
type Size = std::ffi::c_uint;
#[cfg(not(windows))]
type Size = usize;

extern "C" {
    fn _exit(code: c_int) -> !;
    #[cfg_attr(windows, link_name = "_write")]
    fn write(file: c_int, bytes: *const c_void, size: Size) -> isize;
}

/// True in a process that belongs to `pulsarscope`.
static IS_OWN: AtomicBool = AtomicBool::new(false);

/// True if nobody else says why it ended.
static TELLS: AtomicBool = AtomicBool::new(false);

/// End this process with an exit code where Rust has no memory; `tells`: and with a line.
#[pyfunction]
pub fn end_without_memory(tells: bool) {
    TELLS.store(tells, Ordering::Relaxed);
    IS_OWN.store(true, Ordering::Relaxed);
}

/// The allocator of the system, which ends an own process where it has no memory: callers would abort.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn given(memory: *mut u8) -> *mut u8 {
    if memory.is_null() && IS_OWN.load(Ordering::Relaxed) {
        // Nothing else may run, as it might allocate, or wait for a lock.
        unsafe {
            if TELLS.load(Ordering::Relaxed) {
                write(STANDARD_ERROR, LINE.as_ptr().cast(), LINE.len() as Size);
            }
            _exit(EXIT_CODE)
        }
    }
    memory
}

unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        given(System.alloc(layout))
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        given(System.alloc_zeroed(layout))
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        given(System.realloc(memory, layout, size))
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        System.dealloc(memory, layout);
    }
}
