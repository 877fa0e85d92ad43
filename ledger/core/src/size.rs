//! Estimates of the encoded length of entries, in bytes; never much less than the real length.
//!
//! Only the parts that can be long are measured. Senders of events choose the names, and a batch has to fit into the
//! journal in any case.

use crate::event::{Event, NamespaceRecord, QuotaRecord, Reservation};
use quota_semantics::{
    Name, group,
    object::{Footprint, Traits},
    quantity::Quantity,
    quota::Spec,
    resource::ResourceList,
    uid::Uid,
};

/// The fixed part of every name.
const PER_NAME: usize = 16;

/// The fixed part of every amount.
const AMOUNT: usize = PER_NAME + size_of::<Quantity>();

/// The fixed part of every entry.
pub const ENTRY: usize = 256;

/// Most bytes of events that are recorded at once, so that a batch with them still fits into the journal.
pub const AT_ONCE: usize = 1024 * 1024;

/// The first events, at most `most` and at most [`AT_ONCE`] bytes, but at least one if there is one; and whether there
/// are more.
pub fn at_once(events: impl IntoIterator<Item = Event>, most: usize) -> (Vec<Event>, bool) {
    let (mut first, mut bytes) = (Vec::new(), 0);
    for event in events {
        if first.len() == most || bytes >= AT_ONCE {
            return (first, true);
        }
        bytes += of_event(&event);
        first.push(event);
    }
    (first, false)
}

/// An entry with this event.
#[must_use]
pub fn of_event(event: &Event) -> usize {
    let more = match event {
        Event::QuotaSet(quota) => of_quota(quota),
        Event::MessageRejected(letter) | Event::EventRejected { letter, .. } => {
            letter.payload.len() + letter.reason.len()
        }
        Event::ObjectObserved(object) | Event::ObjectReplaced(object) => {
            of_footprint(&object.footprint)
        }
        Event::WorkloadsCharged { kinds } => of_names(kinds),
        Event::ObjectLabelsChanged { keys } => of_names(keys),
        Event::WatermarksAdvanced(watermarks) => {
            let names = watermarks.resources.iter();
            of_names(names.flat_map(|kind| [&kind.resource, &kind.failing]))
        }
        Event::ReservationGranted(reservation) => return of_reservation(reservation),
        Event::ObjectLapsed { footprint, .. } => of_footprint(footprint),
        Event::ReservationGrown { footprint, .. } => of_footprint(footprint),
        Event::ReservationCommitted { resources, .. } => of_amounts(resources),
        Event::ObjectCorrected(correction) => {
            of_footprint(&correction.object.footprint)
                + correction.was.as_ref().map_or(0, of_footprint)
        }
        Event::ObjectEnded(ending) => of_footprint(&ending.footprint),
        Event::ObjectsListed { uids, .. } => uids.iter().map(of_uid).sum(),
        Event::GroupSet(group) => group.metadata.len() + of_group(&group.spec),
        Event::NamespaceObserved(namespace) => of_namespace(namespace),
        _ => 0,
    };
    ENTRY + more
}

/// A quota.
#[must_use]
pub fn of_quota(quota: &QuotaRecord) -> usize {
    quota.metadata.len() + of_spec(&quota.spec)
}

/// A namespace's labels and annotations.
#[must_use]
pub fn of_namespace(namespace: &NamespaceRecord) -> usize {
    let pairs = namespace.labels.iter().chain(&namespace.annotations);
    pairs.map(|(key, value)| of_names([key, value])).sum()
}

/// The specification of a group.
#[must_use]
pub fn of_group(spec: &group::Spec) -> usize {
    let extensions = &spec.extensions;
    let selectors = spec.selector.labels.iter().chain(&extensions.objects);
    let annotations = spec.selector.annotations.iter();
    let overridden = extensions.r#override.as_ref();
    of_spec(&spec.quota)
        + selectors.map(of_selector).sum::<usize>()
        + annotations.map(|(key, value)| of_names([key, value])).sum::<usize>()
        + of_names(&extensions.parent)
        + of_amounts(&extensions.guaranteed)
        + of_amounts(&extensions.soft)
        + overridden.map_or(0, |limits| of_amounts(&limits.hard))
}

fn of_selector(selector: &group::LabelSelector) -> usize {
    let equal = selector.match_labels.iter();
    let expressions = selector.match_expressions.iter();
    let expression = |requirement: &group::Requirement| {
        of_names([&requirement.key, &requirement.operator]) + of_names(requirement.values.iter())
    };
    equal.map(|(key, value)| of_names([key, value])).sum::<usize>()
        + expressions.map(expression).sum::<usize>()
}

