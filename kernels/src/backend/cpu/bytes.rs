//! Elements as the bytes that they are.
//!
//! Always holds: the bytes of an element are in the order of files, which is little-endian.

use std::ops::Range;

use candle_core::CpuStorage;

const _: () = assert!(cfg!(target_endian = "little"), "elements are written to files as they lie in memory");

/// The bytes of the elements at `place`; `None` of a type that the engine does not use.
pub fn of(storage: &CpuStorage, place: Range<usize>) -> Option<&[u8]> {
    Some(match storage {
        CpuStorage::F64(v) => bytemuck::cast_slice(&v[place]),
        CpuStorage::F32(v) => bytemuck::cast_slice(&v[place]),
        CpuStorage::BF16(v) => bytemuck::cast_slice(&v[place]),
        CpuStorage::F16(v) => bytemuck::cast_slice(&v[place]),
        CpuStorage::U32(v) => bytemuck::cast_slice(&v[place]),
        CpuStorage::U8(v) => &v[place],
        _ => return None,
    })
}

/// The same elements, to be written.
pub(super) fn of_mut(storage: &mut CpuStorage, place: Range<usize>) -> Option<&mut [u8]> {
    Some(match storage {
        CpuStorage::F64(v) => bytemuck::cast_slice_mut(&mut v[place]),
        CpuStorage::F32(v) => bytemuck::cast_slice_mut(&mut v[place]),
        CpuStorage::BF16(v) => bytemuck::cast_slice_mut(&mut v[place]),
        CpuStorage::F16(v) => bytemuck::cast_slice_mut(&mut v[place]),
        CpuStorage::U32(v) => bytemuck::cast_slice_mut(&mut v[place]),
        CpuStorage::U8(v) => &mut v[place],
        _ => return None,
    })
}
