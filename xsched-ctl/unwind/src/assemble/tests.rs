use xsched_abi::unwind::{RBP_UNCHANGED, Rule};

use super::*;
use crate::frames::PlacedRule;
use crate::table::{Table, TableId};

/// A function: begin, end, and its rules as (begin, offset).
type Described = (u64, u64, Vec<(u64, i32)>);

fn frames(functions: &[Described]) -> Frames {
    let mut frames = Frames::default();
    for (begin, end, rules) in functions {
        let first = frames.rules.len() as u32;
        frames.functions.push(Function { begin: *begin, end: *end, first, count: rules.len() as u32 });
        let rule =
            |&(begin, offset)| PlacedRule { begin, row: Row::new(0, Rule::Rsp, offset, RBP_UNCHANGED) };
        frames.rules.extend(rules.iter().map(rule));
    }
    frames
}

fn table(functions: &[Described]) -> Table {
    let Assembled { first_page, pages, rows } = assemble(frames(functions)).unwrap();
    Table { id: TableId([0; 16]), segments: Vec::new(), first_page, pages, rows }
}

/// The offset of the rule at an address; None in gaps and outside all functions.
fn offset_at(table: &Table, address: u64) -> Option<i32> {
    let row = table.row_at(address)?;
    match row.rule() {
        Rule::Rsp => Some(row.offset),
        Rule::Gap => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn functions_may_come_in_any_order_with_gaps() {
    let table =
        table(&[(0x2_0100, 0x2_0200, vec![(0x2_0100, 2)]), (0x1_0100, 0x1_0180, vec![(0x1_0100, 1)])]);
    for (address, expected) in [
        (0x1_00ff, None),
        (0x1_0100, Some(1)),
        (0x1_017f, Some(1)),
        (0x1_0180, None),
        (0x2_00ff, None),
        (0x2_0100, Some(2)),
        (0x2_01ff, Some(2)),
        (0x2_0200, None),
    ] {
        assert_eq!(offset_at(&table, address), expected, "{address:#x}");
    }
    assert_eq!((table.first_page(), table.pages()), (1, &[0, 3, 6][..]));
}

#[test]
fn equal_neighbouring_rules_are_merged() {
    let table = table(&[
        (0x1_0000, 0x1_0010, vec![(0x1_0000, 8), (0x1_0004, 16)]),
        (0x1_0010, 0x1_0020, vec![(0x1_0010, 16)]),
    ]);
    assert_eq!(table.rows().iter().map(|row| row.pc_low).collect::<Vec<_>>(), [0, 4, 0x20]);
}

#[test]
fn a_rule_over_several_pages_is_repeated_in_each() {
    let table = table(&[(0x1_fff0, 0x4_0010, vec![(0x1_fff0, 8)])]);
    assert_eq!(table.pages(), [0, 2, 3, 4, 6]);
    for address in [0x1_fff0, 0x2_0000, 0x2_8000, 0x3_ffff, 0x4_000f] {
        assert_eq!(offset_at(&table, address), Some(8), "{address:#x}");
    }
    assert_eq!(offset_at(&table, 0x4_0010), None);
}

#[test]
fn of_overlapping_functions_the_later_is_used() {
    let table = table(&[
        (0x1_0000, 0x1_0100, vec![(0x1_0000, 1), (0x1_0080, 2)]),
        (0x1_0040, 0x1_0060, vec![(0x1_0040, 3)]),
    ]);
    let offsets = [0x00, 0x3f, 0x40, 0x5f, 0x60, 0x80].map(|low| offset_at(&table, 0x1_0000 + low));
    // There is no rule after it, as in a search by the begins of functions.
    assert_eq!(offsets, [Some(1), Some(1), Some(3), Some(3), None, None]);
}

#[test]
fn code_too_far_apart_is_an_error() {
    let far = frames(&[(0, 16, vec![(0, 8)]), (1 << 40, (1 << 40) + 16, vec![(1 << 40, 8)])]);
    assert!(matches!(assemble(far), Err(Error::TooLarge { .. })));
    let high = frames(&[(1 << 62, (1 << 62) + 16, vec![(1 << 62, 8)])]);
    assert!(matches!(assemble(high), Err(Error::Corrupt(_))));
}

#[test]
fn random_functions_are_found_at_their_edges() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..200 {
        let mut at = random.u64(0..0x3_0000);
        let mut functions = Vec::new();
        for _ in 0..random.usize(1..20) {
            at += if random.bool() { 0 } else { random.u64(1..0x2_0000) };
            let begin = at;
            let mut rules = Vec::new();
            for _ in 0..random.usize(1..6) {
                rules.push((at, random.i32(1..4) * 8));
                let longest = if random.u8(..) == 0 { 0x3_0000 } else { 40 };
                at += random.u64(1..longest);
            }
            functions.push((begin, at, rules));
        }
        let expected = |address| {
            let function = functions.iter().find(|(begin, end, _)| (*begin..*end).contains(&address))?;
            function.2.iter().rfind(|(begin, _)| *begin <= address).map(|&(_, offset)| offset)
        };
        let edges = functions.iter().flat_map(|(begin, end, rules)| {
            let rules = rules.iter().map(|&(begin, _)| begin);
            [*begin, *end].into_iter().chain(rules).flat_map(|edge| [edge.saturating_sub(1), edge, edge + 1])
        });
        let mut edges: Vec<u64> = edges.collect();
        edges.extend((0..64).map(|page| page << 16));
        let mut shuffled = functions.clone();
        random.shuffle(&mut shuffled);
        let table = table(&shuffled);
        for address in edges {
            assert_eq!(offset_at(&table, address), expected(address), "{address:#x}, seed {seed}");
        }
        for page in table.pages().windows(2) {
            let rows = &table.rows()[page[0] as usize..page[1] as usize];
            assert_eq!(rows[0].pc_low, 0, "seed {seed}");
            assert!(rows.windows(2).all(|pair| pair[0].pc_low < pair[1].pc_low), "seed {seed}");
        }
    }
}
