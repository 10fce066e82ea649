//! Messages: a `zmq_msg_t` is 64 bytes of the caller's memory that hold a [`Message`].
//!
//! A tag after the message says whether there is one. Any call on a closed `zmq_msg_t`, or on bytes
//! that never were one, gives `EFAULT`.

use crate::errno::{self, EFAULT, EINVAL, ENOMEM, Errno};
use crate::errno::{guard_short as guard, status_short as status};
use crate::text;
use std::alloc::Layout;
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use tidewire_readiness::Uncancelled;
use tidewire_zmq::Message;

/// C's `zmq_msg_t`.
#[repr(C)]
pub(crate) struct RawMessage {
    message: MaybeUninit<Message>,
    tag: MaybeUninit<u32>,
    rest: MaybeUninit<[u8; 4]>,
}

const _: () = assert!(size_of::<RawMessage>() <= 64 && align_of::<RawMessage>() <= 8);

impl std::fmt::Debug for RawMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("zmq_msg_t").finish_non_exhaustive()
    }
}

impl RawMessage {
    /// Stores a message where there is none.
    ///
    /// # Safety
    ///
    /// `place` is null or has room for a `zmq_msg_t`.
    #[inline]
    pub(crate) unsafe fn init(place: *mut Self, message: Message) -> Result<(), Errno> {
        // SAFETY: the caller keeps this function's contract.
        unsafe { Self::init_with(place, || message) }
    }

    /// Stores the message that `make` returns where there is none. It is made in its place.
    ///
    /// # Safety
    ///
    /// As for [`init`](Self::init).
    #[inline]
    unsafe fn init_with(place: *mut Self, make: impl FnOnce() -> Message) -> Result<(), Errno> {
        if place.is_null() {
            return Err(Errno(EFAULT));
        }
        // SAFETY: the caller guarantees the room.
        let raw = unsafe { &mut *place };
        raw.message.write(make());
        raw.tag.write(OPEN);
        Ok(())
    }

    /// Returns the message.
    ///
    /// # Safety
    ///
    /// `place` is null or points to a `zmq_msg_t`, which no other code uses while the result lives.
    #[inline]
    pub(crate) unsafe fn get<'a>(place: *mut Self) -> Result<&'a mut Message, Errno> {
        // SAFETY: the caller keeps this function's contract.
        unsafe { Self::open(place) }?;
        // SAFETY: the caller passes a `zmq_msg_t`.
        let raw = unsafe { &mut *place };
        // SAFETY: the tag says that there is one.
        Ok(unsafe { raw.message.assume_init_mut() })
    }

    /// Returns the message for reading.
    ///
    /// # Safety
    ///
    /// `place` is null or points to a `zmq_msg_t`, which no other code changes while the
    /// result lives.
    #[inline]
    pub(crate) unsafe fn view<'a>(place: *const Self) -> Result<&'a Message, Errno> {
        // SAFETY: the caller keeps this function's contract.
        unsafe { Self::open(place) }?;
        // SAFETY: the caller passes a `zmq_msg_t`.
        let raw = unsafe { &*place };
        // SAFETY: the tag says that there is one.
        Ok(unsafe { raw.message.assume_init_ref() })
    }

    /// Drops the message.
    ///
    /// # Safety
    ///
    /// As for [`get`](Self::get).
    #[inline]
    unsafe fn close(place: *mut Self) -> Result<(), Errno> {
        // SAFETY: the caller keeps this function's contract.
        unsafe { Self::open(place) }?;
        // SAFETY: it points to a `zmq_msg_t`.
        let raw = unsafe { &mut *place };
        raw.tag.write(CLOSED);
        // SAFETY: the tag has said that there is one, and says now that there is none.
        unsafe { raw.message.assume_init_drop() };
        Ok(())
    }

    /// Checks that there is a message.
    ///
    /// # Safety
    ///
    /// As for [`view`](Self::view).
    #[inline]
    unsafe fn open(place: *const Self) -> Result<(), Errno> {
        if place.is_null() {
            return Err(Errno(EFAULT));
        }
        // SAFETY: the caller passes memory of a `zmq_msg_t`.
        let raw = unsafe { &*place };
        // SAFETY: any bytes are a valid tag. If the caller never initialized the memory, which
        // breaks the contract, its value is unlikely to be the tag.
        let tag = unsafe { raw.tag.assume_init() };
        if tag == OPEN {
            Ok(())
        } else {
            Err(Errno(EFAULT))
        }
    }
}

/// `zmq_msg_init`.
///
/// # Safety
///
/// `message` is null or has room for a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_init(message: *mut RawMessage) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    status(|| unsafe { RawMessage::init_with(message, Message::new) })
}

