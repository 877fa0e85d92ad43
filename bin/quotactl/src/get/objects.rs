//! `get objects`: the counted objects.

use quota_client::{http::Address, wire::Object};
use serde_json::Value;

use super::{Item, List};
use crate::{args::Objects, client::read, failure::Outcome, session::Session, table::Table};

impl Item for Object<'static> {
    fn identity(&self) -> String {
        format!("{}/{}", self.namespace, self.uid)
    }
}

impl List for Objects {
    type Item = Object<'static>;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let address = Address::list(session.scope.listed(), "objects");
        let address = address.with_some("resource", self.resource.as_ref());
        let mut answer = session.client.list_json(&address, self.limit)?;
        if let Some(objects) = answer.get_mut("items").and_then(Value::as_array_mut) {
            let order = |object: &Value| {
                let read = read::<Object<'static>>(object).ok();
                read.map(|it| (it.namespace, it.resource, it.name, it.uid.to_string()))
            };
            objects.sort_by_cached_key(order);
        }
        Ok(answer)
    }

    fn name(&self, object: &Object<'static>) -> String {
        format!("{}/{}", object.resource, object.name)
    }

    fn table(&self, session: &Session, objects: &[Object<'static>], wide: bool) -> Table {
        table(objects, session.scope.all, wide)
    }
}

fn table(objects: &[Object<'_>], all: bool, wide: bool) -> Table {
    let sequence = |it: &Object<'_>| it.sequence.map(|it| it.to_string()).unwrap_or_default();
    Table::of(
        objects,
        &[
            (all, "NAMESPACE", &|it| it.namespace.to_string()),
            (true, "RESOURCE", &|it| it.resource.to_string()),
            (true, "NAME", &|it| it.name.to_string()),
            (true, "COUNTS", &|it| it.usage.pretty()),
            (wide, "UID", &|it| it.uid.to_string()),
            (wide, ">SEQUENCE", &sequence),
        ],
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_say_what_they_count_for() {
        let object = json!({"uid": "u1", "namespace": "a", "resource": "pods", "name": "web",
                            "usage": {"pods": "1", "requests.cpu": "500m"}, "sequence": 7});
        let object = serde_json::from_value(object).unwrap();
        let text = table(&[object], true, true).render(false);
        let words: Vec<_> = text.split_whitespace().collect();
        assert_eq!(
            words,
            ["a", "pods", "web", "pods=1,requests.cpu=500m", "u1", "7"]
        );
    }
}