/// A reservation, as it is granted.
#[must_use]
pub(crate) fn of_reservation(reservation: &Reservation) -> usize {
    let requested = reservation.requested.as_ref();
    of_reserved(&reservation.footprint, requested.map(|requested| &*requested.footprint))
}

/// A reservation of a footprint that keeps another one as the requested one.
#[must_use]
pub(crate) fn of_reserved(footprint: &Footprint, requested: Option<&Footprint>) -> usize {
    ENTRY + of_footprint(footprint) + requested.map_or(0, of_footprint)
}

/// The number of pending reservations that one of so many bytes counts as. A long one counts as several, so that the
/// bounds on their number also bound their memory.
#[must_use]
pub(crate) const fn count_of_bytes(bytes: usize) -> usize {
    const BYTES_OF_ONE: usize = 4 * 1024;
    bytes.div_ceil(BYTES_OF_ONE)
}

/// The specification of a quota.
#[must_use]
pub fn of_spec(spec: &Spec) -> usize {
    let expressions = spec.selector.iter().flat_map(|s| &s.match_expressions);
    let expressions = expressions.map(|expression| {
        let fixed = [&expression.scope_name, &expression.operator];
        of_names(fixed) + of_names(&expression.values)
    });
    of_amounts(&spec.hard) + of_names(&spec.scopes) + expressions.sum::<usize>()
}

/// The footprint of an object. A part of the fold, which forgets ended reservations by their sizes: this sum must not
/// change.
#[must_use]
pub fn of_footprint(footprint: &Footprint) -> usize {
    let replica = replica(&footprint.traits).map_or(0, of_amounts);
    let labels = footprint.labels.iter();
    let labels = labels.map(|(key, value)| of_names([key, value]));
    let classes = match &footprint.traits {
        Traits::VolumeClaim { attributes_classes } => of_names(attributes_classes),
        traits => classes(traits).iter().map(|class| class.len()).sum(),
    };
    of_amounts(&footprint.resources) + replica + classes + labels.sum::<usize>()
}

/// The bytes of the names that a footprint holds, apart from the keys of labels, which the configuration chooses.
#[must_use]
pub fn of_names_in(footprint: &Footprint) -> usize {
    let Footprint { resources, traits, labels, payer: _ } = footprint;
    lengths(resources.names())
        + replica(traits).map_or(0, |replica| lengths(replica.names()))
        + lengths(classes(traits))
        + lengths(labels.values())
}

fn lengths<'a>(names: impl IntoIterator<Item = &'a Name>) -> usize {
    names.into_iter().map(|name| name.len()).sum()
}

/// The amounts of one pod of a charged workload.
pub(crate) const fn replica(traits: &Traits) -> Option<&ResourceList> {
    match traits {
        Traits::Template { replica, .. } => Some(replica),
        _ => None,
    }
}

/// The classes that scopes match.
const fn classes(traits: &Traits) -> &[Name] {
    match traits {
        Traits::Plain => &[],
        Traits::Pod(pod) | Traits::Replica(pod) | Traits::Template { pod, .. } => {
            std::slice::from_ref(&pod.priority_class)
        }
        Traits::VolumeClaim { attributes_classes } => attributes_classes.as_slice(),
    }
}

/// An object's uid in a list.
#[must_use]
pub fn of_uid(uid: &Uid) -> usize {
    const PER_UID: usize = 24;
    PER_UID + uid.text_len()
}

fn of_amounts(amounts: &ResourceList) -> usize {
    let varying = amounts.iter().map(|(name, amount)| name.len() + amount.extra_bytes());
    amounts.len() * AMOUNT + varying.sum::<usize>()
}

/// An amount of a resource.
#[must_use]
pub fn of_amount(name: &Name, amount: &Quantity) -> usize {
    AMOUNT + name.len() + amount.extra_bytes()
}

