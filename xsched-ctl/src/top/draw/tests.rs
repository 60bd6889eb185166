//! Whole screens, as a terminal of that size shows them.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use xsched_control_api::answer::Reason;
use xsched_control_api::client::AskError;

use super::*;
use crate::top::fixture;
use crate::top::link::News;

fn screen(state: &State, (width, height): (u16, u16), palette: Palette) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state, palette)).unwrap();
    terminal.backend().buffer().clone()
}

/// Its lines, without spaces at their ends.
fn text(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width);
    let lines = buffer.content.chunks(width);
    lines
        .map(|line| line.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned())
        .collect()
}

fn lines(state: &State) -> Vec<String> {
    text(&screen(state, (80, 24), Palette::Plain))
}

fn state() -> State {
    let mut state = State::default();
    state.take(News::List(fixture::list()));
    state
}

fn press(state: &mut State, keys: &str) {
    for key in keys.chars() {
        let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
        state.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
}

#[test]
fn a_terminal_of_80_by_24_shows_which_process_waits_for_which() {
    let mut state = state();
    press(&mut state, "j");
    let shown = lines(&state);
    let wanted = [
        "xsched-ctl top  active, policy priority, 3 processes",
        "0 0000:c1:00.0   [||||||||||||||||||||    ]  85 %  2 claims, 1 waits",
        "1 0000:c2:00.0   [                        ]     -  1 claim",
        "    pid command    user     dev class          state       time waits for",
        "   4711 serve.py   anna       0 high 100       ready       25 %",
        "   4712 train-a-l… anna       0 low -100       suspended   60 % 4711 serve.py",
        "   4712 train-a-l… anna       1 low -100       alone          -",
        r"   4713 evil\u{1b… anna       - normal 0       -              -",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "4712 train-a-large-model: low -100 from run, claim 5, level 2, deferred 1.50 ms",
        "waits for 4711 serve.py",
        "  libtorch_hip.so                 50 %  7.00 s so far",
        "  librocblas.so.4                 10 %  2.00 ms so far",
        "",
        "",
        "? help   c class   w weight   r reset   p policy   s sort   q quit",
    ];
    assert_eq!(shown, wanted);
}

#[test]
fn a_wide_terminal_shows_all_columns() {
    let shown = text(&screen(&state(), (140, 24), Palette::Plain));
    let words = |line: usize| shown[line].split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words(3), "pid command user dev class from state claim level time waits for");
    assert_eq!(words(5), "4712 train-a-large-model anna 0 low -100 run suspended 5 2 60 % 4711 serve.py");
}

#[test]
fn without_colour_the_selected_row_is_reversed_and_nothing_is_coloured() {
    let state = state();
    let plain = screen(&state, (80, 24), Palette::Plain);
    assert!(plain.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    let selected = plain.cell((10, 4)).unwrap();
    assert!(selected.modifier.contains(Modifier::REVERSED));
    let coloured = screen(&state, (80, 24), Palette::Colours);
    assert!(coloured.content.iter().any(|cell| cell.fg == Color::Yellow));
    assert_eq!(text(&plain), text(&coloured));
}

#[test]
fn a_terminal_of_any_size_is_drawn_on() {
    let mut state = state();
    for keys in ["", "?", "xp", "\nc", "abc\n"] {
        press(&mut state, keys);
        for size in [(1, 1), (3, 2), (20, 5), (79, 15), (80, 16), (500, 100)] {
            drop(screen(&state, size, Palette::Colours));
        }
    }
}

#[test]
fn a_controller_that_has_gone_is_named_and_what_it_last_said_stays() {
    let mut state = state();
    state.take(News::Lost(AskError::NoController));
    let shown = lines(&state);
    assert_eq!(shown[0], "xsched-ctl top  no controller: was active, policy priority, 3 processes");
    assert!(shown[4].contains("serve.py"), "{shown:?}");
    let said = shown.iter().find(|line| line.starts_with("no controller is running")).unwrap();
    assert_eq!(said, "no controller is running; `sudo xsched-ctl serve` starts one; trying again every");
    state.take(News::List(fixture::list()));
    assert!(lines(&state).contains(&"connected to a controller again".to_owned()));
}

#[test]
fn a_refusal_is_shown_whole_on_80_columns() {
    let mut state = state();
    let message = "priority 120 is above the ceiling, 49 (class normal)".to_owned();
    state.take(News::Refused(AskError::Refused { reason: Reason::AboveCeiling, message }));
    let shown = lines(&state).join(" ");
    assert!(shown.contains("priority 120 is above the ceiling"), "{shown}");
    assert!(shown.contains("configuration lets others go higher"), "{shown}");
}

#[test]
fn what_is_typed_is_shown_with_what_it_is_for() {
    let mut state = state();
    press(&mut state, "chihg\n");
    let shown = lines(&state);
    assert!(
        shown.contains(&"class or priority for 4711 serve.py (Enter, or Esc): hihg_".to_owned()),
        "{shown:?}"
    );
    assert!(
        shown.iter().any(|line| line.starts_with("expected -255 to 255, or a class: realtime")),
        "{shown:?}"
    );
}

#[test]
fn help_and_policies_fit_on_80_columns() {
    let mut state = state();
    press(&mut state, "?");
    let shown = lines(&state).join("\n");
    for line in HELP {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    press(&mut state, "xp");
    let shown = lines(&state).join("\n");
    for policy in PolicyKind::ALL {
        assert!(shown.contains(&format!("│{:<10} ", policy.name())), "{shown}");
    }
}
