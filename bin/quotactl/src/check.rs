//! `check`: would it fit?

use http::Method;
use serde_json::Value;

use super::{
    address::Address,
    failure::{Exit, Failure, Outcome},
    figures,
    manifest::{self, Document},
    reservation::{body_of, holder},
    session::{Session, each, text},
};
use std::path::PathBuf;

/// Asks for each document; fails with [`Exit::Denied`] if one does not fit.
pub(crate) fn run(session: &Session, files: &[PathBuf]) -> Outcome {
    each(manifest::load(files)?, |document| {
        let place = document.place.clone();
        check(session, document).map_err(|failure| failure.about(place))
    })
}

fn check(session: &Session, document: Document) -> Outcome {
    let (namespace, body) = body_of(session, document, None)?;
    let address = Address::in_namespace(&namespace, ["check"]);
    let answer = session
        .client
        .send_json(Method::POST, &address, Some(&body))?
        .body;
    let Some(fits) = answer.get("fits").and_then(Value::as_bool) else {
        return Err(Failure::general("the answer does not say whether it fits"));
    };
    session.note_lag(&answer);
    if session.output.is_structured() {
        session.output.value(&answer)?;
    } else {
        session
            .output
            .line(verdict(&holder(&body), fits, &answer))?;
        if let Some(table) = figures::looked_at(&answer["quotas"]) {
            session.output.table(&table)?;
        }
    }
    if fits {
        Ok(())
    } else {
        Err(Failure::silent(Exit::Denied))
    }
}

fn verdict(what: &str, fits: bool, answer: &Value) -> String {
    let what = if what.is_empty() { "it" } else { what };
    if fits {
        return format!("{what} fits");
    }
    let why = [text(answer, "/detail"), text(answer, "/reason")];
    match why.iter().find(|why| !why.is_empty()) {
        Some(why) => format!("{what} does not fit: {why}"),
        None => format!("{what} does not fit"),
    }
}
