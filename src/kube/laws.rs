//! Properties of all patches and of all field managers.

use proptest::{collection::btree_map, prelude::*};
use quota_semantics::{Timestamp, quota::Manifest};
use serde_json::{Map, Value, json};

use super::{fields, patch, protobuf};

const NOW: Timestamp = Timestamp::EPOCH;

/// Few keys and values, so that collisions are frequent.
fn map() -> impl Strategy<Value = Value> {
    let entries = btree_map("[a-d]", "[1-3]", 0..4);
    entries.prop_map(|entries| {
        entries.into_iter().map(|(key, value)| (key, value.into())).collect::<Map<_, _>>().into()
    })
}

/// A quota in its stored form, without empty fields.
fn quota() -> impl Strategy<Value = Value> {
    (map(), map(), prop::option::of("[xy]/[xy]")).prop_map(|(labels, hard, finalizer)| {
        let metadata = json!({"name": "q", "labels": labels, "finalizers": finalizer.into_iter().collect::<Vec<_>>()});
        let quota = json!({"metadata": metadata, "spec": {"hard": hard}});
        let manifest = Manifest::from_json(quota.to_string().as_bytes()).unwrap();
        serde_json::to_value(manifest).unwrap()
    })
}

/// A patch of maps, some of whose values are null.
fn patch_of_maps() -> impl Strategy<Value = Value> {
    let value = prop_oneof![Just(Value::Null), "[1-3]".prop_map(Value::from)];
    let entries = btree_map("[a-d]", value, 0..4);
    let map = entries.prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>()));
    (map.clone(), map)
        .prop_map(|(labels, hard)| json!({"metadata": {"labels": labels}, "spec": {"hard": hard}}))
}

/// How many managers own the field itself; managers that own only a prefix do not count.
fn owners(managed: &[Value], path: [&str; 3]) -> usize {
    let [first, second, third] = path;
    managed.iter().filter(|entry| entry["fieldsV1"][first][second].get(third).is_some()).count()
}

/// The labels and limits of an object, as fields.
fn leaves(object: &Value) -> Vec<[String; 3]> {
    let of = |first: &str, second: &str| {
        let fields = object[first][second].as_object().into_iter().flatten();
        let fields = fields
            .map(|(name, _)| [format!("f:{first}"), format!("f:{second}"), format!("f:{name}")]);
        fields.collect::<Vec<_>>()
    };
    [of("metadata", "labels"), of("spec", "hard")].concat()
}

proptest! {
    #[test]
    fn after_updates_every_field_has_one_manager(
        first in quota(),
        changes in prop::collection::vec((quota(), "[m-o]"), 0..6),
    ) {
        let mut managed = fields::updated(None, &first, &[], "m", NOW);
        let mut object = first;
        for (next, manager) in changes {
            managed = fields::updated(Some((&object, &managed)), &next, &managed, &manager, NOW);
            object = next;
            // An object without managers keeps none.
            if managed.is_empty() {
                return Ok(());
            }
            for [first, second, third] in leaves(&object) {
                prop_assert_eq!(owners(&managed, [&first, &second, &third]), 1);
            }
        }
    }

    #[test]
    fn what_was_applied_is_there_and_stays(live in quota(), config in quota(), by in "[m-o]") {
        let managed = fields::updated(None, &live, &[], "first", NOW);
        let applied = fields::apply(&live, &managed, &config, &by, true, NOW).unwrap();
        for [first, second, third] in leaves(&config) {
            prop_assert!(owners(&applied.managed, [&first, &second, &third]) >= 1);
        }
        for (name, value) in config["spec"]["hard"].as_object().into_iter().flatten() {
            prop_assert_eq!(&applied.object["spec"]["hard"][name], value);
        }
        let again = fields::apply(&applied.object, &applied.managed, &config, &by, false, NOW);
        prop_assert_eq!(applied, again.unwrap());
    }

    #[test]
    fn a_strategic_patch_of_maps_is_a_merge_patch(object in quota(), patch in patch_of_maps()) {
        let strategic = patch::strategic(object.clone(), &patch).unwrap();
        prop_assert_eq!(strategic, patch::merge(object, &patch));
    }

    #[test]
    fn no_bytes_upset_the_decoder(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let body = [b"k8s\0".as_slice(), &bytes].concat();
        let _ = (protobuf::quota(&body), protobuf::delete_options(&body), protobuf::quota(&bytes));
    }
}
