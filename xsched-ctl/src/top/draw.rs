//! Draws the state, and nothing else: the same state gives the same screen.
//!
//! ```text
//!   controller: state, policy, number of processes
//!   a line for each device: its number, how busy it is, how many claims wait
//!   table: a row for each claim
//!   the selected row: what has no room in the table, its device time by library
//!   status: as many lines as it needs, 4 at most
//!   keys
//! ```

use std::env;

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row as TableRow, Table, TableState, Wrap};
use xsched_control_api::answer::List;
use xsched_sched::PolicyKind;
use xsched_terminal::{counted, duration, one_line, short_name};

use super::rows::{Load, Order, Row, devices};
use super::state::{Link, Mode, Note, State, Word};

/// Devices that have a line of their own. A node has eight at most, or as many partitions of one.
const DEVICES_MAX: usize = 8;

/// Libraries of the selected claim that are shown.
const ORIGINS_MAX: usize = 4;

/// A screen lower than this has no part for the selected row.
const HEIGHT_FOR_DETAILS: u16 = 16;

/// Columns for the bar of a device.
const BAR: usize = 24;

const KEYS: &str = "? help   c class   w weight   r reset   p policy   s sort   q quit";

const HELP: [&str; 16] = [
    "up, down, j, k    select a process (also Page Up, Page Down, Home, End)",
    "c                 change its class, or its priority from -255 to 255",
    "w                 change its weight: its part among equals under `fair`",
    "r                 undo that: rules, hints and `run` apply again",
    "p                 change the policy, for all processes",
    "s                 sort by process or by device time",
    "q, Ctrl-C         end",
    "",
    "state      ready: has work and may launch. suspended: has work and waits.",
    "           would wait: the same while the controller observes.",
    "           idle: no work. alone: no other process uses the device.",
    "           free: the controller is off",
    "time       how long it had the device, in the last one or two seconds",
    "waits for  what goes first on its device now",
    "",
    "Any key ends this help.",
];

/// Whether there are colours. Without them, what is to be seen is bold or reversed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Palette {
    Colours,
    Plain,
}

impl Palette {
    /// Plain where `NO_COLOR` is set: <https://no-color.org>.
    pub(super) fn of_environment() -> Self {
        let is_plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if is_plain { Self::Plain } else { Self::Colours }
    }

    fn style(self, colour: Color, otherwise: Modifier) -> Style {
        match self {
            Self::Colours => Style::new().fg(colour),
            Self::Plain => Style::new().add_modifier(otherwise),
        }
    }

    fn of_state(self, state: &str) -> Style {
        match state {
            "suspended" | "would wait" => self.style(Color::Yellow, Modifier::BOLD),
            "ready" => self.style(Color::Green, Modifier::empty()),
            _ => Style::new(),
        }
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, state: &State, palette: Palette) {
    let area = frame.area();
    let devices = state.list.as_ref().map(devices).unwrap_or_default();
    let details =
        if area.height < HEIGHT_FOR_DETAILS { Vec::new() } else { details(state, area.width.into()) };
    let [head, loads, table, below, status, keys] = area.layout(&Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(devices.len().min(DEVICES_MAX) as u16),
        Constraint::Min(2),
        Constraint::Length(details.len() as u16),
        Constraint::Length(note_lines(state, area.width)),
        Constraint::Length(1),
    ]));
    frame.render_widget(header(state, palette), head);
    let lines = devices.iter().enumerate().take(DEVICES_MAX);
    let lines: Vec<_> = lines.map(|(number, (name, load))| device(number, name, *load, palette)).collect();
    frame.render_widget(Paragraph::new(lines), loads);
    draw_table(frame, table, state, palette);
    frame.render_widget(Paragraph::new(details), below);
    frame.render_widget(bottom(state, palette), status);
    frame.render_widget(Text::from(KEYS).style(Modifier::DIM), keys);
    match &state.mode {
        Mode::Help => popup(frame, " xsched-ctl top ", HELP.map(Text::from).to_vec()),
        Mode::Policy(place) => popup(frame, " policy (Enter, or Esc) ", policies(*place)),
        Mode::Table | Mode::Word { .. } => {}
    }
}

