//! Pointers of the caller as references. A null pointer becomes an error; the rest of the promise
//! is in the crate's documentation.

use crate::error::Fault;
use std::ffi::{CStr, c_char};

fn null(name: &str) -> Fault {
    Fault::argument(format_args!("`{name}` is null; expected a pointer"))
}

/// # Safety
///
/// A pointer that is not null leads to a `T` that nobody changes during `'a`.
pub unsafe fn shared<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Fault> {
    // SAFETY: as promised by the caller; null becomes none.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// # Safety
///
/// A pointer that is not null leads to a `T` that nobody else uses during `'a`.
pub unsafe fn unique<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Fault> {
    // SAFETY: as promised by the caller; null becomes none.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(name))
}

/// Bytes to be read; null stands for none.
///
/// # Safety
///
/// A pointer that is not null leads to `length` bytes that nobody changes during `'a`.
pub unsafe fn bytes<'a>(pointer: *const u8, length: usize, name: &str) -> Result<&'a [u8], Fault> {
    match (pointer.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(null(name)),
        // SAFETY: as promised by the caller.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(pointer, length) }),
    }
}

/// Bytes to be written; null stands for none.
///
/// # Safety
///
/// A pointer that is not null leads to `length` bytes that nobody else uses during `'a`.
pub unsafe fn bytes_mut<'a>(
    pointer: *mut u8,
    length: usize,
    name: &str,
) -> Result<&'a mut [u8], Fault> {
    match (pointer.is_null(), length) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(null(name)),
        // SAFETY: as promised by the caller.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts_mut(pointer, length) }),
    }
}

/// # Safety
///
/// A pointer that is not null leads to bytes that end with a NUL and that nobody changes during
/// `'a`.
pub unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Fault> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: as promised by the caller.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str()
        .map_err(|_| Fault::argument(format_args!("`{name}` is not UTF-8")))
}

/// Writes a result.
///
/// # Safety
///
/// A pointer that is not null can take a `T`.
pub unsafe fn give<T>(place: *mut T, value: T, name: &str) -> Result<(), Fault> {
    if place.is_null() {
        return Err(null(name));
    }
    // SAFETY: as promised by the caller. What the place held before is plain data of C.
    unsafe { place.write(value) };
    Ok(())
}

/// Moves a value to the heap and writes its handle.
///
/// # Safety
///
/// A pointer that is not null can take a pointer.
pub unsafe fn give_handle<T>(place: *mut *mut T, value: T, name: &str) -> Result<(), Fault> {
    if place.is_null() {
        return Err(null(name));
    }
    // SAFETY: as promised by the caller.
    unsafe { place.write(Box::into_raw(Box::new(value))) };
    Ok(())
}

/// Takes a handle back and drops its value; null is no handle.
///
/// # Safety
///
/// A pointer that is not null came from [`give_handle`]. Nobody uses it afterwards.
pub unsafe fn take_back<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: as promised by the caller, so that the box is whole and has one owner.
        drop(unsafe { Box::from_raw(handle) });
    }
}
