//! An allocator that puts large tables on huge pages.

use std::alloc::{GlobalAlloc, Layout, System};

/// A huge page (x86-64 and arm64 with pages of 4 KiB).
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The system's allocator, except for allocations of 1 MiB or more. These are rounded up to whole huge pages and mapped
/// with `MADV_HUGEPAGE`, because otherwise each random read of a sketch, or of a table of a million flows, misses the
/// TLB. Huge pages are requested before the memory is accessible, because the kernel populates mappings of programs
/// that lock their memory (`mlockall`) at once. If `/sys/kernel/mm/transparent_hugepage/enabled` is `never`, this has
/// no effect.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: dpdk_bindings::HugePages = dpdk_bindings::HugePages;
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct HugePages;

/// Smallest allocation that is put on huge pages.
const LARGE_BYTES: usize = HUGE_PAGE_BYTES / 2;

/// Returns the layout in whole huge pages if the allocation is large enough.
fn large(layout: Layout) -> Option<Layout> {
    if layout.size() < LARGE_BYTES {
        return None;
    }
    let pages = layout.align_to(HUGE_PAGE_BYTES).ok()?;
    Some(pages.pad_to_align())
}

// SAFETY: the layout alone determines the allocator, so memory is freed by the allocator that returned it, with the
// same size; a larger alignment also satisfies a smaller one.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(large) = large(layout) else {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc(layout) };
        };
        // SAFETY: both are multiples of a huge page, and the size is not 0.
        unsafe { dpdk_sys::vernier_huge_map(large.size(), large.align()).cast() }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if large(layout).is_none() {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // The mapping has zeros already. Writing them populates it before it is used, on the NUMA node of this thread.
        // SAFETY: the caller's promise; the allocation has this size.
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
        unsafe {
            match large(layout) {
                Some(large) => dpdk_sys::vernier_huge_unmap(start.cast(), large.size()),
                None => System.dealloc(start, layout),
            }
        }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises a size that is valid for a layout.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if large(layout).is_none() && large(new).is_none() {
            // SAFETY: the caller's promise.
            return unsafe { System.realloc(start, layout, size) };
        }
        // SAFETY: the blocks do not overlap, and both have at least the copied size.
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

    /// Grows and shrinks small and large blocks, whose contents must be preserved.
    #[test]
    fn contents_survive_every_move() {
        let sizes = [64, 5 << 20, 9 << 20, 1 << 20, 100, (1 << 20) - 1, 4 << 20];
        let mut layout = Layout::from_size_align(sizes[0], 64).unwrap();
        // SAFETY: one block, freed once with its last layout; reads and writes stay within it.
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
