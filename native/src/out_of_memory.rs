//! The end of a process that has not enough memory: one line and the exit code of the package, instead of an abort.
#![allow(unsafe_code)] // only a global allocator gets to know, and it must not unwind

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;

/// Exit code of `pulsarscope` without enough memory; workers end with it, too.
const EXIT_CODE: i32 = 6;

const LINE: &[u8] = b"pulsarscope: there is not enough memory; the output is not complete\n";

extern "C" {
    fn _exit(code: i32) -> !;
}

/// The allocator of the system, which ends the process where it has no memory: callers would abort.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn given(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        let _ = std::io::stderr().write_all(LINE); // is not buffered
        unsafe { _exit(EXIT_CODE) } // nothing else may run: it might allocate
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