/// `zmq_msg_init_size`.
///
/// # Safety
///
/// As for [`zmq_msg_init`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_init_size(message: *mut RawMessage, size: usize) -> c_int {
    if size <= Message::WITHIN_BYTES_MAX {
        // SAFETY: the caller keeps this function's contract.
        return status(|| unsafe { RawMessage::init_with(message, || Message::with_size(size)) });
    }
    // SAFETY: the caller keeps this function's contract.
    unsafe { init_long(message, size) }
}

/// # Safety
///
/// As for [`zmq_msg_init`].
#[inline(never)]
unsafe fn init_long(message: *mut RawMessage, size: usize) -> c_int {
    status(|| {
        if size > SIZE_MAX {
            return Err(Errno(ENOMEM));
        }
        let body = match size {
            ..UNFILLED_BYTES_MIN => Message::with_size(size),
            _ => match Message::with_room(size) {
                Some(message) => message,
                None => Message::from_vec(unfilled(size)?),
            },
        };
        // SAFETY: the caller keeps this function's contract.
        unsafe { RawMessage::init(message, body) }
    })
}

/// Returns room for `size` bytes, which the program fills before it sends or reads them. Zeroing
/// 64 KiB takes longer than all else that is done for a message of that size.
fn unfilled(size: usize) -> Result<Vec<u8>, Errno> {
    debug_assert!(size > 0, "an allocation has a size");
    let layout = Layout::array::<u8>(size).map_err(|_| Errno(ENOMEM))?;
    // SAFETY: `layout` has a size other than 0.
    let room = unsafe { std::alloc::alloc(layout) };
    if room.is_null() {
        return Err(Errno(ENOMEM));
    }
    // SAFETY: the room is that of a vector of this capacity. C writes to it through a pointer that
    // this code does not see, as it does with libzmq, whose messages begin with any bytes too; a
    // byte has no invalid value.
    Ok(unsafe { Vec::from_raw_parts(room, size, size) })
}

/// Returns a message with a copy of the bytes. Where there is no memory for it, that is an error as
/// in libzmq, not the end of the process.
pub(crate) fn copied(bytes: &[u8]) -> Result<Message, Errno> {
    Message::try_from_slice(bytes).map_err(|_| Errno(ENOMEM))
}

/// `zmq_msg_init_buffer`: copies the bytes.
///
/// # Safety
///
/// As for [`zmq_msg_init`]; `size` bytes are at `data`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_init_buffer(
    message: *mut RawMessage,
    data: *const c_void,
    size: usize,
) -> c_int {
    status(|| {
        // SAFETY: the caller guarantees that `size` bytes are there.
        let bytes = unsafe { text::bytes(data, size) }?;
        // SAFETY: the caller guarantees the room.
        unsafe { RawMessage::init(message, copied(bytes)?) }
    })
}

/// `zmq_msg_init_data`: uses the bytes without a copy, and returns them with `free`.
///
/// # Safety
///
/// As for [`zmq_msg_init`]; `data` points to `size` bytes that stay valid until `free` is called,
/// or indefinitely if `free` is null. Any thread may call `free`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_init_data(
    message: *mut RawMessage,
    data: *mut c_void,
    size: usize,
    free: Option<FreeFunction>,
    hint: *mut c_void,
) -> c_int {
    status(|| {
        if message.is_null() || (data.is_null() && size > 0) || size > SIZE_MAX {
            return Err(Errno(EFAULT));
        }
        let new = match free {
            Some(free) => Message::from_owner(Lent {
                data,
                size,
                free,
                hint,
            }),
            // SAFETY: the caller guarantees that they are never freed.
            None => Message::from_static(unsafe { text::bytes(data, size) }?),
        };
        // SAFETY: the caller guarantees the room.
        unsafe { RawMessage::init(message, new) }
    })
}

/// `zmq_msg_close`.
///
/// # Safety
///
/// `message` is null or points to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_close(message: *mut RawMessage) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    status(|| unsafe { RawMessage::close(message) })
}

/// `zmq_msg_move`: leaves `from` empty.
///
/// # Safety
///
/// Each is null or points to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_move(to: *mut RawMessage, from: *mut RawMessage) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { transfer(to, from, std::mem::take) }
}

/// `zmq_msg_copy`: the copy shares a large body.
///
/// # Safety
///
/// Each is null or points to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_copy(to: *mut RawMessage, from: *mut RawMessage) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { transfer(to, from, Message::share) }
}

