//! The state of the screen: what is known, what is selected, what is being typed.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use xsched_control_api::{
    answer::{Answer, List},
    parameters::Wish,
    request::{Request, Target},
};
use xsched_sched::PolicyKind;
use xsched_terminal::Advice as _;

use super::link::News;
use super::rows::{Order, Row, RowId, rows};
use crate::cli::priority;
use crate::order::{chosen, worth};

/// Rows that Page Up and Page Down go.
const PAGE: isize = 10;

/// The longest word to type.
const WORD_LEN_MAX: usize = 16;

/// All that is drawn.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The latest list, even if the controller has gone since.
    pub(super) list: Option<List>,
    pub(super) link: Link,
    pub(super) order: Order,
    pub(super) mode: Mode,
    pub(super) note: Option<Note>,
    selected: Option<RowId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Link {
    #[default]
    Connecting,
    Connected,
    Lost,
}

/// What keys mean.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Table,
    Help,
    /// A word is typed: what it is for a process.
    Word {
        what: Word,
        pid: u32,
        name: String,
        typed: String,
    },
    /// A policy is chosen: its place in the list of all.
    Policy(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Class,
    Weight,
}

/// The status line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Note {
    Done(String),
    Failed(String),
}

/// What a key asks for beyond another look of the screen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Ask(Request),
    Quit,
}

impl State {
    /// Something has come from the controller.
    pub(super) fn take(&mut self, news: News) {
        match news {
            News::List(list) => {
                if self.link == Link::Lost {
                    self.note = Some(Note::Done("connected to a controller again".to_owned()));
                }
                self.link = Link::Connected;
                self.list = Some(list);
                // What is selected stays so while the order changes.
                self.selected = self.with_rows(|rows, place| rows.get(place).map(|row| row.id));
            }
            News::Answered(request, answer) => self.note = Some(Note::Done(self.answered(&request, &answer))),
            News::Refused(error) => self.refuse(&advised(&error)),
            News::Lost(error) => {
                self.link = Link::Lost;
                self.refuse(&format!("{}; trying again every second", advised(&error)));
            }
        }
    }

    /// Something cannot be done.
    pub(super) fn refuse(&mut self, why: &str) {
        self.note = Some(Note::Failed(why.to_owned()));
    }

    fn answered(&self, request: &Request, answer: &Answer) -> String {
        match answer {
            Answer::Set { changed } => {
                let changed = changed.iter().map(|process| {
                    format!("{} ({}): {}; was {}", process.pid, process.command, process.new, process.old)
                });
                let policy: Option<PolicyKind> =
                    self.list.as_ref().and_then(|list| list.controller.policy.parse().ok());
                let notes = match (request, policy) {
                    (Request::Set { wish, .. }, Some(policy)) => worth(*wish, policy, None),
                    _ => Vec::new(),
                };
                changed.chain(notes).collect::<Vec<_>>().join("; ")
            }
            Answer::Policy { policy, was, turned } => {
                format!("policy {}", chosen(policy, was, *turned))
            }
            answer => answer.to_line(),
        }
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, key: KeyEvent) -> Effect {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && key.code == KeyCode::Char('c') {
            return Effect::Quit;
        }
        match std::mem::take(&mut self.mode) {
            Mode::Table => return self.key_in_table(key.code),
            // Any key ends it.
            Mode::Help => {}
            Mode::Word { what, pid, name, typed } => {
                return self.key_in_word(key.code, what, pid, name, typed);
            }
            Mode::Policy(place) => return self.key_in_policies(key.code, place),
        }
        Effect::None
    }

