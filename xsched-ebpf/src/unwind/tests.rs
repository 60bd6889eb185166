use super::*;

const STACK: u64 = 0x7ffc_0000_1000;

/// Sixty-four words from `STACK` on, each holding 1000 and its index unless set otherwise.
struct Stack([u64; 64]);

impl Stack {
    fn new(words: &[(usize, u64)]) -> Self {
        let mut all = core::array::from_fn(|index| 1000 + index as u64);
        for &(index, value) in words {
            all[index] = value;
        }
        Self(all)
    }

    fn step(&self, rule: Rule, offset: i32, rbp: i8, at: &Registers) -> Step {
        step(&Row::new(0, rule, offset, rbp), at, |address| {
            let index = address.checked_sub(STACK)? / 8;
            self.0.get(usize::try_from(index).ok()?).copied()
        })
    }
}

fn at(rip: u64, rsp_word: u64, rbp_word: u64) -> Registers {
    Registers { rip, rsp: STACK + 8 * rsp_word, rbp: STACK + 8 * rbp_word }
}

fn caller(rip: u64, rsp_word: u64, rbp: u64) -> Step {
    Step::Caller(Registers { rip, rsp: STACK + 8 * rsp_word, rbp })
}

#[test]
fn from_the_stack_pointer() {
    let stack = Stack::new(&[]);
    let here = at(0x40_0000, 2, 40);
    assert_eq!(stack.step(Rule::Rsp, 8, RBP_UNCHANGED, &here), caller(1002, 3, here.rbp));
    assert_eq!(stack.step(Rule::Rsp, 64, -2, &here), caller(1009, 10, 1008));
    assert_eq!(stack.step(Rule::Rsp, 64, -8, &here), caller(1009, 10, 1002));
}

#[test]
fn from_the_frame_pointer() {
    let stack = Stack::new(&[]);
    assert_eq!(stack.step(Rule::Rbp, 16, -2, &at(1, 2, 20)), caller(1021, 22, 1020));
    // Prologues of functions with variable arguments count from other places.
    assert_eq!(stack.step(Rule::Rbp, -8, -3, &at(1, 2, 20)), caller(1018, 19, 1016));
}

#[test]
fn a_linkage_table_entry_has_pushed_from_some_byte_on() {
    let stack = Stack::new(&[]);
    let rbp = at(0, 0, 9).rbp;
    assert_eq!(stack.step(Rule::Plt, 11, RBP_UNCHANGED, &at(0x1020, 4, 9)), caller(1004, 5, rbp));
    assert_eq!(stack.step(Rule::Plt, 11, RBP_UNCHANGED, &at(0x102a, 4, 9)), caller(1004, 5, rbp));
    assert_eq!(stack.step(Rule::Plt, 11, RBP_UNCHANGED, &at(0x102b, 4, 9)), caller(1005, 6, rbp));
    assert_eq!(stack.step(Rule::Plt, 6, RBP_UNCHANGED, &at(0x1026, 4, 9)), caller(1005, 6, rbp));
}

#[test]
fn a_realigned_frame_keeps_its_frame_address_below_the_frame_pointer() {
    let stack = Stack::new(&[(9, STACK + 8 * 30)]);
    assert_eq!(stack.step(Rule::RbpDeref, -8, 0, &at(1, 2, 10)), caller(1029, 30, 1010));
}

#[test]
fn a_signal_frame_holds_every_register() {
    // The handler's stack may be anywhere, also above the interrupted one.
    let stack = Stack::new(&[(40 + 15, 7), (40 + 20, STACK + 8), (40 + 21, 0x1234)]);
    let interrupted = Registers { rip: 0x1234, rsp: STACK + 8, rbp: 7 };
    assert_eq!(stack.step(Rule::Signal, 0, 0, &at(1, 40, 3)), Step::Interrupted(interrupted));
    assert_eq!(stack.step(Rule::Signal, 0, 0, &at(1, 60, 3)), Step::Stop(Stop::Unreadable));
}

#[test]
fn an_undefined_or_zero_return_address_is_the_end() {
    let stack = Stack::new(&[(3, 0)]);
    assert_eq!(stack.step(Rule::End, 8, 0, &at(1, 2, 2)), Step::End);
    assert_eq!(stack.step(Rule::Rsp, 16, RBP_UNCHANGED, &at(1, 2, 2)), Step::End);
}

#[test]
fn what_cannot_be_followed_says_why() {
    let stack = Stack::new(&[(9, STACK)]);
    let here = at(1, 12, 10);
    assert_eq!(stack.step(Rule::Gap, 0, 0, &here), Step::Stop(Stop::Gap));
    assert_eq!(stack.step(Rule::Unsupported, 0, 0, &here), Step::Stop(Stop::Unsupported));
    let unknown = Row { pc_low: 0, rule: 200, rbp: 0, offset: 0 };
    assert_eq!(step(&unknown, &here, |_| Some(0)), Step::Stop(Stop::Unsupported));
    // A frame pointer that serves as a general register leads anywhere.
    assert_eq!(stack.step(Rule::Rbp, 16, -2, &here), Step::Stop(Stop::NotAscending));
    assert_eq!(stack.step(Rule::RbpDeref, -8, 0, &here), Step::Stop(Stop::NotAscending));
    assert_eq!(stack.step(Rule::Rsp, 0, RBP_UNCHANGED, &here), Step::Stop(Stop::NotAscending));
    // Off the stack: the frame address, the return address, the saved frame pointer.
    assert_eq!(stack.step(Rule::RbpDeref, -8, 0, &at(1, 12, 0)), Step::Stop(Stop::Unreadable));
    assert_eq!(stack.step(Rule::Rsp, 1 << 20, RBP_UNCHANGED, &here), Step::Stop(Stop::Unreadable));
    assert_eq!(stack.step(Rule::Rsp, 16, -100, &here), Step::Stop(Stop::Unreadable));
}

#[test]
fn addresses_wrap_instead_of_panicking() {
    let top = Registers { rip: u64::MAX, rsp: u64::MAX, rbp: u64::MAX };
    for rule in 0..=u8::MAX {
        for (offset, rbp) in [(i32::MAX, i8::MAX), (i32::MIN, i8::MIN + 1)] {
            let row = Row { pc_low: 0, rule, rbp, offset };
            for registers in [top, Registers::default()] {
                let _ = step(&row, &registers, Some);
            }
        }
    }
}

#[test]
fn the_search_finds_the_row_in_force() {
    let rows = [0_u16, 5, 6, 0x8000, 0xffff];
    let found = |first, end, pc_low| search(first, end, pc_low, |index| rows.get(index as usize).copied());
    for pc_low in 0..=u16::MAX {
        let expected = rows.iter().rposition(|&begin| begin <= pc_low).map(|index| index as u32);
        assert_eq!(found(0, 5, pc_low), expected);
    }
    assert_eq!(found(1, 3, 4), None);
    assert_eq!(found(3, 3, 9), None);
    assert_eq!(found(4, 9, 0xffff), None, "a row that cannot be read");
}

#[test]
fn a_full_page_takes_no_more_than_the_bounded_steps() {
    for pc_low in [0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff] {
        let mut reads = 0;
        let found = search(10, 10 + (1 << 16), pc_low, |index| {
            reads += 1;
            Some((index - 10) as u16)
        });
        assert_eq!(found, Some(10 + u32::from(pc_low)));
        assert!(reads <= SEARCH_STEPS_MAX);
    }
}