/// Stores in `to` what `take` returns for `from`.
///
/// # Safety
///
/// Each is null or points to a `zmq_msg_t`.
unsafe fn transfer(
    to: *mut RawMessage,
    from: *mut RawMessage,
    take: impl FnOnce(&mut Message) -> Message,
) -> c_int {
    status(|| {
        // SAFETY: the caller keeps this function's contract.
        unsafe { RawMessage::open(to) }?;
        // SAFETY: the caller keeps this function's contract.
        let source = unsafe { RawMessage::get(from) }?;
        if std::ptr::eq(to, from) {
            return Ok(());
        }
        let new = take(source);
        // SAFETY: another one than `from`.
        *unsafe { RawMessage::get(to) }? = new;
        Ok(())
    })
}

/// `zmq_msg_data`: null if there is no message.
///
/// # Safety
///
/// `message` is null or points to a `zmq_msg_t`. A shared body must not be written to.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_data(message: *mut RawMessage) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        // SAFETY: the caller keeps this function's contract.
        let message = unsafe { RawMessage::get(message) }?;
        // Mutable access to a shared body would copy it, so C gets a pointer that it must not write
        // through.
        Ok(if message.is_shared() {
            message.as_slice().as_ptr().cast_mut().cast()
        } else {
            message.as_mut_slice().as_mut_ptr().cast()
        })
    })
}

/// `zmq_msg_size`: 0 if there is no message.
///
/// # Safety
///
/// `message` is null or points to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_size(message: *const RawMessage) -> usize {
    // SAFETY: the caller keeps this function's contract.
    guard(0, || Ok(unsafe { RawMessage::view(message) }?.len()))
}

/// `zmq_msg_more`: 0 if there is no message.
///
/// # Safety
///
/// `message` is null or points to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_more(message: *const RawMessage) -> c_int {
    guard(0, || {
        // SAFETY: the caller keeps this function's contract.
        Ok(c_int::from(unsafe { RawMessage::view(message) }?.more()))
    })
}

/// `zmq_msg_get`.
///
/// # Safety
///
/// `message` is null or points to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_get(message: *const RawMessage, property: c_int) -> c_int {
    guard(-1, || {
        // SAFETY: the caller keeps this function's contract.
        let message = unsafe { RawMessage::view(message) }?;
        match property {
            PROPERTY_MORE => Ok(c_int::from(message.more())),
            PROPERTY_DESCRIPTOR => message.source_descriptor().ok_or(Errno(EINVAL)),
            PROPERTY_SHARED => Ok(c_int::from(message.is_shared())),
            _ => Err(Errno(EINVAL)),
        }
    })
}

/// `zmq_msg_set`: no property can be set.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn zmq_msg_set(_: *mut RawMessage, _: c_int, _: c_int) -> c_int {
    errno::set(EINVAL);
    -1
}

/// `zmq_msg_gets`: null if the peer has no such property.
///
/// # Safety
///
/// `message` is null or points to a `zmq_msg_t`; `name` is null or a NUL-terminated string. The
/// result is valid as long as the message.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_gets(
    message: *const RawMessage,
    name: *const c_char,
) -> *const c_char {
    guard(std::ptr::null(), || {
        // SAFETY: the caller keeps this function's contract.
        let message = unsafe { RawMessage::view(message) }?;
        // SAFETY: the caller keeps this function's contract.
        let name = unsafe { text::text(name) }?;
        let value = message.property_text(name).ok_or(Errno(EINVAL))?;
        Ok(value.as_ptr())
    })
}

/// `zmq_msg_set_routing_id`.
///
/// # Safety
///
/// `message` is null or points to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_set_routing_id(
    message: *mut RawMessage,
    routing_id: u32,
) -> c_int {
    status(|| {
        if routing_id == 0 {
            return Err(Errno(EINVAL));
        }
        // SAFETY: the caller keeps this function's contract.
        unsafe { RawMessage::get(message) }?.set_routing_id(routing_id);
        Ok(())
    })
}

/// `zmq_msg_routing_id`: 0 if there is none.
///
/// # Safety
///
/// `message` is null or points to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_routing_id(message: *mut RawMessage) -> u32 {
    // SAFETY: the caller keeps this function's contract.
    guard(0, || Ok(unsafe { RawMessage::view(message) }?.routing_id()))
}

/// `zmq_msg_set_group`: cuts a name longer than 255 bytes, as libzmq does.
///
/// # Safety
///
/// `message` is null or points to a `zmq_msg_t`; `group` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_set_group(
    message: *mut RawMessage,
    group: *const c_char,
) -> c_int {
    status(|| {
        // SAFETY: the caller keeps this function's contract.
        let message = unsafe { RawMessage::get(message) }?;
        // SAFETY: the caller keeps this function's contract.
        let group = unsafe { text::octets(group) }?;
        Ok(message.set_group(&group[..group.len().min(Message::GROUP_BYTES_MAX)])?)
    })
}