    fn key_in_table(&mut self, key: KeyCode) -> Effect {
        match key {
            KeyCode::Char('q') => return Effect::Quit,
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::PageDown => self.go(PAGE),
            KeyCode::PageUp => self.go(-PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.go(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.go(isize::MAX),
            KeyCode::Char('s') => {
                self.order = if self.order == Order::Pid { Order::DeviceTime } else { Order::Pid };
            }
            KeyCode::Char('c') => self.begin(Word::Class),
            KeyCode::Char('w') => self.begin(Word::Weight),
            KeyCode::Char('r') => {
                if let Some((pid, _)) = self.target() {
                    return set(pid, Wish::NONE);
                }
            }
            KeyCode::Char('p') => {
                let policy = self.list.as_ref().and_then(|list| list.controller.policy.parse().ok());
                let place = PolicyKind::ALL.iter().position(|kind| Some(*kind) == policy);
                self.mode = Mode::Policy(place.unwrap_or(0));
            }
            KeyCode::Esc => self.note = None,
            _ => {}
        }
        Effect::None
    }

    fn begin(&mut self, what: Word) {
        if let Some((pid, name)) = self.target() {
            self.note = None;
            self.mode = Mode::Word { what, pid, name, typed: String::new() };
        }
    }

    /// The selected process, by which it can be changed.
    fn target(&mut self) -> Option<(u32, String)> {
        let target =
            self.with_rows(|rows, place| rows.get(place).map(|row| (row.id.pid, row.line.command.clone())));
        match target {
            None => self.refuse("no process has joined, so there is none to change"),
            Some((0, _)) => {
                let hint = "it has no id where the controller runs; `xsched-ctl set --cgroup` reaches it";
                self.refuse(hint);
            }
            Some(_) => {}
        }
        target.filter(|(pid, _)| *pid != 0)
    }

    fn key_in_word(&mut self, key: KeyCode, what: Word, pid: u32, name: String, mut typed: String) -> Effect {
        match key {
            KeyCode::Esc => return Effect::None,
            KeyCode::Enter => match what.wish(&typed) {
                Ok(wish) => return set(pid, wish),
                Err(why) => self.refuse(&why),
            },
            KeyCode::Backspace => _ = typed.pop(),
            KeyCode::Char(letter) if typed.len() < WORD_LEN_MAX && !letter.is_control() => typed.push(letter),
            _ => {}
        }
        self.mode = Mode::Word { what, pid, name, typed };
        Effect::None
    }

    fn key_in_policies(&mut self, key: KeyCode, place: usize) -> Effect {
        let last = PolicyKind::ALL.len() - 1;
        self.mode = Mode::Policy(match key {
            KeyCode::Down | KeyCode::Char('j') => (place + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => place.saturating_sub(1),
            KeyCode::Esc | KeyCode::Char('q') => {
                self.mode = Mode::Table;
                return Effect::None;
            }
            KeyCode::Enter => {
                self.mode = Mode::Table;
                let name = PolicyKind::ALL[place].name().to_owned();
                return Effect::Ask(Request::Policy { name: Some(name) });
            }
            _ => place,
        });
        Effect::None
    }

    /// Selects the row this many further down.
    fn go(&mut self, by: isize) {
        self.selected = self.with_rows(|rows, place| {
            let last = rows.len().checked_sub(1)?;
            Some(rows[place.saturating_add_signed(by).min(last)].id)
        });
    }

    /// The rows, and which is selected: the first if the selected one has gone.
    pub(super) fn with_rows<T>(&self, look: impl FnOnce(&[Row<'_>], usize) -> T) -> T {
        let rows = self.list.as_ref().map_or_else(Vec::new, |list| rows(list, self.order));
        let place = rows.iter().position(|row| Some(row.id) == self.selected);
        look(&rows, place.unwrap_or(0))
    }
}

impl Word {
    fn wish(self, typed: &str) -> Result<Wish, String> {
        match self {
            Self::Class => Ok(Wish { priority: Some(priority(typed)?), ..Wish::NONE }),
            Self::Weight => {
                let weight = typed.parse().map_err(|_| format!("`{typed}` is no weight"))?;
                let wish = Wish { weight: Some(weight), ..Wish::NONE };
                wish.check().map_err(|error| error.to_string())?;
                Ok(wish)
            }
        }
    }
}

fn set(pid: u32, wish: Wish) -> Effect {
    Effect::Ask(Request::Set { target: Target::Pid(pid), wish })
}

/// An error with its hint.
fn advised(error: &xsched_control_api::client::AskError) -> String {
    error.hint().map_or_else(|| error.to_string(), |hint| format!("{error}; {hint}"))
}

#[cfg(test)]
mod tests {
    use xsched_control_api::answer::Changed;
    use xsched_control_api::parameters::Parameters;

    use super::super::fixture;
    use super::*;

    fn state() -> State {
        let mut state = State::default();
        state.take(News::List(fixture::list()));
        state
    }

    /// Presses these keys; the effect of the last.
    fn press(state: &mut State, keys: &[KeyCode]) -> Effect {
        let effects = keys.iter().map(|key| state.key(KeyEvent::new(*key, KeyModifiers::NONE)));
        effects.last().unwrap()
    }

    fn type_in(state: &mut State, text: &str) -> Effect {
        press(state, &text.chars().map(KeyCode::Char).chain([KeyCode::Enter]).collect::<Vec<_>>())
    }

    #[test]
    fn keys_ask_for_a_change_of_the_selected_process() {
        let mut state = state();
        let asked = |wish| Effect::Ask(Request::Set { target: Target::Pid(4712), wish });
        press(&mut state, &[KeyCode::Down]);
        assert_eq!(type_in(&mut state, "chigh"), asked(Wish { priority: Some(100), ..Wish::NONE }));
        assert_eq!(type_in(&mut state, "c-7"), asked(Wish { priority: Some(-7), ..Wish::NONE }));
        assert_eq!(type_in(&mut state, "w200"), asked(Wish { weight: Some(200), ..Wish::NONE }));
        assert_eq!(press(&mut state, &[KeyCode::Char('r')]), asked(Wish::NONE));
        let keys = [KeyCode::Char('p'), KeyCode::Down, KeyCode::Enter];
        assert_eq!(press(&mut state, &keys), Effect::Ask(Request::Policy { name: Some("fair".to_owned()) }));
    }

    #[test]
    fn a_mistyped_word_is_refused_and_can_be_corrected() {
        let mut state = state();
        for word in ["w0", "w10001", "w-1", "wx", "c256", "cx", "c"] {
            assert_eq!(type_in(&mut state, word), Effect::None, "{word}");
            assert!(matches!(&state.note, Some(Note::Failed(_))), "{word}");
            assert_eq!(press(&mut state, &[KeyCode::Esc]), Effect::None);
            assert_eq!(state.mode, Mode::Table);
        }
        type_in(&mut state, "clowx");
        let corrected = press(&mut state, &[KeyCode::Backspace, KeyCode::Enter]);
        assert!(matches!(corrected, Effect::Ask(_)), "{corrected:?}");
    }

    #[test]
    fn a_process_stays_selected_while_the_order_changes() {
        let mut state = state();
        let selected = |state: &State| state.with_rows(|rows, place| (place, rows[place].id.pid));
        assert_eq!(selected(&state), (0, 4711));
        press(&mut state, &[KeyCode::Char('s')]);
        assert_eq!(selected(&state), (1, 4711));
        press(&mut state, &[KeyCode::End]);
        assert_eq!(selected(&state), (3, 4713));
        press(&mut state, &[KeyCode::PageUp, KeyCode::Up]);
        assert_eq!(selected(&state), (0, 4712));
        let mut list = fixture::list();
        list.processes.remove(1);
        state.take(News::List(list));
        assert_eq!(selected(&state), (0, 4711), "it has gone");
    }

    #[test]
    fn a_process_that_cannot_be_named_is_not_changed() {
        let mut state = State::default();
        assert_eq!(press(&mut state, &[KeyCode::Char('c'), KeyCode::Enter]), Effect::None);
        assert!(matches!(&state.note, Some(Note::Failed(why)) if why.contains("no process has joined")));
        let mut list = fixture::list();
        list.processes.truncate(1);
        list.processes[0].pid = 0;
        state.take(News::List(list));
        assert_eq!(press(&mut state, &[KeyCode::Char('r')]), Effect::None);
        assert!(matches!(&state.note, Some(Note::Failed(why)) if why.contains("--cgroup")));
    }

    #[test]
    fn an_answer_says_what_it_was_and_what_the_policy_ignores() {
        let mut state = state();
        let wish = Wish { weight: Some(200), ..Wish::NONE };
        let changed = Changed {
            pid: 4711,
            command: "serve.py".to_owned(),
            old: Parameters::default(),
            new: Parameters { weight: 200, ..Parameters::default() },
        };
        let request = Request::Set { target: Target::Pid(4711), wish };
        state.take(News::Answered(request, Answer::Set { changed: vec![changed] }));
        let said = "4711 (serve.py): priority 0 (normal), weight 200; was priority 0 (normal), weight 100; \
                    note: policy `priority` ignores weights; `xsched-ctl policy fair` uses them";
        assert_eq!(state.note, Some(Note::Done(said.to_owned())));
    }

    #[test]
    fn only_q_and_control_c_end_it() {
        let mut state = state();
        assert_eq!(press(&mut state, &[KeyCode::Char('?'), KeyCode::Char('q')]), Effect::None);
        assert_eq!(press(&mut state, &[KeyCode::Char('q')]), Effect::Quit);
        press(&mut state, &[KeyCode::Char('c')]);
        assert_eq!(press(&mut state, &[KeyCode::Char('q')]), Effect::None);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.key(interrupt), Effect::Quit);
    }
}
