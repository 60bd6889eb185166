//! Executes commands, one on each line of its input: a process that asks for verdicts from the ends of call chains.

mod storm;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;

use xsched_protocol::verdict::Verdict;
use xsched_tests::origin::{Answer, ChainLibrary, Client, Page, Question, Step, VerdictSource, ask_here};

fn main() -> Result<(), Box<dyn Error>> {
    say("ready")?;
    let mut peer = Peer::default();
    let mut line = String::new();
    // It must not read ahead: after `exec` the next program continues with the input.
    while std::io::stdin().lock().read_line(&mut line)? > 0 {
        let words: Vec<_> = line.split_whitespace().collect();
        let answer = peer.obey(&words).unwrap_or_else(|error| format!("error: {error}"));
        say(&answer)?;
        line.clear();
    }
    Ok(())
}

fn say(line: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

#[derive(Default)]
pub(crate) struct Peer {
    client: Option<Client>,
    page: Option<Page>,
    libraries: BTreeMap<String, ChainLibrary>,
}

impl Peer {
    fn obey(&mut self, words: &[&str]) -> Result<String, Box<dyn Error>> {
        match words {
            ["join", folder] => self.join(Path::new(folder), true),
            ["join-without-token", folder] => self.join(Path::new(folder), false),
            ["verdict-source"] => self.verdict_source(),
            ["load", path] => {
                let library = ChainLibrary::open(Path::new(path))?;
                self.libraries.insert(library.name.clone(), library);
                Ok("loaded".to_owned())
            }
            ["unload", name] => {
                self.libraries.remove(*name).ok_or("no such library")?.close()?;
                Ok("unloaded".to_owned())
            }
            ["ask", subject, chain @ ..] => self.ask(subject.parse()?, chain),
            ["ask-in-thread", subject, chain @ ..] => self.ask_in_thread(subject.parse()?, chain),
            ["ask-in-child", chain @ ..] => self.ask_in_child(chain),
            ["storm", count, seed] => storm::run(self, count.parse()?, seed.parse()?),
            ["generation"] => Ok(self.page()?.generation().to_string()),
            ["domain", path, domain] => {
                self.client()?.set_domain(path, domain.parse()?)?;
                Ok("sent".to_owned())
            }
            ["kernel", id, name] => {
                self.client()?.name_kernel(id.parse()?, name)?;
                Ok("sent".to_owned())
            }
            ["exec"] => Err(Command::new("/proc/self/exe").exec().into()),
            _ => Err(format!("unknown command {words:?}").into()),
        }
    }

    fn join(&mut self, folder: &Path, reports_token: bool) -> Result<String, Box<dyn Error>> {
        self.client = Some(Client::join(folder, reports_token)?);
        self.verdict_source()
    }

    fn verdict_source(&mut self) -> Result<String, Box<dyn Error>> {
        match self.client()?.verdict_source()? {
            VerdictSource::Page(page) => {
                self.page = Some(page);
                Ok("page".to_owned())
            }
            VerdictSource::Rules(text) => Ok(format!("rules {}", text.lines().next().unwrap_or_default())),
        }
    }

    fn client(&self) -> Result<&Client, Box<dyn Error>> {
        Ok(self.client.as_ref().ok_or("it has not joined")?)
    }

    pub(crate) fn page(&self) -> Result<&Page, Box<dyn Error>> {
        Ok(self.page.as_ref().ok_or("it has no page")?)
    }

    pub(crate) fn libraries(&self) -> impl Iterator<Item = &ChainLibrary> {
        self.libraries.values()
    }

    /// The steps of a chain, outermost first: `NAME` or `NAME:find`.
    fn steps(&self, chain: &[&str]) -> Result<Vec<Step>, Box<dyn Error>> {
        let mut steps = Vec::new();
        for word in chain {
            let (name, finds) = word.strip_suffix(":find").map_or((*word, false), |name| (name, true));
            steps.push(self.libraries.get(name).ok_or_else(|| format!("no library {name}"))?.step(finds));
        }
        steps.push(Step(ask_here));
        Ok(steps)
    }

    fn ask(&self, subject: u64, chain: &[&str]) -> Result<String, Box<dyn Error>> {
        let steps = self.steps(chain)?;
        Ok(shown(self.page()?.ask(&steps, &mut Question { subject, ..Question::default() })))
    }

    /// Another thread has a slot and a stack of its own.
    fn ask_in_thread(&self, subject: u64, chain: &[&str]) -> Result<String, Box<dyn Error>> {
        let (steps, page) = (self.steps(chain)?, self.page()?);
        let answer = thread::scope(|scope| {
            scope.spawn(|| page.ask(&steps, &mut Question { slot: 1, subject, ..Question::default() })).join()
        });
        Ok(shown(answer.map_err(|_| "the thread has panicked")?))
    }

    /// A child inherits its parent's page, but gets no verdict.
    fn ask_in_child(&self, chain: &[&str]) -> Result<String, Box<dyn Error>> {
        let (steps, page) = (self.steps(chain)?, self.page()?);
        // SAFETY: there is one thread, so that the child may call the same functions as its parent.
        match unsafe { libc::fork() } {
            0 => {
                let is_answered = page.ask_once(&steps, &mut Question::default()).is_some();
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(i32::from(is_answered)) }
            }
            child => {
                let mut status = 0;
                // SAFETY: waits for the child; `status` is valid for writing.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                Ok(if status == 0 { "silence".to_owned() } else { format!("ended with {status:#x}") })
            }
        }
    }
}

/// `ACTION LEVEL kept|asked rule N tries N us N`, or `silence`.
fn shown(answer: Option<Answer>) -> String {
    let Some(answer) = answer else { return "silence".to_owned() };
    let verdict: Verdict = answer.verdict();
    let kept = if verdict.is_decided_by_caller() { "kept" } else { "asked" };
    let action = verdict.action().map_or("unknown".to_owned(), |action| format!("{action:?}"));
    format!("{action} {} {kept} rule {} us {}", verdict.mode(), answer.slot.rule, answer.took.as_micros())
}
