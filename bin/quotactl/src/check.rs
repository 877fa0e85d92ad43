//! `check`: whether objects or reservations would fit.

use std::borrow::Cow;

use http::Method;
use quota_client::{
    http::Address,
    wire::{PodsVerdict, Verdict},
};

use super::{
    apply::note_warnings,
    args::Check,
    failure::{Exit, Failure, Outcome},
    figures::{Rows, checked_quotas},
    manifest::{self, Document, text},
    reservation::{body_of, named},
    session::{Session, each},
};

/// Checks each document; fails with [`Exit::Denied`] if one does not fit.
pub(crate) fn run(session: &Session, args: &Check) -> Outcome {
    each(manifest::load(&args.files.files)?, |document| {
        let place = document.place.clone();
        check(session, document, args.pods).map_err(|failure| failure.about(place))
    })
}

fn check(session: &Session, document: Document, with_pods: bool) -> Outcome {
    let (namespace, body) = body_of(session, document, None)?;
    let address = Address::in_namespace(&namespace, ["check"]);
    let reply = session.client.send_json(Method::POST, &address, &body)?;
    note_warnings(&reply.headers);
    let verdict: Verdict<'static> = reply.read()?;
    session.note_lag(verdict.lagging);
    let pods = verdict.pods.as_ref().filter(|_| with_pods);
    let short = pods.filter(|pods| pods.fit < pods.replicas);
    if session.output.is_structured() {
        session.output.value(&reply.json)?;
    } else {
        let of = |field| text(&body, field);
        let what = named(of("/reservedBy/kind"), of("/reservedBy/name"));
        session.output.line(summary(&what, &verdict, pods))?;
        let quotas = match short {
            Some(pods) if verdict.fits => &pods.quotas,
            _ => &verdict.quotas,
        };
        let rows = match session.output.is_wide() {
            true => Rows::All,
            false => Rows::Failed,
        };
        if let Some(table) = checked_quotas(quotas, rows) {
            session.output.table(&table)?;
        }
    }
    if verdict.fits && short.is_none() {
        Ok(())
    } else {
        Err(Failure::silent(Exit::Denied))
    }
}

fn summary(what: &str, verdict: &Verdict<'_>, pods: Option<&PodsVerdict<'_>>) -> String {
    let what = if what.is_empty() { "it" } else { what };
    if !verdict.fits {
        return match why([&verdict.detail, &verdict.reason]) {
            Some(why) => format!("{what} does not fit: {why}"),
            None => format!("{what} does not fit"),
        };
    }
    let Some(PodsVerdict {
        replicas,
        fit,
        reason,
        detail,
        ..
    }) = pods
    else {
        return format!("{what} fits");
    };
    let noun = if *replicas == 1 { "pod" } else { "pods" };
    if fit == replicas {
        return match replicas {
            0 => format!("{what} fits, without any pods"),
            1 => format!("{what} fits, and so does its pod"),
            _ => format!("{what} fits, and so do its {replicas} {noun}"),
        };
    }
    let why = why([detail, reason]).map_or_else(String::new, |why| format!(": {why}"));
    match replicas {
        1 => format!("{what} fits; its pod would not{why}"),
        _ => format!("{what} fits; {fit} of its {replicas} {noun} would{why}"),
    }
}

fn why<'a>(texts: [&'a Option<Cow<'_, str>>; 2]) -> Option<&'a str> {
    let mut texts = texts.into_iter().flatten();
    texts.find(|why| !why.is_empty()).map(|why| &**why)
}
