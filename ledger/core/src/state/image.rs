//! The state as of one moment, for snapshots and digests.

mod check;
mod pieces;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read, Write};
use std::sync::Arc;

use super::{
    Head, State,
    bearers::{Bearers, ByPlace},
    deadlines::Deadlines,
    deleted::{Deleted, Uids},
    groups::{self, Group, Groups},
    namespaces::{Extra, Namespace, Namespaces, ObservedNamespace, QuotaState},
    objects::{Object, Objects},
    observed::NamespaceUids,
    pool::{Pool, Pooled},
    progress::Progress,
    relists::Relists,
    reservations::{Ends, Reservations},
    slab::Slab,
    sums::Sums,
    tenancy::Tenancy,
    tracked::Tracked,
};
use crate::{
    codec::{DecodeError, Reader, Wire, Writer, record},
    event::{Cursor, RelistScope, Sequence},
};
use check::Tables;
use pieces::{
    read_list, read_piece, read_record, read_slab, write_list, write_piece, write_record,
    write_slab,
};
use quota_semantics::{Name, Timestamp, object::Footprint, uid::Uid};

/// Versions of the image's layout. Each one adds to those before it: the first; relists; records added after relists;
/// names that are waited for; charged workloads; owners; observed namespaces, groups and ended overrides; the bound on
/// ended reservations; replicas of charged workloads; labels of objects; owners of quotas.
const VERSION: u32 = 1;
const VERSION_WITH_RELISTS: u32 = 2;
const VERSION_WITH_MORE: u32 = 3;
const VERSION_WITH_BEARERS: u32 = 4;
const VERSION_WITH_CHARGING: u32 = 5;
const VERSION_WITH_TENANCY: u32 = 6;
const VERSION_WITH_GROUPS: u32 = 7;
const VERSION_WITH_BOUNDS: u32 = 8;
const VERSION_WITH_REPLICAS: u32 = 9;
const VERSION_WITH_OBJECT_LABELS: u32 = 10;
const VERSION_WITH_QUOTA_OWNERS: u32 = 11;

record!(Head { sequence, time });

/// The records that were added after relists, in a piece of their own.
#[derive(Clone, Debug, Default)]
struct More {
    /// The scopes whose versions went back.
    resets: BTreeSet<RelistScope>,
    progress: Progress,
}

record!(More { resets, progress });

impl More {
    fn is_empty(&self) -> bool {
        let Self { resets, progress } = self;
        resets.is_empty() && progress.is_empty()
    }
}

/// A copy of the state that the fold no longer changes. Taking one copies pointers, not values.
#[derive(Debug)]
pub struct Image {
    head: Head,
    namespaces: Slab<Namespace, 16>,
    resources: Slab<Pooled<Name>, 256>,
    footprints: Slab<Pooled<Footprint>, 256>,
    objects: Slab<Object, 256>,
    reservations: Slab<Tracked, 64>,
    ended: Ends,
    ended_bytes: Option<u64>,
    deleted: Uids,
    sources: BTreeMap<Name, Cursor>,
    dead_letters: VecDeque<Sequence>,
    relists: Relists,
    more: More,
    bearers: ByPlace,
    charging: BTreeSet<Name>,
    has_replicas: bool,
    object_labels: BTreeSet<Name>,
    tenancy: Ownership,
    groups: Slab<Group, { groups::CHUNK }>,
}

/// Whether an image holds the owners of reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ownership {
    All,
    /// As in images of the first ledgers.
    Nothing,
}

/// The records that were added with groups, in lists and a table of their own.
#[derive(Debug, Default)]
struct WithGroups {
    /// The observed namespaces, by their places.
    observed: Vec<(u32, ObservedNamespace)>,
    /// The sums of namespaces of which groups count only a part, by the places of group and namespace.
    shares: Vec<((u32, u32), Arc<Sums>)>,
    /// The quotas whose overrides have ended, by the places of their namespaces.
    ended: Vec<(u32, Name)>,
    groups: Slab<Group, { groups::CHUNK }>,
}

impl WithGroups {
    fn is_empty(&self) -> bool {
        // Free places count as well: the next group takes the place that was freed last.
        self.observed.is_empty() && self.ended.is_empty() && self.groups.places() == 0
    }

