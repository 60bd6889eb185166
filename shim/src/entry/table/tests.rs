use std::cell::Cell;
use std::sync::atomic::AtomicU8;

use super::*;
use crate::abi::ArgumentLocation;
use crate::counters::StreamKind;
use crate::defer::MODE;
use crate::hooks::work_of;
use crate::outcome::Reason;
use crate::thread;

#[test]
fn every_function_in_a_table_has_an_entry_there() {
    for kind in [TableKind::Compiler, TableKind::Runtime] {
        let mut entries: Vec<_> = TABLE.iter().filter_map(|function| kind.entry(function.slot)).collect();
        entries.sort_unstable();
        let all: Vec<_> = (0..KNOWN_ENTRIES[kind as usize]).collect();
        assert_eq!(entries, all, "{kind:?}");
    }
}

#[test]
fn entries_are_replaced_up_to_the_size_and_newer_ones_hooked() {
    let real = |n: usize| ptr::without_provenance_mut::<c_void>(0x10_0000 + n);
    let entries: Vec<_> = (0..KNOWN_ENTRIES[1] + 2).map(|n| AtomicPtr::new(real(n))).collect();
    let copy = RuntimeCopy::at(3);
    let known = KNOWN_ENTRIES[1] - 10;
    replace(copy, TableKind::Runtime, &entries[..known]);
    assert_eq!(entries[known].load(Ordering::Relaxed), real(known), "behind the size");
    replace(copy, TableKind::Runtime, &entries);

    let launch = TABLE.iter().position(|function| function.name == c"hipLaunchKernel").unwrap();
    let Slot::runtime(entry) = TABLE[launch].slot else { panic!("it is in the table") };
    assert_eq!(entries[entry].load(Ordering::Relaxed), Code::of(&TABLE[launch]).of_copy(3, launch));
    let newest = entries.last().unwrap().load(Ordering::Relaxed);
    assert_eq!(newest, Code::Hooked.of_copy(3, COUNT + 1));
    assert_eq!(ORIGINALS[3][COUNT + 1].load(Ordering::Relaxed), real(entries.len() - 1));
}

#[test]
fn each_entry_has_code_of_its_own() {
    // mov r11d, imm32
    for (copy, id) in [(0, 0), (0, 1), (3, IDS - 1)] {
        let code = Code::Hooked.of_copy(copy, id).cast::<u8>();
        // SAFETY: sixteen bytes of the shim's own code.
        let code = unsafe { slice::from_raw_parts(code, 6) };
        assert_eq!(code[..2], [0x41, 0xbb]);
        assert_eq!(code[2..], u32::try_from(copy * IDS + id).unwrap().to_le_bytes());
    }
}

#[test]
fn other_tables_are_left_alone() {
    assert_eq!(TableKind::named(c"hip"), Some(TableKind::Runtime));
    assert_eq!(TableKind::named(c"hip_compiler"), Some(TableKind::Compiler));
    assert_eq!(TableKind::named(c"hsa"), None);
}

/// Registers and words of stack.
const WORDS: usize = 20;

thread_local! {
    static RECEIVED: Cell<[u64; WORDS]> = const { Cell::new([0; WORDS]) };
}

macro_rules! with_words {
    ($($word:ident)*) => {
        type Call = unsafe extern "C" fn($(with_words!(@type $word)),*) -> u64;

        /// Takes the part of a real function.
        unsafe extern "C" fn receive($($word: u64),*) -> u64 {
            RECEIVED.set([$($word),*]);
            77
        }

        unsafe fn call(function: Call, [$($word),*]: [u64; WORDS]) -> u64 {
            // SAFETY: the caller's promise.
            unsafe { function($($word),*) }
        }
    };
    (@type $word:ident) => { u64 };
}
with_words!(a b c d e f g h i j k l m n o p q r s t);

#[test]
fn with_nothing_deferred_calls_arrive_as_they_were_and_are_counted_by_their_streams() {
    static OPEN: AtomicU8 = AtomicU8::new(0);
    counters::called(0);
    let before = MODE.swap((&raw const OPEN).cast_mut(), Ordering::AcqRel);
    thread::own().has_noted_own_stream[3].store(true, Ordering::Relaxed);
    let mut tried = 0;
    for (id, function) in TABLE.iter().enumerate() {
        let code = Code::of(function);
        if !matches!(code, Code::Waiting | Code::Submitting(_)) {
            continue;
        }
        let place = match function.stream {
            Some(ArgumentLocation::General(register)) => register,
            Some(ArgumentLocation::Stack(word)) => 6 + word,
            _ => 0,
        };
        ORIGINALS[3][id].store(receive as *mut c_void, Ordering::Release);
        for (stream, kind) in [
            (0, StreamKind::Legacy),
            (1, StreamKind::Legacy),
            (2, StreamKind::PerThread),
            (0x7fff_0000, StreamKind::Created),
        ] {
            let mut words = std::array::from_fn(|word| 0x100 + word as u64);
            words[place] = stream;
            let counts = || {
                let work = work_of(function.family).map_or(0, |work| counters::submitted_so_far(work, kind));
                (counters::calls(id), work, counters::passed_so_far(Reason::NothingDeferred))
            };
            let (calls, work, passed) = counts();
            // SAFETY: the code for this function, behind which is a function of so many words.
            let result =
                unsafe { call(std::mem::transmute::<*mut c_void, Call>(code.of_copy(3, id)), words) };
            assert_eq!((result, RECEIVED.get()), (77, words), "{:?}", function.name);
            let is_work = matches!(code, Code::Submitting(_));
            let expected = (calls + 1, work + u64::from(is_work), passed + u64::from(!is_work));
            assert_eq!(counts(), expected, "{:?} on {stream:#x}", function.name);
            tried += 1;
        }
    }
    MODE.store(before, Ordering::Release);
    assert!(tried > 4 * 50, "{tried}");
}