/// `zmq_msg_group`: returns a string that is valid as long as the message.
///
/// # Safety
///
/// `message` is null or points to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_msg_group(message: *mut RawMessage) -> *const c_char {
    guard(std::ptr::null(), || {
        // SAFETY: the caller keeps this function's contract.
        Ok(unsafe { RawMessage::view(message) }?.group_text().as_ptr())
    })
}

/// `zmq_free_fn`.
type FreeFunction = unsafe extern "C" fn(data: *mut c_void, hint: *mut c_void);

/// A caller's bytes, borrowed until `free` is called.
struct Lent {
    data: *mut c_void,
    size: usize,
    free: FreeFunction,
    hint: *mut c_void,
}

// SAFETY: the bytes may be read, and `free` called, by any thread: `zmq_msg_init_data` asks for it.
unsafe impl Send for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        let data = NonNull::new(self.data.cast()).unwrap_or(NonNull::dangling());
        // SAFETY: `size` bytes are there, and none where it is null.
        unsafe { std::slice::from_raw_parts(data.as_ptr(), self.size) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Frames of this library are above it.
        let _uncancelled = Uncancelled::new();
        // SAFETY: the bytes are not used any more, and this is called once.
        unsafe { (self.free)(self.data, self.hint) }
    }
}

const OPEN: u32 = 0x7469_6465;
const CLOSED: u32 = 0;
/// Maximum size of a body.
/// Shorter bodies begin with zeros.
const UNFILLED_BYTES_MIN: usize = 64;
/// A message of as many bytes may be too long for the memory that there is.
pub(crate) const LONG_BYTES_MIN: usize = 4 << 20;
const SIZE_MAX: usize = isize::MAX as usize;
const PROPERTY_MORE: c_int = 1;
const PROPERTY_DESCRIPTOR: c_int = 2;
const PROPERTY_SHARED: c_int = 3;

#[cfg(test)]
#[allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one reason for all calls of a test"
)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    /// Returns memory for a `zmq_msg_t`, as C allocates it.
    fn room() -> RawMessage {
        RawMessage {
            message: MaybeUninit::uninit(),
            tag: MaybeUninit::new(CLOSED),
            rest: MaybeUninit::uninit(),
        }
    }

    #[test]
    fn a_closed_message_is_refused() {
        let mut raw = room();
        let place = &raw mut raw;
        // SAFETY: room for a message, and null.
        unsafe {
            assert_eq!(zmq_msg_close(place), -1);
            assert_eq!(zmq_msg_init_size(place, 100), 0);
            assert_eq!(zmq_msg_size(place), 100);
            assert_eq!(zmq_msg_close(place), 0);
            assert_eq!(zmq_msg_close(place), -1);
            assert_eq!(errno::get(), EFAULT);
            assert!(zmq_msg_data(place).is_null());
            assert_eq!(zmq_msg_size(place), 0);
            assert_eq!(zmq_msg_init(null_mut()), -1);
        }
    }

    #[test]
    fn a_size_that_no_memory_has_is_refused() {
        let mut raw = room();
        // SAFETY: room for a message.
        assert_eq!(unsafe { zmq_msg_init_size(&raw mut raw, usize::MAX) }, -1);
        assert_eq!(errno::get(), ENOMEM);
    }

    #[test]
    fn lent_bytes_are_given_back_once_after_the_last_copy() {
        unsafe extern "C" fn count(_: *mut c_void, hint: *mut c_void) {
            // SAFETY: the hint below.
            unsafe { *hint.cast::<u32>() += 1 };
        }
        let mut bytes = *b"lent bytes, more of them than a message itself has room for";
        let mut freed = 0_u32;
        let (mut first, mut second) = (room(), room());
        let (one, two) = (&raw mut first, &raw mut second);
        let data: *mut c_void = (&raw mut bytes).cast();
        let hint: *mut c_void = (&raw mut freed).cast();
        // SAFETY: room for messages; the bytes live until the end.
        unsafe {
            assert_eq!(
                zmq_msg_init_data(one, data, bytes.len(), Some(count), hint),
                0
            );
            assert_eq!(zmq_msg_data(one), data);
            zmq_msg_init(two);
            assert_eq!(zmq_msg_copy(two, one), 0);
            assert_eq!(zmq_msg_data(two), data);
            assert_eq!(zmq_msg_get(two, PROPERTY_SHARED), 1);
            zmq_msg_close(one);
            assert_eq!(*hint.cast::<u32>(), 0);
            zmq_msg_init(one);
            assert_eq!(zmq_msg_move(one, two), 0);
            assert_eq!(zmq_msg_size(two), 0);
            zmq_msg_close(two);
            zmq_msg_close(one);
            assert_eq!(*hint.cast::<u32>(), 1);
        }
    }
}
