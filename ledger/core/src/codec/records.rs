//! The layout of every record in format version 1. Tags and orders here are on disk: once there is a release, never
//! change them.

use super::{
    DecodeError, Reader, Tagged, Wire, Writer, no_variant, record, variants, wire::RESERVED_MAX,
};
use crate::event::{
    Actor, Cause, Correction, Cursor, DeadLetter, Ending, Event, GroupRecord, NamespaceRecord,
    Observed, QuotaRecord, RelistBegin, RelistClose, RelistEnd, RelistOutcome, RelistScope,
    Requested, Reservation, Watermark, Watermarks,
};
use quota_semantics::{
    Name, Timestamp,
    group::{
        Enforcement, Extensions, LabelSelector, Load, Override, Requirement, Selector,
        Spec as GroupSpec, Values,
    },
    object::{Footprint, PodTraits, Traits},
    quantity::{Format, Quantity},
    quota::spec::{ScopeExpression, ScopeSelector, Spec},
    resource::ResourceList,
    uid::{Form, Uid},
};

record!(Actor { principal, user, request_id, traceparent, reason });
record!(QuotaRecord { namespace, name, uid, created, spec, metadata });
record!(NamespaceRecord { name, uid, version, labels, annotations });
record!(GroupRecord { name, uid, created, spec, metadata });
record!(GroupSpec { selector, quota, extensions });
record!(Selector { labels, annotations });
record!(LabelSelector { match_labels, match_expressions });
record!(Requirement { key, operator, values });
record!(Extensions { parent, guaranteed, objects, each, soft, enforcement, r#override });
record!(Override { hard, until });
record!(Load { used, reserved, set_aside });
record!(Observed { uid, namespace, resource, name, version, footprint, lapse, ends_reservation });
record!(Reservation {
    uid,
    namespace,
    resource,
    name,
    api_version,
    kind,
    footprint,
    created,
    expiration,
    after_version,
    requested,
});
record!(Requested { footprint, after_version });
record!(Cursor { incarnation, position, time, checksum });
record!(DeadLetter { source, position, reason, payload });
record!(Correction { object, was });
record!(Ending { uid, namespace, resource, name, footprint, cause });
record!(RelistScope { resource, namespace, source });
record!(RelistBegin { scope, id, allow_empty });
record!(RelistClose { scope, version });
record!(RelistEnd { scope, began, outcome, listed, ended });
record!(Watermarks { source, cluster_uid, instance, resources });
record!(Watermark { resource, watermark, version, is_absent, failing });
record!(Footprint { resources, labels, traits } without { payer });
record!(PodTraits { best_effort, terminating, priority_class, cross_namespace_affinity });
record!(Spec { hard, scopes, selector });
record!(ScopeSelector { match_expressions });
record!(ScopeExpression { scope_name, operator, values });

variants!(Traits {
    0 => Plain,
    1 => Pod(pod),
    2 => VolumeClaim { attributes_classes },
    3 => Template { pod, replica },
    4 => Replica(pod),
});

variants!(Event {
    1 => QuotaSet(quota),
    2 => QuotaDeleted { namespace, name },
    3 => ObjectObserved(object),
    4 => ObjectRefreshed { uid, namespace, version, ends_reservation },
    5 => ObjectLapsed { uid, namespace, footprint },
    6 => ObjectDeleted { uid, namespace },
    7 => ReservationGranted(reservation),
    8 => ReservationGrown { uid, namespace, footprint, expiration },
    9 => ReservationExtended { uid, namespace, expiration },
    10 => ReservationCommitted { uid, namespace, resources },
    11 => ReservationReturned { uid, namespace },
    12 => ReservationReleased { uid, namespace },
    13 => ReservationExpired { uid, namespace },
    14 => ReservationSuperseded { uid, namespace, by },
    15 => NameAwaited { uid, namespace, bearer },
    16 => VersionAwaited { uid, namespace, after_version },
    17 => EndedBounded { bytes },
    18 => SourceAdvanced { source, cursor },
    19 => SourceReset { source, incarnation },
    20 => SourceGapped { source, first, last },
    21 => MessageRejected(letter),
    22 => EventRejected { resource, letter },
    23 => ObjectCorrected(correction),
    24 => ObjectEnded(ending),
    25 => RelistBegan(begin),
    26 => ObjectsListed { source, uids },
    27 => RelistClosed(close),
    28 => RelistEnded(end),
    29 => WatermarksAdvanced(watermarks),
    30 => ResourceListed { source, resource },
    31 => VersionsReset(scope),
    32 => ObjectReplaced(object),
    33 => WorkloadsCharged { kinds },
    34 => ObjectLabelsChanged { keys },
    35 => NamespaceObserved(namespace),
    36 => NamespaceDeleted { name, uid, relist },
    37 => GroupSet(group),
    38 => GroupDeleted { name },
    39 => OverrideEnded { namespace, quota },
    40 => LeaderChanged { term, node, instance },
});

variants!(Enforcement {
    0 => Enforce,
    1 => Warn,
    2 => Audit,
});

variants!(Cause {
    0 => Drift,
    1 => Relist { began },
});

variants!(RelistOutcome {
    0 => Complete,
    1 => Empty,
    2 => Incomplete,
});

variants!(Form {
    0 => Uuid(bytes),
    1 => Text(text),
});

impl Wire for Values {
    fn put(&self, writer: &mut Writer) {
        (**self).put(writer);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Vec::take(reader).map(Self::from)
    }
}

impl Wire for Uid {
    fn put(&self, writer: &mut Writer) {
        self.form().put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Form::take(reader).map(Self::from_form)
    }
}

variants!(Format {
    0 => DecimalSI,
    1 => BinarySI,
    2 => DecimalExponent,
    3 => Unset,
});

#[cold]
fn put_nanos(quantity: &Quantity, writer: &mut Writer) {
    NANOS.put(writer);
    quantity.nanos_bytes().put(writer);
    quantity.format().put(writer);
}

/// The number under the tag of one of its two forms, then the family. Quantities of the ledger are canonical.
impl Wire for Quantity {
    #[inline]
    fn put(&self, writer: &mut Writer) {
        match self.scaled() {
            Some((digits, power)) => {
                let family = self.format().tag();
                writer.signed_between(SCALED, digits, [power.cast_unsigned(), family]);
            }
            None => put_nanos(self, writer),
        }
        debug_assert_eq!(self.spelling(), None, "the ledger holds canonical quantities");
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        take_quantity(reader, |quantity| quantity)
    }
}

/// Hands over a quantity where its form is known, since moving it takes as long as reading it.
#[inline]
fn take_quantity<R>(
    reader: &mut Reader<'_>,
    with: impl FnOnce(Quantity) -> R,
) -> Result<R, DecodeError> {
    match u8::take(reader)? {
        SCALED => {
            let (digits, power) = (i64::take(reader)?, i8::take(reader)?);
            Ok(with(Quantity::from_scaled(digits, power, Format::take(reader)?)))
        }
        NANOS => Ok(with(take_nanos(reader)?)),
        tag => Err(no_variant("Mantissa", tag)),
    }
}

#[cold]
fn take_nanos(reader: &mut Reader<'_>) -> Result<Quantity, DecodeError> {
    let bytes = Vec::take(reader)?;
    Ok(Quantity::from_nanos_bytes(&bytes, Format::take(reader)?))
}

/// The tags of the forms of a number: digits and a power of ten, and the bytes of an integer.
const SCALED: u8 = 0;
const NANOS: u8 = 1;

impl Wire for Timestamp {
    fn put(&self, writer: &mut Writer) {
        self.nanoseconds().put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        i64::take(reader).map(Self::from_nanoseconds)
    }
}

impl Wire for ResourceList {
    fn put(&self, writer: &mut Writer) {
        writer.count(self.len());
        for (name, quantity) in self.iter() {
            name.put(writer);
            quantity.put(writer);
        }
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.count()?;
        let mut items = Vec::with_capacity(count.min(RESERVED_MAX));
        for _ in 0..count {
            let name = Name::take(reader)?;
            take_quantity(reader, |quantity| items.push((name, quantity)))?;
        }
        Ok(items.into_iter().collect())
    }
}
