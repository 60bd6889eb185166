//! Arguments of a launch, which are overwritten as soon as the call returns.

use core::ffi::{c_uint, c_void};

use xsched_differential::program::Kernel;

use crate::hip::{EXTRA_BUFFER, EXTRA_END, EXTRA_SIZE, Handle};

const WIDE_WORDS: usize = 38;

/// By-value structure of `diff_wide`; see `kernels.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Wide {
    to: Handle,
    from: Handle,
    words: [c_uint; WIDE_WORDS],
}

/// The parameters of any kernel, in the layout of `diff_many`'s argument buffer.
#[repr(C)]
#[derive(Clone, Copy)]
struct Many {
    a: u8,
    to: Handle,
    b: u16,
    from: Handle,
    c: f64,
    d: u32,
    e: u64,
    f: f32,
    g: u8,
    key: u32,
}

/// In the layout of `diff_mix`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Mix {
    to: Handle,
    from: Handle,
    key: u32,
}

/// The values of one launch, in the two forms that HIP accepts.
pub(crate) struct Arguments {
    kernel: Kernel,
    mix: Mix,
    wide: Wide,
    many: Many,
    list: [Handle; 10],
    size: usize,
    extra: [Handle; 5],
}

impl Arguments {
    /// Boxed, because the two forms point to the values.
    pub(crate) fn new(kernel: Kernel, to: Handle, from: Handle, key: u32) -> Box<Self> {
        let word = |index: u32| (key ^ index).wrapping_mul(0x85eb_ca6b).rotate_left(index % 32);
        let mut words = [0; WIDE_WORDS];
        words.iter_mut().zip(0..).for_each(|(at, index)| *at = word(index));
        let many = Many {
            a: word(50) as u8,
            to,
            b: word(51) as u16,
            from,
            c: f64::from(word(52) >> 1),
            d: word(53),
            e: u64::from(word(54)) << 32 | u64::from(word(55)),
            f: (word(56) >> 16) as f32,
            g: word(57) as u8,
            key,
        };
        let null = core::ptr::null_mut();
        let mut all = Box::new(Self {
            kernel,
            mix: Mix { to, from, key },
            wide: Wide { to, from, words },
            many,
            list: [null; 10],
            size: 0,
            extra: [null; 5],
        });
        all.link();
        all
    }

    /// Fills the two forms.
    fn link(&mut self) {
        fn at<T>(value: &mut T) -> Handle {
            (&raw mut *value).cast()
        }
        let many = &mut self.many;
        let (buffer, size) = match self.kernel {
            Kernel::Mix => {
                let mix = &mut self.mix;
                self.list[..3].copy_from_slice(&[at(&mut mix.to), at(&mut mix.from), at(&mut mix.key)]);
                // Without the trailing padding, as a compiler counts.
                (at(mix), 20)
            }
            Kernel::Wide => {
                self.list[0] = at(&mut self.wide);
                (at(&mut self.wide), size_of::<Wide>())
            }
            Kernel::Many => {
                self.list = [
                    at(&mut many.a),
                    at(&mut many.to),
                    at(&mut many.b),
                    at(&mut many.from),
                    at(&mut many.c),
                    at(&mut many.d),
                    at(&mut many.e),
                    at(&mut many.f),
                    at(&mut many.g),
                    at(&mut many.key),
                ];
                (at(many), size_of::<Many>())
            }
            Kernel::Nothing => (at(many), 0),
        };
        self.size = size;
        self.extra =
            [word(EXTRA_BUFFER), buffer, word(EXTRA_SIZE), (&raw mut self.size).cast(), word(EXTRA_END)];
    }

    /// A pointer to each value; null for a kernel without parameters.
    pub(crate) fn list(&mut self) -> *mut Handle {
        if self.kernel == Kernel::Nothing { core::ptr::null_mut() } else { self.list.as_mut_ptr() }
    }

    /// The list that names one buffer with all values.
    pub(crate) fn extra(&mut self) -> *mut Handle {
        self.extra.as_mut_ptr()
    }

    /// Overwrites the arguments, as a stack is: code that still reads them is wrong.
    pub(crate) fn scribble(mut self: Box<Self>) {
        let all: *mut c_void = (&raw mut *self).cast();
        // SAFETY: the box owns `size_of::<Self>()` bytes; none of its fields has a destructor, and it is not
        // read again. `black_box` keeps the stores, which the compiler would otherwise remove before the
        // memory is freed.
        unsafe { core::ptr::write_bytes(std::hint::black_box(all).cast::<u8>(), 0x5a, size_of::<Self>()) };
        std::hint::black_box(all);
    }
}

fn word(value: usize) -> Handle {
    core::ptr::without_provenance_mut(value)
}
