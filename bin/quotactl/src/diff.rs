//! `diff`: the changes that `apply` would make. Manifests are free JSON, as in `apply`.

use std::path::PathBuf;

use serde_json::Value;

use super::{
    age,
    apply::{Subject, differences, would_be},
    args::Moment,
    failure::{Exit, Failure, Outcome},
    manifest::{self, Document, plain, text},
    session::{Session, each},
    simulate::{Limits, summary},
    terminal_text::one_line,
};

/// Shows the changes by each manifest, and what all of them would have refused `since` then; fails with
/// [`Exit::Conflict`] if there are any.
pub(crate) fn run(session: &Session, files: &[PathBuf], since: Option<Moment>) -> Outcome {
    let documents = manifest::load(files)?;
    let limits = since.map(|_| Limits::of(&session.scope, documents.clone()));
    let limits = limits.transpose()?;
    let differs = each(documents, |document| {
        let place = document.place.clone();
        diff(session, &document).map_err(|failure| failure.about(&place))
    });
    if let Some((limits, Moment(from))) = limits.zip(since) {
        let (simulation, _) = limits.simulate(session, (from, age::now()))?;
        session.output.line(summary(&simulation))?;
    }
    differs
}

fn diff(session: &Session, document: &Document) -> Outcome {
    let subject = Subject::of(session, document)?;
    let (before, after) = would_be(session, &subject, document)?;
    let differences = differences(before.as_ref().unwrap_or(&Value::Null), &after);
    if before.is_some() && differences.is_empty() {
        return Ok(());
    }
    let place = match text(&after, "/metadata/namespace") {
        "" => String::new(),
        namespace => format!(" in {namespace}"),
    };
    let mut lines = vec![format!("{}{place}:", subject.shown)];
    for (field, before, after) in differences {
        lines.extend(before.map(|value| format!("-  {field}: {}", plain(&value))));
        lines.extend(after.map(|value| format!("+  {field}: {}", plain(&value))));
    }
    let lines: Vec<_> = lines.iter().map(|line| one_line(line)).collect();
    session.output.line(lines.join("\n"))?;
    Err(Failure::silent(Exit::Conflict))
}