    fn read(input: &mut impl Read) -> Result<Self, ImageError> {
        Ok(Self {
            observed: read_list(input)?,
            shares: read_list(input)?,
            ended: read_list(input)?,
            groups: read_slab(input)?,
        })
    }

    fn write(&self, output: &mut impl Write) -> io::Result<()> {
        write_list(output, &self.observed)?;
        write_list(output, &self.shares)?;
        write_list(output, &self.ended)?;
        write_slab(output, &self.groups)
    }

    fn fill(&self, namespaces: &mut Namespaces) -> Result<(), DecodeError> {
        let of_nothing = || DecodeError("a record of a namespace that does not exist".into());
        for (place, observed) in &self.observed {
            let namespace = namespaces.slab.get_mut(*place);
            let namespace = namespace.filter(|namespace| namespace.name == observed.record.name);
            namespace.ok_or_else(of_nothing)?.observed = Some(observed.clone());
        }
        for ((place, group), sums) in &self.shares {
            let namespace = namespaces.slab.get_mut(*place).ok_or_else(of_nothing)?;
            namespace.shares.insert(*group, sums.clone());
        }
        for (place, name) in &self.ended {
            let namespace = namespaces.slab.get_mut(*place).ok_or_else(of_nothing)?;
            let quota = namespace.quotas.get_mut(name).ok_or_else(of_nothing)?;
            quota.extra = Extra::of(&quota.record, Timestamp::MAX);
        }
        Ok(())
    }
}

/// The principal that set a quota, by the place of the namespace and the name of the quota.
type QuotaOwner = ((u32, Name), Name);

fn fill_quota_owners(
    owners: Vec<QuotaOwner>,
    namespaces: &mut Namespaces,
) -> Result<(), DecodeError> {
    for ((place, name), owner) in owners {
        let namespace = namespaces.slab.get_mut(place);
        let quota = namespace.and_then(|namespace| namespace.quotas.get_mut(&name));
        let of_nothing = || DecodeError("the owner of a quota that does not exist".into());
        quota.ok_or_else(of_nothing)?.owner = owner;
    }
    Ok(())
}