fn header(state: &State, palette: Palette) -> Text<'static> {
    let link = match state.link {
        Link::Connecting => Span::from("connecting"),
        Link::Connected => Span::from(""),
        Link::Lost => Span::styled("no controller: ", palette.style(Color::Red, Modifier::REVERSED)),
    };
    let known = state.list.as_ref().map_or_else(String::new, |List { controller, processes, .. }| {
        let processes = counted(processes.len() as u64, "process", "processes");
        let was = if state.link == Link::Lost { "was " } else { "" };
        format!("{was}{}, policy {}, {processes}", controller.state, one_line(&controller.policy))
    });
    Text::from(vec!["xsched-ctl top  ".bold(), link, Span::from(known)])
}

/// `0 0000:c1:00.0  [||||||      ]  25 %  3 claims, 1 waits`
fn device(number: usize, name: &str, load: Load, palette: Palette) -> Text<'static> {
    let filled = (load.share.unwrap_or(0.0) * BAR as f64).round().clamp(0.0, BAR as f64) as usize;
    let share = load.share.map_or_else(|| "-".to_owned(), percent);
    let waiting = match load.waiting {
        0 => String::new(),
        1 => ", 1 waits".to_owned(),
        waiting => format!(", {waiting} wait"),
    };
    Text::from(vec![
        Span::from(format!("{number} {:<14} [", one_line(name))),
        Span::styled("|".repeat(filled), palette.style(Color::Green, Modifier::BOLD)),
        Span::from(" ".repeat(BAR - filled)),
        Span::from(format!("] {share:>5}  {}{waiting}", counted(load.claims, "claim", "claims"))),
    ])
}

/// A column of the table.
struct Column {
    heading: &'static str,
    width: usize,
    alignment: Alignment,
    /// Shown only where the screen is at least so wide.
    from_width: u16,
    cell: fn(&Row<'_>) -> String,
}

impl Column {
    const fn new(heading: &'static str, width: usize, cell: fn(&Row<'_>) -> String) -> Self {
        Self { heading, width, alignment: Alignment::Left, from_width: 0, cell }
    }

    const fn right(self) -> Self {
        Self { alignment: Alignment::Right, ..self }
    }

    const fn from(self, from_width: u16) -> Self {
        Self { from_width, ..self }
    }
}

const COMMAND: &str = "command";
const STATE: &str = "state";
const WAITS_FOR: &str = "waits for";

/// Of the three columns of words, the widths are the least: they divide what the others leave.
const COLUMNS: [Column; 11] = [
    Column::new("pid", 7, |row| row.line.pid.to_string()).right(),
    Column::new(COMMAND, 10, |row| row.line.command.clone()),
    Column::new("user", 8, |row| row.line.user.clone()),
    Column::new("dev", 3, |row| row.device.map_or_else(dash, |device| device.to_string())).right(),
    Column::new("class", 14, |row| row.line.parameters.clone()),
    Column::new("from", 7, |row| row.line.from.clone()).from(110),
    Column::new(STATE, 10, |row| row.line.state.map_or_else(dash, str::to_owned)),
    Column::new("claim", 5, |row| row.line.slot.map_or_else(dash, |slot| slot.to_string())).right().from(110),
    Column::new("level", 5, |row| row.line.level.map_or_else(dash, |level| level.to_string()))
        .right()
        .from(110),
    Column::new("time", 5, |row| row.line.device_share.map_or_else(dash, percent)).right(),
    Column::new(WAITS_FOR, 14, waits_for),
];

fn waits_for(row: &Row<'_>) -> String {
    row.waits_for.join(", ")
}

fn dash() -> String {
    "-".to_owned()
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, state: &State, palette: Palette) {
    let mut columns = COLUMNS;
    // Between columns is one space.
    let shown = |column: &&mut Column| column.from_width <= area.width;
    let least: usize = columns.iter_mut().filter(shown).map(|column| column.width + 1).sum();
    let spare = (usize::from(area.width) + 1).saturating_sub(least);
    let columns: Vec<_> = columns
        .iter_mut()
        .filter(shown)
        .map(|column| {
            column.width += match column.heading {
                COMMAND | "class" => spare / 3,
                WAITS_FOR => spare - 2 * (spare / 3),
                _ => 0,
            };
            &*column
        })
        .collect();
    let cell = |column: &Column, text: &str| {
        Text::from(fitted(&one_line(text), column.width)).alignment(column.alignment)
    };
    let sorted_by = if state.order == Order::Pid { "pid" } else { "time" };
    let headings = columns.iter().map(|column| {
        let heading = cell(column, column.heading).bold();
        if column.heading == sorted_by { heading.underlined() } else { heading }
    });
    let widths = columns.iter().map(|column| Constraint::Length(column.width as u16));
    state.with_rows(|rows, selected| {
        let lines = rows.iter().map(|row| {
            TableRow::new(columns.iter().map(|column| {
                let text = (column.cell)(row);
                let style = if column.heading == STATE { palette.of_state(&text) } else { Style::new() };
                Cell::from(cell(column, &text)).style(style)
            }))
        });
        let table =
            Table::new(lines, widths).header(TableRow::new(headings)).row_highlight_style(Modifier::REVERSED);
        let mut view = TableState::new().with_selected((!rows.is_empty()).then_some(selected));
        frame.render_stateful_widget(table, area, &mut view);
    });
}

