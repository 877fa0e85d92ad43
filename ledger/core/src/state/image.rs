//! The state as of one moment, for snapshots and digests.

mod check;
mod pieces;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read, Write};

use super::{
    Head, State,
    deleted::{Deleted, Uids},
    groups::{self, Group, Groups},
    name_holders::{ByPlace, NameHolders},
    namespaces::{Namespace, Namespaces},
    objects::{Object, Objects},
    observed::NamespaceUids,
    override_ends::Deadlines,
    pool::{Pool, Pooled},
    progress::Progress,
    relists::Relists,
    reservations::Reservations,
    slab::Slab,
    tracked_reservation::Tracked,
};
use crate::{
    codec::{DecodeError, Reader, Wire, Writer, record},
    event::{Cursor, Sequence},
};
use check::Tables;
use pieces::{read_piece, read_slab, write_piece, write_slab};
use quota_semantics::{Name, object::Footprint, uid::Uid};

/// The version of the content.
const VERSION: u32 = 1;

record!(Head { sequence, time });

/// A copy of the state that the fold no longer changes. Taking one copies pointers, not values.
#[derive(Debug)]
pub struct Image {
    head: Head,
    namespaces: Slab<Namespace, 16>,
    resources: Slab<Pooled<Name>, 256>,
    footprints: Slab<Pooled<Footprint>, 256>,
    objects: Slab<Object, 256>,
    reservations: Slab<Tracked, 64>,
    groups: Slab<Group, { groups::CHUNK }>,
    ended_bytes: Option<u64>,
    deleted: Uids,
    sources: BTreeMap<Name, Cursor>,
    dead_letters: VecDeque<Sequence>,
    relists: Relists,
    progress: Progress,
    bearers: ByPlace,
    charging: BTreeSet<Name>,
    object_labels: BTreeSet<Name>,
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
            groups: self.groups.slab.clone(),
            ended_bytes: self.reservations.ended_bytes,
            deleted: self.objects.deleted.uids().clone(),
            sources: self.sources.clone(),
            dead_letters: self.dead_letters.clone(),
            relists: self.relists.clone(),
            progress: self.progress.clone(),
            bearers: self.bearers.by_place().clone(),
            charging: self.charging.clone(),
            object_labels: self.object_labels.clone(),
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
        if version != VERSION {
            return Err(DecodeError(format!("image version {version}, not {VERSION}")).into());
        }
        let head = Head::take(&mut reader)?;
        let sources = Wire::take(&mut reader)?;
        let dead_letters = Wire::take(&mut reader)?;
        let deleted = Wire::take(&mut reader)?;
        let ended_bytes = Wire::take(&mut reader)?;
        let charging = Wire::take(&mut reader)?;
        let object_labels = Wire::take(&mut reader)?;
        let relists = Wire::take(&mut reader)?;
        let progress = Wire::take(&mut reader)?;
        let bearers = Wire::take(&mut reader)?;
        reader.finish()?;
        let namespaces = Namespaces::from_slab(read_slab(input)?);
        let resources = read_slab(input)?;
        let footprints = read_slab(input)?;
        let objects = read_slab(input)?;
        let reservations = read_slab(input)?;
        let groups = read_slab(input)?;
        let tables = Tables {
            head: head.sequence,
            namespaces: &namespaces,
            resources: &resources,
            footprints: &footprints,
            objects: &objects,
            reservations: &reservations,
            groups: &groups,
            bearers: &bearers,
            relists: &relists,
        };
        tables.check()?;
        let mut state = Self {
            namespace_uids: NamespaceUids::of(&namespaces),
            groups: Groups::from_slab(groups),
            deadlines: Deadlines::default(),
            head,
            relists,
            bearers: NameHolders::from_places(bearers),
            charging,
            object_labels,
            progress,
            sources,
            dead_letters,
            namespaces,
            resources: Pool::from_slab(resources),
            footprints: Pool::from_slab(footprints),
            objects: Objects::from_parts(objects, Deleted::from_uids(deleted)),
            reservations: Reservations::from_parts(reservations, ended_bytes),
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

    /// Writes the image, in pieces of bounded length.
    ///
    /// # Errors
    /// Those of the output.
    pub fn write(&self, output: &mut impl Write) -> io::Result<()> {
        let mut writer = Writer::default();
        VERSION.put(&mut writer);
        self.head.put(&mut writer);
        self.sources.put(&mut writer);
        self.dead_letters.put(&mut writer);
        self.deleted.put(&mut writer);
        self.ended_bytes.put(&mut writer);
        self.charging.put(&mut writer);
        self.object_labels.put(&mut writer);
        self.relists.put(&mut writer);
        self.progress.put(&mut writer);
        let bearers: BTreeMap<u32, Uid> =
            self.bearers.iter().map(|(place, uid)| (place, uid.clone())).collect();
        bearers.put(&mut writer);
        write_piece(output, writer)?;
        write_slab(output, &self.namespaces)?;
        write_slab(output, &self.resources)?;
        write_slab(output, &self.footprints)?;
        write_slab(output, &self.objects)?;
        write_slab(output, &self.reservations)?;
        write_slab(output, &self.groups)
    }
}
