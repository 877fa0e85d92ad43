//! `get objects`: the objects behind the numbers.

use serde_json::Value;

use crate::cli::{
    address::Address,
    failure::Outcome,
    namespaces::everywhere,
    reservation,
    session::{Session, items, text},
    table::Table,
};

/// Shows the objects of a namespace or of all namespaces, with what each counts for.
pub(super) fn get(session: &Session, limit: Option<usize>) -> Outcome {
    let ask = |namespace: &str| {
        session
            .client
            .list(&Address::in_namespace(namespace, ["objects"]), limit)
    };
    let answer = if session.scope.all {
        everywhere(session, |namespace| Ok(items(&ask(namespace)?).to_vec()))?
    } else {
        ask(session.scope.namespace())?
    };
    let objects = items(&answer);
    if objects.is_empty() {
        session.note_empty();
    }
    session.note_lag(&answer);
    session.output.answer(
        &answer,
        || objects.iter().map(name).collect(),
        |wide| table(objects, session.scope.all, wide),
    )
}

fn name(object: &Value) -> String {
    format!("{}/{}", text(object, "/resource"), text(object, "/name"))
}

fn table(objects: &[Value], all: bool, wide: bool) -> Table {
    let mut titles = vec!["RESOURCE", "NAME", "COUNTS"];
    if all {
        titles.insert(0, "NAMESPACE");
    }
    if wide {
        titles.extend(["UID", ">ENTRY"]);
    }
    let mut table = Table::new(&titles);
    for object in objects {
        let mut row = Vec::with_capacity(titles.len());
        if all {
            row.push(text(object, "/namespace").to_owned());
        }
        row.push(text(object, "/resource").to_owned());
        row.push(text(object, "/name").to_owned());
        row.push(reservation::list(
            object.get("usage").and_then(Value::as_object),
        ));
        if wide {
            row.push(text(object, "/uid").to_owned());
            row.push(object["entry"].to_string());
        }
        table.row(row);
    }
    table
}