/// The text, or its beginning and `…`: what is cut off is not to be overlooked.
fn fitted(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// The selected row.
fn details(state: &State, width: usize) -> Vec<Text<'static>> {
    state.with_rows(|rows, selected| {
        let Some(row) = rows.get(selected) else { return Vec::new() };
        let line = &row.line;
        let mut words = vec![format!("{} from {}", line.parameters, line.from)];
        words.extend(line.slot.map(|slot| format!("claim {slot}")));
        words.extend(line.level.map(|level| format!("level {level}")));
        words.extend(line.suspended_ns.map(|ns| format!("deferred {}", duration(Some(ns)))));
        let of = format!("{} {}: ", line.pid, one_line(&line.command));
        let words = fitted(&words.join(", "), width.saturating_sub(of.chars().count()));
        let mut details = vec![Text::from(""), Text::from(vec![of.bold(), words.into()])];
        if !row.waits_for.is_empty() {
            details.push(Text::from(fitted(&format!("waits for {}", waits_for(row)), width)));
        }
        details.extend(row.origins.iter().take(ORIGINS_MAX).map(|origin| {
            let library = short_name(&one_line(&origin.library));
            let total = duration(Some(origin.device_ns));
            Text::from(format!("  {library:<30} {:>5}  {total} so far", percent(origin.device_share)))
        }));
        let more = row.origins.len().saturating_sub(ORIGINS_MAX);
        if more > 0 {
            let more = counted(more as u64, "more library", "more libraries");
            details.push(Text::from(format!("  and {more}: `xsched-ctl list --by origin`")));
        }
        details
    })
}

/// The status, or what is being typed.
fn bottom(state: &State, palette: Palette) -> Paragraph<'static> {
    let failed = palette.style(Color::Red, Modifier::BOLD);
    let note = match &state.note {
        Some(Note::Done(text)) => Span::from(one_line(text).into_owned()),
        Some(Note::Failed(text)) => Span::styled(one_line(text).into_owned(), failed),
        None => Span::from(""),
    };
    let Mode::Word { what, pid, name, typed } = &state.mode else {
        return Paragraph::new(note).wrap(Wrap { trim: true });
    };
    let what = match what {
        Word::Class => "class or priority",
        Word::Weight => "weight",
    };
    let question = format!("{what} for {pid} {} (Enter, or Esc): ", one_line(name));
    let typed = Span::from(typed.clone()).bold();
    // What is wrong with it, if it was refused, is below.
    Paragraph::new(vec![Text::from(vec![question.into(), typed, "_".slow_blink()]), Text::from(note)])
}

/// How many lines the status takes: wrapped at spaces, a line holds somewhat less than its width.
fn note_lines(state: &State, width: u16) -> u16 {
    let (Some(Note::Done(text) | Note::Failed(text)), width) = (&state.note, width.saturating_sub(8).max(1))
    else {
        return 2;
    };
    (1 + text.chars().count() as u16 / width).clamp(2, 4)
}

fn policies(selected: usize) -> Vec<Text<'static>> {
    let line = |(place, kind): (usize, &PolicyKind)| {
        let text = Text::from(format!("{:<10} {}", kind.name(), kind.about()));
        if place == selected { text.reversed() } else { text }
    };
    PolicyKind::ALL.iter().enumerate().map(line).collect()
}

/// Lines in a frame in the middle of the screen.
fn popup(frame: &mut Frame<'_>, title: &'static str, lines: Vec<Text<'static>>) {
    let width = lines.iter().map(Text::width).max().unwrap_or(0) as u16 + 2;
    let height = lines.len() as u16 + 2;
    let area = frame.area().centered(Constraint::Max(width), Constraint::Max(height));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(title)), area);
}

#[cfg(test)]
mod tests;