/// An image that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The input ended early, or could not be read.
    #[error("cannot read the image: {0}")]
    Io(#[from] io::Error),
    /// The input is not an image of this version.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// A record that images have from the version `first` on.
fn since<T: Wire + Default>(
    version: u32,
    first: u32,
    input: &mut impl Read,
) -> Result<T, ImageError> {
    match version >= first {
        true => read_record(input),
        false => Ok(T::default()),
    }
}

impl State {
    /// The present state, to be written while the fold goes on.
    #[must_use]
    pub fn image(&self) -> Image {
        Image {
            head: self.head,
            namespaces: self.namespaces.slab.clone(),
            resources: self.resources.slab.clone(),
            footprints: self.footprints.slab.clone(),
            objects: self.objects.slab.clone(),
            reservations: self.reservations.slab.clone(),
            ended: self.reservations.ended.clone(),
            ended_bytes: self.reservations.ended_bytes,
            deleted: self.objects.deleted.uids().clone(),
            sources: self.sources.clone(),
            dead_letters: self.dead_letters.clone(),
            more: More {
                resets: self.relists.resets.clone(),
                progress: self.progress.clone(),
            },
            relists: self.relists.clone(),
            bearers: self.bearers.by_place().clone(),
            charging: self.charging.clone(),
            has_replicas: self.has_replicas,
            object_labels: self.object_labels.clone(),
            tenancy: Ownership::All,
            groups: self.groups.slab.clone(),
        }
    }

    /// Reads an image.
    ///
    /// # Errors
    /// If the input ends early, is not an image of this version, or has tables that do not agree with each other.
    pub fn read(input: &mut impl Read) -> Result<Self, ImageError> {
        let bytes = read_piece(input)?;
        let mut reader = Reader::new(&bytes)?;
        let version = u32::take(&mut reader)?;
        if !(VERSION..=VERSION_WITH_QUOTA_OWNERS).contains(&version) {
            let versions = format!("{VERSION} to {VERSION_WITH_QUOTA_OWNERS}");
            return Err(DecodeError(format!("image version {version}, not {versions}")).into());
        }
        let head = Head::take(&mut reader)?;
        let sources = Wire::take(&mut reader)?;
        let dead_letters = Wire::take(&mut reader)?;
        let ended = Wire::take(&mut reader)?;
        let mut deleted = Wire::take(&mut reader)?;
        reader.finish()?;
        let open = since(version, VERSION_WITH_RELISTS, input)?;
        let More { resets, progress } = since(version, VERSION_WITH_MORE, input)?;
        let bearers = since(version, VERSION_WITH_BEARERS, input)?;
        let charging = since(version, VERSION_WITH_CHARGING, input)?;
        let tenancy: Tenancy = since(version, VERSION_WITH_TENANCY, input)?;
        tenancy.fill_deleted(&mut deleted)?;
        let with_groups = match version {
            VERSION_WITH_GROUPS.. => WithGroups::read(input)?,
            _ => WithGroups::default(),
        };
        let ended_bytes: Option<u64> = match version {
            VERSION_WITH_REPLICAS.. => read_record(input)?,
            VERSION_WITH_BOUNDS => Some(read_record(input)?),
            _ => None,
        };
        let (has_replicas, object_labels) = match version {
            VERSION_WITH_OBJECT_LABELS.. => (read_record(input)?, read_record(input)?),
            _ => (version >= VERSION_WITH_REPLICAS, BTreeSet::new()),
        };
        let quota_owners = match version {
            VERSION_WITH_QUOTA_OWNERS.. => read_list(input)?,
            _ => Vec::new(),
        };
        let mut namespaces = Namespaces::from_slab(read_slab(input)?);
        with_groups.fill(&mut namespaces)?;
        fill_quota_owners(quota_owners, &mut namespaces)?;
        let resources = read_slab(input)?;
        let footprints = read_slab(input)?;
        let objects = read_slab(input)?;
        let mut reservations = read_slab(input)?;
        tenancy.fill_reservations(&mut reservations)?;
        Tenancy::fill_namespaces(&reservations, &mut namespaces);
        let relists = Relists { open, resets };
        let tables = Tables {
            head: head.sequence,
            namespaces: &namespaces,
            resources: &resources,
            footprints: &footprints,
            objects: &objects,
            reservations: &reservations,
            groups: &with_groups.groups,
            bearers: &bearers,
            relists: &relists,
        };
        tables.check()?;
        let mut state = Self {
            namespace_uids: NamespaceUids::of(&namespaces),
            groups: Groups::from_slab(with_groups.groups),
            deadlines: Deadlines::default(),
            head,
            relists,
            bearers: Bearers::from_places(bearers),
            charging,
            has_replicas,
            object_labels,
            progress,
            sources,
            dead_letters,
            namespaces,
            resources: Pool::from_slab(resources),
            footprints: Pool::from_slab(footprints),
            objects: Objects::from_parts(objects, Deleted::from_uids(deleted)),
            reservations: Reservations::from_parts(reservations, ended, ended_bytes),
        };
        state.restore_groups();
        check::check_derived(&state)?;
        state.restore_balances();
        Ok(state)
    }

    /// BLAKE3 of the state's image: equal states have equal digests.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.image().digest()
    }

    /// Whether this state, read from an image, equals `folded`. An image of the first ledgers does not hold owners:
    /// then everything else has to be equal.
    #[must_use]
    pub fn is_image_of(&self, folded: &Self) -> bool {
        let (own, mut other) = (self.image(), folded.image());
        if own.tenancy().is_empty() && own.quota_owners().is_empty() {
            other.tenancy = Ownership::Nothing;
        }
        own.digest() == other.digest()
    }
}

impl Image {
    /// The last entry in the state.
    #[must_use]
    pub const fn head(&self) -> Head {
        self.head
    }

