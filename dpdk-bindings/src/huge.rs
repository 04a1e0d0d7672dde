//! Large tables in huge pages, wherever they are allocated.

use std::alloc::{GlobalAlloc, Layout, System};

/// A huge page (x86-64 and arm64 with pages of 4 KiB).
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The system's allocator, which asks for huge pages under allocations of 1 MiB and more
/// (`MADV_HUGEPAGE`), rounded up to whole ones: random reads of a sketch, or of a table of a million
/// flows, otherwise miss the TLB each time.
/// Where `/sys/kernel/mm/transparent_hugepage/enabled` says `never` nothing changes.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: dpdk_bindings::HugePages = dpdk_bindings::HugePages;
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct HugePages;

/// Least size that is worth a huge page.
const LARGE_BYTES: usize = HUGE_PAGE_BYTES / 2;

/// The layout of an allocation that is large enough: whole huge pages.
fn large(layout: Layout) -> Option<Layout> {
    if layout.size() < LARGE_BYTES {
        return None;
    }
    let pages = layout.align_to(HUGE_PAGE_BYTES).ok()?;
    Some(pages.pad_to_align())
}

// SAFETY: every request goes to the system's allocator, with a layout that is a function of the one
// asked for, so that what was allocated is freed with the same; a larger alignment serves a smaller.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(large) = large(layout) else {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc(layout) };
        };
        // SAFETY: the caller's layout is not empty, so this one is not; advice about memory that was
        // just allocated changes nothing but what backs it.
        unsafe {
            let start = System.alloc(large);
            if !start.is_null() {
                dpdk_sys::vernier_advise_huge(start.cast(), large.size());
            }
            start
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if large(layout).is_none() {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // The system would write the zeros before the advice, which is then too late.
        // SAFETY: the caller's promise; what was allocated has this size.
        unsafe {
            let start = self.alloc(layout);
            if !start.is_null() {
                start.write_bytes(0, layout.size());
            }
            start
        }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: allocated with the same layout.
        unsafe { System.dealloc(start, large(layout).unwrap_or(layout)) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises a size that makes a layout.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if large(layout).is_none() && large(new).is_none() {
            // SAFETY: the caller's promise.
            return unsafe { System.realloc(start, layout, size) };
        }
        // SAFETY: the new block is another, and both are as long as what is copied.
        unsafe {
            let moved = self.alloc(new);
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(start, layout.size().min(size));
                self.dealloc(start, layout);
            }
            moved
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small and large, each way, with contents that must move along.
    #[test]
    fn contents_survive_every_move() {
        let sizes = [64, 5 << 20, 9 << 20, 1 << 20, 100, (1 << 20) - 1, 4 << 20];
        let mut layout = Layout::from_size_align(sizes[0], 64).unwrap();
        // SAFETY: one block, freed once with the layout that it has last; reads and writes stay in it.
        unsafe {
            let mut block = HugePages.alloc_zeroed(layout);
            for (&size, n) in sizes.iter().zip(1..) {
                block = HugePages.realloc(block, layout, size);
                layout = Layout::from_size_align(size, 64).unwrap();
                assert_eq!(block.addr() % if size < 1 << 20 { 64 } else { 2 << 20 }, 0);
                assert_eq!(block.read(), n - 1, "moved to {size} bytes");
                block.write(n);
                block.add(size - 1).write(n);
            }
            HugePages.dealloc(block, layout);
            let zeros = Layout::array::<u64>(1 << 20).unwrap();
            let block = HugePages.alloc_zeroed(zeros);
            assert!(
                std::slice::from_raw_parts(block, zeros.size())
                    .iter()
                    .all(|&byte| byte == 0)
            );
            HugePages.dealloc(block, zeros);
        }
    }
}
