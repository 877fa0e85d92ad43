//! `check`: whether objects or reservations would fit.

use http::Method;
use quota_client::{http::Address, wire::Verdict};

use super::{
    apply::note_warnings,
    failure::{Exit, Failure, Outcome},
    figures,
    manifest::{self, Document, text},
    reservation::{body_of, named},
    session::{Session, each},
};
use std::path::PathBuf;

/// Checks each document; fails with [`Exit::Denied`] if one does not fit.
pub(crate) fn run(session: &Session, files: &[PathBuf]) -> Outcome {
    each(manifest::load(files)?, |document| {
        let place = document.place.clone();
        check(session, document).map_err(|failure| failure.about(place))
    })
}

fn check(session: &Session, document: Document) -> Outcome {
    let (namespace, body) = body_of(session, document, None)?;
    let address = Address::in_namespace(&namespace, ["check"]);
    let reply = session.client.send_json(Method::POST, &address, &body)?;
    note_warnings(&reply.headers);
    let verdict: Verdict<'static> = reply.read()?;
    session.note_lag(verdict.lagging);
    if session.output.is_structured() {
        session.output.value(&reply.json)?;
    } else {
        let of = |field| text(&body, field);
        let what = named(of("/reservedBy/kind"), of("/reservedBy/name"));
        session.output.line(summary(&what, &verdict))?;
        if let Some(table) = figures::checked_quotas(&verdict.quotas) {
            session.output.table(&table)?;
        }
    }
    if verdict.fits {
        Ok(())
    } else {
        Err(Failure::silent(Exit::Denied))
    }
}

fn summary(what: &str, verdict: &Verdict<'_>) -> String {
    let what = if what.is_empty() { "it" } else { what };
    if verdict.fits {
        return format!("{what} fits");
    }
    let why = [&verdict.detail, &verdict.reason].into_iter().flatten();
    match why.into_iter().find(|why| !why.is_empty()) {
        Some(why) => format!("{what} does not fit: {why}"),
        None => format!("{what} does not fit"),
    }
}