fn of_names<'a>(names: impl IntoIterator<Item = &'a Name>) -> usize {
    names.into_iter().map(|name| PER_NAME + name.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        codec::encode_entries,
        event::{Actor, DeadLetter, Entry},
    };
    use quota_semantics::{
        Timestamp,
        object::PodTraits,
        quota::{ScopeExpression, ScopeSelector},
        uid::Uid,
    };

    fn long(number: usize) -> Name {
        Name::from(format!("{number}-{}", "x".repeat(300)))
    }

    #[test]
    fn sizes_of_traits_are_part_of_the_fold() {
        let pod = PodTraits { priority_class: "high".into(), ..PodTraits::default() };
        let replica: ResourceList =
            [(Name::from("cpu"), Quantity::from_units(1))].into_iter().collect();
        let amounts = of_amounts(&replica);
        let template = Traits::Template { pod: pod.clone(), replica };
        let claim = Traits::VolumeClaim { attributes_classes: vec!["gold".into()] };
        for (traits, size) in [
            (Traits::Plain, 0),
            (Traits::Pod(PodTraits::default()), 0),
            (Traits::Pod(pod.clone()), 4),
            (Traits::Replica(pod), 4),
            (template, 4 + amounts),
            (claim, 4 + 16),
        ] {
            let footprint = Footprint { traits, ..Footprint::default() };
            assert_eq!(of_footprint(&footprint), size, "{footprint:?}");
        }
    }

    #[test]
    fn long_names_are_measured() {
        let amounts: ResourceList =
            (0..100).map(|number| (long(number), Quantity::from_units(i64::MAX))).collect();
        let footprint = Footprint { resources: amounts.clone(), ..Footprint::default() };
        let expression = ScopeExpression {
            values: (100..200).map(long).collect(),
            ..ScopeExpression::default()
        };
        let spec = Spec {
            hard: amounts.clone(),
            scopes: (200..300).map(long).collect(),
            selector: Some(ScopeSelector { match_expressions: vec![expression] }),
        };
        let uid = Uid::new("u-1").unwrap();
        let quota = QuotaRecord {
            namespace: "team-a".into(),
            name: "q".into(),
            uid: uid.clone(),
            created: Timestamp::EPOCH,
            spec,
            metadata: "{}".into(),
        };
        let reservation = Reservation {
            uid: uid.clone(),
            namespace: "team-a".into(),
            resource: "pods".into(),
            name: "p".into(),
            api_version: "v1".into(),
            kind: "Pod".into(),
            footprint: footprint.clone().into(),
            created: Timestamp::EPOCH,
            expiration: Timestamp::MAX,
            after_version: 0,
            requested: None,
        };
        for event in [
            Event::QuotaSet(quota.into()),
            Event::ReservationGranted(reservation.into()),
            Event::ReservationCommitted {
                namespace: "team-a".into(),
                uid: uid.clone(),
                resources: amounts,
            },
            Event::ObjectLapsed { uid, namespace: "team-a".into(), footprint: footprint.into() },
        ] {
            let size = of_event(&event);
            let actor = Actor::named("test");
            let entry = Entry { sequence: 1, time: Timestamp::EPOCH, actor, event };
            let length = encode_entries(&[entry]).len();
            assert!(length > 30_000 && (length..2 * length).contains(&size), "{size} for {length}");
        }
    }

    /// A number may have up to 50 digits, or a sum more, which take memory and bytes of their own.
    #[test]
    fn large_amounts_are_measured() {
        let amounts: ResourceList = (0..1000)
            .map(|number| (Name::from(format!("r{number}")), "123e37".parse().unwrap()))
            .collect();
        let event = Event::ReservationCommitted {
            namespace: "team-a".into(),
            uid: Uid::new("u-1").unwrap(),
            resources: amounts.clone(),
        };
        let plain = amounts.names().map(|name| 16 + name.len() + 32);
        let size = of_event(&event);
        assert!(size >= ENTRY + plain.sum::<usize>() + 1000 * 20, "{size}");
        let entry =
            Entry { sequence: 1, time: Timestamp::EPOCH, actor: Actor::named("test"), event };
        let length = encode_entries(&[entry]).len();
        assert!((length..4 * length).contains(&size), "{size} for {length}");
    }

    #[test]
    fn events_are_cut_by_number_and_by_length_and_never_to_none() {
        let long = |bytes: usize| {
            let letter = DeadLetter {
                source: "nats".into(),
                position: 1,
                reason: "".into(),
                payload: "x".repeat(bytes).into(),
            };
            Event::MessageRejected(letter.into())
        };
        let cut = |lengths: &[usize], most| {
            let (first, more) = at_once(lengths.iter().map(|bytes| long(*bytes)), most);
            (first.len(), more)
        };
        assert_eq!(cut(&[], 3), (0, false));
        assert_eq!(cut(&[1, 1, 1], 3), (3, false));
        assert_eq!(cut(&[1, 1, 1], 2), (2, true));
        assert_eq!(cut(&[AT_ONCE, 1], 2), (1, true));
        assert_eq!(cut(&[AT_ONCE * 9], 2), (1, false));
        assert_eq!(cut(&[AT_ONCE / 2; 5], 9), (2, true));
    }
}