    /// BLAKE3 of the image: equal states have equal digests. Takes as long as writing the image.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        self.write(&mut hasher).expect("hashing does not fail");
        *hasher.finalize().as_bytes()
    }

    fn with_groups(&self) -> WithGroups {
        let all = || self.namespaces.iter();
        let observed =
            |(place, namespace): (u32, &Namespace)| Some((place, namespace.observed.clone()?));
        let shares = all().flat_map(|(place, namespace)| {
            let shares = namespace.shares.iter();
            shares.map(move |(&group, sums)| ((place, group), sums.clone()))
        });
        let ended = all().flat_map(|(place, namespace)| {
            let is_over = |quota: &&QuotaState| {
                quota
                    .extra
                    .as_ref()
                    .is_some_and(|extra| extra.override_ended)
            };
            let quotas = namespace.quotas.values().filter(is_over);
            quotas.map(move |quota| (place, quota.record.name.clone()))
        });
        WithGroups {
            observed: all().filter_map(observed).collect(),
            shares: shares.collect(),
            ended: ended.collect(),
            groups: self.groups.clone(),
        }
    }

    fn quota_owners(&self) -> Vec<QuotaOwner> {
        if self.tenancy == Ownership::Nothing {
            return Vec::new();
        }
        let owners = self.namespaces.iter().flat_map(|(place, namespace)| {
            let owned = namespace.quotas.iter();
            let owned = owned.filter(|(_, quota)| !quota.owner.is_empty());
            owned.map(move |(name, quota)| ((place, name.clone()), quota.owner.clone()))
        });
        owners.collect()
    }

    fn tenancy(&self) -> Tenancy {
        match self.tenancy {
            Ownership::All => Tenancy::of(&self.reservations, &self.deleted),
            Ownership::Nothing => Tenancy::default(),
        }
    }

    /// Writes the image, in pieces of bounded length.
    ///
    /// # Errors
    /// Those of the output.
    pub fn write(&self, output: &mut impl Write) -> io::Result<()> {
        let mut writer = Writer::default();
        let tenancy = self.tenancy();
        // Absent records are not written, as before they existed, so that the digest is the same.
        let with_groups = self.with_groups();
        let quota_owners = self.quota_owners();
        let version = match (self.more.is_empty(), self.relists.is_empty()) {
            _ if !quota_owners.is_empty() => VERSION_WITH_QUOTA_OWNERS,
            _ if !self.object_labels.is_empty() => VERSION_WITH_OBJECT_LABELS,
            _ if self.has_replicas => VERSION_WITH_REPLICAS,
            _ if self.ended_bytes.is_some() => VERSION_WITH_BOUNDS,
            _ if !with_groups.is_empty() => VERSION_WITH_GROUPS,
            _ if !tenancy.is_empty() => VERSION_WITH_TENANCY,
            _ if !self.charging.is_empty() => VERSION_WITH_CHARGING,
            _ if !self.bearers.is_empty() => VERSION_WITH_BEARERS,
            (true, true) => VERSION,
            (true, false) => VERSION_WITH_RELISTS,
            (false, _) => VERSION_WITH_MORE,
        };
        version.put(&mut writer);
        self.head.put(&mut writer);
        self.sources.put(&mut writer);
        self.dead_letters.put(&mut writer);
        self.ended.put(&mut writer);
        self.deleted.put(&mut writer);
        write_piece(output, writer)?;
        if version >= VERSION_WITH_RELISTS {
            write_record(output, &self.relists.open)?;
        }
        if version >= VERSION_WITH_MORE {
            write_record(output, &self.more)?;
        }
        if version >= VERSION_WITH_BEARERS {
            let bearers: BTreeMap<u32, Uid> = self
                .bearers
                .iter()
                .map(|(place, uid)| (place, uid.clone()))
                .collect();
            write_record(output, &bearers)?;
        }
        if version >= VERSION_WITH_CHARGING {
            write_record(output, &self.charging)?;
        }
        if version >= VERSION_WITH_TENANCY {
            write_record(output, &tenancy)?;
        }
        if version >= VERSION_WITH_GROUPS {
            with_groups.write(output)?;
        }
        if version >= VERSION_WITH_REPLICAS {
            write_record(output, &self.ended_bytes)?;
        } else if let Some(bytes) = self.ended_bytes {
            write_record(output, &bytes)?;
        }
        if version >= VERSION_WITH_OBJECT_LABELS {
            write_record(output, &self.has_replicas)?;
            write_record(output, &self.object_labels)?;
        }
        if version >= VERSION_WITH_QUOTA_OWNERS {
            write_list(output, &quota_owners)?;
        }
        write_slab(output, &self.namespaces)?;
        write_slab(output, &self.resources)?;
        write_slab(output, &self.footprints)?;
        write_slab(output, &self.objects)?;
        write_slab(output, &self.reservations)
    }
}
